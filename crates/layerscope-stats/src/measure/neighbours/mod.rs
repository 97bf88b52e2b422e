//! Exact distances to nearest neighbours, of a cloud of points and of parts of it.
//!
//! `guess.rs` guesses how far neighbours are and `filter.rs` tells of nearly all pairs that they are farther apart; the others are measured in f32,
//! and those within its rounding bound of the nearest in f64. What is found depends neither on threads nor on how good guess and filter are.

mod cloud;
mod filter;
mod guess;
mod search;

use std::cmp::Ordering;

use layerscope_compute::cpu::Isa;

use crate::vectors::square_distance_f32;
use layerscope_compute::parallel::in_order;

/// Neighbours that are looked for beside those asked for, so that lists suffice for most points of a part of the cloud. With 36 neighbours, 3
/// points in 1000 do not have two in their own batch of 4096 out of 20,000; and in ten dimensions the 36th is only 6 % farther than the 20th.
const SPARE: usize = 16;

/// One in so many points of a part may be searched for directly; with more a search of its own is faster.
const ONE_IN: usize = 8;

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
}

impl Neighbours {
    /// Looks for `k` and some spare ones, or as many as there are.
    pub fn new(states: &[f32], dim: usize, k: usize, threads: usize) -> Neighbours {
        let (different, place) = without_duplicates(states, dim);
        let k = (k + SPARE).min(different.len().saturating_sub(1));
        let lists = if k > 0 { search::nearest(states, dim, &different, k, threads) } else { Vec::new() };
        Neighbours { different, place, k, lists }
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
        let list = |place: u32| self.lists[place as usize * self.k..][..self.k].iter().filter(|near| is_member[near.row as usize]).take(k);
        let short: Vec<u32> = members.iter().copied().filter(|place| list(*place).count() < k).collect();
        if short.len() > members.len() / ONE_IN {
            let rows: Vec<u32> = members.iter().map(|place| self.different[*place as usize]).collect();
            return search::nearest(states, dim, &rows, k, threads).iter().map(|near| near.square.sqrt()).collect();
        }
        let state = |place: u32| &states[self.different[place as usize] as usize * dim..][..dim];
        let isa = Isa::detect();
        let searched = in_order(threads, short.len(), |at| {
            let others = members.iter().filter(|place| **place != short[at]);
            let mut all: Vec<f64> = others.map(|place| square_distance_f32(isa, state(short[at]), state(*place))).collect();
            all.select_nth_unstable_by(k - 1, f64::total_cmp);
            all.truncate(k);
            all.sort_unstable_by(f64::total_cmp);
            all
        });
        let mut searched = short.iter().zip(searched).peekable();
        let mut distances = Vec::with_capacity(members.len() * k);
        for place in members {
            match searched.next_if(|(short, _)| *short == place) {
                Some((_, found)) => distances.extend(found.iter().map(|square| square.sqrt())),
                None => distances.extend(list(*place).map(|near| near.square.sqrt())),
            }
        }
        distances
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
