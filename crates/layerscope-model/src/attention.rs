//! The attention half of a block: projections, positions, softmax attention, output projection.

use layerscope_compute::{Backend, HeadSegments, RotaryRows};

use crate::block::{Block, Input};
use crate::workspace::Workspace;

impl<B: Backend> Block<B> {
    /// Reads the residual stream or its norm, writes the branch.
    pub(crate) fn attend(&self, backend: &B, rows: usize, input: Input, space: &mut Workspace<B>) {
        let Workspace { stream, residual, normed, branch, qkv, context, offsets, angles, .. } = space;
        let input = if input == Input::Normed { normed } else { residual };
        backend.apply_linear(stream, input, rows, &self.weights.qkv, None, qkv);

        let (queries, keys) = self.heads();
        let all_heads = |heads: HeadSegments| HeadSegments { width: heads.width * heads.count, count: 1, ..heads };
        let per_head = self.spec.attention.qk_norm.is_some_and(|qk_norm| qk_norm.per_head);
        for (heads, norm) in [(queries, &self.weights.query_norm), (keys, &self.weights.key_norm)] {
            if let Some(norm) = norm {
                backend.norm_segments(stream, qkv, rows, if per_head { heads } else { all_heads(heads) }, norm);
            }
        }
        if let (Some(rotary), Some(spec)) = (self.rotary, &self.spec.attention.rotary) {
            let (cos, sin) = &angles[rotary];
            let angles = RotaryRows { cos, sin, dim: spec.dim, pairs: spec.pairs };
            backend.rotate(stream, qkv, rows, queries, &angles);
            backend.rotate(stream, qkv, rows, keys, &angles);
        }
        backend.apply_attention(stream, qkv, offsets, &self.attention, context);
        backend.apply_linear(stream, context, rows, &self.weights.attention_output, None, branch);
    }

    /// Where queries and keys lie in a row of the projections.
    fn heads(&self) -> (HeadSegments, HeadSegments) {
        let spec = &self.spec.attention;
        let queries = HeadSegments { row_width: spec.qkv_width(), start: 0, width: spec.head_dim, count: spec.heads };
        (queries, HeadSegments { start: spec.heads * spec.head_dim, count: spec.kv_heads, ..queries })
    }
}
