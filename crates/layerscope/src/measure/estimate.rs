//! How much memory and disk a run will take, said before it begins, and how many passes fit a limit.

use std::path::Path;

use layerscope_corpus::Spool;
use layerscope_error::{Line, line, setting};
use layerscope_model::spec::ModelSpec;
use layerscope_model::workspace_memory;
use layerscope_stats::sketch::SketchKind;
use layerscope_stats::{Accumulate, PointShape};

use super::plan::Plan;
use crate::error::{Error, Result};
use crate::process::system;
use crate::text::{bytes, grouped};

/// What a worker holds beside its activations for every row: ids, positions, groups, norms, segments.
const BYTES_PER_ROW: usize = 96;
/// A row of the group table while it is made and written.
pub const BYTES_PER_TABLE_ROW: usize = 420;
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

/// What the tables of a point take while they are computed, beside what is read.
pub fn while_computed(dim: usize, sample: usize, has_covariance: bool) -> usize {
    let matrices = if has_covariance { MATRICES_AT_THE_END * dim * dim * size_of::<f64>() } else { 0 };
    matrices + if sample == 0 { 0 } else { sample * dim * BYTES_PER_SAMPLED_NUMBER + NEIGHBOUR_BYTES }
}

/// Sizes that decide memory.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the state of the widest point.
    pub state: PointShape,
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
    /// What more a point takes that has massive states.
    pub massive: u64,
    /// Points that have some.
    pub massive_points: usize,
    /// Points to measure.
    pub points: usize,
    /// What there is while the tables are made, when model and workers are gone.
    pub finishing: u64,
    /// The peak so far.
    pub peak: u64,
}

impl Estimate {
    /// From what is resident now, with the model loaded, what was resident `before_model`, and what will come.
    pub fn new<D: Accumulate>(device: &D, spec: &ModelSpec, sizes: &Sizes, before_model: u64) -> Estimate {
        let PointShape { groups, dim, sketches, .. } = sizes.state;
        let rows = sizes.largest_batch;
        let worker = workspace_memory(device, spec, rows) + device.space_memory(sketches, rows, dim);
        let worker = worker.host + rows * BYTES_PER_ROW;
        let point = device.point_memory(&sizes.state).host;
        // Kept states as read, and sorted into the sample and the chosen tokens.
        let kept = sizes.state.kept * dim * size_of::<f32>();
        let token_rows = sizes.points * (sizes.state.kept - sizes.sample) * BYTES_PER_TOKEN_ROW;
        let computed = while_computed(dim, sizes.sample, sketches.contains(SketchKind::Covariance));
        Estimate {
            fixed: system::resident().unwrap_or(0) + (worker * sizes.threads) as u64 + SLACK,
            point: point as u64,
            massive: sizes.state.massive_bytes() as u64,
            massive_points: 0,
            points: sizes.points,
            finishing: before_model
                + (2 * point + kept + sizes.points * groups * BYTES_PER_TABLE_ROW + token_rows + computed) as u64
                + SLACK,
            peak: system::peak().unwrap_or(0),
        }
    }

    /// The same where so many points have massive states: those are accumulated apart.
    pub fn with_massive(&self, points: usize) -> Estimate {
        let at_the_end = 2 * self.massive * u64::from(points > 0);
        Estimate { massive_points: points, finishing: self.finishing + at_the_end, ..*self }
    }

    /// The most that a run with so many points at a time will occupy.
    pub fn total(&self, points: usize) -> u64 {
        let massive = self.massive * points.min(self.massive_points) as u64;
        let needed = (self.fixed + self.point * points as u64 + massive).max(self.finishing);
        (needed + needed / MARGIN).max(self.peak)
    }

    /// How many points each pass takes so that the limit holds.
    pub fn passes(&self, limit: Option<u64>) -> Result<Vec<usize>> {
        let Some(limit) = limit else { return Ok(vec![self.points]) };
        let at_once = (1..=self.points).rev().find(|&points| self.total(points) <= limit).unwrap_or(0);
        if at_once == 0 {
            let line = line![
                setting("max-memory").to(bytes(limit as usize)),
                format!(" is not enough: one layer at a time takes {}; reduce the groups (", bytes(self.total(1) as usize)),
                setting("group"),
                ", ",
                setting("limit"),
                ", ",
                setting("sample"),
                "), the kept states (",
                setting("sample-states"),
                ", ",
                setting("token-states"),
                ") or the batches (",
                setting("batch-tokens"),
                ", ",
                setting("threads"),
                ")"
            ];
            return Err(Error::refused(line));
        }
        let passes = self.points.div_ceil(at_once);
        // Even passes: the last one should not run the whole model for a single point.
        let (each, more) = (self.points / passes, self.points % passes);
        Ok((0..passes).map(|pass| each + usize::from(pass < more)).collect())
    }
}

impl Estimate {
    /// Refuses to go on with passes that a smaller limit would not have allowed.
    pub fn expect_room(&self, passes: &[usize], plan: &Plan) -> Result<()> {
        let needed = self.total(passes.iter().copied().max().unwrap_or(0));
        match plan.max_memory {
            Some(limit) if needed > limit => Err(Error::refused(line![
                setting("max-memory").to(bytes(limit as usize)),
                format!(
                    " is not enough: the run in {} was begun in passes of {}; give as much, or start again with ",
                    plan.out.display(),
                    bytes(needed as usize)
                ),
                setting("overwrite")
            ])),
            _ => Ok(()),
        }
    }

    /// What there is to do, and the memory it will take.
    pub fn line(&self, passes: &[usize], spool: &Spool) -> Line {
        let counters = spool.counters();
        let largest = passes.iter().copied().max().unwrap_or(0);
        let several = if passes.len() > 1 { format!(" in {} passes over the layers", passes.len()) } else { String::new() };
        let [documents, tokens, groups] = [counters.documents as usize, counters.tokens as usize, spool.groups().len()].map(grouped);
        let memory = bytes(self.total(largest) as usize);
        format!("{documents} documents, {tokens} tokens, {groups} groups; memory estimate {memory}{several}").into()
    }
}

/// Refuses to begin where the disk will not hold the run.
pub fn check_disk(folder: &Path, estimate: &Estimate, passes: &[usize]) -> Result<()> {
    let state = estimate.point * estimate.points as u64;
    let largest = estimate.point * passes.iter().copied().max().unwrap_or(0) as u64;
    // Finished passes with two checkpoints and a third being written; or passes beside the joined state and the tables.
    let needed = (state + 3 * largest).max(2 * state + state / 4);
    match system::free_disk(folder) {
        Some(free) if free < needed => {
            let (free, needed) = (bytes(free as usize), bytes(needed as usize));
            let line =
                line![format!("{}: {free} free, the run needs {needed}; make room or choose another ", folder.display()), setting("out")];
            Err(Error::refused(line))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { fixed: 100, point: 50, massive: 25, massive_points: 0, points: 7, finishing: 200, peak: 0 };

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

    #[test]
    fn massive_states_take_memory_of_their_own() {
        let massive = ESTIMATE.with_massive(2);
        // 100 + 50 n + 25 min(n, 2), and one part in 33 more.
        assert_eq!([1, 2, 4].map(|points| massive.total(points)), [250 + 250 / MARGIN, 250 + 250 / MARGIN, 350 + 350 / MARGIN]);
        assert_eq!(ESTIMATE.with_massive(0), ESTIMATE);
    }
}
