//! The inner loops: strips of sixteen components over the rows of a chunk, sums in f64.
//!
//! Every loop is compiled for each instruction set. There is no fused multiply-add, and sums across components go in sixteen
//! fixed lanes, so all of them give the same bits.

use layerscope_compute::for_each_isa;

use crate::rows::Chunk;

/// Components per strip: one cache line of f32, and few enough f64 sums to live in registers.
const LANES: usize = 16;

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
    let mut lanes = [0.0; LANES];
    let whole = chunk.dim - chunk.dim % LANES;
    if let [row] = *chunk.rows {
        for start in (0..whole).step_by(LANES) {
            absorb_row::<LANES>(&chunk, row, start, weights, &mut into, &mut lanes);
        }
        for start in whole..chunk.dim {
            absorb_row::<1>(&chunk, row, start, weights, &mut into, &mut lanes);
        }
    } else {
        for start in (0..whole).step_by(LANES) {
            absorb_rows::<LANES>(&chunk, start, weights, &mut into, &mut lanes);
        }
        for start in whole..chunk.dim {
            absorb_rows::<1>(&chunk, start, weights, &mut into, &mut lanes);
        }
    }
    *m2 += fold(lanes);
}

/// The common case of a group with one row in the batch: its mean is the row and its deviation 0.
#[inline(always)]
fn absorb_row<const W: usize>(chunk: &Chunk, row: u32, start: usize, weights: Weights, into: &mut GroupVectors, lanes: &mut [f64; LANES]) {
    let x = strip::<W>(chunk, row, start);
    let inverse = chunk.inverses[row as usize];
    let mean = window::<W>(into.mean, start);
    let unit = window::<W>(into.unit, start);
    let within = window::<W>(into.within, start);
    let lane = first_lane::<W>(start);
    for l in 0..W {
        let delta = x[l] - mean[l];
        let grown = delta * delta * weights.cross;
        within[l] += grown;
        lanes[lane + l] += grown;
        mean[l] += delta * weights.share;
        unit[l] += (x[l] * inverse - unit[l]) * weights.unit_share;
    }
}

#[inline(always)]
fn absorb_rows<const W: usize>(chunk: &Chunk, start: usize, weights: Weights, into: &mut GroupVectors, lanes: &mut [f64; LANES]) {
    let (sum, units) = sums::<W>(chunk, start);
    let (center, m2) = two_pass::<W>(chunk, start, &sum, weights.n);
    let mean = window::<W>(into.mean, start);
    let unit = window::<W>(into.unit, start);
    let within = window::<W>(into.within, start);
    let lane = first_lane::<W>(start);
    for l in 0..W {
        let delta = center[l] - mean[l];
        let grown = m2[l] + delta * delta * weights.cross;
        within[l] += grown;
        lanes[lane + l] += grown;
        mean[l] += delta * weights.share;
        unit[l] += (units[l] / weights.units - unit[l]) * weights.unit_share;
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
    let (sum, units) = sums::<W>(chunk, start);
    let (mut squares, mut unit_squares) = ([0.0; W], [0.0; W]);
    for &row in chunk.rows {
        let x = strip::<W>(chunk, row, start);
        let inverse = chunk.inverses[row as usize];
        for l in 0..W {
            squares[l] += x[l] * x[l];
            let unit = x[l] * inverse;
            unit_squares[l] += unit * unit;
        }
    }
    let (center, own) = two_pass::<W>(chunk, start, &sum, weights.n);
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
    let whole = chunk.dim - chunk.dim % LANES;
    for start in (0..whole).step_by(LANES) {
        let (sum, units) = sums::<LANES>(&chunk, start);
        for l in 0..LANES {
            across[l] += sum[l] * units[l];
            square[l] += sum[l] * sum[l];
        }
    }
    for start in whole..chunk.dim {
        let ([sum], [unit]) = sums::<1>(&chunk, start);
        across[start % LANES] += sum * unit;
        square[start % LANES] += sum * sum;
    }
    *products = SumProducts { across: fold(across), square: fold(square) };
}

/// Sums of states and of unit vectors over the rows.
#[inline(always)]
fn sums<const W: usize>(chunk: &Chunk, start: usize) -> ([f64; W], [f64; W]) {
    let (mut sum, mut units) = ([0.0; W], [0.0; W]);
    for &row in chunk.rows {
        let x = strip::<W>(chunk, row, start);
        let inverse = chunk.inverses[row as usize];
        for l in 0..W {
            sum[l] += x[l];
            units[l] += x[l] * inverse;
        }
    }
    (sum, units)
}

/// Mean and sum of squared deviations, each corrected by the rounding that the first pass left behind.
#[inline(always)]
fn two_pass<const W: usize>(chunk: &Chunk, start: usize, sum: &[f64; W], n: f64) -> ([f64; W], [f64; W]) {
    let mut center = sum.map(|sum| sum / n);
    let (mut left, mut m2) = ([0.0; W], [0.0; W]);
    for &row in chunk.rows {
        let x = strip::<W>(chunk, row, start);
        for l in 0..W {
            let deviation = x[l] - center[l];
            left[l] += deviation;
            m2[l] += deviation * deviation;
        }
    }
    for l in 0..W {
        let correction = left[l] / n;
        let corrected = m2[l] - left[l] * correction;
        m2[l] = if corrected > 0.0 { corrected } else { 0.0 };
        center[l] += correction;
    }
    (center, m2)
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

/// Whole strips start at lane 0; single components go to the lane they would have had in a strip.
#[inline(always)]
fn first_lane<const W: usize>(start: usize) -> usize {
    if W == LANES { 0 } else { start % LANES }
}

/// Halves the lanes until one is left.
#[inline(always)]
fn fold(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}
