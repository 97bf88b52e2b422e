//! The inner loops: blocks of components over the rows of a chunk, sums in f64.
//!
//! Every loop is compiled for each instruction set. Multiply-adds are fused on all of them, and sums across components go in sixteen
//! fixed lanes, so all of them give the same bits.

use std::ops::Range;

use layerscope_compute::for_each_isa;

use crate::rows::Chunk;

/// Components per strip: one cache line of f32, and few enough f64 sums to live in registers.
pub(crate) const LANES: usize = 16;

/// Components whose sums are taken together: they stay in the first-level cache while the rows pass by.
const BLOCK: usize = 128;

fn blocks(dim: usize) -> impl Iterator<Item = Range<usize>> {
    (0..dim).step_by(BLOCK).map(move |start| start..dim.min(start + BLOCK))
}

/// Sums over the rows of a chunk, of the components of a block.
trait Sums {
    /// Adds component `l` of some rows, with 1 / ||x|| of each.
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]);
}

/// Adds all rows, four at a time: sums are read and written once for all of them.
#[inline(always)]
fn add_rows<S: Sums>(chunk: &Chunk, block: &Range<usize>, sums: &mut S) {
    let (fours, rest) = chunk.rows.as_chunks::<4>();
    for rows in fours {
        add_some(chunk, block, *rows, sums);
    }
    for &row in rest {
        add_some(chunk, block, [row], sums);
    }
}

#[inline(always)]
fn add_some<const R: usize, S: Sums>(chunk: &Chunk, block: &Range<usize>, rows: [u32; R], sums: &mut S) {
    let width = block.len().min(BLOCK);
    let mut states = [&chunk.states[..width]; R];
    let mut inverses = [0.0; R];
    for r in 0..R {
        states[r] = &chunk.states[rows[r] as usize * chunk.dim + block.start..][..width];
        inverses[r] = chunk.inverses[rows[r] as usize];
    }
    for l in 0..width {
        let mut x = [0.0; R];
        for r in 0..R {
            x[r] = f64::from(states[r][l]);
        }
        sums.add(l, x, inverses);
    }
}

for_each_isa! {
    /// ||x||^2 of every row.
    pub(crate) fn square_norms = square_norms_body; (states: &[f32], dim: usize, squares: &mut [f64])
}

#[inline(always)]
fn square_norms_body(states: &[f32], dim: usize, squares: &mut [f64]) {
    for (row, square) in states.chunks_exact(dim).zip(squares) {
        let (strips, rest) = row.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for strip in strips {
            let x = strip.map(f64::from);
            lanes = fused(x, x, lanes);
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = f64::from(x).mul_add(f64::from(x), *lane);
        }
        *square = fold(lanes);
    }
}

/// The moments of one group as vectors, and the sum over groups of squared deviations per component.
pub(crate) struct GroupVectors<'a> {
    pub mean: &'a mut [f64],
    pub unit: &'a mut [f64],
    pub within: &'a mut [f64],
    /// Where mean and unit of the next group lie: groups are scattered over memory, so theirs are fetched while this one is computed.
    pub next: [*const f64; 2],
}

impl GroupVectors<'_> {
    /// Asks for the part of the next group's vectors that corresponds to a strip.
    #[inline(always)]
    fn prefetch(&self, start: usize) {
        #[cfg(target_arch = "x86_64")]
        for line in [start, start + LANES / 2] {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
            unsafe { self.next.iter().for_each(|vector| _mm_prefetch::<_MM_HINT_T0>(vector.wrapping_add(line).cast())) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }
}

/// How new rows enter a running mean.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    /// Rows that enter.
    pub n: f64,
    /// n_b / (n_a + n_b).
    pub share: f64,
    /// n_a n_b / (n_a + n_b).
    pub cross: f64,
    /// Non-zero rows that enter, and their share; zero if none do.
    pub units: f64,
    pub unit_share: f64,
}

impl Weights {
    /// For `n` rows, of which `units` are non-zero, joining `before.0` rows, of which `before.1` are non-zero.
    pub fn new(before: (u64, u64), n: u64, units: u64) -> Weights {
        let (a, b) = (before.0 as f64, n as f64);
        let share = b / (a + b);
        let unit_share = if units == 0 { 0.0 } else { units as f64 / (before.1 + units) as f64 };
        Weights { n: b, share, cross: a * share, units: units.max(1) as f64, unit_share }
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
    for block in blocks(chunk.dim) {
        let whole = block.end - block.len() % LANES;
        if let [row] = *chunk.rows {
            for start in (block.start..whole).step_by(LANES) {
                into.prefetch(start);
                lanes = plus(lanes, absorb_row::<LANES>(&chunk, row, start, weights, &mut into));
            }
            for start in whole..block.end {
                tail += absorb_row::<1>(&chunk, row, start, weights, &mut into)[0];
            }
        } else {
            let sums = GroupSums::of(&chunk, &block);
            for start in (block.start..whole).step_by(LANES) {
                into.prefetch(start);
                lanes = plus(lanes, sums.absorb::<LANES>(start - block.start, start, weights, &mut into));
            }
            for start in whole..block.end {
                tail += sums.absorb::<1>(start - block.start, start, weights, &mut into)[0];
            }
        }
    }
    *m2 += fold(lanes) + tail;
}

/// The common case of a group with one row in the batch: its mean is the row and its deviation 0. Returns what M2 grows by.
#[inline(always)]
fn absorb_row<const W: usize>(chunk: &Chunk, row: u32, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
    let values = &chunk.states[row as usize * chunk.dim + start..][..W];
    let inverse = chunk.inverses[row as usize];
    let (mut x, mut unit) = ([0.0; W], [0.0; W]);
    for l in 0..W {
        x[l] = f64::from(values[l]);
        unit[l] = x[l] * inverse;
    }
    merge_strip(start, weights, into, x, [0.0; W], unit)
}

/// Chan's update of one strip with the chunk's own mean, M2 and mean unit vector.
#[inline(always)]
fn merge_strip<const W: usize>(
    start: usize,
    weights: Weights,
    into: &mut GroupVectors,
    own_mean: [f64; W],
    own_m2: [f64; W],
    own_unit: [f64; W],
) -> [f64; W] {
    let (mean, unit, within) = (&mut into.mean[start..][..W], &mut into.unit[start..][..W], &mut into.within[start..][..W]);
    let mut grown = [0.0; W];
    for l in 0..W {
        let delta = own_mean[l] - mean[l];
        grown[l] = own_m2[l] + delta * delta * weights.cross;
        mean[l] += delta * weights.share;
        within[l] += grown[l];
        unit[l] += (own_unit[l] - unit[l]) * weights.unit_share;
    }
    grown
}

/// Sums of the deviations of a chunk's rows from its first one, of their squares and of unit vectors.
struct GroupSums {
    origin: [f64; BLOCK],
    deviation: [f64; BLOCK],
    square: [f64; BLOCK],
    unit: [f64; BLOCK],
}

impl GroupSums {
    #[inline(always)]
    fn of(chunk: &Chunk, block: &Range<usize>) -> GroupSums {
        let zero = [0.0; BLOCK];
        let mut sums = GroupSums { origin: row_of(chunk, chunk.rows[0], block), deviation: zero, square: zero, unit: zero };
        add_rows(chunk, block, &mut sums);
        sums
    }

    /// Merges a strip, which begins at `at` here and at `start` there. Returns what M2 grows by.
    #[inline(always)]
    fn absorb<const W: usize>(&self, at: usize, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
        let (origin, deviation, square, sum) =
            (&self.origin[at..][..W], &self.deviation[at..][..W], &self.square[at..][..W], &self.unit[at..][..W]);
        let (mut mean, mut m2, mut unit) = ([0.0; W], [0.0; W], [0.0; W]);
        for l in 0..W {
            (mean[l], m2[l]) = moments(origin[l], deviation[l], square[l], weights.n);
            unit[l] = sum[l] / weights.units;
        }
        merge_strip(start, weights, into, mean, m2, unit)
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

/// Moments of all rows as vectors.
pub(crate) struct CorpusVectors<'a> {
    pub mean: &'a mut [f64],
    pub m2: &'a mut [f64],
    pub square: &'a mut [f64],
    pub unit: &'a mut [f64],
    pub unit_square: &'a mut [f64],
}

for_each_isa! {
    /// Merges a chunk's own moments, component by component, into those of all rows.
    pub(crate) fn absorb_corpus = absorb_corpus_body; (chunk: Chunk, weights: Weights, into: CorpusVectors)
}

#[inline(always)]
fn absorb_corpus_body(chunk: Chunk, weights: Weights, into: CorpusVectors) {
    for block in blocks(chunk.dim) {
        let (zero, origin) = ([0.0; BLOCK], row_of(&chunk, chunk.rows[0], &block));
        let mut own = CorpusSums { origin, deviation: zero, deviation_square: zero, square: zero, unit: zero, unit_square: zero };
        add_rows(&chunk, &block, &mut own);
        let width = block.len().min(BLOCK);
        let mean = &mut into.mean[block.clone()][..width];
        let m2 = &mut into.m2[block.clone()][..width];
        let square = &mut into.square[block.clone()][..width];
        let unit = &mut into.unit[block.clone()][..width];
        let unit_square = &mut into.unit_square[block][..width];
        for l in 0..width {
            let (own_mean, own_m2) = moments(own.origin[l], own.deviation[l], own.deviation_square[l], weights.n);
            let delta = own_mean - mean[l];
            m2[l] += own_m2 + delta * delta * weights.cross;
            mean[l] += delta * weights.share;
            square[l] += (own.square[l] / weights.n - square[l]) * weights.share;
            unit[l] += (own.unit[l] / weights.units - unit[l]) * weights.unit_share;
            unit_square[l] += (own.unit_square[l] / weights.units - unit_square[l]) * weights.unit_share;
        }
    }
}

/// Sums of the deviations of a chunk's rows from its first one, of their squares, of squares, unit vectors and their squares.
struct CorpusSums {
    origin: [f64; BLOCK],
    deviation: [f64; BLOCK],
    deviation_square: [f64; BLOCK],
    square: [f64; BLOCK],
    unit: [f64; BLOCK],
    unit_square: [f64; BLOCK],
}

impl Sums for CorpusSums {
    #[inline(always)]
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]) {
        for r in 0..R {
            let deviation = x[r] - self.origin[l];
            self.deviation[l] += deviation;
            self.deviation_square[l] = deviation.mul_add(deviation, self.deviation_square[l]);
            self.square[l] = x[r].mul_add(x[r], self.square[l]);
            let unit = x[r] * inverses[r];
            self.unit[l] += unit;
            self.unit_square[l] = unit.mul_add(unit, self.unit_square[l]);
        }
    }
}

/// Mean of `n` rows and the sum of squared deviations from it, from the sum of deviations from `origin` and of their squares.
///
/// The origin is one of the rows, so M2 >= |mean - origin|^2 n / (n - 1): the difference of the two terms is at least 1 / n of the
/// larger one, and n is at most the rows of a chunk.
#[inline(always)]
fn moments(origin: f64, deviation: f64, square: f64, n: f64) -> (f64, f64) {
    let moved = deviation / n;
    (origin + moved, (square - deviation * moved).max(0.0))
}

/// Inner products of the sum s of states and the sum u of unit vectors of a chunk.
#[derive(Clone, Copy, Default)]
pub(crate) struct SumProducts {
    /// s . u
    pub across: f64,
    /// ||s||^2
    pub square: f64,
}

for_each_isa! {
    /// The two inner products that the mean cosine with the mean state needs.
    pub(crate) fn sum_products = sum_products_body; (chunk: Chunk, products: &mut SumProducts)
}

#[inline(always)]
fn sum_products_body(chunk: Chunk, products: &mut SumProducts) {
    let (mut across, mut square) = ([0.0; LANES], [0.0; LANES]);
    for block in blocks(chunk.dim) {
        let mut sums = StateSums { state: [0.0; BLOCK], unit: [0.0; BLOCK] };
        add_rows(&chunk, &block, &mut sums);
        for (state, unit) in sums.state.as_chunks::<LANES>().0.iter().zip(sums.unit.as_chunks::<LANES>().0) {
            across = fused(*state, *unit, across);
            square = fused(*state, *state, square);
        }
    }
    *products = SumProducts { across: fold(across), square: fold(square) };
}

/// Sums of the rows of a chunk and of their unit vectors.
struct StateSums {
    state: [f64; BLOCK],
    unit: [f64; BLOCK],
}

impl Sums for StateSums {
    #[inline(always)]
    fn add<const R: usize>(&mut self, l: usize, x: [f64; R], inverses: [f64; R]) {
        for r in 0..R {
            self.state[l] += x[r];
            self.unit[l] = x[r].mul_add(inverses[r], self.unit[l]);
        }
    }
}

/// Components of a row as f64, and zeros beyond them.
#[inline(always)]
fn row_of(chunk: &Chunk, row: u32, block: &Range<usize>) -> [f64; BLOCK] {
    let values = &chunk.states[row as usize * chunk.dim..][block.clone()];
    let mut wide = [0.0; BLOCK];
    wide.iter_mut().zip(values).for_each(|(wide, &x)| *wide = f64::from(x));
    wide
}

#[inline(always)]
fn plus<const W: usize>(mut x: [f64; W], y: [f64; W]) -> [f64; W] {
    for l in 0..W {
        x[l] += y[l];
    }
    x
}

/// `x y + sum`, rounded once.
#[inline(always)]
pub(crate) fn fused<const W: usize>(x: [f64; W], y: [f64; W], mut sum: [f64; W]) -> [f64; W] {
    for l in 0..W {
        sum[l] = x[l].mul_add(y[l], sum[l]);
    }
    sum
}

/// Halves the lanes until one is left.
#[inline(always)]
pub(crate) fn fold(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}
