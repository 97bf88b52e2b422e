//! What changes from one measured point to the next.

use std::borrow::Cow;

use layerscope_compute::cpu::Isa;

use super::evaluation::Evaluation;
use super::layer_rows::Rows;
use super::row::Computation;
use super::selection::Selection;
use crate::eigen::{eigenvectors, significant};
use crate::error::Result;
use crate::products::{Panels, product, product_place};
use crate::sketch::{Covariance, Pairs, Scatter};

/// Linear centred kernel alignment ||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) (Kornblith et al. 2019); None where one does not vary.
pub fn linear_cka(this: &Scatter, next: &Scatter, pairs: &Pairs) -> Option<f64> {
    if !belong_together(this, next, pairs) {
        return None;
    }
    let (rows, columns) = pairs.dims();
    let across: f64 = (0..rows).map(|i| (0..columns).map(|j| pairs.get(i, j).powi(2)).sum::<f64>()).sum();
    let norm = |scatter: &Scatter| {
        let row = |i: usize| scatter.get(i, i).powi(2) + 2.0 * (i + 1..scatter.dim()).map(|j| scatter.get(i, j).powi(2)).sum::<f64>();
        (0..scatter.dim()).map(row).sum::<f64>().sqrt()
    };
    let (this, next) = (norm(this), norm(next));
    (this > 0.0 && next > 0.0).then(|| across / this / next)
}

/// Share of the next point's variance that a linear map of this one explains, tr(C_yx C_xx^+ C_xy) / tr C_yy, with the eigenvalue
/// rule of spectra (Razzhigaev et al. 2024). None with n <= d + 1, where a linear map explains anything.
pub fn linearity(this: &Scatter, next: &Scatter, pairs: &Pairs) -> Option<f64> {
    let (rows, columns) = pairs.dims();
    if !belong_together(this, next, pairs) || pairs.n() <= rows as u64 + 1 {
        return None;
    }
    let n = (pairs.n() - 1) as f64;
    let (values, vectors) = eigenvectors(&this.covariance()?, rows)?;
    let values = significant(values, rows);
    let across: Vec<f64> = (0..columns).flat_map(|j| (0..rows).map(move |i| pairs.get(i, j) / n)).collect();
    let (mut left, mut right, mut projected) = (Panels::default(), Panels::default(), Vec::new());
    left.fill_columns(&vectors, rows);
    right.fill_columns(&across, rows);
    product(Isa::detect(), &left, &right, &mut projected);
    // sum over eigenvectors v of ||v^T C_xy||^2 / lambda.
    let part = |(r, value): (usize, &f64)| (0..columns).map(|j| projected[product_place(r, j, columns)].powi(2)).sum::<f64>() / value;
    let explained: f64 = values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(part).sum();
    let total: f64 = (0..columns).map(|j| next.get(j, j) / n).sum();
    (total > 0.0).then(|| explained / total)
}

fn belong_together(this: &Scatter, next: &Scatter, pairs: &Pairs) -> bool {
    pairs.n() >= 2 && pairs.n() == this.n() && pairs.n() == next.n() && pairs.dims() == (this.dim(), next.dim())
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// The next point keeps the products with this one.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    let (Selection::All, Some(this)) = (rows.selection, evaluation.all()) else { return Ok(()) };
    let next = evaluation.inputs.next;
    let pairs = next.and_then(|next| next.get::<Pairs>());
    let next = next.and_then(|next| next.get::<Covariance>()).map(Covariance::all).transpose()?;
    let both = next.as_ref().map(Cow::as_ref).zip(pairs);
    let n = pairs.map_or(0, Pairs::n);
    rows.push("linear_cka_next", both.and_then(|(next, pairs)| linear_cka(this, next, pairs)), n);
    rows.push("linearity_next", both.and_then(|(next, pairs)| linearity(this, next, pairs)), n);
    Ok(())
}
