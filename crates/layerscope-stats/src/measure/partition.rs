//! The partition function of a set of vectors.

use layerscope_compute::cpu::Isa;

use super::evaluation::Evaluation;
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use crate::eigen::eigenvectors;
use crate::error::Result;
use crate::products::{Panels, product, product_place};
use crate::sketch::{CentredRows, Mergeable, Scatter};

/// Rows that are multiplied together.
const CHUNK: usize = 960;

/// ln I(W) = min_v ln Z(v) - max_v ln Z(v), Z(v) = sum_w exp(w . v) over the unit eigenvectors v of W^T W (Mu & Viswanath 2018).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogPartition {
    /// Over both v and -v: the sign of an eigenvector is arbitrary.
    pub default: f64,
    /// Over v as the eigen-solver returns it (Machina & Mercer 2024).
    pub machina: f64,
}

/// Of the `rows x dim` matrix W, with its mean row subtracted if `centred`; None without rows or if a number is not finite.
pub fn log_partition(rows: &[f32], dim: usize, centred: bool) -> Option<LogPartition> {
    with_plane(rows, dim, centred).map(|(found, _)| found)
}

/// The same, and every row w as (w . v_1, w . v_2): its image in the plane of the two first eigenvectors, each with its largest
/// component positive; 0 along a direction that a matrix of width 1 does not have.
fn with_plane(rows: &[f32], dim: usize, centred: bool) -> Option<(LogPartition, Vec<[f64; 2]>)> {
    let isa = Isa::detect();
    let n = rows.len() / dim;
    let chosen: Vec<u32> = (0..n as u32).collect();
    let (mut all, mut scatter) = (CentredRows::new(), Scatter::new(dim));
    for chunk in chosen.chunks(CHUNK) {
        all.fill_states(isa, rows, dim, chunk);
        let mut own = Scatter::new(dim);
        own.fill(isa, &all);
        scatter.merge(&own).ok()?;
    }
    let matrix = if centred { scatter.covariance() } else { scatter.second_moment() };
    let (_, vectors) = eigenvectors(&matrix?, dim)?;
    let mean = if centred { scatter.mean().to_vec() } else { vec![0.0; dim] };
    let (mut left, mut right, mut products) = (Panels::default(), Panels::default(), Vec::new());
    right.fill_columns(&vectors, dim);
    let mut sums = vec![[LogSum::default(); 2]; dim];
    let signs: Vec<f64> = vectors.chunks(dim).take(2).map(sign).collect();
    let mut images = vec![[0.0; 2]; n];
    for chunk in chosen.chunks(CHUNK) {
        let state = |row: u32| rows[row as usize * dim..][..dim].iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean);
        left.fill_columns(&chunk.iter().flat_map(|&row| state(row)).collect::<Vec<f64>>(), dim);
        product(isa, &left, &right, &mut products);
        for (v, [plus, minus]) in sums.iter_mut().enumerate() {
            for w in 0..chunk.len() {
                let exponent = products[product_place(w, v, dim)];
                plus.add(exponent);
                minus.add(-exponent);
            }
        }
        for (v, sign) in signs.iter().enumerate() {
            for (w, &row) in chunk.iter().enumerate() {
                images[row as usize][v] = sign * products[product_place(w, v, dim)];
            }
        }
    }
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        least - most
    };
    let default = range(&mut sums.iter().flatten().map(LogSum::value));
    let machina = range(&mut sums.iter().map(|[plus, _]| plus.value()));
    (n > 0).then_some((LogPartition { default, machina }, images))
}

/// Of the component that is largest in size.
fn sign(vector: &[f64]) -> f64 {
    vector.iter().fold(0.0f64, |largest, x| if x.abs() > largest.abs() { *x } else { largest }).signum()
}

/// ln sum exp of a stream of numbers.
#[derive(Clone, Copy)]
struct LogSum {
    largest: f64,
    /// Sum of exp(x - largest).
    sum: f64,
}

impl Default for LogSum {
    fn default() -> LogSum {
        LogSum { largest: f64::NEG_INFINITY, sum: 0.0 }
    }
}

impl LogSum {
    fn add(&mut self, exponent: f64) {
        if exponent <= self.largest {
            self.sum += (exponent - self.largest).exp();
        } else {
            self.sum = self.sum * (self.largest - exponent).exp() + 1.0;
            self.largest = exponent;
        }
    }

    fn value(&self) -> f64 {
        self.largest + self.sum.ln()
    }
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    if let Some(sample) = rows.selection.is_of_sample().then(|| evaluation.sample()).flatten() {
        add_rows(&sample.states(), sample.dim(), rows);
    }
    Ok(())
}

/// The rows of a matrix of vectors. Returns its vectors on the plane of their first two singular directions.
pub(super) fn add_rows(states: &[f32], dim: usize, rows: &mut Rows) -> Vec<[f64; 2]> {
    let n = (states.len() / dim) as u64;
    let (uncentred, images) = with_plane(states, dim, false).unzip();
    let found = [uncentred, log_partition(states, dim, true)];
    for (measure, value) in [("partition", f64::exp as fn(f64) -> f64), ("log_partition", |log| log)] {
        for (found, names) in found.iter().zip([["default", "machina"], ["default_centred", "machina_centred"]]) {
            rows.push_variant(measure, names[0], Estimate::new(found.map(|found| value(found.default)), n));
            rows.push_variant(measure, names[1], Estimate::new(found.map(|found| value(found.machina)), n));
        }
    }
    images.unwrap_or_default()
}
