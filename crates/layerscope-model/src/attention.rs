//! The attention half of a block: projections, positions, softmax attention, output projection.

use layerscope_compute::{Backend, HeadSegments, RotaryRows};

use crate::batch::Batch;
use crate::block::{Block, Input};
use crate::transformer::Workspace;

impl<B: Backend> Block<B> {
    /// Reads the stream or its norm, writes the branch.
    pub(crate) fn attention(&self, backend: &B, batch: &Batch, input: Input, space: &mut Workspace<B>) {
        let rows = batch.tokens();
        let Workspace { stream, normed, branch, qkv, context, angles, scratch, .. } = space;
        let input = if input == Input::Normed { normed } else { stream };
        backend.apply_linear(scratch, input, rows, &self.weights.qkv, None, qkv);

        let (queries, keys) = self.heads();
        let all_heads = |heads: HeadSegments| HeadSegments { width: heads.width * heads.count, count: 1, ..heads };
        let per_head = self.spec.attention.qk_norm.is_some_and(|qk_norm| qk_norm.per_head);
        for (heads, norm) in [(queries, &self.weights.query_norm), (keys, &self.weights.key_norm)] {
            if let Some(norm) = norm {
                backend.norm_segments(qkv, rows, if per_head { heads } else { all_heads(heads) }, norm);
            }
        }
        if let (Some(rotary), Some(spec)) = (self.rotary, &self.spec.attention.rotary) {
            let (cos, sin) = &angles[rotary];
            let angles = RotaryRows { cos, sin, dim: spec.dim, pairs: spec.pairs };
            backend.rotate(qkv, rows, queries, &angles);
            backend.rotate(qkv, rows, keys, &angles);
        }
        backend.attention(scratch, qkv, batch.offsets(), &self.shape, context);
        backend.apply_linear(scratch, context, rows, &self.weights.attention_output, None, branch);
    }

    /// Where queries and keys lie in a row of the projections.
    fn heads(&self) -> (HeadSegments, HeadSegments) {
        let shape = &self.shape;
        let queries = HeadSegments { row_width: shape.qkv_width(), start: 0, width: shape.head_dim, count: shape.heads };
        (queries, HeadSegments { start: shape.heads * shape.head_dim, count: shape.kv_heads, ..queries })
    }
}
