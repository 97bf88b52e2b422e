//! The shape of sequences.

use super::evaluation::Evaluation;
use super::layer_rows::Rows;
use super::row::Computation;
use super::selection::Selection;
use crate::error::Result;
use crate::sketch::{SequenceShape, ShapeMeans};

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// Means over sequences; the formulas stand where a sequence is measured.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    let Some(shape) = evaluation.inputs.sketches.get::<SequenceShape>() else { return Ok(()) };
    let means = match rows.selection {
        Selection::All => Some(shape.all()),
        Selection::Typical => shape.typical(),
        _ => return Ok(()),
    };
    let (entropy, entropies) = means.map_or((None, 0), ShapeMeans::matrix_entropy);
    let (curvature, curvatures) = means.map_or((None, 0), ShapeMeans::curvature);
    rows.push("matrix_entropy", entropy, entropies);
    rows.push("curvature", curvature, curvatures);
    Ok(())
}
