//! The pilot: the first documents of the whole corpus set the norm beyond which a state is massive, a multiple of the median.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use layerscope_compute::States;
use layerscope_compute::parallel::in_order_with;
use layerscope_corpus::Spool;
use layerscope_model::{Batch, Observer, Point, Transformer};
use layerscope_stats::Accumulate;

use super::ahead::AtPoints;
use super::items::Items;
use super::passage::Passage;
use super::plan::Plan;
use super::stretch::StretchRows;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;

/// The fewest and the most rows of the pilot's batches: there are few documents, and every thread should have some. No state depends on it.
const BATCH_TOKENS: RangeInclusive<usize> = 32..=256;

/// What the first documents say of a point.
pub struct PilotPoint {
    /// The norm beyond which states are massive; None where no state is finite.
    pub threshold: Option<f64>,
    /// Whether some are.
    pub has_massive: bool,
}

/// The first documents, the same in every shard.
pub struct Pilot {
    batches: Vec<Items>,
}

impl Pilot {
    /// Of a spool, for so many workers.
    pub fn new(spool: &Spool, workers: usize) -> Result<Pilot> {
        let rows: usize = spool.pilot(*BATCH_TOKENS.end())?.iter().map(|batch| batch.ids.len()).sum();
        let batch_tokens = rows.div_ceil(workers.max(1)).clamp(*BATCH_TOKENS.start(), *BATCH_TOKENS.end());
        Ok(Pilot { batches: spool.pilot(batch_tokens)?.into_iter().map(Items::new).collect() })
    }

    /// What it reads, in the order of the corpus.
    pub fn batches(&self) -> &[Items] {
        &self.batches
    }

    /// The rows of its batches.
    pub fn rows(&self) -> StretchRows {
        StretchRows::of_lengths(self.batches.iter().map(|items| items.batch.tokens()))
    }

    /// All of them.
    pub fn tokens(&self) -> u64 {
        self.batches.iter().map(|items| items.batch.tokens() as u64).sum()
    }

    /// Runs it through a leg of the model; one threshold for each of `points`, and the states there of every batch that begins within so
    /// many rows. Counts the tokens that are done.
    pub fn run<D: Accumulate>(
        &self,
        transformer: &Transformer<D>,
        passage: Passage<'_>,
        points: &[Point],
        plan: &Plan,
        keep: u64,
        (cancel, done): (&CancelToken, &AtomicU64),
    ) -> Result<(Vec<PilotPoint>, Vec<AtPoints>)> {
        let device = transformer.backend();
        let rows = self.batches.iter().map(|items| items.batch.tokens()).max().unwrap_or(0);
        let memory = || Ok((transformer.workspace(rows)?, device.space()?));
        let starts: Vec<u64> = self.rows().starts().to_vec();
        let outcomes = in_order_with(device.workers(plan.threads), self.batches.len(), memory, |memory: &mut Result<_>, at| {
            cancel.check()?;
            let (buffers, space) = memory.as_mut().map_err(|error: &mut Error| std::mem::replace(error, Error::Stopped))?;
            let items = &self.batches[at];
            let info = device.info(buffers.stream(), items.info())?;
            let (norms, states) = (vec![Vec::new(); points.len()], vec![Vec::new(); points.len()]);
            let mut taker = NormTaker { norms, states, keeps: starts[at] < keep, points, info: &info, space, batch: at, passage };
            transformer.forward_from(passage.entering(at)?.as_deref(), &items.batch, buffers, &mut taker)?;
            done.fetch_add(items.batch.tokens() as u64, Ordering::Relaxed);
            Ok((taker.norms, taker.states))
        });
        let (norms, states): (Vec<Vec<Vec<f64>>>, Vec<_>) = outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let of_point = |at: usize| {
            let norms: Vec<f64> = norms.iter().flat_map(|batch| &batch[at]).copied().collect();
            let largest = norms.iter().copied().filter(|norm| norm.is_finite()).fold(0.0, f64::max);
            let threshold = median(norms).map(|median| median * plan.massive);
            PilotPoint { threshold, has_massive: threshold.is_some_and(|threshold| largest > threshold) }
        };
        Ok(((0..points.len()).map(of_point).collect(), states))
    }
}

/// The middle value; the mean of the two middle ones of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}

/// Notes the norms of counted states, keeps states if it should, and puts down what the next leg begins with.
struct NormTaker<'a, D: Accumulate> {
    norms: Vec<Vec<f64>>,
    states: Vec<Vec<f32>>,
    keeps: bool,
    points: &'a [Point],
    info: &'a D::Info,
    space: &'a mut D::Space,
    batch: usize,
    passage: Passage<'a>,
}

impl<D: Accumulate> Observer<D> for NormTaker<'_, D> {
    type Error = Error;

    fn observe(&mut self, _: &Batch, at: Point, states: &mut States<D>) -> Result<()> {
        self.passage.leave(self.batch, at, states)?;
        if let Some(place) = self.points.iter().position(|point| *point == at) {
            self.norms[place] = states.backend.norms(states, self.info, self.space)?;
            if self.keeps {
                self.states[place] = states.to_vec().map_err(layerscope_model::Error::from)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![f64::INFINITY]), None);
    }
}
