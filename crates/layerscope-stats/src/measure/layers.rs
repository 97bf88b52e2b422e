//! What changes from one measured point to the next.

use std::borrow::Cow;

use layerscope_compute::cpu::Isa;

use super::evaluation::Evaluation;
use super::layer_rows::Rows;
use super::row::Computation;
use crate::eigen::{eigenvectors, significant};
use crate::error::Result;
use crate::products::{Panels, product, product_place};
use crate::sketch::{Covariance, CrossScatter, Pairs, Peaks, Scatter, Sketches};

/// Linear centred kernel alignment ||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) (Kornblith et al. 2019); None where one does not vary.
pub fn linear_cka(this: &Scatter, next: &Scatter, pairs: &CrossScatter) -> Option<f64> {
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
pub fn linearity(this: &Scatter, next: &Scatter, pairs: &CrossScatter) -> Option<f64> {
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

fn belong_together(this: &Scatter, next: &Scatter, pairs: &CrossScatter) -> bool {
    pairs.n() >= 2 && pairs.n() == this.n() && pairs.n() == next.n() && pairs.dims() == (this.dim(), next.dim())
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// The next point keeps the products with this one.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    if !rows.selection.is_of_sketches() || evaluation.scatter().is_none() {
        return Ok(());
    }
    let n = evaluation.pairs().map_or(0, |pairs| pairs.products.n());
    let of = |measure: fn(&Scatter, &Scatter, &CrossScatter) -> Option<f64>| {
        evaluation.pairs().and_then(|pairs| measure(&pairs.this, &pairs.next, &pairs.products))
    };
    rows.push("linear_cka_next", of(linear_cka), n);
    rows.push("linearity_next", of(linearity), n);
    Ok(())
}

/// States at a point and at the next, and their products.
pub(super) struct PairInputs<'a> {
    this: Cow<'a, Scatter>,
    next: Cow<'a, Scatter>,
    products: Cow<'a, CrossScatter>,
}

impl<'a> PairInputs<'a> {
    /// Of all states, or of those that are typical at both points; None where they are not known.
    pub fn new(this: &'a Covariance, next: &'a Sketches, typical: bool) -> Result<Option<PairInputs<'a>>> {
        let (Some(pairs), Some(next)) = (next.get::<Pairs>(), next.get::<Covariance>()) else { return Ok(None) };
        if !typical {
            return Ok(Some(PairInputs { this: this.all()?, next: next.all()?, products: pairs.all()? }));
        }
        let (before, here) = (pairs.typical_before(this.typical()), pairs.typical_here(next.typical()));
        Ok(pairs.typical().map(|products| PairInputs { this: before, next: here, products: Cow::Borrowed(products) }))
    }
}

pub(super) static PEAKS: Computation = Computation::of_sketches(peaks);

/// Components that are massive by the criterion of Sun et al. 2024.
fn peaks(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    if let Some(peaks) = evaluation.inputs.sketches.get::<Peaks>().filter(|_| rows.selection.is_of_sketches()) {
        let counts = if rows.selection.is_typical() { peaks.typical() } else { peaks.all() };
        rows.push("massive_components", Some(counts.components as f64), counts.states);
    }
    Ok(())
}
