//! The search itself: pairs of blocks on several threads.

use std::sync::{Mutex, MutexGuard};

use layerscope_compute::cpu::Isa;

use super::cloud::{BLOCK, Cloud};
use super::filter::{Filter, Memory, STRIP, Side};
use super::{Near, guess, order};
use crate::kernels::prefetch;
use crate::vectors::square_distance_f32;
use layerscope_compute::parallel::{in_order, in_order_with};

/// Rows that are asked for before their turn comes.
const AHEAD: usize = 2;

/// Clouds of more rows are put in order first.
const ORDERED: usize = 4096;

/// The nearest others of rows, and what else may be near.
#[derive(Default)]
pub(super) struct Lists {
    /// The k nearest others of each row, ascending, row by row.
    pub near: Vec<Near>,
    /// All others that may be within reach of a row, in no order.
    pub spare: Vec<Vec<Candidate>>,
    /// The squared distance up to which all others of a row are among those.
    pub reach: Vec<f32>,
}

/// One that may be near.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// Bounds of its squared distance, centred and scaled.
    pub low: f32,
    pub high: f32,
    /// Its place among the rows searched.
    pub row: u32,
}

/// The `k` nearest others of each of `rows`, and roughly so many more; both together must be less than their number.
pub(super) fn nearest(states: &[f32], dim: usize, rows: &[u32], (k, more): (usize, usize), threads: usize) -> Lists {
    assert!(k + more < rows.len(), "{k} + {more} neighbours among {} points", rows.len());
    let isa = Isa::detect();
    let mut cloud = Cloud::new(isa, states, dim, rows, threads);
    if rows.len() > ORDERED {
        let order = order::of(isa, &cloud, threads);
        cloud = cloud.in_order(&order);
    }
    let filter = Filter::new(&cloud, threads);
    let guesses = guess::bounds(isa, &cloud, &filter, k + more, threads);
    let filter = filter.or_better(isa, &guesses, threads);
    let sides = &filter.sides;
    let mut search = Search::new(isa, &cloud, k + more, filter.is_coarse, &guesses);
    // Near blocks first; and blocks of pairs that follow each other are different ones, so that threads do not wait for each other.
    let pairs: Vec<(usize, usize)> = (0..sides.len()).flat_map(|apart| (apart..sides.len()).map(move |j| (j - apart, j))).collect();
    in_order_with(threads, pairs.len(), Memory::new, |memory, at| {
        let (i, j) = pairs[at];
        search.compare(memory, (i, &sides[i]), (j, &sides[j]));
    });
    // Again, and without a guess, the rows whose guess was too small.
    let failed = search.take_failed();
    let failed: Vec<&[u32]> = failed.chunks(failed.len().div_ceil(threads).clamp(1, BLOCK)).collect();
    in_order_with(threads, failed.len(), Memory::new, |memory, at| {
        let own = filter.side(failed[at]);
        sides.iter().for_each(|side| search.compare_alone(memory, &own, side));
    });
    let found = in_order(threads, sides.len(), |block| search.exact(block, k, more > 0));
    // In the order in which rows were given.
    let n = cloud.len();
    let mut lists = Lists { near: vec![Near::default(); n * k], spare: vec![Vec::new(); n], reach: vec![0.0; n] };
    for ((near, spare, reach), &given) in found.into_iter().flatten().zip(&cloud.given) {
        let given = given as usize;
        lists.near[given * k..][..k].copy_from_slice(&near);
        (lists.spare[given], lists.reach[given]) = (spare, reach);
    }
    lists
}

struct Search<'a> {
    isa: Isa,
    cloud: &'a Cloud<'a>,
    k: usize,
    /// Whether pairs are measured as soon as they pass the filter.
    measures: bool,
    /// By blocks.
    found: Vec<Mutex<Vec<Candidates>>>,
}

/// What may be among the nearest of a row.
struct Candidates {
    /// What is farther (squared) is not looked at.
    guess: f32,
    /// The same once k are known.
    bound: f32,
    /// All that is not.
    near: Vec<Candidate>,
    prune_at: usize,
}

impl<'a> Search<'a> {
    fn new(isa: Isa, cloud: &'a Cloud<'a>, k: usize, measures: bool, guesses: &[f32]) -> Search<'a> {
        let block = |guesses: &[f32]| Mutex::new(guesses.iter().map(|guess| Candidates::new(k, *guess)).collect());
        Search { isa, cloud, k, measures, found: guesses.chunks(BLOCK).map(block).collect() }
    }

    fn lock(&self, block: usize) -> MutexGuard<'_, Vec<Candidates>> {
        self.found[block].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes what the filter lets pass of a block with itself or with a later one.
    fn compare(&self, memory: &mut Memory, (block, left): (usize, &Side), (other_block, right): (usize, &Side)) {
        // What a product is compared with: the bound of each row less its low.
        let limits = |block: usize, side: &Side| -> Vec<f32> {
            let mut limits: Vec<f32> = self.lock(block).iter().zip(&side.lows).map(|(own, low)| own.bound - low).collect();
            limits.resize(side.lows.len(), f32::NEG_INFINITY);
            limits
        };
        let (mut own_limits, mut limits) = (limits(block, left), limits(other_block, right));
        left.multiply_near(self.isa, right, (&own_limits, &limits), memory);
        let mut ours = self.lock(block);
        let mut theirs = (block != other_block).then(|| self.lock(other_block));
        let (strips, mut passing) = (right.lows.len() / STRIP, Vec::new());
        for (i, masks) in memory.masks.chunks_exact(strips).enumerate().take(left.places.len()) {
            let row = &memory.products[i * BLOCK..][..BLOCK];
            passing.clear();
            passing.extend(marked(masks, right.places.len()));
            for (at, &j) in passing.iter().enumerate() {
                if self.measures {
                    passing.get(at + 1).iter().for_each(|next| prefetch_row(self.cloud.state(right.places[**next])));
                }
                // Bounds may have come nearer since the mask was made; pairs of a block with itself come twice.
                let near = right.lows[j] - 2.0 * row[j] <= own_limits[i] || left.lows[i] - 2.0 * row[j] <= limits[j];
                if !near || block == other_block && j <= i {
                    continue;
                }
                let (low, high) = self.distance((left, i), (right, j), row[j]);
                let (own, other) = match &mut theirs {
                    Some(theirs) => (&mut ours[i], &mut theirs[j]),
                    None => {
                        let (before, from) = ours.split_at_mut(j);
                        (&mut before[i], &mut from[0])
                    }
                };
                own_limits[i] = own.offer(self.k, Candidate { low, high, row: right.places[j] }) - left.lows[i];
                limits[j] = other.offer(self.k, Candidate { low, high, row: left.places[i] }) - right.lows[j];
            }
        }
    }

    /// The same for rows of one side alone.
    fn compare_alone(&self, memory: &mut Memory, left: &Side, right: &Side) {
        let none = vec![f32::NEG_INFINITY; right.lows.len()];
        let bound = |place: &u32| self.lock(*place as usize / BLOCK)[*place as usize % BLOCK].bound;
        let own_limits: Vec<f32> = left.places.iter().zip(&left.lows).map(|(place, low)| bound(place) - low).collect();
        left.multiply_near(self.isa, right, (&own_limits, &none), memory);
        let strips = right.lows.len() / STRIP;
        for ((i, &place), masks) in left.places.iter().enumerate().zip(memory.masks.chunks_exact(strips)) {
            let row = &memory.products[i * BLOCK..][..BLOCK];
            let own = &mut self.lock(place as usize / BLOCK)[place as usize % BLOCK];
            for j in marked(masks, right.places.len()) {
                let near = right.lows[j] - 2.0 * row[j] <= own.bound - left.lows[i];
                if near && right.places[j] != place {
                    let (low, high) = self.distance((left, i), (right, j), row[j]);
                    own.offer(self.k, Candidate { low, high, row: right.places[j] });
                }
            }
        }
    }

    /// Bounds of the squared distance between rows of two sides, whose product is given.
    fn distance(&self, (left, i): (&Side, usize), (right, j): (&Side, usize), product: f32) -> (f32, f32) {
        match self.measures {
            true => self.cloud.distance(left.places[i], right.places[j]),
            false => left.distance(i, right, j, product),
        }
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

    /// The k nearest of every row of a block, measured in f64; all else that may be within reach, if wanted; and how far that is.
    fn exact(&self, block: usize, k: usize, spare: bool) -> Vec<(Vec<Near>, Vec<Candidate>, f32)> {
        let given = |place: u32| self.cloud.given[place as usize];
        let (mut highs, mut exact): (Vec<f32>, Vec<(Near, Candidate)>) = Default::default();
        let of_row = |(place, candidates): (u32, &mut Candidates)| {
            let mut all = std::mem::take(&mut candidates.near);
            highs.clear();
            highs.extend(all.iter().map(|near| near.high));
            let (nearer, &mut reach, _) = highs.select_nth_unstable_by(self.k - 1, f32::total_cmp);
            let limit = if k < self.k { *nearer.select_nth_unstable_by(k - 1, f32::total_cmp).1 } else { reach };
            all.retain(|near| near.low <= reach);
            // Those to be measured first.
            let mut count = 0;
            for at in 0..all.len() {
                if all[at].low <= limit {
                    all.swap(at, count);
                    count += 1;
                }
            }
            let (near, far) = all.split_at(count);
            exact.clear();
            for (at, other) in near.iter().enumerate() {
                near.get(at + AHEAD).iter().for_each(|later| prefetch_row(self.cloud.state(later.row)));
                let square = square_distance_f32(self.isa, self.cloud.state(place), self.cloud.state(other.row));
                exact.push((Near { square, row: given(other.row) }, *other));
            }
            if k < count {
                exact.select_nth_unstable_by(k, |(a, _), (b, _)| a.order(b));
            }
            let (nearest, others) = exact.split_at_mut(k);
            nearest.sort_unstable_by(|(a, _), (b, _)| a.order(b));
            let others = others.iter().map(|(_, other)| other).chain(far).filter(|_| spare);
            let others = others.map(|other| Candidate { row: given(other.row), ..*other }).collect();
            (nearest.iter().map(|(near, _)| *near).collect(), others, reach)
        };
        (block as u32 * BLOCK as u32..).zip(self.lock(block).iter_mut()).map(of_row).collect()
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

impl Candidates {
    fn new(k: usize, guess: f32) -> Candidates {
        Candidates { guess, bound: guess, near: Vec::with_capacity(2 * k + 24), prune_at: 2 * k + 24 }
    }

    /// Takes what may be near and returns the bound of what may be.
    fn offer(&mut self, k: usize, near: Candidate) -> f32 {
        if near.low <= self.bound {
            self.near.push(near);
            if self.near.len() >= self.prune_at {
                self.prune(k);
                self.prune_at = self.prune_at.max(self.near.len() * 3 / 2);
            }
        }
        self.bound
    }

    /// Leaves out what k others are nearer than; there are more than k.
    fn prune(&mut self, k: usize) {
        let mut highs: Vec<f32> = self.near.iter().map(|near| near.high).collect();
        let (_, &mut last, _) = highs.select_nth_unstable_by(k - 1, f32::total_cmp);
        self.bound = last.min(self.guess);
        self.near.retain(|near| near.low <= self.bound);
    }

    /// Whether k are within the guess, so that all that are nearer than the k-th of them are known.
    fn is_complete(&self, k: usize) -> bool {
        self.near.iter().filter(|near| near.high <= self.guess).count() >= k
    }
}
