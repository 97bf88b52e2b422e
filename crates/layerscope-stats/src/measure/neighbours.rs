//! Exact distances to nearest neighbours.
//!
//! Products in f32 tell of nearly all pairs that they are too far apart; those within the rounding bound are measured directly in f64.

use std::sync::Mutex;

use layerscope_compute::cpu::{Epilogue, Floats, Isa, Panels, Part, Rows, multiply};
use layerscope_compute::for_each_isa;

use super::parallel::{in_order, in_order_with};
use crate::vectors::square_distance_f32;

/// Rows of a block: twice those that a product packs together, so that packing costs little (512 were 15 % slower, 2112 no faster).
const BLOCK: usize = 1056;

/// Columns looked at together.
const STRIP: usize = 32;

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
    let memory = || (vec![0.0f32; BLOCK * BLOCK], Floats::default());
    in_order_with(threads, pairs.len(), memory, |(products, packed), at| {
        let (i, j) = pairs[at];
        let (left, right) = (&blocks[i], &blocks[j]);
        let a = Rows { data: &left.states, stride: dim, count: left.lows.len() };
        multiply(isa, a, &right.panels, &Part::all(&right.panels), products, BLOCK, Epilogue::default(), packed);
        compare(isa, products, left, (i != j).then_some(right));
    });
    let found = in_order(threads, blocks.len(), |at| blocks[at].distances(isa, states, dim, rows, k, at * BLOCK));
    found.concat()
}

/// Rows that are compared together, and the nearest found of each so far.
struct Block {
    states: Vec<f32>,
    panels: Panels,
    /// ||a||^2 less and plus what rounding can do to a squared distance.
    lows: Vec<f32>,
    highs: Vec<f32>,
    first: u32,
    nearest: Mutex<Nearest>,
}

struct Nearest {
    candidates: Vec<Candidates>,
    /// The upper bound of each less its low: what a product is compared with.
    limits: Vec<f32>,
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
    in_order(threads, parts.len(), |place| {
        let rows = parts[place];
        let mut states = Vec::with_capacity(rows.len() * dim);
        for &row in rows {
            states.extend(state(row).iter().zip(&mean).map(|(&x, mean)| ((f64::from(x) - mean) * scale) as f32));
        }
        let squares: Vec<f64> = states.chunks_exact(dim).map(|a| a.iter().map(|&x| f64::from(x).powi(2)).sum()).collect();
        let weight = |sign: f64| squares.iter().map(|square| (square * (1.0 + sign * rounding) + sign * 1e-37) as f32).collect();
        let candidates = rows.iter().map(|_| Candidates { k, bounds: Vec::with_capacity(k + 1), near: Vec::new(), prune_at: 8 * k + 64 });
        Block {
            panels: Panels::from_rows(&states, rows.len(), dim),
            lows: weight(-1.0),
            highs: weight(1.0),
            first: (place * BLOCK) as u32,
            nearest: Mutex::new(Nearest { candidates: candidates.collect(), limits: vec![f32::INFINITY; rows.len()] }),
            states,
        }
    })
}

/// Looks for near pairs among the products of two blocks, or of a block with itself.
fn compare(isa: Isa, products: &[f32], left: &Block, right: Option<&Block>) {
    let mut ours = left.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut theirs = right.map(|right| right.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    let columns = right.unwrap_or(left);
    let never = vec![f32::NEG_INFINITY; columns.lows.len()];
    let mut strips = Vec::new();
    for i in 0..left.lows.len() {
        let row = &products[i * BLOCK..][..columns.lows.len()];
        let limits = theirs.as_ref().map_or(never.as_slice(), |theirs| &theirs.limits);
        strips.clear();
        near_strips(isa, row, &columns.lows, limits, ours.limits[i], left.lows[i], &mut strips);
        for &strip in &strips {
            for j in strip as usize..(strip as usize + STRIP).min(row.len()) {
                if right.is_none() && i == j {
                    continue;
                }
                let low = left.lows[i] + columns.lows[j] - 2.0 * row[j];
                let high = left.highs[i] + columns.highs[j] - 2.0 * row[j];
                if columns.lows[j] - 2.0 * row[j] <= ours.limits[i] {
                    ours.limits[i] = ours.candidates[i].add(low, high, columns.first + j as u32) - left.lows[i];
                }
                if let Some(theirs) = theirs.as_mut()
                    && left.lows[i] - 2.0 * row[j] <= theirs.limits[j]
                {
                    theirs.limits[j] = theirs.candidates[j].add(low, high, left.first + i as u32) - columns.lows[j];
                }
            }
        }
    }
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
    /// Distances of its rows, the first of which is `rows[first]`, to their k nearest.
    fn distances(&self, isa: Isa, states: &[f32], dim: usize, rows: &[u32], k: usize, first: usize) -> Vec<f64> {
        let state = |row: u32| &states[row as usize * dim..][..dim];
        let mut nearest = self.nearest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut distances = Vec::with_capacity(k * nearest.candidates.len());
        for (place, candidates) in nearest.candidates.iter_mut().enumerate() {
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
