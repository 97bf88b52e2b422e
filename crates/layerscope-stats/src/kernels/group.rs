//! Rows enter the moments of their group.

use layerscope_compute::for_each_isa;

use super::passes::add_rows;
use super::sums::GroupSums;
use super::{LANES, Weights, blocks, fold, plus, prefetch};
use crate::rows::Chunk;

/// The moments of one group as vectors, and the sum over groups of squared deviations per component.
pub(crate) struct GroupVectors<'a> {
    pub mean: &'a mut [f64],
    /// Empty where unit vectors are not wanted.
    pub unit: &'a mut [f64],
    pub within: &'a mut [f64],
    /// Where mean and unit of the next group lie: groups are scattered over memory, so theirs are fetched while this one is computed.
    pub next: [*const f64; 2],
}

impl GroupVectors<'_> {
    /// Asks for the part of the next group's vectors that corresponds to a strip.
    #[inline(always)]
    pub(super) fn prefetch(&self, start: usize) {
        for line in [start, start + LANES / 2] {
            prefetch(self.next[0].wrapping_add(line), true);
            prefetch(self.next[1].wrapping_add(line), true);
        }
    }
}

for_each_isa! {
    /// Merges a chunk's own moments into a group's; `m2` grows by its part of sum ||x - mean||^2.
    ///
    /// Moments of the chunk about its first row, then Chan, Golub & LeVeque's update:
    /// M2 = M2_a + M2_b + delta^2 n_a n_b / (n_a + n_b).
    pub(crate) fn absorb_group = absorb_group_body; (chunk: Chunk, weights: Weights, into: GroupVectors, m2: &mut f64)
}

#[inline(always)]
fn absorb_group_body(chunk: Chunk, weights: Weights, into: GroupVectors, m2: &mut f64) {
    let (mut into, mut lanes, mut tail) = (into, [0.0; LANES], 0.0);
    if let [row] = *chunk.rows {
        let whole = chunk.dim - chunk.dim % LANES;
        for start in (0..whole).step_by(LANES) {
            into.prefetch(start);
            lanes = plus(lanes, absorb_row::<LANES>(&chunk, row, start, weights, &mut into));
        }
        for start in whole..chunk.dim {
            tail += absorb_row::<1>(&chunk, row, start, weights, &mut into)[0];
        }
    } else {
        for block in blocks(chunk.dim) {
            let mut sums = GroupSums::new(&chunk, &block);
            add_rows(&chunk, &block, &mut sums);
            sums.absorb(block, weights, &mut into, &mut lanes);
        }
    }
    *m2 += fold(lanes) + tail;
}

/// The common case of a group with one row in the batch: its mean is the row and its deviation 0. Returns what M2 grows by.
#[inline(always)]
fn absorb_row<const W: usize>(chunk: &Chunk, row: u32, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
    let values = &chunk.states[row as usize * chunk.dim + start..][..W];
    let inverse = chunk.inverses[row as usize];
    let (mut mean, mut unit) = ([0.0; W], [0.0; W]);
    for l in 0..W {
        mean[l] = f64::from(values[l]);
        unit[l] = mean[l] * inverse;
    }
    join(mean, [0.0; W], unit, start, weights, into)
}

/// Chan's update of some components by rows of which mean, M2 and mean unit vector are known. Returns what M2 grows by.
#[inline(always)]
pub(super) fn join<const W: usize>(
    new_mean: [f64; W],
    new_m2: [f64; W],
    new_unit: [f64; W],
    start: usize,
    weights: Weights,
    into: &mut GroupVectors,
) -> [f64; W] {
    let (mean, within) = (&mut into.mean[start..][..W], &mut into.within[start..][..W]);
    let mut grown = [0.0; W];
    for l in 0..W {
        let delta = new_mean[l] - mean[l];
        grown[l] = (delta * delta).mul_add(weights.cross, new_m2[l]);
        mean[l] += delta * weights.share;
        within[l] += grown[l];
    }
    if !into.unit.is_empty() {
        let unit = &mut into.unit[start..][..W];
        for l in 0..W {
            unit[l] += (new_unit[l] - unit[l]) * weights.unit_share;
        }
    }
    grown
}

for_each_isa! {
    /// Merges another's mean and mean unit vector into a group's; `m2` grows by what the means differ.
    pub(crate) fn merge_group = merge_group_body; (mean: &[f64], unit: &[f64], weights: Weights, into: GroupVectors, m2: &mut f64)
}

#[inline(always)]
fn merge_group_body(mean: &[f64], unit: &[f64], weights: Weights, into: GroupVectors, m2: &mut f64) {
    let (mut into, mut lanes) = (into, [0.0; LANES]);
    let ((means, mean_rest), (units, unit_rest)) = (mean.as_chunks::<LANES>(), unit.as_chunks::<LANES>());
    for (strip, mean) in means.iter().enumerate() {
        let unit = units.get(strip).unwrap_or(&[0.0; LANES]);
        lanes = plus(lanes, join(*mean, [0.0; LANES], *unit, strip * LANES, weights, &mut into));
    }
    let whole = mean.len() - mean_rest.len();
    for (l, &mean) in mean_rest.iter().enumerate() {
        let unit = unit_rest.get(l).copied().unwrap_or(0.0);
        lanes[l] += join([mean], [0.0], [unit], whole + l, weights, &mut into)[0];
    }
    *m2 += fold(lanes);
}
