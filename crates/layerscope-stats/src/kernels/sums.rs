//! Sums over the rows of a chunk, and how they enter the moments of a group and of all rows.

use std::ops::Range;

use super::group::join;
use super::passes::Sums;
use super::{BLOCK, CorpusVectors, GroupVectors, LANES, Weights, plus};
use crate::rows::Chunk;

/// Sums of the deviations of a chunk's rows from its first one, of their squares and of unit vectors.
pub(super) struct GroupSums {
    pub origin: [f64; BLOCK],
    pub deviation: [f64; BLOCK],
    pub square: [f64; BLOCK],
    pub unit: [f64; BLOCK],
}

impl GroupSums {
    #[inline(always)]
    pub fn new(chunk: &Chunk, block: &Range<usize>) -> GroupSums {
        let mut sums = GroupSums { origin: [0.0; BLOCK], deviation: [0.0; BLOCK], square: [0.0; BLOCK], unit: [0.0; BLOCK] };
        sums.start(chunk, block);
        sums
    }

    /// Starts again with the first row of the chunk as origin; sums of unit vectors are left alone.
    #[inline(always)]
    pub fn start(&mut self, chunk: &Chunk, block: &Range<usize>) {
        let values = &chunk.states[chunk.rows[0] as usize * chunk.dim..][block.clone()];
        for (origin, &x) in self.origin.iter_mut().zip(values) {
            *origin = f64::from(x);
        }
        self.deviation.fill(0.0);
        self.square.fill(0.0);
    }

    /// Merges a block into a group; `lanes` grow by what M2 grows by.
    #[inline(always)]
    pub fn absorb(&self, block: Range<usize>, weights: Weights, into: &mut GroupVectors, lanes: &mut [f64; LANES]) {
        let whole = block.len() - block.len() % LANES;
        for at in (0..whole).step_by(LANES) {
            into.prefetch(block.start + at);
            *lanes = plus(*lanes, self.absorb_strip::<LANES>(at, block.start + at, weights, into));
        }
        for at in whole..block.len() {
            lanes[0] += self.absorb_strip::<1>(at, block.start + at, weights, into)[0];
        }
    }

    /// Merges a block into the moments of all rows, unit vectors excepted.
    #[inline(always)]
    pub fn absorb_into_corpus(&self, block: Range<usize>, weights: Weights, into: &mut CorpusVectors) {
        let whole = block.len() - block.len() % LANES;
        for at in (0..whole).step_by(LANES) {
            let (mean, m2) = self.moments::<LANES>(at, weights.each);
            self.join_corpus(mean, m2, at, block.start + at, weights, into);
        }
        for at in whole..block.len() {
            let (mean, m2) = self.moments::<1>(at, weights.each);
            self.join_corpus(mean, m2, at, block.start + at, weights, into);
        }
    }

    /// Merges some components, of which mean and M2 are known, into the moments of all rows.
    #[inline(always)]
    pub fn join_corpus<const W: usize>(
        &self,
        new_mean: [f64; W],
        new_m2: [f64; W],
        at: usize,
        start: usize,
        weights: Weights,
        into: &mut CorpusVectors,
    ) {
        let (origin, deviation, squares) = (&self.origin[at..][..W], &self.deviation[at..][..W], &self.square[at..][..W]);
        let (mean, m2, square) = (&mut into.mean[start..][..W], &mut into.m2[start..][..W], &mut into.square[start..][..W]);
        for l in 0..W {
            let delta = new_mean[l] - mean[l];
            m2[l] += new_m2[l] + delta * delta * weights.cross;
            mean[l] += delta * weights.share;
            square[l] += (mean_square(origin[l], deviation[l], squares[l], weights.each) - square[l]) * weights.share;
        }
    }

    /// Mean and M2 of some components of rows that weigh `each`.
    #[inline(always)]
    pub fn moments<const W: usize>(&self, at: usize, each: f64) -> ([f64; W], [f64; W]) {
        let (origin, deviation, square) = (&self.origin[at..][..W], &self.deviation[at..][..W], &self.square[at..][..W]);
        let (mut mean, mut m2) = ([0.0; W], [0.0; W]);
        for l in 0..W {
            (mean[l], m2[l]) = moments(origin[l], deviation[l], square[l], each);
        }
        (mean, m2)
    }

    #[inline(always)]
    fn absorb_strip<const W: usize>(&self, at: usize, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
        let ((mean, m2), units) = (self.moments(at, weights.each), &self.unit[at..][..W]);
        let mut unit = [0.0; W];
        for l in 0..W {
            unit[l] = units[l] * weights.each_unit;
        }
        join(mean, m2, unit, start, weights, into)
    }
}

impl Sums for GroupSums {
    #[inline(always)]
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]) {
        for r in 0..R {
            let deviation = x[r] - self.origin[l];
            self.deviation[l] += deviation;
            self.square[l] = deviation.mul_add(deviation, self.square[l]);
            self.unit[l] = x[r].mul_add(inverses[r], self.unit[l]);
        }
    }
}

/// Mean of rows that weigh `each` and the sum of squared deviations from it, from the sum of deviations from `origin` and of their squares.
///
/// The origin is one of the rows, so M2 >= |mean - origin|^2 n / (n - 1): the difference of the two terms is at least 1 / n of the
/// larger one, and n is at most the rows of a chunk.
#[inline(always)]
fn moments(origin: f64, deviation: f64, square: f64, each: f64) -> (f64, f64) {
    let moved = deviation * each;
    (origin + moved, (square - deviation * moved).max(0.0))
}

/// Mean of x^2 of rows that weigh `each`, from the same sums: (d + o)^2 = d^2 + o (2 d + o).
///
/// The origin o is one of the n rows, so no term exceeds 4 n times the sum of x^2.
#[inline(always)]
fn mean_square(origin: f64, deviation: f64, square: f64, each: f64) -> f64 {
    (square * each + origin * (2.0 * deviation * each + origin)).max(0.0)
}
