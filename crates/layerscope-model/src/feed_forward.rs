//! The feed-forward half of a block.

use layerscope_compute::Backend;

use crate::block::{Block, Input};
use crate::spec::Gate;
use crate::workspace::Workspace;

impl<B: Backend> Block<B> {
    /// Reads the residual stream or its norm, writes the branch: `down(activation(up x))`, or `down(activation(gate x) * up x)`.
    pub(crate) fn feed_forward(&self, backend: &B, rows: usize, input: Input, space: &mut Workspace<B>) {
        let Workspace { stream, residual, normed, branch, hidden, gated, .. } = space;
        let input = if input == Input::Normed { normed } else { residual };
        let spec = &self.spec.feed_forward;
        if spec.gate == Gate::None {
            backend.apply_linear(stream, input, rows, &self.weights.up, Some(spec.activation), hidden);
            backend.apply_linear(stream, hidden, rows, &self.weights.down, None, branch);
        } else {
            backend.apply_linear(stream, input, rows, &self.weights.up, None, hidden);
            backend.gate(stream, hidden, rows, spec.width, spec.activation, gated);
            backend.apply_linear(stream, gated, rows, &self.weights.down, None, branch);
        }
    }
}
