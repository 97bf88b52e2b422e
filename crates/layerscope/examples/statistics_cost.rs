//! What the statistics cost beside the forward pass: `statistics_cost FOLDER IDS.json [--threads N] [--batch-tokens N] [--rounds N] [--all]`.
//!
//! Every round runs a few batches through the bare model and through the model and the sketches; the next round takes the next batches.
//! Prints one line of JSON: tokens per second of both, and the medians over the rounds of the time, and of the processor time, with
//! statistics over that without.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use layerscope::internals::{Items, KeepSettings, Kept, WorkSettings, Workers};
use layerscope_compute::Cpu;
use layerscope_corpus::{DocumentId, OnError, Sequence, SpoolBatch};
use layerscope_model::{Batch, Blind, Model, forward_all};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::sketch::SketchKind;
use layerscope_stats::{PointShape, PointState};

/// One state of so many is in the hash sample, as in a corpus of ten times its size.
const SAMPLED: usize = 10;
/// Of a round: long enough to start and end workers, short enough that a noisy machine is the same in both halves.
const BATCHES_PER_WORKER: usize = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ids, options @ ..] = arguments.as_slice() else {
        return Err("usage: statistics_cost FOLDER IDS.json [--threads N] [--batch-tokens N] [--rounds N] [--all]".into());
    };
    let option = |name: &str, default: usize| -> Result<usize, Box<dyn Error>> {
        let given = options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
        Ok(given.map_or(Ok(default), |value| value.parse())?)
    };
    let (threads, rows) = (option("--threads", std::thread::available_parallelism()?.get())?, option("--batch-tokens", 512)?);
    let sequences: Vec<Vec<u32>> = serde_json::from_slice(&std::fs::read(ids)?)?;
    let transformer = Model::open(Path::new(folder))?.load(Cpu::new())?;
    let batches = Batch::cut(&sequences, rows);
    let ids: BTreeSet<u32> = sequences.into_iter().flatten().collect();
    let group_of: HashMap<u32, u32> = ids.into_iter().zip(0..).collect();
    let items: Vec<Items> = batches.iter().enumerate().map(|(index, batch)| Items::new(spooled(index, batch, &group_of))).collect();
    let sketches =
        if options.iter().any(|option| option == "--all") { needs(&Family::SELECTABLE) } else { needs(&[Family::Norm, Family::Cosine]) };

    // As `measure` does: the sample is kept only for measures that need it.
    let tokens: usize = batches.iter().map(Batch::tokens).sum();
    let sample = if sketches.contains(SketchKind::Sample) { tokens / SAMPLED } else { 0 };
    let kept = Kept::choose(&KeepSettings { sample, ..KeepSettings::default() }, 1, items.len(), |at| Ok(items[at].clone()))?;
    let (spec, points) = (transformer.spec(), transformer.points());
    let shape = |at: usize| PointShape {
        groups: group_of.len(),
        dim: spec.width_at(points[at]),
        previous: at.checked_sub(1).map(|before| spec.width_at(points[before])),
        kept: kept.states(),
        chosen: 0,
        sketches,
    };
    let states = (0..points.len()).map(|at| (points[at], PointState::new(&shape(at), Some(1e9)))).collect();
    let settings =
        WorkSettings { kept: &kept, sketches, before: None, on_error: OnError::Fail, threads, rows, passage: Default::default() };
    let workers = Workers::new(&transformer, states, 0, settings)?;
    let mut entered = 0;
    // Batches are numbered through all passes, as in one long corpus.
    let mut collect = |part: &[Items]| -> Result<(), Box<dyn Error>> {
        let (first, end) = (entered, entered + part.len());
        let batch = |index: usize| Ok((index < end).then(|| part[index - first].clone()));
        entered = workers.run(first, &batch, Duration::MAX, &mut |_| false)?;
        Ok(())
    };
    // Once unmeasured: in a long corpus the state's memory is touched for the first time only once.
    collect(&items)?;

    let part = BATCHES_PER_WORKER * threads;
    let parts: Vec<(&[Batch], &[Items])> = batches.chunks_exact(part).zip(items.chunks_exact(part)).collect();
    if parts.is_empty() {
        return Err(format!("{tokens} tokens are too few for {part} batches").into());
    }
    let mut rounds: Vec<Round> = Vec::new();
    for round in 0..option("--rounds", 30)?.max(parts.len()) {
        let (batches, items) = parts[round % parts.len()];
        let bare = || Ok(forward_all(&transformer, batches, threads, |_| Blind).map(drop)?);
        let tokens = batches.iter().map(Batch::tokens).sum();
        // Who comes first changes, so that a machine that slows down or speeds up favours nobody.
        let (bare, with) = if round % 2 == 0 {
            (timed(bare)?, timed(|| collect(items))?)
        } else {
            let with = timed(|| collect(items))?;
            (timed(bare)?, with)
        };
        rounds.push(Round { tokens, bare, with });
    }
    let quantile = |share: f64, of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[(share * (values.len() - 1) as f64).round() as usize]
    };
    // What a noisy machine does to a round only ever makes it longer: the fastest of those over the same batches tell most of the program.
    let fastest = |of: &dyn Fn(&Round) -> f64| -> f64 {
        (0..parts.len()).map(|part| rounds.iter().skip(part).step_by(parts.len()).map(of).fold(f64::INFINITY, f64::min)).sum()
    };
    let median = |of: &dyn Fn(&Round) -> f64| quantile(0.5, of);
    let cost = |round: &Round| round.with.wall / round.bare.wall;
    let report = serde_json::json!({
        "tokens": tokens,
        "bare": median(&|round| round.tokens as f64 / round.bare.wall),
        "with_statistics": median(&|round| round.tokens as f64 / round.with.wall),
        "cost": median(&cost),
        "cost_quartiles": [quantile(0.25, &cost), quantile(0.75, &cost)],
        "fastest_cost": fastest(&|round| round.with.wall) / fastest(&|round| round.bare.wall),
        "cpu_cost": median(&|round| round.with.processor / round.bare.processor),
    });
    println!("{report}");
    Ok(())
}

/// The same batches without and with statistics.
struct Round {
    tokens: usize,
    bare: Seconds,
    with: Seconds,
}

struct Seconds {
    wall: f64,
    /// Of all threads: on a shared machine steadier than the clock.
    processor: f64,
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Seconds, Box<dyn Error>> {
    let (start, processor) = (Instant::now(), cpu_seconds());
    work()?;
    Ok(Seconds { wall: start.elapsed().as_secs_f64(), processor: cpu_seconds() - processor })
}

/// Processor time of all threads so far.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A batch as the spool would give it: a group for every token id that occurs, without gaps.
fn spooled(index: usize, batch: &Batch, group_of: &HashMap<u32, u32>) -> SpoolBatch {
    let sequence = |(number, range): (usize, std::ops::Range<usize>)| Sequence {
        document: DocumentId { file: 0, record: (index << 20 | number) as u64, chunk: 0 },
        first: 0,
        row: 0,
        offset: 0,
        length: range.len() as u32,
        counted: range.len() as u32,
    };
    let sequences = batch.ranges().enumerate().map(sequence).collect();
    let groups = batch.ids().iter().map(|id| group_of[id]).collect();
    SpoolBatch { index, ids: batch.ids().to_vec(), groups, offsets: batch.offsets().to_vec(), sequences }
}
