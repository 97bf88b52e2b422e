//! How many states are massive.

use super::evaluation::MomentInputs;
use super::layer_rows::Rows;
use super::row::Computation;
use super::selection::Selection;

pub(super) static COMPUTATION: Computation = Computation::of_moments(compute);

/// Number of states whose norm exceeds the threshold (Sun et al. 2024); undefined without one.
fn compute(inputs: &MomentInputs<'_>, rows: &mut Rows) {
    if rows.selection == Selection::All {
        let massive = inputs.moments.massive_threshold().map(|_| inputs.moments.massive_states() as f64);
        rows.push("massive_activations", massive, inputs.summary.states());
    }
}
