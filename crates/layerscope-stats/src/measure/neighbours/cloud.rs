//! Rows as a search sees them: centred and scaled.

use std::borrow::Cow;

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use crate::kernels::square_norms;
use crate::sketch::mean_of;
use crate::vectors::{square_distance_f32, square_distance_narrow};
use layerscope_compute::parallel::{in_order_with, in_parts};

/// Rows that are compared together.
pub(super) const BLOCK: usize = 384;

/// 2^-24: half the distance from 1 to the next f32.
pub(super) const ROUNDING: f64 = 1.0 / 16_777_216.0;

/// Rows that the centre is made from.
const OF_CENTRE: usize = 4096;

/// Rows of states in some order. Centred, scaled so that nothing over- or underflows, and rounded to f32, they are made when they are needed.
pub(super) struct Cloud<'a> {
    isa: Isa,
    pub dim: usize,
    states: &'a [f32],
    /// Of every place, its row of the states.
    rows: Cow<'a, [u32]>,
    /// Of every place, its place among the rows as they were given.
    pub given: Vec<u32>,
    centre: Vec<f64>,
    scale: f64,
    /// ||a||^2 of centred rows.
    pub squares: Vec<f64>,
}

impl<'a> Cloud<'a> {
    /// Of these rows of states with `dim` components, in their order.
    pub fn new(isa: Isa, states: &'a [f32], dim: usize, rows: &'a [u32], threads: usize) -> Cloud<'a> {
        let (centre, largest) = centre(isa, states, dim, rows, threads);
        let scale = if largest > 0.0 { 1.0 / largest } else { 1.0 };
        let given = (0..rows.len() as u32).collect();
        let mut cloud = Cloud { isa, dim, states, rows: rows.into(), given, centre, scale, squares: Vec::new() };
        let blocks = rows.len().div_ceil(BLOCK);
        let squares = in_order_with(threads, blocks, Vec::new, |centred, at| {
            let places: Vec<u32> = (at * BLOCK..rows.len().min((at + 1) * BLOCK)).map(|place| place as u32).collect();
            let within: Vec<u32> = (0..places.len() as u32).collect();
            let mut squares = vec![0.0; places.len()];
            cloud.fill_centred(&places, centred);
            square_norms(isa, centred, dim, &within, &mut squares);
            squares
        });
        let squares = squares.concat();
        cloud.squares = squares;
        cloud
    }

    /// The same rows in another order.
    pub fn in_order(self, order: &[u32]) -> Cloud<'a> {
        let of = |place: &u32| (self.given[*place as usize], self.squares[*place as usize]);
        let (given, squares) = order.iter().map(of).unzip();
        Cloud { rows: order.iter().map(|place| self.rows[*place as usize]).collect(), given, squares, ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// The state at a place as it was given.
    pub fn state(&self, place: u32) -> &[f32] {
        &self.states[self.rows[place as usize] as usize * self.dim..][..self.dim]
    }

    /// Centred rows at these places.
    pub fn centred(&self, places: &[u32]) -> Vec<f32> {
        let mut centred = Vec::new();
        self.fill_centred(places, &mut centred);
        centred
    }

    /// The same in memory that is used again.
    pub fn fill_centred(&self, places: &[u32], centred: &mut Vec<f32>) {
        centred.resize(places.len() * self.dim, 0.0);
        for (own, &place) in centred.chunks_exact_mut(self.dim).zip(places) {
            move_and_scale(self.isa, self.state(place), &self.centre, self.scale, own);
        }
    }
}

impl Cloud<'_> {
    /// Bounds of the squared distance between two places, centred and scaled. Differences of states lose nothing to their centre.
    pub fn distance(&self, a: u32, b: u32) -> (f32, f32) {
        let (a, b) = (self.state(a), self.state(b));
        // Where squares could leave the range of f32, in f64.
        let square = match (1e-15..1e15).contains(&self.scale) {
            true => f64::from(square_distance_narrow(self.isa, a, b)),
            false => square_distance_f32(self.isa, a, b),
        };
        // A sum of d squares in 64 lanes is off by at most (d / 64 + 10) u of itself; the rest is for what is done with it here.
        let (square, off) = (square * self.scale * self.scale, (self.dim as f64 / 64.0 + 32.0) * ROUNDING);
        ((square * (1.0 - off) - 1e-37) as f32, (square * (1.0 + off) + 1e-37) as f32)
    }
}

for_each_isa! {
    /// (x - centre) scale.
    fn move_and_scale = move_and_scale_body; (x: &[f32], centre: &[f64], scale: f64, moved: &mut [f32])
}

#[inline(always)]
fn move_and_scale_body(x: &[f32], centre: &[f64], scale: f64, moved: &mut [f32]) {
    for ((moved, &x), centre) in moved.iter_mut().zip(x).zip(centre) {
        *moved = ((f64::from(x) - centre) * scale) as f32;
    }
}

/// A centre that few far rows do not move, since bounds are the better the smaller norms are; and more than the largest distance from it.
fn centre(isa: Isa, states: &[f32], dim: usize, rows: &[u32], threads: usize) -> (Vec<f64>, f64) {
    // Some rows suffice.
    let step = rows.len().div_ceil(OF_CENTRE).max(1);
    let some: Vec<u32> = rows.iter().step_by(step).copied().collect();
    let mut mean = vec![0.0; dim];
    mean_of(isa, states, &some, &mut mean);
    let mut squares = vec![0.0; rows.len()];
    in_parts(threads, &mut squares, BLOCK, |at, squares| {
        for (square, &row) in squares.iter_mut().zip(&rows[at * BLOCK..]) {
            square_from(isa, &states[row as usize * dim..][..dim], &mean, square);
        }
    });
    let mut sorted = squares.clone();
    let middle = sorted.len() / 2;
    let (_, &mut median, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let near = rows.iter().zip(&squares).step_by(step).filter(|(_, square)| **square <= 4.0 * median);
    let near: Vec<u32> = near.map(|(row, _)| *row).collect();
    let before = mean.clone();
    mean_of(isa, states, &near, &mut mean);
    let moved = before.iter().zip(&mean).map(|(before, mean)| (before - mean).powi(2)).sum::<f64>().sqrt();
    let largest = squares.iter().fold(0.0f64, |largest, square| largest.max(*square)).sqrt();
    (mean, (largest + moved) * 1.001)
}

for_each_isa! {
    /// ||x - centre||^2.
    fn square_from = square_from_body; (x: &[f32], centre: &[f64], square: &mut f64)
}

#[inline(always)]
fn square_from_body(x: &[f32], centre: &[f64], square: &mut f64) {
    const LANES: usize = 32;
    let mut lanes = [0.0f64; LANES];
    let ((x, x_rest), (centre, centre_rest)) = (x.as_chunks::<LANES>(), centre.as_chunks::<LANES>());
    for (x, centre) in x.iter().zip(centre) {
        for l in 0..LANES {
            let away = f64::from(x[l]) - centre[l];
            lanes[l] = away.mul_add(away, lanes[l]);
        }
    }
    for ((lane, &x), centre) in lanes.iter_mut().zip(x_rest).zip(centre_rest) {
        *lane += (f64::from(x) - centre).powi(2);
    }
    *square = lanes.iter().sum();
}
