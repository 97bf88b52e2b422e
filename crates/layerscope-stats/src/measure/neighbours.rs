//! Exact distances to nearest neighbours.
//!
//! Rounded products tell of nearly all pairs that they are too far apart; those within the rounding bound are measured directly in f64.
//! Products of bytes come first where the machine is fast at them, until they let too many pairs pass; then those in f32 follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use layerscope_compute::cpu::{ByteRows, Epilogue, Floats, Isa, Panels, Part, Rows, multiply};
use layerscope_compute::for_each_isa;
use layerscope_compute::parallel::{in_order, in_order_with};

use crate::vectors::square_distance_f32;

/// Rows of a block: twice those that a product packs together, so that packing costs little (512 were 15 % slower, 2112 no faster).
const BLOCK: usize = 1056;

/// Columns looked at together.
const STRIP: usize = 32;

/// Products of bytes are worth while as long as they let fewer than one pair in so many pass.
const ONE_IN: usize = 16;

/// Different rows, the first of equal ones in the order given.
pub(super) fn without_duplicates(states: &[f32], dim: usize) -> Vec<u32> {
    let row = |row: u32| states[row as usize * dim..][..dim].iter().map(|x| (x + 0.0).to_bits()); // -0 is 0
    let mut order: Vec<u32> = (0..(states.len() / dim.max(1)) as u32).collect();
    order.sort_unstable_by(|&a, &b| row(a).cmp(row(b)).then(a.cmp(&b)));
    order.dedup_by(|later, first| row(*later).eq(row(*first)));
    order.sort_unstable();
    order
}

/// Distances from each of `rows` to its `k` nearest others, ascending, row by row; `k` must be less than their number.
pub(super) fn nearest(states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) -> Vec<f64> {
    assert!(k < rows.len(), "{k} neighbours among {} points", rows.len());
    let blocks = blocks_of(states, dim, rows, k, threads);
    let pairs: Vec<(usize, usize)> = (0..blocks.len()).flat_map(|j| (0..=j).map(move |i| (i, j))).collect();
    let isa = Isa::detect();
    let coarse = AtomicBool::new(blocks.iter().all(|block| block.bytes.is_some()));
    let memory = || (vec![0.0f32; BLOCK * BLOCK], Floats::default());
    in_order_with(threads, pairs.len(), memory, |(products, packed), at| {
        let (i, j) = pairs[at];
        let (left, right) = (&blocks[i], &blocks[j]);
        let bytes = left.bytes.as_ref().zip(right.bytes.as_ref()).filter(|_| coarse.load(Ordering::Relaxed));
        if let Some((left, right)) = bytes {
            left.multiply(right, products, BLOCK);
        } else {
            let a = Rows { data: &left.states, stride: dim, count: left.lows.len() };
            let b = right.panels.get_or_init(|| Panels::from_rows(&right.states, right.lows.len(), dim));
            multiply(isa, a, b, &Part::all(b), products, BLOCK, Epilogue::default(), packed);
        }
        let passed = compare(isa, products, bytes.is_some(), left, (i != j).then_some(right));
        if bytes.is_some() && passed > left.lows.len() * right.lows.len() / ONE_IN {
            coarse.store(false, Ordering::Relaxed);
        }
    });
    let found = in_order(threads, blocks.len(), |at| blocks[at].distances(isa, states, dim, rows, k, at * BLOCK));
    found.concat()
}

/// Rows that are compared together, and the nearest found of each so far.
struct Block {
    states: Vec<f32>,
    dim: usize,
    /// Made when the first product in f32 needs them.
    panels: OnceLock<Panels>,
    bytes: Option<ByteRows>,
    squares: Vec<f64>,
    /// ||a||^2 less and plus what the rounding of f32 products can do to a squared distance, and less what that of bytes can do.
    lows: Vec<f32>,
    highs: Vec<f32>,
    coarse_lows: Vec<f32>,
    first: u32,
    nearest: Mutex<Vec<Candidates>>,
}

/// What may be among the nearest of a row.
struct Candidates {
    k: usize,
    /// The k smallest upper bounds of squared distances, ascending.
    bounds: Vec<f32>,
    /// Lower bounds and rows of all that may be nearer than the largest of those.
    near: Vec<(f32, u32)>,
    prune_at: usize,
}

/// Centred, scaled so that nothing over- or underflows, and rounded to f32.
fn blocks_of(states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) -> Vec<Block> {
    let state = |row: u32| &states[row as usize * dim..][..dim];
    let parts: Vec<&[u32]> = rows.chunks(BLOCK).collect();
    let mut mean = vec![0.0; dim];
    for &row in rows {
        mean.iter_mut().zip(state(row)).for_each(|(mean, &x)| *mean += f64::from(x));
    }
    mean.iter_mut().for_each(|mean| *mean /= rows.len() as f64);
    let largest_of = |row: u32| state(row).iter().zip(&mean).fold(0.0f64, |largest, (&x, mean)| largest.max((f64::from(x) - mean).abs()));
    let largest = in_order(threads, parts.len(), |at| parts[at].iter().map(|&row| largest_of(row)).fold(0.0, f64::max));
    // No norm exceeds the largest component times sqrt(d).
    let largest = largest.into_iter().fold(0.0, f64::max) * (dim as f64).sqrt();
    let scale = if largest > 0.0 { 1.0 / largest } else { 1.0 };
    // |fl(a.b) - a.b| <= d u |a||b| <= d u (|a|^2 + |b|^2) / 2 with u = 2^-24; the rest is for rounding states, squares and bounds.
    let rounding = (dim as f64 + 32.0) * 2f64.powi(-24);
    let with_bytes = ByteRows::available(dim) && parts.len() > 1;
    let mut blocks = in_order(threads, parts.len(), |place| {
        let rows = parts[place];
        let mut states = Vec::with_capacity(rows.len() * dim);
        for &row in rows {
            states.extend(state(row).iter().zip(&mean).map(|(&x, mean)| ((f64::from(x) - mean) * scale) as f32));
        }
        let squares: Vec<f64> = states.chunks_exact(dim).map(|a| a.iter().map(|&x| f64::from(x).powi(2)).sum()).collect();
        let candidates = rows.iter().map(|_| Candidates { k, bounds: Vec::with_capacity(k + 1), near: Vec::new(), prune_at: 8 * k + 64 });
        Block {
            panels: OnceLock::new(),
            bytes: with_bytes.then(|| ByteRows::new(&states, dim)),
            lows: weights(&squares, -rounding),
            highs: weights(&squares, rounding),
            coarse_lows: Vec::new(),
            first: (place * BLOCK) as u32,
            nearest: Mutex::new(candidates.collect()),
            squares,
            states,
            dim,
        }
    });
    // With rows off by at most r |a|, products are off by at most (2 r + r^2) |a||b|.
    let lost = blocks.iter().filter_map(|block| block.bytes.as_ref()).fold(0.0, |most: f64, bytes| most.max(bytes.error()));
    let coarse_rounding = lost * (2.0 + lost) + 64.0 * 2f64.powi(-24);
    blocks.iter_mut().for_each(|block| block.coarse_lows = weights(&block.squares, -coarse_rounding));
    blocks
}

/// ||a||^2 (1 + rounding), and a little beyond for what underflows.
fn weights(squares: &[f64], rounding: f64) -> Vec<f32> {
    squares.iter().map(|square| (square * (1.0 + rounding) + rounding.signum() * 1e-37) as f32).collect()
}

/// Looks for near pairs among the products of two blocks, or of a block with itself, and counts them. Those that coarse products let
/// pass are measured.
fn compare(isa: Isa, products: &[f32], coarse: bool, left: &Block, right: Option<&Block>) -> usize {
    let mut ours = left.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut theirs = right.map(|right| right.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    let columns = right.unwrap_or(left);
    let (lows, column_lows) = if coarse { (&left.coarse_lows, &columns.coarse_lows) } else { (&left.lows, &columns.lows) };
    // The upper bound of each column less its low: what a product is compared with.
    let mut limits: Vec<f32> = match &theirs {
        Some(theirs) => theirs.iter().zip(column_lows).map(|(candidates, low)| candidates.bound() - low).collect(),
        None => vec![f32::NEG_INFINITY; column_lows.len()],
    };
    let (mut strips, mut near) = (Vec::new(), 0);
    for i in 0..lows.len() {
        let row = &products[i * BLOCK..][..column_lows.len()];
        let mut limit = ours[i].bound() - lows[i];
        strips.clear();
        near_strips(isa, row, column_lows, &limits, limit, lows[i], &mut strips);
        for &strip in &strips {
            for j in strip as usize..(strip as usize + STRIP).min(row.len()) {
                let near_left = column_lows[j] - 2.0 * row[j] <= limit;
                let near_right = lows[i] - 2.0 * row[j] <= limits[j];
                if !(near_left || near_right) || right.is_none() && i == j {
                    continue;
                }
                near += 1;
                let product = if coarse { left.product(isa, i, columns, j) } else { row[j] };
                let low = left.lows[i] + columns.lows[j] - 2.0 * product;
                let high = left.highs[i] + columns.highs[j] - 2.0 * product;
                if near_left {
                    limit = ours[i].add(low, high, columns.first + j as u32) - lows[i];
                }
                if let Some(theirs) = theirs.as_mut().filter(|_| near_right) {
                    limits[j] = theirs[j].add(low, high, left.first + i as u32) - column_lows[j];
                }
            }
        }
    }
    near
}

for_each_isa! {
    /// First columns of the strips in which a pair may be near, for the row or for the column.
    fn near_strips = near_strips_body;
    (row: &[f32], lows: &[f32], limits: &[f32], limit: f32, low: f32, strips: &mut Vec<u32>)
}

#[inline(always)]
fn near_strips_body(row: &[f32], lows: &[f32], limits: &[f32], limit: f32, low: f32, strips: &mut Vec<u32>) {
    let (whole, rest) = row.as_chunks::<STRIP>();
    for (place, ((row, lows), limits)) in whole.iter().zip(lows.as_chunks::<STRIP>().0).zip(limits.as_chunks::<STRIP>().0).enumerate() {
        let mut near = [false; STRIP];
        for j in 0..STRIP {
            near[j] = (lows[j] - 2.0 * row[j] <= limit) | (low - 2.0 * row[j] <= limits[j]);
        }
        if near.iter().fold(false, |any, near| any | near) {
            strips.push((place * STRIP) as u32);
        }
    }
    if !rest.is_empty() {
        strips.push((whole.len() * STRIP) as u32);
    }
}

impl Candidates {
    /// Adds a pair and returns the upper bound of the k-th nearest.
    fn add(&mut self, low: f32, high: f32, row: u32) -> f32 {
        self.near.push((low, row));
        if self.bounds.len() < self.k || self.bounds.last().is_some_and(|last| high < *last) {
            let place = self.bounds.partition_point(|bound| *bound <= high);
            self.bounds.insert(place, high);
            self.bounds.truncate(self.k);
        }
        if self.near.len() >= self.prune_at {
            self.prune();
            self.prune_at = 2 * self.near.len() + 64;
        }
        self.bound()
    }

    fn bound(&self) -> f32 {
        if self.bounds.len() < self.k { f32::INFINITY } else { self.bounds.last().copied().unwrap_or(f32::INFINITY) }
    }

    fn prune(&mut self) {
        let bound = self.bound();
        self.near.retain(|(low, _)| *low <= bound);
    }
}

impl Block {
    /// Product of a row with one of another block.
    fn product(&self, isa: Isa, row: usize, other: &Block, other_row: usize) -> f32 {
        let (a, b) = (&self.states[row * self.dim..][..self.dim], &other.states[other_row * self.dim..][..self.dim]);
        ((self.squares[row] + other.squares[other_row] - square_distance_f32(isa, a, b)) / 2.0) as f32
    }

    /// Distances of its rows, the first of which is `rows[first]`, to their k nearest.
    fn distances(&self, isa: Isa, states: &[f32], dim: usize, rows: &[u32], k: usize, first: usize) -> Vec<f64> {
        let state = |row: u32| &states[row as usize * dim..][..dim];
        let mut nearest = self.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut distances = Vec::with_capacity(k * nearest.len());
        for (place, candidates) in nearest.iter_mut().enumerate() {
            candidates.prune();
            let own = state(rows[first + place]);
            let distance = |&(_, other): &(f32, u32)| square_distance_f32(isa, own, state(rows[other as usize]));
            let mut exact: Vec<f64> = candidates.near.iter().map(distance).collect();
            exact.sort_unstable_by(f64::total_cmp);
            distances.extend(exact[..k].iter().map(|square| square.sqrt()));
            candidates.near = Vec::new();
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::sample_hash;

    fn naive(states: &[f32], dim: usize, rows: &[u32], k: usize) -> Vec<f64> {
        let state = |row: u32| &states[row as usize * dim..][..dim];
        let distance =
            |a: u32, b: u32| state(a).iter().zip(state(b)).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum::<f64>().sqrt();
        rows.iter()
            .flat_map(|&a| {
                let mut all: Vec<f64> = rows.iter().filter(|b| **b != a).map(|&b| distance(a, b)).collect();
                all.sort_by(f64::total_cmp);
                all.truncate(k);
                all
            })
            .collect()
    }

    #[test]
    fn neighbours_are_exact_whatever_the_data() {
        let (rows, dim) = (2400, 21);
        let noise = |at: usize| (sample_hash(4, at as u64, 0) >> 40) as f32 / 16_777_216.0 - 0.5;
        let base: Vec<f32> = (0..rows * dim).map(noise).collect();
        let change = |change: &dyn Fn(usize, usize, f32) -> f32| -> Vec<f32> {
            base.iter().enumerate().map(|(at, x)| change(at / dim, at % dim, *x)).collect()
        };
        let kinds = [
            ("uniform", change(&|_, _, x| x)),
            ("two tight clusters far apart", change(&|row, _, x| x * 1e-4 + if row % 2 == 0 { 1000.0 } else { -1000.0 })),
            ("massive", change(&|row, i, x| if row % 50 == 0 && i == 3 { 3000.0 + x } else { x })),
            ("huge", change(&|_, _, x| x * 1e37)),
            ("tiny", change(&|_, _, x| x * 1e-37)),
            ("far from the origin", change(&|_, _, x| 5000.0 + x)),
            ("a line", change(&|row, i, _| (row * (i + 1)) as f32)),
        ];
        for (name, states) in kinds {
            let kept = without_duplicates(&states, dim);
            let theirs = naive(&states, dim, &kept, 5);
            for threads in [1, 3] {
                let ours = nearest(&states, dim, &kept, 5, threads);
                let far = ours.iter().zip(&theirs).find(|(ours, theirs)| (**ours - **theirs).abs() > 1e-13 * **theirs);
                assert_eq!((far, ours.len()), (None, theirs.len()), "{name}");
            }
        }
    }

    #[test]
    fn the_first_of_equal_rows_stays() {
        let states = [1.0, 2.0, 0.0, 3.0, 1.0, 2.0, -0.0, 3.0, 1.0, 2.5];
        assert_eq!(without_duplicates(&states, 2), [0, 1, 4]);
        assert_eq!(without_duplicates(&[], 2), [0u32; 0]);
    }
}
