//! THE block: every architecture is a choice of which norms stand where and how the two halves join.
//!
//! ```text
//! Sequential                                        Parallel
//!
//!   x ─┬─ attention_in ─ attention ─ attention_out ─┐   x ─┬─ attention_in ─ attention ─ attention_out ────┐
//!      └──────────────────────────────────────── + ─┘      ├─ feed_forward_in* ─ feed-forward ─ f._f._out ─┤
//!   after_attention                              │         └───────────────────────────────────────────── + ─ x'
//!   ┌────────────────────────────────────────────┘
//!   ├─ feed_forward_in ─ feed-forward ─ f._f._out ──┐   * or the output of attention_in, where the norm is shared
//!   └──────────────────────────────────────────── + ┘
//!   after_feed_forward ─ x'
//! ```
//!
//! Pre-norm uses the `_in` slots, post-norm the `after_` slots, sandwich norms `_in` and `_out`. Empty slots are the identity.

use std::mem::swap;
use std::sync::Arc;

use layerscope_compute::Backend;

use crate::spec::{BlockSpec, Residual};
use crate::weights::BlockWeights;
use crate::workspace::Workspace;

/// One block of the network: what it does, and the weights it does it with.
pub(crate) struct Block<B: Backend> {
    pub spec: BlockSpec,
    pub weights: Arc<BlockWeights<B>>,
    pub attention: B::Attention,
    /// Which of the batch's angles rotate queries and keys.
    pub rotary: Option<usize>,
}

/// Which buffer a half of the block reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The residual stream itself.
    Residual,
    /// The output of a norm.
    Normed,
}

impl<B: Backend> Block<B> {
    /// Replaces the residual stream by the block's output.
    pub fn forward(&self, backend: &B, rows: usize, space: &mut Workspace<B>) {
        let normed = self.norm_into(backend, rows, space, self.weights.attention_in.as_ref());
        self.attend(backend, rows, normed, space);
        self.norm_branch(backend, rows, space, self.weights.attention_out.as_ref());
        match self.spec.residual {
            Residual::Sequential | Residual::SequentialFromNorms => {
                let from_norms = self.spec.residual == Residual::SequentialFromNorms;
                if from_norms {
                    swap(&mut space.residual, &mut space.normed);
                }
                let input = self.join_attention(backend, rows, space);
                self.feed_forward(backend, rows, input, space);
                if from_norms {
                    swap(&mut space.residual, &mut space.normed);
                }
                self.norm_branch(backend, rows, space, self.weights.feed_forward_out.as_ref());
                self.join_feed_forward(backend, rows, space);
            }
            Residual::Parallel { shared_norm } => {
                swap(&mut space.branch, &mut space.other_branch);
                let input = match shared_norm {
                    true => normed,
                    false => self.norm_into(backend, rows, space, self.weights.feed_forward_in.as_ref()),
                };
                self.feed_forward(backend, rows, input, space);
                self.norm_branch(backend, rows, space, self.weights.feed_forward_out.as_ref());
                backend.add(&mut space.stream, &mut space.residual, &space.other_branch, rows * space.width);
                backend.add(&mut space.stream, &mut space.residual, &space.branch, rows * space.width);
            }
        }
    }

    /// Adds attention to the stream and prepares the feed-forward's input.
    fn join_attention(&self, backend: &B, rows: usize, space: &mut Workspace<B>) -> Input {
        let Workspace { stream, residual, branch, normed, width, .. } = space;
        match (&self.weights.after_attention, &self.weights.feed_forward_in) {
            (None, None) => backend.add(stream, residual, branch, rows * *width),
            (None, Some(before)) => backend.add_norm(stream, residual, branch, rows, before, normed),
            (Some(after), before) => {
                backend.join_norm(stream, residual, branch, rows, after, normed);
                swap(residual, normed);
                if let Some(before) = before {
                    backend.apply_norm(stream, residual, rows, before, normed);
                }
            }
        }
        if self.weights.feed_forward_in.is_some() { Input::Normed } else { Input::Residual }
    }

    fn join_feed_forward(&self, backend: &B, rows: usize, space: &mut Workspace<B>) {
        let Workspace { stream, residual, branch, normed, width, .. } = space;
        match &self.weights.after_feed_forward {
            None => backend.add(stream, residual, branch, rows * *width),
            Some(after) => {
                backend.join_norm(stream, residual, branch, rows, after, normed);
                swap(residual, normed);
            }
        }
    }

    /// Norms the stream for a half of the block that has a norm before it.
    fn norm_into(&self, backend: &B, rows: usize, space: &mut Workspace<B>, norm: Option<&B::Norm>) -> Input {
        let Some(norm) = norm else { return Input::Residual };
        backend.apply_norm(&mut space.stream, &space.residual, rows, norm, &mut space.normed);
        Input::Normed
    }

    /// Norms a half's output where it has a norm after it.
    fn norm_branch(&self, backend: &B, rows: usize, space: &mut Workspace<B>, norm: Option<&B::Norm>) {
        let Some(norm) = norm else { return };
        backend.apply_norm(&mut space.stream, &space.branch, rows, norm, &mut space.normed);
        swap(&mut space.branch, &mut space.normed);
    }
}
