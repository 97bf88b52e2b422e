//! How much memory and disk a run will take, said before it begins, and how many passes fit a limit.

use std::path::Path;

use layerscope_model::spec::ModelSpec;
use layerscope_model::workspace_bytes;
use layerscope_stats::sketch::LensSpace;

use crate::error::{Error, Result};
use crate::point_state::StateShape;
use crate::system;
use crate::text::bytes;

/// What a worker holds beside its activations for every row: ids, positions, groups, norms, segments.
const BYTES_PER_ROW: usize = 96;
/// A row of the group table while it is made and written.
const BYTES_PER_TABLE_ROW: usize = 420;
/// A number of the sample while dimensions, partitions and clusters are computed: as stored, as sampled, centred and projected, in f32 and f64.
const BYTES_PER_SAMPLED_NUMBER: usize = 32;
/// A kept state of a chosen token in its table, while that is made and written.
const BYTES_PER_TOKEN_ROW: usize = 320;
/// Blocks of products while neighbours are looked for.
const NEIGHBOUR_BYTES: usize = 16 << 20;
/// Square matrices while spectra and linear maps are computed.
const MATRICES_AT_THE_END: usize = 24;
/// What the allocator wastes: one part in so many.
const MARGIN: u64 = 33;
/// Code, stacks and small things that are touched only once the model runs.
const SLACK: u64 = 10 << 20;

/// Sizes that decide memory.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the state of a point.
    pub state: StateShape,
    /// States of the hash sample.
    pub sample: usize,
    /// Points to measure.
    pub points: usize,
    /// Rows of the largest batch.
    pub largest_batch: usize,
    /// Workers.
    pub threads: usize,
}

/// An estimate in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What is there already (the model, the dictionary), and the workers' buffers.
    pub fixed: u64,
    /// The state of one point.
    pub point: u64,
    /// Points to measure.
    pub points: usize,
    /// What there is while the tables are made, when model and workers are gone.
    pub finishing: u64,
    /// The peak so far.
    pub peak: u64,
}

impl Estimate {
    /// From what is resident now, with the model loaded, what was resident `before_model`, and what will come.
    pub fn new(spec: &ModelSpec, sizes: &Sizes, before_model: u64) -> Estimate {
        let StateShape { groups, dim, sketches, .. } = sizes.state;
        let rows = sizes.largest_batch;
        let worker = workspace_bytes(spec, rows) + scratch_bytes(spec, rows) + rows * BYTES_PER_ROW + LensSpace::bytes(sketches, rows, dim);
        let point = sizes.state.bytes(sizes.points == 1);
        let matrices = if sketches.covariance { MATRICES_AT_THE_END * dim * dim * size_of::<f64>() } else { 0 };
        // Kept states as read, and sorted into the sample and the chosen tokens.
        let kept = sizes.state.kept * dim * size_of::<f32>();
        let token_rows = sizes.points * (sizes.state.kept - sizes.sample) * BYTES_PER_TOKEN_ROW;
        let sample = if sizes.sample == 0 { 0 } else { sizes.sample * dim * BYTES_PER_SAMPLED_NUMBER + NEIGHBOUR_BYTES };
        Estimate {
            fixed: system::resident().unwrap_or(0) + (worker * sizes.threads) as u64 + SLACK,
            point: point as u64,
            points: sizes.points,
            finishing: before_model
                + (2 * point + kept + sizes.points * groups * BYTES_PER_TABLE_ROW + token_rows + matrices + sample) as u64
                + SLACK,
            peak: system::peak().unwrap_or(0),
        }
    }

    /// The most that a run with so many points at a time will occupy.
    pub fn total(&self, points: usize) -> u64 {
        let needed = (self.fixed + self.point * points as u64).max(self.finishing);
        (needed + needed / MARGIN).max(self.peak)
    }

    /// How many points each pass takes so that the limit holds.
    pub fn passes(&self, limit: Option<u64>) -> Result<Vec<usize>> {
        let Some(limit) = limit else { return Ok(vec![self.points]) };
        let at_once = (1..=self.points).rev().find(|&points| self.total(points) <= limit).unwrap_or(0);
        if at_once == 0 {
            let line = format!(
                "--max-memory {} is not enough: one layer at a time takes {}; fewer groups (--group, --limit, --sample), fewer kept states \
                 (--sample-states, --token-states) or smaller batches (--batch-tokens, --threads) would help",
                bytes(limit as usize),
                bytes(self.total(1) as usize)
            );
            return Err(Error::Refused(line));
        }
        let passes = self.points.div_ceil(at_once);
        // Even passes: the last one should not run the whole model for a single point.
        let (each, more) = (self.points / passes, self.points % passes);
        Ok((0..passes).map(|pass| each + usize::from(pass < more)).collect())
    }
}

/// Packed operands and attention scores of one worker.
fn scratch_bytes(spec: &ModelSpec, rows: usize) -> usize {
    let widest = spec.blocks.iter().map(|block| block.feed_forward.width.max(spec.width)).max().unwrap_or(spec.width);
    rows.min(1024) * widest * size_of::<f32>() / 4
}

/// Refuses to begin where the disk will not hold the run.
pub fn check_disk(folder: &Path, estimate: &Estimate, passes: &[usize]) -> Result<()> {
    let state = estimate.point * estimate.points as u64;
    let largest = estimate.point * passes.iter().copied().max().unwrap_or(0) as u64;
    // Finished passes with two checkpoints and a third being written; or passes beside the joined state and the tables.
    let needed = (state + 3 * largest).max(2 * state + state / 4);
    match system::free_disk(folder) {
        Some(free) if free < needed => {
            let line = format!(
                "{}: {} free, the run needs {}; make room or choose another --out",
                folder.display(),
                bytes(free as usize),
                bytes(needed as usize)
            );
            Err(Error::Refused(line))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { fixed: 100, point: 50, points: 7, finishing: 200, peak: 0 };

    #[test]
    fn a_limit_makes_even_passes() {
        assert_eq!(ESTIMATE.total(7), 450 + 450 / 33);
        assert_eq!(ESTIMATE.passes(None).expect("no limit"), [7]);
        assert_eq!(ESTIMATE.passes(Some(463)).expect("fits"), [7]);
        assert_eq!(ESTIMATE.passes(Some(462)).expect("two passes"), [4, 3]);
        assert_eq!(ESTIMATE.passes(Some(225)).expect("two at a time"), [2, 2, 2, 1]);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_advice() {
        let line = ESTIMATE.passes(Some(205)).expect_err("too little").to_string();
        assert!(line.contains("one layer at a time takes 206 B") && line.contains("--batch-tokens"), "{line}");
    }
}
