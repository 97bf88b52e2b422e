//! What the statistics cost beside the forward pass: `statistics_cost FOLDER IDS.json [--threads N] [--batch-tokens N] [--rounds N] [--all]`.
//!
//! Every round runs the sentences through the bare model, then through the model and the sketches. Prints one line of JSON:
//! tokens per second of both, and the medians over the rounds of the time, and of the processor time, with statistics over that without.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use layerscope::collect::{CollectSettings, Collector, Workers};
use layerscope::items::Items;
use layerscope::kept::{KeepSettings, Kept};
use layerscope::point_state::{PointState, StateShape};
use layerscope_compute::Cpu;
use layerscope_corpus::{DocumentId, OnError, Sequence, SpoolBatch};
use layerscope_model::{Batch, Blind, Model, Point, Transformer, forward_all};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::sketch::SketchSet;

/// States of the hash sample, as by default.
const SAMPLE: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ids, options @ ..] = arguments.as_slice() else {
        return Err("usage: statistics_cost FOLDER IDS.json [--threads N] [--batch-tokens N] [--rounds N] [--all]".into());
    };
    let option = |name: &str, default: usize| -> Result<usize, Box<dyn Error>> {
        let given = options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        Ok(given.map_or(Ok(default), |value| value.parse())?)
    };
    let workers =
        Workers { threads: option("--threads", std::thread::available_parallelism()?.get())?, rows: option("--batch-tokens", 1024)? };
    let sequences: Vec<Vec<u32>> = serde_json::from_slice(&std::fs::read(ids)?)?;
    let transformer = Model::open(Path::new(folder))?.load(Cpu::new())?;
    let batches = Batch::cut(&sequences, workers.rows);
    let items: Vec<Items> = batches.iter().enumerate().map(|(index, batch)| Items::new(spooled(index, batch))).collect();
    let kept = Kept::choose(&KeepSettings { sample: SAMPLE, ..KeepSettings::default() }, items.iter().cloned().map(Ok))?;

    let sketches =
        if options.iter().any(|option| option == "--all") { needs(&Family::SELECTABLE) } else { needs(&[Family::Norm, Family::Cosine]) };

    // The sentences again and again, up to the end of pass `number`.
    let items = &items;
    let items_of = move |index: usize, number: usize| (index < number * items.len()).then(|| items[index % items.len()].clone());

    let tokens: usize = batches.iter().map(Batch::tokens).sum();
    let collector = collector(&transformer, &kept, sketches);
    let pass = |number: usize| move |index: usize| Ok(items_of(index, number));
    let collect = |number: usize| collector.run(&transformer, (number - 1) * items.len(), workers, &pass(number), &mut |_| false);
    // Once unmeasured: in a long corpus the state's memory is touched for the first time only once.
    collect(1)?;

    let mut rounds: Vec<[f64; 4]> = Vec::new();
    for round in 0..option("--rounds", 9)? {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        forward_all(&transformer, &batches, workers.threads, &Blind)?;
        let (bare, bare_cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let (start, cpu) = (Instant::now(), cpu_seconds());
        collect(round + 2)?;
        rounds.push([bare, start.elapsed().as_secs_f64(), bare_cpu, cpu_seconds() - cpu]);
    }
    let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let speed = |seconds: f64| tokens as f64 / seconds;
    let report = serde_json::json!({
        "tokens": tokens,
        "bare": speed(median(&|round| round[0])),
        "with_statistics": speed(median(&|round| round[1])),
        "cost": median(&|round| round[1] / round[0]),
        "cpu_cost": median(&|round| round[3] / round[2]),
    });
    println!("{report}");
    Ok(())
}

/// Processor time of all threads so far: on a shared machine steadier than the clock.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A batch as the spool would give it: groups are token ids.
fn spooled(index: usize, batch: &Batch) -> SpoolBatch {
    let sequence = |(number, range): (usize, std::ops::Range<usize>)| Sequence {
        document: DocumentId { file: 0, record: (index << 20 | number) as u64, chunk: 0 },
        first: 0,
        row: 0,
        offset: 0,
        length: range.len() as u32,
        counted: range.len() as u32,
    };
    let sequences = batch.ranges().enumerate().map(sequence).collect();
    SpoolBatch { index, ids: batch.ids().to_vec(), groups: batch.ids().to_vec(), offsets: batch.offsets().to_vec(), sequences }
}

fn collector<'a>(transformer: &Transformer<Cpu>, kept: &'a Kept, sketches: SketchSet) -> Collector<'a> {
    let spec = transformer.spec();
    let shape = StateShape { groups: spec.vocabulary, dim: spec.width, kept: kept.len(), sketches };
    let states = transformer.points().into_iter().map(|at| (at, PointState::new(&shape, at == Point::Embedding, Some(1e9)))).collect();
    Collector::new(states, 0, CollectSettings { kept, sketches, before: None, on_error: OnError::Fail })
}
