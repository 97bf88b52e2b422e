//! What a sequence of states looks like: its matrix entropy and its curvature.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use super::{Sketch, Tensors, mean_of_means};
use crate::eigen::{eigenvalues, significant};
use crate::error::Result;
use crate::kernels::{LANES, fold};
use crate::products::{Panels, gram, gram_place};
use crate::rows::BatchRows;

/// States that a sequence must have.
const MIN_STATES: usize = 3;

/// Deviations from the mean below this share of the largest norm are rounding, and count as zero.
const ROUNDING: f64 = 1e-12;

/// Mean over sequences of the matrix entropy and of the curvature, each with the number of sequences that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceShape {
    entropies: u64,
    entropy: f64,
    curvatures: u64,
    curvature: f64,
}

impl SequenceShape {
    /// Of no sequences yet.
    pub fn new() -> SequenceShape {
        SequenceShape::default()
    }

    /// Memory that one takes.
    pub fn bytes() -> usize {
        size_of::<SequenceShape>()
    }

    /// The mean matrix entropy, and over how many sequences.
    pub fn matrix_entropy(&self) -> (Option<f64>, u64) {
        ((self.entropies > 0).then_some(self.entropy), self.entropies)
    }

    /// The mean curvature in radians, and over how many sequences.
    pub fn curvature(&self) -> (Option<f64>, u64) {
        ((self.curvatures > 0).then_some(self.curvature), self.curvatures)
    }

    /// Adds the counted rows of a batch, sequence by sequence. All of the work is in here: give each batch a sketch of its own before its
    /// turn, and merge that.
    pub fn update(&mut self, batch: &BatchRows) {
        let mut space = Space::default();
        for rows in batch.counted_by_sequence().filter(|rows| rows.len() >= MIN_STATES) {
            if let Some(entropy) = space.entropy(batch, rows) {
                self.add_entropy(entropy, 1);
            }
            if let Some(curvature) = space.curvature(batch, rows) {
                self.add_curvature(curvature, 1);
            }
        }
    }

    fn add_entropy(&mut self, mean: f64, sequences: u64) {
        self.entropy = mean_of_means(self.entropy, self.entropies, mean, sequences);
        self.entropies += sequences;
    }

    fn add_curvature(&mut self, mean: f64, sequences: u64) {
        self.curvature = mean_of_means(self.curvature, self.curvatures, mean, sequences);
        self.curvatures += sequences;
    }
}

impl Sketch for SequenceShape {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.add_entropy(other.entropy, other.entropies);
        self.add_curvature(other.curvature, other.curvatures);
        Ok(())
    }

    fn tensors(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("sequences", &[2], vec![self.entropies, self.curvatures]);
        tensors.put_numbers("shape", &[self.entropy, self.curvature]);
        tensors
    }

    fn from_tensors(tensors: &mut Tensors<'_>) -> Result<Self> {
        let (counts, means) = (tensors.take_u64("sequences", &[2])?, tensors.take_f64("shape", &[2])?);
        Ok(SequenceShape { entropies: counts[0], entropy: means[0], curvatures: counts[1], curvature: means[1] })
    }
}

/// Memory for one sequence at a time.
#[derive(Default)]
struct Space {
    mean: Vec<f64>,
    units: Vec<f64>,
    panels: Panels,
    gram: Vec<f64>,
}

impl Space {
    /// Von Neumann entropy of the Gram matrix of centred unit rows, divided by its trace, over ln min(N, d) (Skean et al. 2025).
    ///
    /// None where all rows are equal, or with one component.
    fn entropy(&mut self, batch: &BatchRows, rows: &[u32]) -> Option<f64> {
        let (states, dim) = (rows.len(), batch.dim());
        self.centre(batch, rows);
        let kept = self.units.len() / dim;
        if kept == 0 || dim == 1 {
            return None;
        }
        // The Gram matrix of rows and that of components have the same non-zero eigenvalues.
        let side = kept.min(dim);
        if kept <= dim {
            self.panels.fill_columns(&self.units, dim);
        } else {
            self.panels.fill_columns(&transposed(&self.units, dim), kept);
        }
        gram(batch.isa(), &self.panels, &mut self.gram);
        let trace = kept as f64; // of unit rows
        let mut matrix = vec![0.0; side * side];
        for i in 0..side {
            for j in i..side {
                let value = self.gram[gram_place(i, j)] / trace;
                matrix[i * side + j] = value;
                matrix[j * side + i] = value;
            }
        }
        let shares = significant(eigenvalues(&matrix, side)?, side);
        let entropy: f64 = shares.iter().filter(|share| **share > 0.0).map(|share| -share * share.ln()).sum();
        Some(entropy / (states.min(dim) as f64).ln())
    }

    /// Fills `units` with the rows minus their mean, divided by their norms; zero rows are dropped.
    fn centre(&mut self, batch: &BatchRows, rows: &[u32]) {
        let dim = batch.dim();
        self.mean.clear();
        self.mean.resize(dim, 0.0);
        super::scatter::center(batch.isa(), batch.states(), rows, &mut self.mean);
        let largest = rows.iter().map(|&row| batch.norms()[row as usize]).fold(0.0, f64::max);
        self.units.clear();
        for &row in rows {
            let start = self.units.len();
            self.units.extend(batch.state(row).iter().zip(&self.mean).map(|(&x, mean)| f64::from(x) - mean));
            let unit = &mut self.units[start..];
            let mut products = [0.0; 3];
            inner_products(batch.isa(), unit, unit, &mut products);
            let norm = products[0].sqrt();
            if norm > ROUNDING * largest {
                unit.iter_mut().for_each(|x| *x /= norm);
            } else {
                self.units.truncate(start);
            }
        }
    }

    /// Mean angle between successive steps (Hosseini & Fedorenko 2023), steps of length zero left out; None with fewer than two steps.
    fn curvature(&mut self, batch: &BatchRows, rows: &[u32]) -> Option<f64> {
        let mut steps: Vec<Vec<f64>> = Vec::with_capacity(rows.len());
        for pair in rows.windows(2) {
            let (from, to) = (batch.state(pair[0]), batch.state(pair[1]));
            if from != to {
                steps.push(to.iter().zip(from).map(|(&to, &from)| f64::from(to) - f64::from(from)).collect());
            }
        }
        let mut sum = 0.0;
        for pair in steps.windows(2) {
            sum += angle(batch.isa(), &pair[0], &pair[1]);
        }
        (steps.len() >= 2).then(|| sum / (steps.len() - 1) as f64)
    }
}

fn transposed(rows: &[f64], dim: usize) -> Vec<f64> {
    (0..dim).flat_map(|i| rows.iter().skip(i).step_by(dim).copied()).collect()
}

/// The angle between two vectors, 2 atan2(|a/|a| - b/|b||, |a/|a| + b/|b||): good to the last digit even where the cosine is near 1
/// (Kahan).
fn angle(isa: Isa, a: &[f64], b: &[f64]) -> f64 {
    let mut products = [0.0; 3];
    inner_products(isa, a, b, &mut products);
    let (left, right) = (1.0 / products[0].sqrt(), 1.0 / products[1].sqrt());
    let (mut apart, mut together) = (0.0, 0.0);
    difference_norms(isa, a, b, left, right, &mut apart, &mut together);
    2.0 * apart.sqrt().atan2(together.sqrt())
}

for_each_isa! {
    /// ||a||^2, ||b||^2 and a . b.
    fn inner_products = inner_products_body; (a: &[f64], b: &[f64], products: &mut [f64; 3])
}

#[inline(always)]
fn inner_products_body(a: &[f64], b: &[f64], products: &mut [f64; 3]) {
    *products = [lane_sum(a, b, |x, _| x * x), lane_sum(a, b, |_, y| y * y), lane_sum(a, b, |x, y| x * y)];
}

for_each_isa! {
    /// ||left a - right b||^2 and ||left a + right b||^2.
    fn difference_norms = difference_norms_body; (a: &[f64], b: &[f64], left: f64, right: f64, apart: &mut f64, together: &mut f64)
}

#[inline(always)]
fn difference_norms_body(a: &[f64], b: &[f64], left: f64, right: f64, apart: &mut f64, together: &mut f64) {
    *apart = lane_sum(a, b, |x, y| (left * x - right * y) * (left * x - right * y));
    *together = lane_sum(a, b, |x, y| (left * x + right * y) * (left * x + right * y));
}

/// Sum over components in sixteen fixed lanes.
#[inline(always)]
fn lane_sum(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (x, y) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] += term(x[l], y[l]);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += term(*x, *y);
    }
    fold(lanes)
}
