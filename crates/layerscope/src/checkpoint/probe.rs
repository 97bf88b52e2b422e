//! How fast a model runs here, measured.

use std::time::{Duration, Instant};

use layerscope_compute::Backend;
use layerscope_model::{Batch, Blind, Transformer, forward_all};
use serde::Serialize;

/// Tokens of a worker's batch.
pub(crate) const BATCH_TOKENS: usize = 512;
/// Tokens of one sequence of the probe: about a sentence.
const SENTENCE: usize = 24;

/// Keys that a query of a sentence sees, on average.
pub(crate) fn sentence_keys(causal: bool) -> f64 {
    if causal { (SENTENCE + 1) as f64 / 2.0 } else { SENTENCE as f64 }
}

/// A measured speed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Probe {
    /// Tokens that went through the model.
    pub tokens: usize,
    /// How long that took.
    pub seconds: f64,
    /// Workers.
    pub threads: usize,
}

impl Probe {
    /// The speed.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

/// Runs sentence-long sequences through the model until `limit` has passed.
pub fn probe<B: Backend>(transformer: &Transformer<B>, threads: usize, limit: Duration) -> layerscope_model::Result<Probe> {
    let spec = transformer.spec();
    let length = SENTENCE.min(spec.max_positions.unwrap_or(SENTENCE));
    let id = |place: usize| ((place * 7919) % spec.vocabulary) as u32;
    let sequences: Vec<Vec<u32>> = (0..BATCH_TOKENS.div_ceil(length)).map(|s| (0..length).map(|i| id(s * length + i)).collect()).collect();
    let round = vec![Batch::pack(&sequences); threads];

    let start = Instant::now();
    let mut tokens = 0;
    while tokens == 0 || start.elapsed() < limit {
        forward_all(transformer, &round, threads, |_| Blind)?;
        tokens += round.iter().map(Batch::tokens).sum::<usize>();
    }
    Ok(Probe { tokens, seconds: start.elapsed().as_secs_f64(), threads })
}
