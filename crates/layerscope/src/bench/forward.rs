//! The model alone, at several sizes of batch and numbers of threads.

use std::time::Instant;

use layerscope_model::{Batch, Blind, Model, Transformer, forward_all};
use layerscope_stats::Accumulate;
use serde::Serialize;

use crate::error::Result;
use crate::measure::device::OnDevice;
use crate::process::cancel::CancelToken;
use crate::text::counted;

/// Tokens of a worker's batch.
pub const BATCHES: [usize; 5] = [128, 256, 512, 1024, 2048];
/// A measurement that would take this many times its share of the time is left out: large models on few cores.
const PATIENCE: f64 = 4.0;
/// Parts that a measurement is cut into, where batches are short enough.
const ROUNDS: f64 = 5.0;

/// A measured speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Workers.
    pub threads: usize,
    /// Tokens of a worker's batch.
    pub batch_tokens: usize,
    /// Tokens a second of all workers together.
    pub tokens_per_second: f64,
}

/// What is measured.
pub struct Forward<'a> {
    /// The model.
    pub model: &'a Model,
    /// What it reads.
    pub sequences: &'a [Vec<u32>],
    /// Numbers of threads.
    pub threads: &'a [usize],
    /// How long all of it takes, about.
    pub seconds: f64,
    /// Asks to stop.
    pub cancel: &'a CancelToken,
    /// Is told what is being measured.
    pub show: &'a mut dyn FnMut(&str),
}

impl OnDevice for Forward<'_> {
    type Output = Result<(f64, Vec<Speed>)>;

    /// The time to load the weights, and the speeds.
    fn run<D: Accumulate>(self, device: D) -> Self::Output {
        (self.show)("loading the weights");
        let start = Instant::now();
        let transformer = self.model.load(device)?;
        let loading = start.elapsed().as_secs_f64();
        let share = self.seconds / (BATCHES.len() * self.threads.len()) as f64;
        let mut speeds: Vec<Speed> = Vec::new();
        for &threads in self.threads {
            for batch_tokens in BATCHES {
                self.cancel.check()?;
                let known = speeds.iter().rev().find(|speed| speed.threads == threads).or(speeds.first());
                let expected = known.map_or(0.0, |speed| (threads * batch_tokens) as f64 / speed.tokens_per_second);
                if expected > PATIENCE * share {
                    continue;
                }
                (self.show)(&format!("running the model, {}, {batch_tokens} tokens a batch", counted(threads as u64, "thread")));
                let tokens_per_second = speed(&transformer, self.sequences, threads, batch_tokens, share)?;
                speeds.push(Speed { threads, batch_tokens, tokens_per_second });
            }
        }
        Ok((loading, speeds))
    }
}

/// Tokens a second of a round in which every worker has as many batches, for about so many seconds of rounds.
fn speed<D: Accumulate>(
    transformer: &Transformer<D>,
    sequences: &[Vec<u32>],
    threads: usize,
    batch_tokens: usize,
    seconds: f64,
) -> Result<f64> {
    let batches = Batch::cut(sequences, batch_tokens);
    let mut next = 0;
    let mut round = |each: usize| -> Result<(usize, f64)> {
        let chosen: Vec<Batch> = batches.iter().cycle().skip(next).take(threads * each).cloned().collect();
        next = (next + chosen.len()) % batches.len().max(1);
        let start = Instant::now();
        forward_all(transformer, &chosen, threads, |_| Blind)?;
        Ok((chosen.iter().map(Batch::tokens).sum(), start.elapsed().as_secs_f64().max(1e-9)))
    };
    let first = round(1)?;
    if first.1 > seconds / 2.0 {
        return Ok(first.0 as f64 / first.1);
    }
    // The first round only warms up. The middle one of several speeds: whatever else the machine does disturbs few of them.
    let each = (seconds / first.1 / ROUNDS).clamp(1.0, 256.0) as usize;
    let (mut speeds, mut elapsed) = (Vec::new(), 0.0);
    while elapsed < seconds {
        let (tokens, time) = round(each)?;
        speeds.push(tokens as f64 / time);
        elapsed += time;
    }
    speeds.sort_by(f64::total_cmp);
    Ok(speeds[speeds.len() / 2])
}
