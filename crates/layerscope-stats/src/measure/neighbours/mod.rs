//! Exact distances to nearest neighbours, of a cloud of points and of parts of it.
//!
//! `order.rs` puts rows that are near each other together, `guess.rs` guesses how far neighbours are, and `filter.rs` tells of nearly all pairs that they
//! are farther apart; what its bounds leave is measured in f64. What is found depends neither on threads nor on how good order, guess and filter are.

mod cloud;
mod filter;
mod guess;
mod order;
mod search;

use std::cmp::Ordering;

use layerscope_compute::cpu::Isa;

use self::search::{Candidate, Lists};
use crate::vectors::square_distance_f32;
use layerscope_compute::parallel::{in_order, in_parts};

/// Neighbours that are looked for beside those asked for, so that lists suffice for most points of a part of the cloud. With 36 neighbours, 3
/// points in 1000 do not have two in their own batch of 4096 out of 20,000; and in ten dimensions the 36th is only 6 % farther than the 20th.
const SPARE: usize = 16;

/// One in so many points of a part may be searched for directly; with more a search of its own is faster.
const ONE_IN: usize = 8;

/// Points whose lists are read together.
const MANY: usize = 512;

/// A neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Near {
    /// Its squared distance.
    square: f64,
    /// Its place among the rows searched.
    row: u32,
}

impl Near {
    fn order(&self, other: &Near) -> Ordering {
        self.square.total_cmp(&other.square).then(self.row.cmp(&other.row))
    }
}

/// The different rows of some states, and the nearest others of each.
pub(super) struct Neighbours {
    /// The first of equal rows, ascending.
    different: Vec<u32>,
    /// Of every row, its place among those.
    place: Vec<u32>,
    /// How many others each list holds.
    k: usize,
    lists: Vec<Near>,
    /// What else may be within reach of each, measured only where lists do not suffice.
    spare: Vec<Vec<Candidate>>,
    reach: Vec<f32>,
}

impl Neighbours {
    /// Looks for `k` and some spare ones, or as many as there are.
    pub fn new(states: &[f32], dim: usize, k: usize, threads: usize) -> Neighbours {
        let (different, place) = without_duplicates(states, dim);
        let others = different.len().saturating_sub(1);
        let k = k.min(others);
        let Lists { near, spare, reach } = match k {
            0 => Lists::default(),
            k => search::nearest(states, dim, &different, (k, SPARE.min(others - k)), threads),
        };
        Neighbours { different, place, k, lists: near, spare, reach }
    }

    /// Places of the different ones among these rows, ascending.
    pub fn different(&self, rows: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut members: Vec<u32> = rows.map(|row| self.place[row as usize]).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Distances from each of these different points to its `k` nearest others of them, ascending, point by point; `k` must be less than
    /// their number. `states` are those that were searched.
    pub fn distances(&self, states: &[f32], dim: usize, members: &[u32], k: usize, threads: usize) -> Vec<f64> {
        assert!(k < members.len(), "{k} neighbours among {} points", members.len());
        let mut is_member = vec![false; self.different.len()];
        members.iter().for_each(|place| is_member[*place as usize] = true);
        let state = |place: u32| &states[self.different[place as usize] as usize * dim..][..dim];
        let isa = Isa::detect();
        let square = |a: u32, b: u32| square_distance_f32(isa, state(a), state(b));
        let mut distances = vec![f64::NAN; members.len() * k];
        in_parts(threads, &mut distances, MANY * k, |part, distances| {
            for (own, place) in distances.chunks_exact_mut(k).zip(&members[part * MANY..]) {
                self.fill_known(*place, &is_member, square, own);
            }
        });
        let short: Vec<usize> = (0..members.len()).filter(|at| distances[at * k + k - 1].is_nan()).collect();
        if short.len() > members.len() / ONE_IN {
            let rows: Vec<u32> = members.iter().map(|place| self.different[*place as usize]).collect();
            return search::nearest(states, dim, &rows, (k, 0), threads).near.iter().map(|near| near.square.sqrt()).collect();
        }
        let searched = in_order(threads, short.len(), |at| {
            let place = members[short[at]];
            let others = members.iter().filter(|other| **other != place);
            let mut all: Vec<f64> = others.map(|other| square(place, *other)).collect();
            all.select_nth_unstable_by(k - 1, f64::total_cmp);
            all.truncate(k);
            all.sort_unstable_by(f64::total_cmp);
            all
        });
        short.iter().zip(searched).for_each(|(at, found)| distances[at * k..][..k].copy_from_slice(&found));
        distances.iter_mut().for_each(|distance| *distance = distance.sqrt());
        distances
    }

    /// Squared distances to the nearest members, as many as there is room for; the last stays as it is where what is known of a point does not suffice.
    fn fill_known(&self, place: u32, is_member: &[bool], square: impl Fn(u32, u32) -> f64, found: &mut [f64]) {
        let at = place as usize;
        let near = self.lists[at * self.k..][..self.k].iter().filter(|near| is_member[near.row as usize]);
        let listed = near.zip(found.iter_mut()).map(|(near, found)| *found = near.square).count();
        let missing = &mut found[listed..];
        if missing.is_empty() {
            return;
        }
        // Farther than all of the list: of these, the nearest are measured.
        let spare = || self.spare[at].iter().filter(|other| is_member[other.row as usize]);
        let mut highs: Vec<f32> = spare().map(|other| other.high).collect();
        highs.sort_unstable_by(f32::total_cmp);
        let Some(limit) = highs.get(missing.len() - 1).filter(|high| **high <= self.reach[at]) else { return };
        let mut others: Vec<f64> = spare().filter(|other| other.low <= *limit).map(|other| square(place, other.row)).collect();
        others.sort_unstable_by(f64::total_cmp);
        missing.copy_from_slice(&others[..missing.len()]);
    }
}

/// Different rows, the first of equal ones in the order given; and for every row its place among them.
fn without_duplicates(states: &[f32], dim: usize) -> (Vec<u32>, Vec<u32>) {
    let row = |row: u32| states[row as usize * dim..][..dim].iter().map(|x| (x + 0.0).to_bits()); // -0 is 0
    let mut order: Vec<u32> = (0..(states.len() / dim.max(1)) as u32).collect();
    order.sort_unstable_by(|&a, &b| row(a).cmp(row(b)).then(a.cmp(&b)));
    // The first of those that equal a row.
    let mut first = vec![0; order.len()];
    let mut last = None;
    for &at in &order {
        let equal = last.filter(|last| row(*last).eq(row(at))).unwrap_or(at);
        first[at as usize] = equal;
        last = Some(equal);
    }
    let different: Vec<u32> = (0..).zip(&first).filter(|(row, first)| row == *first).map(|(row, _)| row).collect();
    let place = first.iter().map(|first| different.partition_point(|row| row < first) as u32).collect();
    (different, place)
}

#[cfg(test)]
mod tests;
