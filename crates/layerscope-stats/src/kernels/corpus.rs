//! Rows enter the moments of all rows, alone or together with those of their group.

use std::ops::Range;

use layerscope_compute::for_each_isa;

use super::passes::{Sums, add_rows};
use super::sums::GroupSums;
use super::{BLOCK, GroupVectors, LANES, Weights, blocks, fold};
use crate::rows::Chunk;

/// Moments of all rows as vectors.
pub(crate) struct CorpusVectors<'a> {
    pub mean: &'a mut [f64],
    pub m2: &'a mut [f64],
    pub square: &'a mut [f64],
    /// Empty where unit vectors are not wanted, as is the next.
    pub unit: &'a mut [f64],
    pub unit_square: &'a mut [f64],
}

for_each_isa! {
    /// Merges a chunk's own moments, component by component, into those of all rows.
    pub(crate) fn absorb_corpus = absorb_corpus_body; (chunk: Chunk, weights: Weights, into: CorpusVectors)
}

#[inline(always)]
fn absorb_corpus_body(chunk: Chunk, weights: Weights, into: CorpusVectors) {
    let mut into = into;
    for block in blocks(chunk.dim) {
        let mut sums = CorpusSums::new(&chunk, &block);
        add_rows(&chunk, &block, &mut sums);
        sums.absorb(block, weights, &mut into);
    }
}

for_each_isa! {
    /// [`absorb_group`] and [`absorb_corpus`] at once, for a chunk of many rows of one group.
    pub(crate) fn absorb_both = absorb_both_body;
    (chunk: Chunk, weights: [Weights; 2], group: GroupVectors, m2: &mut f64, corpus: CorpusVectors)
}

#[inline(always)]
fn absorb_both_body(chunk: Chunk, weights: [Weights; 2], group: GroupVectors, m2: &mut f64, corpus: CorpusVectors) {
    let (mut group, mut corpus, mut lanes) = (group, corpus, [0.0; LANES]);
    for block in blocks(chunk.dim) {
        let mut sums = CorpusSums::new(&chunk, &block);
        add_rows(&chunk, &block, &mut sums);
        sums.group.absorb(block.clone(), weights[0], &mut group, &mut lanes);
        sums.absorb(block, weights[1], &mut corpus);
    }
    *m2 += fold(lanes);
}

/// What a group needs, and sums of squares of unit vectors.
struct CorpusSums {
    group: GroupSums,
    unit_square: [f64; BLOCK],
}

impl CorpusSums {
    #[inline(always)]
    fn new(chunk: &Chunk, block: &Range<usize>) -> CorpusSums {
        CorpusSums { group: GroupSums::new(chunk, block), unit_square: [0.0; BLOCK] }
    }

    #[inline(always)]
    fn absorb(&self, block: Range<usize>, weights: Weights, into: &mut CorpusVectors) {
        self.group.absorb_into_corpus(block.clone(), weights, into);
        if into.unit.is_empty() {
            return;
        }
        let width = block.len().min(BLOCK);
        let unit = &mut into.unit[block.clone()][..width];
        let unit_square = &mut into.unit_square[block][..width];
        for l in 0..width {
            unit[l] += (self.group.unit[l] * weights.each_unit - unit[l]) * weights.unit_share;
            unit_square[l] += (self.unit_square[l] * weights.each_unit - unit_square[l]) * weights.unit_share;
        }
    }
}

impl Sums for CorpusSums {
    #[inline(always)]
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]) {
        self.group.add(l, x, inverses);
        for r in 0..R {
            let unit = x[r] * inverses[r];
            self.unit_square[l] = unit.mul_add(unit, self.unit_square[l]);
        }
    }
}
