//! One worker's buffers, and how much memory a model takes.

use layerscope_compute::{Backend, Memory};

use crate::error::Result;
use crate::leg::Leg;
use crate::requirements::TensorPlan;
use crate::spec::{BlockSpec, Gate, ModelSpec, Residual, RotarySpec};

/// One worker's stream and buffers, allocated once and reused by every batch.
pub struct Workspace<B: Backend> {
    /// Tokens that fit.
    pub(crate) capacity: usize,
    pub(crate) width: usize,
    pub(crate) stream: B::Stream,
    /// The residual stream.
    pub(crate) residual: B::Buffer,
    /// The output of a norm.
    pub(crate) normed: B::Buffer,
    /// The output of one half of a block, before it joins the residual stream; after the blocks, the projected states.
    pub(crate) branch: B::Buffer,
    /// The other half's, in parallel blocks.
    pub(crate) other_branch: B::Buffer,
    pub(crate) qkv: B::Buffer,
    pub(crate) context: B::Buffer,
    pub(crate) hidden: B::Buffer,
    pub(crate) gated: B::Buffer,
    pub(crate) ids: B::Indices,
    pub(crate) positions: B::Indices,
    pub(crate) offsets: B::Offsets,
    pub(crate) angles: Vec<(B::Buffer, B::Buffer)>,
    pub(crate) host_cos: Vec<f32>,
    pub(crate) host_sin: Vec<f32>,
}

impl<B: Backend> Workspace<B> {
    /// The worker's stream.
    pub fn stream(&mut self) -> &mut B::Stream {
        &mut self.stream
    }

    pub(crate) fn new(backend: &B, spec: &ModelSpec, rotaries: &[RotarySpec], tokens: usize) -> Result<Self> {
        let widths = BufferWidths::of(spec);
        let buffer = |width: usize| backend.buffer(tokens * width);
        let inner = |width: usize| backend.inner_buffer(tokens * width);
        let angles = |rotary: &RotarySpec| Ok((buffer(rotary.dim / 2)?, buffer(rotary.dim / 2)?));
        Ok(Workspace {
            capacity: tokens,
            width: spec.width,
            stream: backend.stream()?,
            residual: buffer(widths.residual)?,
            normed: buffer(widths.residual)?,
            branch: buffer(widths.residual)?,
            other_branch: buffer(widths.parallel)?,
            qkv: inner(widths.qkv)?,
            context: inner(widths.context)?,
            hidden: inner(widths.hidden)?,
            gated: inner(widths.gated)?,
            ids: backend.indices(tokens)?,
            positions: backend.indices(tokens)?,
            offsets: backend.offsets(tokens + 1)?,
            angles: rotaries.iter().map(angles).collect::<Result<_>>()?,
            host_cos: Vec::new(),
            host_sin: Vec::new(),
        })
    }
}

/// Floats per token of each buffer of a [`Workspace`].
struct BufferWidths {
    residual: usize,
    parallel: usize,
    qkv: usize,
    context: usize,
    hidden: usize,
    gated: usize,
}

impl BufferWidths {
    fn of(spec: &ModelSpec) -> BufferWidths {
        let widest = |of: &dyn Fn(&BlockSpec) -> usize| spec.blocks.iter().map(of).max().unwrap_or(0);
        BufferWidths {
            residual: spec.width.max(spec.embedding.width).max(spec.output_projection.unwrap_or(0)),
            parallel: widest(&|block| if matches!(block.residual, Residual::Parallel { .. }) { spec.width } else { 0 }),
            qkv: widest(&|block| block.attention.qkv_width()),
            context: widest(&|block| block.attention.heads * block.attention.head_dim),
            hidden: widest(&|block| block.feed_forward.width * if block.feed_forward.gate == Gate::None { 1 } else { 2 }),
            gated: widest(&|block| if block.feed_forward.gate == Gate::None { 0 } else { block.feed_forward.width }),
        }
    }

    /// Of those that hold, or join, the residual stream.
    fn outer(&self) -> usize {
        3 * self.residual + self.parallel
    }

    /// Of those between two products.
    fn inner(&self) -> usize {
        self.qkv + self.context + self.hidden + self.gated
    }
}

/// What one worker takes for batches of `tokens` tokens: activations and the stream's working memory.
pub fn workspace_memory<B: Backend>(backend: &B, spec: &ModelSpec, tokens: usize) -> Memory {
    activation_memory(backend, spec, tokens) + stream_memory(backend, spec, tokens)
}

/// What one worker's activations take for batches of `tokens` tokens.
pub fn activation_memory<B: Backend>(backend: &B, spec: &ModelSpec, tokens: usize) -> Memory {
    let widths = BufferWidths::of(spec);
    backend.buffer_memory(widths.outer() * tokens) + backend.inner_buffer_memory(widths.inner() * tokens)
}

/// What one worker's stream takes for batches of `tokens` tokens.
pub fn stream_memory<B: Backend>(backend: &B, spec: &ModelSpec, tokens: usize) -> Memory {
    let widest = spec.blocks.iter().map(|block| block.feed_forward.width.max(spec.width)).max().unwrap_or(spec.width);
    backend.stream_memory(tokens, widest)
}

/// What a model's weights take.
pub fn weight_memory<B: Backend>(backend: &B, plan: &TensorPlan) -> Memory {
    plan.memory(backend)
}

/// What the weights of a leg take.
pub fn leg_memory<B: Backend>(backend: &B, spec: &ModelSpec, plan: &TensorPlan, leg: Leg) -> Memory {
    plan.leg_memory(backend, spec, leg)
}

#[cfg(test)]
mod tests {
    use layerscope_compute::{Activation, Cpu};

    use super::*;
    use crate::spec::{AttentionSpec, BlockNorms, EmbeddingSpec, FeedForwardSpec, NormSpec};

    #[test]
    fn memory_grows_with_the_tokens_and_the_stream_stops_growing() {
        let block = BlockSpec {
            weights: 0,
            residual: Residual::Sequential,
            norms: BlockNorms::pre(NormSpec::layer(1e-5)),
            attention: AttentionSpec::multi_head(4, 16),
            feed_forward: FeedForwardSpec::plain(256, Activation::Relu),
        };
        let spec = ModelSpec {
            vocabulary: 100,
            width: 64,
            max_positions: None,
            embedding: EmbeddingSpec::tokens(64),
            blocks: block.repeat(3),
            final_norm: None,
            output_projection: None,
        };
        // Three buffers of the model's width, queries, keys and values, context, hidden layer.
        let floats = 3 * 64 + 3 * 64 + 64 + 256;
        let cpu = Cpu::new();
        assert_eq!(activation_memory(&cpu, &spec, 100), Memory::on_host(floats * 100 * 4));
        assert_eq!(stream_memory(&cpu, &spec, 100), Memory::on_host(100 * 256));
        assert_eq!(stream_memory(&cpu, &spec, 5000), Memory::on_host(1024 * 256));
        assert_eq!(workspace_memory(&cpu, &spec, 10) * 2, Memory::on_host(2 * 10 * (4 * floats + 256)));
        let wider = ModelSpec { output_projection: Some(80), ..spec };
        assert_eq!(activation_memory(&cpu, &wider, 100), Memory::on_host((floats + 3 * (80 - 64)) * 100 * 4));
    }
}
