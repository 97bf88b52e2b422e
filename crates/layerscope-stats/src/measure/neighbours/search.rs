//! The search itself: pairs of blocks on several threads.

use std::sync::{Mutex, MutexGuard};

use layerscope_compute::cpu::{Floats, Isa};
use layerscope_compute::for_each_isa;

use super::cloud::{BLOCK, Cloud, ROUNDING};
use super::filter::{Filter, STRIP, Side};
use super::{Near, guess};
use crate::kernels::prefetch;
use crate::vectors::{square_distance_f32, square_distance_narrow};
use layerscope_compute::parallel::{in_order, in_order_with};

/// The `k` nearest others of each of `rows`, ascending, row by row; `k` must be less than their number.
pub(super) fn nearest(states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) -> Vec<Near> {
    assert!(k < rows.len(), "{k} neighbours among {} points", rows.len());
    let isa = Isa::detect();
    let cloud = Cloud::new(states, dim, rows, threads);
    let filter = Filter::new(&cloud, threads);
    let guesses = guess::bounds(isa, &cloud, &filter, k, threads);
    let filter = filter.or_better(isa, &cloud, &guesses, threads);
    let sides = &filter.sides;
    let mut search = Search::new(isa, &cloud, k, &guesses);
    let pairs: Vec<(usize, usize)> = (0..sides.len()).flat_map(|j| (0..=j).map(move |i| (i, j))).collect();
    let memory = || (vec![0.0f32; BLOCK * BLOCK], Floats::default());
    in_order_with(threads, pairs.len(), memory, |(products, packed), at| {
        let (i, j) = pairs[at];
        sides[i].multiply(isa, &sides[j], products, packed);
        search.compare(products, (i, &sides[i]), (j, &sides[j]));
    });
    // Again, and without a guess, the rows whose guess was too small.
    let failed = search.take_failed();
    let failed: Vec<&[u32]> = failed.chunks(BLOCK).collect();
    in_order_with(threads, failed.len(), memory, |(products, packed), at| {
        let own = filter.side(&cloud, failed[at]);
        for side in sides {
            own.multiply(isa, side, products, packed);
            search.compare_alone(products, &own, side);
        }
    });
    in_order(threads, sides.len(), |block| search.exact(block, states, rows)).concat()
}

struct Search<'a> {
    isa: Isa,
    cloud: &'a Cloud,
    k: usize,
    /// What the rounding of a squared distance in f32 can do to it, as a part of each row.
    slacks: Vec<f32>,
    /// By blocks.
    found: Vec<Mutex<Vec<Candidates>>>,
}

/// What may be among the nearest of a row.
struct Candidates {
    /// What is farther (squared) is not looked at.
    guess: f32,
    /// The k smallest upper bounds of squared distances, ascending.
    bounds: Vec<f32>,
    /// Lower bounds and places of all that may be nearer than the largest of those.
    near: Vec<(f32, u32)>,
    prune_at: usize,
}

impl<'a> Search<'a> {
    fn new(isa: Isa, cloud: &'a Cloud, k: usize, guesses: &[f32]) -> Search<'a> {
        // A sum of d squares in 64 lanes is off by at most (d / 64 + 10) u of itself, and ||a - b||^2 <= 2 (||a||^2 + ||b||^2); centring and rounding
        // states adds at most 4 u (||a||^2 + ||b||^2).
        let rounding = (cloud.dim as f64 / 32.0 + 32.0) * ROUNDING;
        let block = |guesses: &[f32]| Mutex::new(guesses.iter().map(|guess| Candidates::new(k, *guess)).collect());
        Search {
            isa,
            cloud,
            k,
            slacks: cloud.squares.iter().map(|square| (square * rounding + 1e-37) as f32).collect(),
            found: guesses.chunks(BLOCK).map(block).collect(),
        }
    }

    fn lock(&self, block: usize) -> MutexGuard<'_, Vec<Candidates>> {
        self.found[block].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Measures what the filter lets pass among the products of a block with itself or with a later one.
    fn compare(&self, products: &[f32], (block, left): (usize, &Side), (other_block, right): (usize, &Side)) {
        let mut ours = self.lock(block);
        let mut theirs = (block != other_block).then(|| self.lock(other_block));
        // The upper bound of each column less its low: what a product is compared with.
        let known = theirs.as_ref().unwrap_or(&ours).iter();
        let mut limits: Vec<f32> = known.zip(&right.lows).map(|(own, low)| own.bound(self.k) - low).collect();
        limits.resize(right.lows.len(), f32::NEG_INFINITY);
        let (mut masks, mut passing) = (vec![0u32; limits.len() / STRIP], Vec::new());
        for i in 0..left.places.len() {
            let row = &products[i * BLOCK..][..limits.len()];
            let mut limit = ours[i].bound(self.k) - left.lows[i];
            near_masks(self.isa, row, &right.lows, &limits, limit, left.lows[i], &mut masks);
            passing.clear();
            passing.extend(marked(&masks, right.places.len()));
            for (at, &j) in passing.iter().enumerate() {
                self.fetch(right, passing.get(at + 1));
                // Bounds may have come nearer since the mask was made; pairs of a block with itself come twice.
                let near = right.lows[j] - 2.0 * row[j] <= limit || left.lows[i] - 2.0 * row[j] <= limits[j];
                if !near || block == other_block && j <= i {
                    continue;
                }
                let (low, high) = self.distance(left.places[i], right.places[j]);
                let (own, other) = match &mut theirs {
                    Some(theirs) => (&mut ours[i], &mut theirs[j]),
                    None => {
                        let (before, from) = ours.split_at_mut(j);
                        (&mut before[i], &mut from[0])
                    }
                };
                limit = own.offer(self.k, low, high, right.places[j]) - left.lows[i];
                limits[j] = other.offer(self.k, low, high, left.places[i]) - right.lows[j];
            }
        }
    }

    /// The same for rows of one side alone.
    fn compare_alone(&self, products: &[f32], left: &Side, right: &Side) {
        let limits = vec![f32::NEG_INFINITY; right.lows.len()];
        let mut masks = vec![0u32; limits.len() / STRIP];
        for (i, &place) in left.places.iter().enumerate() {
            let row = &products[i * BLOCK..][..limits.len()];
            let own = &mut self.lock(place as usize / BLOCK)[place as usize % BLOCK];
            near_masks(self.isa, row, &right.lows, &limits, own.bound(self.k) - left.lows[i], left.lows[i], &mut masks);
            for j in marked(&masks, right.places.len()) {
                let near = right.lows[j] - 2.0 * row[j] <= own.bound(self.k) - left.lows[i];
                if near && right.places[j] != place {
                    let (low, high) = self.distance(place, right.places[j]);
                    own.offer(self.k, low, high, right.places[j]);
                }
            }
        }
    }

    /// Has the row of a column on its way from memory before it is needed.
    fn fetch(&self, side: &Side, column: Option<&usize>) {
        if let Some(&column) = column {
            prefetch_row(self.cloud.row(side.places[column] as usize));
        }
    }

    /// Bounds of a squared distance.
    fn distance(&self, a: u32, b: u32) -> (f32, f32) {
        let (a, b) = (a as usize, b as usize);
        let distance = square_distance_narrow(self.isa, self.cloud.row(a), self.cloud.row(b));
        let slack = self.slacks[a] + self.slacks[b];
        (distance - slack, distance + slack)
    }

    /// Empties the rows that have found fewer than k within their guess, and returns them.
    fn take_failed(&mut self) -> Vec<u32> {
        let blocks = self.found.iter_mut().map(|block| block.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let failed = (0..).zip(blocks.flatten()).filter(|(_, own)| !own.is_complete(self.k));
        failed
            .map(|(place, own)| {
                *own = Candidates::new(self.k, f32::INFINITY);
                place
            })
            .collect()
    }

    /// The k nearest of every row of a block, measured in f64.
    fn exact(&self, block: usize, states: &[f32], rows: &[u32]) -> Vec<Near> {
        let state = |place: u32| &states[rows[place as usize] as usize * self.cloud.dim..][..self.cloud.dim];
        let mut found = Vec::with_capacity(self.k * BLOCK);
        for (place, candidates) in (block as u32 * BLOCK as u32..).zip(self.lock(block).iter_mut()) {
            candidates.prune(self.k);
            let near = &candidates.near;
            let exact = |(at, &(_, row)): (usize, &(f32, u32))| {
                near.get(at + 1).iter().for_each(|(_, next)| prefetch_row(state(*next)));
                Near { square: square_distance_f32(self.isa, state(place), state(row)), row }
            };
            let mut exact: Vec<Near> = near.iter().enumerate().map(exact).collect();
            exact.sort_unstable_by(Near::order);
            found.extend_from_slice(&exact[..self.k]);
            candidates.near = Vec::new();
        }
        found
    }
}

fn prefetch_row(row: &[f32]) {
    row.chunks(16).for_each(|line| prefetch(line.as_ptr(), true));
}

/// Columns below `count` whose bits are set.
pub(super) fn marked(masks: &[u32], count: usize) -> impl Iterator<Item = usize> {
    let bits = |(strip, &mask): (usize, &u32)| {
        let mut mask = mask;
        std::iter::from_fn(move || {
            let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
            mask &= mask - 1;
            Some(strip * STRIP + bit)
        })
    };
    masks.iter().enumerate().flat_map(bits).take_while(move |column| *column < count)
}

for_each_isa! {
    /// For every strip of columns, which of them may be near, for the row or for the column.
    pub(super) fn near_masks = near_masks_body;
    (row: &[f32], lows: &[f32], limits: &[f32], limit: f32, low: f32, masks: &mut [u32])
}

#[inline(always)]
fn near_masks_body(row: &[f32], lows: &[f32], limits: &[f32], limit: f32, low: f32, masks: &mut [u32]) {
    let strips = row.as_chunks::<STRIP>().0.iter().zip(lows.as_chunks::<STRIP>().0).zip(limits.as_chunks::<STRIP>().0);
    for (((row, lows), limits), mask) in strips.zip(masks) {
        let mut near = [0u32; STRIP];
        for j in 0..STRIP {
            near[j] = u32::from((lows[j] - 2.0 * row[j] <= limit) | (low - 2.0 * row[j] <= limits[j])) << j;
        }
        *mask = near.iter().fold(0, |all, near| all | near);
    }
}

impl Candidates {
    fn new(k: usize, guess: f32) -> Candidates {
        Candidates { guess, bounds: Vec::with_capacity(k + 1), near: Vec::new(), prune_at: 8 * k + 64 }
    }

    /// Whether k are known to be within the guess, and so all that are nearer than the k-th of them.
    fn is_complete(&self, k: usize) -> bool {
        self.bounds.len() == k && self.bounds.last().is_some_and(|last| *last <= self.guess)
    }

    /// Takes what may be near and returns the upper bound of the k-th nearest.
    fn offer(&mut self, k: usize, low: f32, high: f32, place: u32) -> f32 {
        let bound = self.bound(k);
        if low > bound {
            return bound;
        }
        self.near.push((low, place));
        if self.bounds.get(k - 1).is_none_or(|last| high < *last) {
            let at = self.bounds.partition_point(|bound| *bound <= high);
            self.bounds.insert(at, high);
            self.bounds.truncate(k);
        }
        if self.near.len() >= self.prune_at {
            self.prune(k);
            self.prune_at = 2 * self.near.len() + 64;
        }
        self.bound(k)
    }

    fn bound(&self, k: usize) -> f32 {
        self.bounds.get(k - 1).map_or(self.guess, |last| last.min(self.guess))
    }

    fn prune(&mut self, k: usize) {
        let bound = self.bound(k);
        self.near.retain(|(low, _)| *low <= bound);
    }
}
