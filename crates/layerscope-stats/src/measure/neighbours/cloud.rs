//! Rows made ready for a search: centred and scaled.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use crate::kernels::square_norms;
use crate::sketch::mean_of;
use layerscope_compute::parallel::in_parts;

/// Rows that are compared together.
pub(super) const BLOCK: usize = 384;

/// 2^-24: half the distance from 1 to the next f32.
pub(super) const ROUNDING: f64 = 1.0 / 16_777_216.0;

/// Rows as the search sees them.
pub(super) struct Cloud {
    pub dim: usize,
    /// Centred, scaled so that nothing over- or underflows, rounded to f32.
    pub centred: Vec<f32>,
    /// Of those, ||a||^2.
    pub squares: Vec<f64>,
}

impl Cloud {
    /// Of these rows of states with `dim` components.
    pub fn new(states: &[f32], dim: usize, rows: &[u32], threads: usize) -> Cloud {
        let isa = Isa::detect();
        let (centre, largest) = centre(isa, states, dim, rows, threads);
        let scale = if largest > 0.0 { 1.0 / largest } else { 1.0 };
        let mut centred = vec![0.0; rows.len() * dim];
        in_parts(threads, &mut centred, BLOCK * dim, |at, part| {
            for (own, &row) in part.chunks_exact_mut(dim).zip(&rows[at * BLOCK..]) {
                move_and_scale(isa, &states[row as usize * dim..][..dim], &centre, scale, own);
            }
        });
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let mut squares = vec![0.0; rows.len()];
        square_norms(isa, &centred, dim, &all, &mut squares);
        Cloud { dim, centred, squares }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.squares.len()
    }

    /// A centred row by its place.
    pub fn row(&self, place: usize) -> &[f32] {
        &self.centred[place * self.dim..][..self.dim]
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
    let mut mean = vec![0.0; dim];
    mean_of(isa, states, rows, &mut mean);
    let mut squares = vec![0.0; rows.len()];
    in_parts(threads, &mut squares, BLOCK, |at, squares| {
        for (square, &row) in squares.iter_mut().zip(&rows[at * BLOCK..]) {
            square_from(isa, &states[row as usize * dim..][..dim], &mean, square);
        }
    });
    let mut sorted = squares.clone();
    let middle = sorted.len() / 2;
    let (_, &mut median, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    let near: Vec<u32> = rows.iter().zip(&squares).filter(|(_, square)| **square <= 4.0 * median).map(|(row, _)| *row).collect();
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
