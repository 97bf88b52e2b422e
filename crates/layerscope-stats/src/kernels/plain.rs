//! Sums of rows of which no unit vectors are wanted: nothing depends on a row's norm, so every row is read once.

use layerscope_compute::for_each_isa;

use super::group::join;
use super::sums::GroupSums;
use super::{BLOCK, CorpusVectors, GroupVectors, LANES, Weights, blocks, fold, fused, plus, prefetch};
use crate::rows::Chunk;

type Strip = [f64; LANES];

/// What a chunk contributes, block by block.
pub(crate) struct PlainSums(Vec<GroupSums>);

impl PlainSums {
    pub fn new(dim: usize) -> PlainSums {
        let zeros = [0.0; BLOCK];
        PlainSums(blocks(dim).map(|_| GroupSums { origin: zeros, deviation: zeros, square: zeros, unit: zeros }).collect())
    }
}

for_each_isa! {
    /// Sums of a chunk of rows and ||x||^2 of each, in one pass over them; the rows ahead are fetched meanwhile.
    pub(crate) fn add_plain = add_plain_body; (chunk: Chunk, sums: &mut PlainSums, squares: &mut [f64])
}

#[inline(always)]
fn add_plain_body(chunk: Chunk, sums: &mut PlainSums, squares: &mut [f64]) {
    for (block, sums) in blocks(chunk.dim).zip(&mut sums.0) {
        sums.start(&chunk, &block);
    }
    let ((fours, rest), (four_squares, rest_squares)) = (chunk.rows.as_chunks::<4>(), squares.as_chunks_mut::<4>());
    let (ahead, _) = chunk.ahead.as_chunks::<4>();
    for (place, (rows, squares)) in fours.iter().zip(four_squares).enumerate() {
        *squares = add_plain_rows(&chunk, *rows, *ahead.get(place).unwrap_or(rows), sums);
    }
    for (&row, square) in rest.iter().zip(rest_squares) {
        [*square] = add_plain_rows(&chunk, [row], [row], sums);
    }
}

#[inline(always)]
fn add_plain_rows<const R: usize>(chunk: &Chunk, rows: [u32; R], later: [u32; R], sums: &mut PlainSums) -> [f64; R] {
    let mut norms = [[0.0; LANES]; R];
    for (block, sums) in blocks(chunk.dim).zip(&mut sums.0) {
        let start = |row: u32| row as usize * chunk.dim + block.start;
        let later = later.map(|row| chunk.states.as_ptr().wrapping_add(start(row)));
        let values = rows.map(|row| &chunk.states[start(row)..][..block.len()]);
        let strips = block.len() / LANES;
        let states = values.map(|values| &values.as_chunks::<LANES>().0[..strips]);
        let origin = &sums.origin.as_chunks::<LANES>().0[..strips];
        let deviation = &mut sums.deviation.as_chunks_mut::<LANES>().0[..strips];
        let square = &mut sums.square.as_chunks_mut::<LANES>().0[..strips];
        for s in 0..strips {
            later.iter().for_each(|later| prefetch(later.wrapping_add(s * LANES), true));
            add_strip(states.map(|states| states[s]), &mut norms, &origin[s], &mut deviation[s], &mut square[s]);
        }
        let rest = block.len() % LANES;
        if rest > 0 {
            // Components beyond the last are zero, and so are their sums.
            let padded = values.map(|values| {
                let mut padded = [0.0; LANES];
                padded[..rest].copy_from_slice(&values[strips * LANES..]);
                padded
            });
            let origin = &sums.origin.as_chunks::<LANES>().0[strips];
            let deviation = &mut sums.deviation.as_chunks_mut::<LANES>().0[strips];
            let square = &mut sums.square.as_chunks_mut::<LANES>().0[strips];
            add_strip(padded, &mut norms, origin, deviation, square);
        }
    }
    norms.map(fold)
}

/// Adds some components of some rows.
#[inline(always)]
fn add_strip<const R: usize>(states: [[f32; LANES]; R], norms: &mut [Strip; R], origin: &Strip, deviation: &mut Strip, square: &mut Strip) {
    for r in 0..R {
        let (mut x, mut moved) = ([0.0; LANES], [0.0; LANES]);
        for l in 0..LANES {
            x[l] = f64::from(states[r][l]);
            moved[l] = x[l] - origin[l];
        }
        norms[r] = fused(x, x, norms[r]);
        *deviation = plus(*deviation, moved);
        *square = fused(moved, moved, *square);
    }
}

for_each_isa! {
    /// [`absorb_both`](super::absorb_both) of such sums.
    pub(crate) fn absorb_plain = absorb_plain_body;
    (dim: usize, sums: &PlainSums, weights: [Weights; 2], group: GroupVectors, m2: &mut f64, corpus: CorpusVectors)
}

#[inline(always)]
fn absorb_plain_body(dim: usize, sums: &PlainSums, weights: [Weights; 2], group: GroupVectors, m2: &mut f64, corpus: CorpusVectors) {
    let (mut group, mut corpus, mut lanes) = (group, corpus, [0.0; LANES]);
    for (block, sums) in blocks(dim).zip(&sums.0) {
        let whole = block.len() - block.len() % LANES;
        for at in (0..whole).step_by(LANES) {
            group.prefetch(block.start + at);
            lanes = plus(lanes, absorb_strip::<LANES>(sums, at, block.start + at, weights, &mut group, &mut corpus));
        }
        for at in whole..block.len() {
            lanes[0] += absorb_strip::<1>(sums, at, block.start + at, weights, &mut group, &mut corpus)[0];
        }
    }
    *m2 += fold(lanes);
}

/// Some components enter their group and the corpus. Returns what the group's M2 grows by.
#[inline(always)]
fn absorb_strip<const W: usize>(
    sums: &GroupSums,
    at: usize,
    start: usize,
    [own, all]: [Weights; 2],
    group: &mut GroupVectors,
    corpus: &mut CorpusVectors,
) -> [f64; W] {
    let (new_mean, new_m2) = sums.moments::<W>(at, all.each);
    sums.join_corpus(new_mean, new_m2, at, start, all, corpus);
    join(new_mean, new_m2, [0.0; W], start, own, group)
}
