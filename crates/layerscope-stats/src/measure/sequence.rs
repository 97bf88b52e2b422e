//! The shape of sequences.

use super::evaluation::Evaluation;
use super::layer_rows::Rows;
use super::row::Computation;
use super::selection::Selection;
use crate::error::Result;
use crate::sketch::SequenceShape;

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// Means over sequences; the formulas stand where a sequence is measured.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    if let (Selection::All, Some(shape)) = (rows.selection, evaluation.inputs.sketches.get::<SequenceShape>()) {
        let ((entropy, entropies), (curvature, curvatures)) = (shape.matrix_entropy(), shape.curvature());
        rows.push("matrix_entropy", entropy, entropies);
        rows.push("curvature", curvature, curvatures);
    }
    Ok(())
}
