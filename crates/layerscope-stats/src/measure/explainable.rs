//! Maximum explainable variance of the chosen tokens.

use layerscope_compute::cpu::Isa;

use super::evaluation::Evaluation;
use super::layer_rows::Rows;
use super::row::Computation;
use super::spectrum::Spectrum;
use crate::eigen::largest_eigenvalue;
use crate::error::Result;
use crate::products::{Panels, gram, gram_place};
use crate::sketch::HashSample;

/// lambda_1 / sum lambda of the uncentred second moment of X_t (Ethayarajh 2019), from its kept states; None without non-zero ones.
pub fn max_explainable_variance(sample: &HashSample<'_>) -> Option<f64> {
    let (n, dim) = (sample.len(), sample.dim());
    let mut states = Vec::with_capacity(n * dim);
    sample.iter().for_each(|kept| states.extend(kept.state.iter().map(|&x| f64::from(x))));
    let total: f64 = states.iter().map(|x| x * x).sum();
    if total <= 0.0 {
        return None;
    }
    // X X^T and X^T X have the same non-zero eigenvalues: take the smaller.
    let side = n.min(dim);
    let mut panels = Panels::default();
    if n <= dim {
        panels.fill_columns(&states, dim);
    } else {
        panels.fill_columns(&(0..dim).flat_map(|i| states.iter().skip(i).step_by(dim).copied()).collect::<Vec<f64>>(), n);
    }
    let mut blocks = Vec::new();
    gram(Isa::detect(), &panels, &mut blocks);
    let matrix: Vec<f64> = (0..side * side).map(|at| (at / side, at % side)).map(|(i, j)| blocks[gram_place(i.min(j), i.max(j))]).collect();
    Some(largest_eigenvalue(&matrix, side)? / total)
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// The mean over tokens, and the same minus the value of all states together.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    if rows.selection.is_of_sample() && evaluation.inputs.tokens.is_some() {
        let values: Vec<f64> = evaluation.tokens.iter().filter_map(|row| row.explainable_variance).collect();
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let overall = evaluation.second_moment().and_then(Spectrum::anisotropy);
        rows.push("max_explainable_variance", mean, values.len() as u64);
        rows.push("max_explainable_variance_adjusted", mean.zip(overall).map(|(mean, overall)| mean - overall), values.len() as u64);
    }
    Ok(())
}
