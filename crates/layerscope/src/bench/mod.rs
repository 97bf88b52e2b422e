//! What this machine does with a model: its peak, the model alone, with statistics and tables, and what to choose.

mod forward;
mod show;
mod statistics;
mod text;

use std::time::Duration;

use layerscope_compute::Cpu;
use layerscope_compute::cpu::fma_peak;
use layerscope_model::{Model, activation_memory};
use serde::Serialize;

use crate::checkpoint::locate::locate;
use crate::checkpoint::name::model_name;
use crate::demo::embedded;
use crate::error::Result;
use crate::measure::plan::Plan;
use crate::process::cancel::CancelToken;
use crate::process::system;

use forward::Forward;
pub use forward::Speed;
pub use statistics::Statistics;
use text::Text;

/// Parts of the time: each peak, all speeds of the model alone, and each run with statistics.
const PEAK_SHARE: f64 = 0.01;
const FORWARD_SHARE: f64 = 0.5;
const STATISTICS_SHARE: f64 = 0.1;
/// What is this little slower than the fastest is as fast, on a machine that has other things to do.
const AS_FAST: f64 = 0.97;

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// The model; None for an embedded one.
    pub model: Option<String>,
    /// Its revision.
    pub revision: Option<String>,
    /// Text; None for the embedded novels.
    pub corpus: Option<String>,
    /// The most threads.
    pub threads: usize,
    /// How long all of it takes, about. Loading the weights and making the tables come on top.
    pub seconds: f64,
    /// The numbers that the model computes with, as `measure` names them.
    pub dtype: Option<String>,
}

/// The processor's peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Threads that worked at the same time.
    pub threads: usize,
    /// Billions of floating-point operations a second.
    pub gflops: f64,
}

/// Flags of `measure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Recommended {
    /// `--threads`.
    pub threads: usize,
    /// `--batch-tokens`.
    pub batch_tokens: usize,
}

/// What this machine does with a model.
#[derive(Clone, Debug, Serialize)]
pub struct Bench {
    /// Its short name.
    pub model: String,
    /// The `model_type`.
    pub family: &'static str,
    /// Number of blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Numbers in the tensors that are read.
    pub parameters: usize,
    /// The instruction set in use.
    pub isa: String,
    /// The processor's peaks, by number of threads.
    pub peaks: Vec<Peak>,
    /// Time to load the weights.
    pub load_seconds: f64,
    /// Sentences that the model read.
    pub documents: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Operations that a token of them takes.
    pub flops_per_token: f64,
    /// The model alone, by number of threads and size of batch.
    pub forward: Vec<Speed>,
    /// Whole measurements.
    pub statistics: Vec<Statistics>,
    /// Why there are none.
    pub note: Option<String>,
    /// The fastest of them, or as fast with less.
    pub recommended: Recommended,
    /// Bytes of a worker's buffers at that size of batch.
    pub worker_bytes: usize,
    /// The most memory that this process ever had.
    pub peak_memory_bytes: Option<u64>,
}

/// Measures a model on this machine. `show` is told what is being measured.
pub fn bench(settings: &BenchSettings, cancel: &CancelToken, show: &mut dyn FnMut(&str)) -> Result<Bench> {
    let name = settings.model.as_deref().unwrap_or(embedded::NAMES[0]);
    // Whatever `measure` would refuse is, before anything is measured; and the model runs where it would.
    let plan = Plan::new(&statistics::asked(name, "-", "-", settings)?)?;
    let folder = locate(name, settings.revision.as_deref())?;
    let model = Model::open(&folder)?;
    let (spec, seconds) = (&model.spec, settings.seconds);
    let numbers = thread_numbers(settings.threads);
    show("measuring the processor");
    let peak = |&threads: &usize| Peak { threads, gflops: fma_peak(threads, Duration::from_secs_f64(seconds * PEAK_SHARE)) };
    let peaks = numbers.iter().map(peak).collect();
    show("reading the text");
    let text = Text::read(&model, settings, cancel)?;
    let forward = Forward { model: &model, sequences: &text.sequences, threads: &numbers, seconds: seconds * FORWARD_SHARE, cancel, show };
    let (load_seconds, forward) = plan.device().run(plan.dtype, forward)??;
    let fastest = recommended(&forward);
    let mut measured = Vec::new();
    let file = text.file.as_ref().filter(|_| text.note.is_none());
    for measures in statistics::MEASURES.iter().filter(|_| file.is_some()) {
        show(&format!("measuring {}", measures.0));
        let tokens = fastest.tokens_per_second * seconds * STATISTICS_SHARE;
        let documents = (tokens * text.sequences.len() as f64 / text.tokens() as f64).ceil() as usize;
        let folder = folder.display().to_string();
        measured.push(statistics::measured(&folder, file.map_or("", String::as_str), measures, documents, &fastest, settings, cancel)?);
    }
    Ok(Bench {
        model: model_name(name),
        family: model.family.model_types[0],
        layers: spec.blocks.len(),
        width: spec.width,
        parameters: model.plan.parameters(),
        isa: plan.device().describe(plan.dtype)?,
        peaks,
        load_seconds,
        documents: text.sequences.len(),
        tokens: text.tokens(),
        flops_per_token: spec.flops_per_token(text.keys(spec.blocks[0].attention.causal)),
        statistics: measured,
        note: text.note.clone(),
        recommended: Recommended { threads: fastest.threads, batch_tokens: fastest.batch_tokens },
        worker_bytes: activation_memory(&Cpu::new(), spec, fastest.batch_tokens).host,
        peak_memory_bytes: system::peak(),
        forward,
    })
}

/// One, half of them, all of them.
fn thread_numbers(threads: usize) -> Vec<usize> {
    let mut numbers = vec![1, threads / 2, threads];
    numbers.retain(|number| *number > 0);
    numbers.dedup();
    numbers
}

/// The fastest, or as fast with fewer threads and, of these, the smallest batches.
fn recommended(forward: &[Speed]) -> Speed {
    let best = forward.iter().map(|speed| speed.tokens_per_second).fold(0.0, f64::max);
    let as_fast = forward.iter().filter(|speed| speed.tokens_per_second >= AS_FAST * best);
    as_fast.min_by_key(|speed| (speed.threads, speed.batch_tokens)).copied().unwrap_or(Speed {
        threads: 1,
        batch_tokens: forward::BATCHES[0],
        tokens_per_second: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_half_and_all_threads() {
        assert_eq!([1, 2, 3, 16].map(thread_numbers), [vec![1], vec![1, 2], vec![1, 3], vec![1, 8, 16]]);
    }

    #[test]
    fn as_fast_with_less_is_recommended() {
        let speed = |threads, batch_tokens, tokens_per_second| Speed { threads, batch_tokens, tokens_per_second };
        let all = [speed(1, 128, 50.0), speed(2, 128, 90.0), speed(2, 256, 98.0), speed(2, 512, 100.0), speed(4, 256, 101.0)]; // 98 is 97 % of 101
        assert_eq!(recommended(&all), speed(2, 256, 98.0));
        assert_eq!(recommended(&all[..2]), speed(2, 128, 90.0));
    }
}
