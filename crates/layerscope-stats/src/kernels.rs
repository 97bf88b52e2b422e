//! The inner loops: strips of sixteen components over the rows of a chunk, sums in f64.
//!
//! Every loop is compiled for each instruction set. There is no fused multiply-add, and sums across components go in sixteen
//! fixed lanes, so all of them give the same bits.

use layerscope_compute::for_each_isa;

use crate::rows::Chunk;

/// Components per strip: one cache line of f32, and few enough f64 sums to live in registers.
pub(crate) const LANES: usize = 16;

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
            for l in 0..LANES {
                let x = f64::from(strip[l]);
                lanes[l] += x * x;
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(x) * f64::from(x);
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
    /// Corrected two-pass moments of the chunk, then Chan, Golub & LeVeque's update:
    /// M2 = M2_a + M2_b + delta^2 n_a n_b / (n_a + n_b).
    pub(crate) fn absorb_group = absorb_group_body; (chunk: Chunk, weights: Weights, into: GroupVectors, m2: &mut f64)
}

#[inline(always)]
fn absorb_group_body(chunk: Chunk, weights: Weights, into: GroupVectors, m2: &mut f64) {
    let mut into = into;
    let (mut lanes, mut tail) = ([0.0; LANES], 0.0);
    let whole = chunk.dim - chunk.dim % LANES;
    if let [row] = *chunk.rows {
        for start in (0..whole).step_by(LANES) {
            into.prefetch(start);
            add(&mut lanes, absorb_row(&chunk, row, start, weights, &mut into));
        }
        for start in whole..chunk.dim {
            let [grown] = absorb_row(&chunk, row, start, weights, &mut into);
            tail += grown;
        }
    } else {
        for start in (0..whole).step_by(LANES) {
            into.prefetch(start);
            add(&mut lanes, absorb_rows(&chunk, start, weights, &mut into));
        }
        for start in whole..chunk.dim {
            let [grown] = absorb_rows(&chunk, start, weights, &mut into);
            tail += grown;
        }
    }
    *m2 += fold(lanes) + tail;
}

/// The common case of a group with one row in the batch: its mean is the row and its deviation 0. Returns what M2 grows by.
#[inline(always)]
fn absorb_row<const W: usize>(chunk: &Chunk, row: u32, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
    let x = strip::<W>(chunk, row, start);
    let inverse = chunk.inverses[row as usize];
    merge_strip(start, weights, into, x, [0.0; W], x.map(|x| x * inverse))
}

/// Returns what M2 grows by.
#[inline(always)]
fn absorb_rows<const W: usize>(chunk: &Chunk, start: usize, weights: Weights, into: &mut GroupVectors) -> [f64; W] {
    let (mean, m2) = two_pass::<W>(chunk, start, weights.n);
    let units = sum::<W>(chunk, start, |x, inverse, _| x * inverse);
    merge_strip(start, weights, into, mean, m2, units.map(|unit| unit / weights.units))
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
    let (mean, unit, within) = (window::<W>(into.mean, start), window::<W>(into.unit, start), window::<W>(into.within, start));
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
    let mut into = into;
    let whole = chunk.dim - chunk.dim % LANES;
    for start in (0..whole).step_by(LANES) {
        absorb_components::<LANES>(&chunk, start, weights, &mut into);
    }
    for start in whole..chunk.dim {
        absorb_components::<1>(&chunk, start, weights, &mut into);
    }
}

#[inline(always)]
fn absorb_components<const W: usize>(chunk: &Chunk, start: usize, weights: Weights, into: &mut CorpusVectors) {
    let (center, own) = two_pass::<W>(chunk, start, weights.n);
    let squares = sum::<W>(chunk, start, |x, _, _| x * x);
    let units = sum::<W>(chunk, start, |x, inverse, _| x * inverse);
    let unit_squares = sum::<W>(chunk, start, |x, inverse, _| (x * inverse) * (x * inverse));
    let mean = window::<W>(into.mean, start);
    let m2 = window::<W>(into.m2, start);
    let square = window::<W>(into.square, start);
    let unit = window::<W>(into.unit, start);
    let unit_square = window::<W>(into.unit_square, start);
    for l in 0..W {
        let delta = center[l] - mean[l];
        m2[l] += own[l] + delta * delta * weights.cross;
        mean[l] += delta * weights.share;
        square[l] += (squares[l] / weights.n - square[l]) * weights.share;
        unit[l] += (units[l] / weights.units - unit[l]) * weights.unit_share;
        unit_square[l] += (unit_squares[l] / weights.units - unit_square[l]) * weights.unit_share;
    }
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
    let mut tail = SumProducts::default();
    let whole = chunk.dim - chunk.dim % LANES;
    for start in (0..whole).step_by(LANES) {
        let states = sum::<LANES>(&chunk, start, |x, _, _| x);
        let units = sum::<LANES>(&chunk, start, |x, inverse, _| x * inverse);
        for l in 0..LANES {
            across[l] += states[l] * units[l];
            square[l] += states[l] * states[l];
        }
    }
    for start in whole..chunk.dim {
        let [state] = sum::<1>(&chunk, start, |x, _, _| x);
        let [unit] = sum::<1>(&chunk, start, |x, inverse, _| x * inverse);
        tail.across += state * unit;
        tail.square += state * state;
    }
    *products = SumProducts { across: fold(across) + tail.across, square: fold(square) + tail.square };
}

/// Sum over the rows of `term(x, 1 / ||x||, lane)`. One sum a loop: the compiler pairs up two sums of a loop, badly.
#[inline(always)]
fn sum<const W: usize>(chunk: &Chunk, start: usize, term: impl Fn(f64, f64, usize) -> f64) -> [f64; W] {
    let mut sum = [0.0; W];
    for &row in chunk.rows {
        let x = strip::<W>(chunk, row, start);
        let inverse = chunk.inverses[row as usize];
        for l in 0..W {
            sum[l] += term(x[l], inverse, l);
        }
    }
    sum
}

/// Mean and sum of squared deviations, each corrected by the rounding that the first pass left behind.
#[inline(always)]
fn two_pass<const W: usize>(chunk: &Chunk, start: usize, n: f64) -> ([f64; W], [f64; W]) {
    let mut mean = sum::<W>(chunk, start, |x, _, _| x).map(|sum| sum / n);
    let left = sum::<W>(chunk, start, |x, _, l| x - mean[l]);
    let mut m2 = sum::<W>(chunk, start, |x, _, l| (x - mean[l]) * (x - mean[l]));
    for l in 0..W {
        let correction = left[l] / n;
        let corrected = m2[l] - left[l] * correction;
        m2[l] = if corrected > 0.0 { corrected } else { 0.0 };
        mean[l] += correction;
    }
    (mean, m2)
}

/// `W` components of a row as f64.
#[inline(always)]
fn strip<const W: usize>(chunk: &Chunk, row: u32, start: usize) -> [f64; W] {
    let at = row as usize * chunk.dim + start;
    let values = &chunk.states[at..at + W];
    let mut wide = [0.0; W];
    for l in 0..W {
        wide[l] = f64::from(values[l]);
    }
    wide
}

#[inline(always)]
fn window<const W: usize>(values: &mut [f64], start: usize) -> &mut [f64] {
    &mut values[start..start + W]
}

#[inline(always)]
fn add<const W: usize>(sum: &mut [f64; W], values: [f64; W]) {
    for l in 0..W {
        sum[l] += values[l];
    }
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
