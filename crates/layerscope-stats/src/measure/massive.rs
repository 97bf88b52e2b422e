//! How many states are massive, and what they carry.

use super::evaluation::MomentInputs;
use super::layer_rows::Rows;
use super::row::Computation;
use super::selection::Selection;

pub(super) static COMPUTATION: Computation = Computation::of_moments(compute);

/// Number of states whose norm exceeds the threshold, and their share of Q; undefined without a threshold.
fn compute(inputs: &MomentInputs<'_>, rows: &mut Rows) {
    if rows.selection == Selection::All {
        let (threshold, states) = (inputs.moments.massive_threshold(), inputs.summary.states());
        rows.push("massive_activations", threshold.map(|_| inputs.moments.massive_states() as f64), states);
        rows.push("massive_share_of_q", threshold.and_then(|_| inputs.moments.massive_share()), states);
    }
}
