//! The inner loops: blocks of components over the rows of a chunk, sums in f64.
//!
//! Every loop is compiled for each instruction set. Multiply-adds are fused on all of them, and sums across components go in sixteen
//! fixed lanes, so all of them give the same bits.

mod plain;

pub(crate) use plain::{PlainSums, absorb_plain, add_plain};

use std::ops::Range;

use layerscope_compute::for_each_isa;

use crate::rows::Chunk;

/// Components per strip: one cache line of f32, and few enough f64 sums to live in registers.
pub(crate) const LANES: usize = 16;

/// Components whose sums are taken together: they stay in the first-level cache while the rows pass by.
const BLOCK: usize = 256;

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
    let (ahead, _) = chunk.ahead.as_chunks::<4>();
    for (place, rows) in fours.iter().enumerate() {
        let later = ahead.get(place).or(fours.get(place + 1)).unwrap_or(rows);
        add_some(chunk, block, *rows, *later, sums);
    }
    for &row in rest {
        add_some(chunk, block, [row], [row], sums);
    }
}

/// Components after which the next ones are fetched.
const STEP: usize = 64;

/// Adds some rows. They are scattered over memory: `later` ones are fetched meanwhile.
#[inline(always)]
fn add_some<const R: usize, S: Sums>(chunk: &Chunk, block: &Range<usize>, rows: [u32; R], later: [u32; R], sums: &mut S) {
    let mut inverses = [0.0; R];
    for r in 0..R {
        inverses[r] = chunk.inverses[rows[r] as usize];
    }
    let row = |row: u32| &chunk.states[row as usize * chunk.dim + block.start..][..block.len()];
    let mut states = [&[0.0; BLOCK]; R];
    if block.len() == BLOCK {
        for r in 0..R {
            states[r] = row(rows[r]).first_chunk().unwrap_or(states[r]);
        }
        add_states(chunk, states, inverses, later, block.start, sums);
    } else {
        // Components beyond the last are zero, and so are their sums.
        let mut padded = [[0.0; BLOCK]; R];
        for (r, (padded, states)) in padded.iter_mut().zip(&mut states).enumerate() {
            padded[..block.len()].copy_from_slice(row(rows[r]));
            *states = padded;
        }
        add_states(chunk, states, inverses, later, block.start, sums);
    }
}

#[inline(always)]
fn add_states<const R: usize, S: Sums>(
    chunk: &Chunk,
    states: [&[f32; BLOCK]; R],
    inverses: [f64; R],
    later: [u32; R],
    first: usize,
    sums: &mut S,
) {
    for start in (0..BLOCK).step_by(STEP) {
        for &row in &later {
            for line in (start..start + STEP).step_by(LANES) {
                prefetch(chunk.states.as_ptr().wrapping_add(row as usize * chunk.dim + first + line), false);
            }
        }
        for l in start..start + STEP {
            let mut x = [0.0; R];
            for r in 0..R {
                x[r] = f64::from(states[r][l]);
            }
            sums.add(l, x, inverses);
        }
    }
}

for_each_isa! {
    /// ||x||^2 of these rows, one after another.
    pub(crate) fn square_norms = square_norms_body; (states: &[f32], dim: usize, rows: &[u32], squares: &mut [f64])
}

#[inline(always)]
fn square_norms_body(states: &[f32], dim: usize, rows: &[u32], squares: &mut [f64]) {
    // Two rows at a time: one would wait for its own sums.
    let (pairs, last) = rows.as_chunks::<2>();
    let (square_pairs, last_square) = squares.as_chunks_mut::<2>();
    for (place, (rows, squares)) in pairs.iter().zip(square_pairs).enumerate() {
        let ahead = *pairs.get(place + AHEAD / 2).unwrap_or(rows);
        *squares = square_norms_of(states, dim, *rows, ahead);
    }
    for (&row, square) in last.iter().zip(last_square) {
        [*square] = square_norms_of(states, dim, [row], [row]);
    }
}

/// Rows that are asked for before their turn comes.
const AHEAD: usize = 4;

#[inline(always)]
fn square_norms_of<const R: usize>(states: &[f32], dim: usize, rows: [u32; R], ahead: [u32; R]) -> [f64; R] {
    let mut lanes = [[0.0; LANES]; R];
    let whole = dim - dim % LANES;
    for start in (0..whole).step_by(LANES) {
        for r in 0..R {
            prefetch(states.as_ptr().wrapping_add(ahead[r] as usize * dim + start), true);
            let strip = &states[rows[r] as usize * dim + start..][..LANES];
            for l in 0..LANES {
                lanes[r][l] = f64::from(strip[l]).mul_add(f64::from(strip[l]), lanes[r][l]);
            }
        }
    }
    let mut squares = [0.0; R];
    for r in 0..R {
        for (lane, &x) in lanes[r].iter_mut().zip(&states[rows[r] as usize * dim + whole..][..dim - whole]) {
            *lane = f64::from(x).mul_add(f64::from(x), *lane);
        }
        squares[r] = fold(lanes[r]);
    }
    squares
}

/// Asks for a line of memory: at once, or soon.
#[inline(always)]
fn prefetch<T>(address: *const T, at_once: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
        unsafe {
            match at_once {
                true => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
                false => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, at_once);
}

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
    fn prefetch(&self, start: usize) {
        for line in [start, start + LANES / 2] {
            prefetch(self.next[0].wrapping_add(line), true);
            prefetch(self.next[1].wrapping_add(line), true);
        }
    }
}

/// How new rows enter a running mean.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    /// 1 / n_b, of the rows that enter.
    pub each: f64,
    /// n_b / (n_a + n_b).
    pub share: f64,
    /// n_a n_b / (n_a + n_b).
    pub cross: f64,
    /// 1 / (non-zero rows that enter), and their share; 0 if none do.
    pub each_unit: f64,
    pub unit_share: f64,
}

impl Weights {
    /// For `n` rows, of which `units` are non-zero, joining `before.0` rows, of which `before.1` are non-zero.
    pub fn new(before: (u64, u64), n: u64, units: u64) -> Weights {
        let (a, b) = (before.0 as f64, n as f64);
        let share = b / (a + b);
        let unit_share = if units == 0 { 0.0 } else { units as f64 / (before.1 + units) as f64 };
        Weights { each: 1.0 / b, share, cross: a * share, each_unit: 1.0 / units.max(1) as f64, unit_share }
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
fn join<const W: usize>(
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

/// Sums of the deviations of a chunk's rows from its first one, of their squares and of unit vectors.
struct GroupSums {
    origin: [f64; BLOCK],
    deviation: [f64; BLOCK],
    square: [f64; BLOCK],
    unit: [f64; BLOCK],
}

impl GroupSums {
    #[inline(always)]
    fn new(chunk: &Chunk, block: &Range<usize>) -> GroupSums {
        let mut sums = GroupSums { origin: [0.0; BLOCK], deviation: [0.0; BLOCK], square: [0.0; BLOCK], unit: [0.0; BLOCK] };
        sums.start(chunk, block);
        sums
    }

    /// Of no rows yet, unit vectors excepted; the first one of the chunk is the origin.
    #[inline(always)]
    fn start(&mut self, chunk: &Chunk, block: &Range<usize>) {
        let values = &chunk.states[chunk.rows[0] as usize * chunk.dim..][block.clone()];
        for (origin, &x) in self.origin.iter_mut().zip(values) {
            *origin = f64::from(x);
        }
        self.deviation.fill(0.0);
        self.square.fill(0.0);
    }

    /// Merges a block into a group; `lanes` grow by what M2 grows by.
    #[inline(always)]
    fn absorb(&self, block: Range<usize>, weights: Weights, into: &mut GroupVectors, lanes: &mut [f64; LANES]) {
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
    fn absorb_into_corpus(&self, block: Range<usize>, weights: Weights, into: &mut CorpusVectors) {
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
    fn join_corpus<const W: usize>(
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
    fn moments<const W: usize>(&self, at: usize, each: f64) -> ([f64; W], [f64; W]) {
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
pub(crate) fn fold<const W: usize>(mut lanes: [f64; W]) -> f64 {
    let mut width = W / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}
