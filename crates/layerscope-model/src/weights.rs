//! A checkpoint's tensors in the layout the forward pass wants: fused projections split, transposes undone, once.

use std::ops::Range;
use std::sync::Arc;

use layerscope_compute::parallel::in_order;
use layerscope_compute::{AttentionShape, Backend, HostTensor};

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::load_watch::LoadWatch;
use crate::names::Slot;
use crate::position;
use crate::requirements::{Part, TensorPlan};
use crate::spec::{AttentionSpec, BlockSpec, Gate, ModelSpec, NormSpec, QkvStorage};

/// Everything before the first block.
pub(crate) struct EmbeddingWeights<B: Backend> {
    pub tokens: B::Table,
    pub positions: Option<B::Table>,
    pub types: Option<B::Table>,
    pub norm: Option<B::Norm>,
    pub projection: Option<B::Linear>,
}

/// One stored block; blocks that share weights share this.
pub(crate) struct BlockWeights<B: Backend> {
    pub attention_in: Option<B::Norm>,
    pub attention_out: Option<B::Norm>,
    pub after_attention: Option<B::Norm>,
    pub feed_forward_in: Option<B::Norm>,
    pub feed_forward_out: Option<B::Norm>,
    pub after_feed_forward: Option<B::Norm>,
    pub qkv: B::Linear,
    pub query_norm: Option<B::Norm>,
    pub key_norm: Option<B::Norm>,
    pub attention_output: B::Linear,
    /// Gate rows first where there is a gate.
    pub up: B::Linear,
    pub down: B::Linear,
}

/// Reads parameters of one checkpoint onto a backend.
pub(crate) struct Loader<'a, B: Backend> {
    pub backend: &'a B,
    pub checkpoint: &'a Checkpoint,
    pub plan: &'a TensorPlan,
    pub watch: &'a LoadWatch,
}

impl<B: Backend> Loader<'_, B> {
    pub fn embedding(&self, spec: &ModelSpec) -> Result<EmbeddingWeights<B>> {
        let width = spec.embedding.norm_width(spec.width);
        Ok(EmbeddingWeights {
            tokens: self.backend.table(self.weight(Slot::TokenEmbedding, 0)?)?,
            positions: self.table(Slot::PositionEmbedding)?,
            types: self.table(Slot::TypeEmbedding)?,
            norm: self.norm(Slot::EmbeddingNorm, 0, spec.embedding.norm, width)?,
            projection: match spec.embedding.projection {
                Some(_) => Some(self.linear(Slot::EmbeddingProjection, 0)?),
                None => None,
            },
        })
    }

    pub fn final_norm(&self, spec: &ModelSpec) -> Result<Option<B::Norm>> {
        self.norm(Slot::FinalNorm, 0, spec.final_norm, spec.width)
    }

    pub fn output_projection(&self, spec: &ModelSpec) -> Result<Option<B::Linear>> {
        spec.output_projection.map(|_| self.linear(Slot::OutputProjection, 0)).transpose()
    }

    /// The weights of some blocks, read on several threads; blocks that share weights and norms share them here too.
    pub fn blocks(&self, blocks: &[BlockSpec], width: usize, threads: usize) -> Result<Vec<Arc<BlockWeights<B>>>> {
        let same = |a: &BlockSpec, b: &BlockSpec| a.weights == b.weights && a.norms == b.norms;
        let first = |block: &BlockSpec| blocks.iter().position(|known| same(known, block));
        let different: Vec<usize> = (0..blocks.len()).filter(|&at| first(&blocks[at]) == Some(at)).collect();
        let read = in_order(threads, different.len(), |at| self.block(&blocks[different[at]], width).map(Arc::new));
        let read: Vec<Arc<BlockWeights<B>>> = read.into_iter().collect::<Result<_>>()?;
        let stored =
            |block: &BlockSpec| different.iter().zip(&read).find(|(at, _)| same(&blocks[**at], block)).map(|(_, read)| read.clone());
        Ok(blocks.iter().filter_map(stored).collect())
    }

    fn block(&self, spec: &BlockSpec, width: usize) -> Result<BlockWeights<B>> {
        let (at, attention, norms) = (spec.weights, &spec.attention, &spec.norms);
        let norm = |slot, norm| self.norm(slot, at, norm, width);
        let qk_norm = |slot, all_heads: usize| match attention.qk_norm {
            Some(qk) => self.norm(slot, at, Some(qk.norm), if qk.per_head { attention.head_dim } else { all_heads * attention.head_dim }),
            None => Ok(None),
        };
        Ok(BlockWeights {
            attention_in: norm(Slot::AttentionInNorm, norms.attention_in)?,
            attention_out: norm(Slot::AttentionOutNorm, norms.attention_out)?,
            after_attention: norm(Slot::AfterAttentionNorm, norms.after_attention)?,
            feed_forward_in: norm(Slot::FeedForwardInNorm, norms.feed_forward_in)?,
            feed_forward_out: norm(Slot::FeedForwardOutNorm, norms.feed_forward_out)?,
            after_feed_forward: norm(Slot::AfterFeedForwardNorm, norms.after_feed_forward)?,
            qkv: self.qkv(attention, at)?,
            query_norm: qk_norm(Slot::QueryNorm, attention.heads)?,
            key_norm: qk_norm(Slot::KeyNorm, attention.kv_heads)?,
            attention_output: self.linear(Slot::AttentionOutput, at)?,
            up: match spec.feed_forward.gate {
                Gate::None => self.linear(Slot::Up, at)?,
                Gate::Separate => self.stacked(Slot::Gate, &[Slot::Up], at)?,
                Gate::Fused => self.linear(Slot::GateUp, at)?,
            },
            down: self.linear(Slot::Down, at)?,
        })
    }

    /// The attention of one block, its position bias included.
    pub fn attention(&self, spec: &AttentionSpec) -> Result<B::Attention> {
        let table = self.optional(Slot::RelativeBias, 0, Part::Weight)?;
        Ok(self.backend.attention(AttentionShape {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.scale,
            causal: spec.causal,
            window: spec.window,
            bias: spec.bias.as_ref().map(|bias| position::position_bias(bias, spec.heads, spec.scale, table.as_deref())),
        })?)
    }

    /// Queries, keys and values as one layer: all query heads, all key heads, all value heads.
    fn qkv(&self, spec: &AttentionSpec, at: usize) -> Result<B::Linear> {
        match spec.qkv {
            QkvStorage::Separate => self.stacked(Slot::Query, &[Slot::Key, Slot::Value], at),
            QkvStorage::FusedBlocks => self.linear(Slot::QueryKeyValue, at),
            QkvStorage::FusedGroups => {
                let rows = ungrouped_rows(spec);
                let weight = self.weight(Slot::QueryKeyValue, at)?.select_rows(&rows);
                let ungroup = |bias: Vec<f32>| rows.iter().flat_map(|range| &bias[range.clone()]).copied().collect();
                let bias = self.bias(Slot::QueryKeyValue, at)?.map(ungroup);
                Ok(self.backend.linear(weight, bias)?)
            }
        }
    }

    /// Layers that read the same input, one above the other.
    fn stacked(&self, first: Slot, below: &[Slot], at: usize) -> Result<B::Linear> {
        let mut weight = self.weight(first, at)?;
        let mut bias = self.bias(first, at)?;
        for &slot in below {
            weight.append(self.weight(slot, at)?);
            if let (Some(bias), Some(more)) = (&mut bias, self.bias(slot, at)?) {
                bias.extend(more);
            }
        }
        Ok(self.backend.linear(weight, bias)?)
    }

    fn linear(&self, slot: Slot, at: usize) -> Result<B::Linear> {
        Ok(self.backend.linear(self.weight(slot, at)?, self.bias(slot, at)?)?)
    }

    fn norm(&self, slot: Slot, at: usize, spec: Option<NormSpec>, width: usize) -> Result<Option<B::Norm>> {
        let Some(spec) = spec else { return Ok(None) };
        let (gamma, beta) = spec.parameters(width, |part| self.optional(slot, at, part))?;
        Ok(Some(self.backend.norm(spec.kind, spec.epsilon, width, gamma, beta)?))
    }

    fn table(&self, slot: Slot) -> Result<Option<B::Table>> {
        match self.plan.has((slot, 0, Part::Weight)) {
            true => Ok(Some(self.backend.table(self.weight(slot, 0)?)?)),
            false => Ok(None),
        }
    }

    fn weight(&self, slot: Slot, at: usize) -> Result<HostTensor> {
        let place = (slot, at, Part::Weight);
        self.watch.read(self.plan.bytes(self.checkpoint, place), || self.plan.load_stored(self.checkpoint, place))
    }

    fn bias(&self, slot: Slot, at: usize) -> Result<Option<Vec<f32>>> {
        self.optional(slot, at, Part::Bias)
    }

    fn optional(&self, slot: Slot, at: usize, part: Part) -> Result<Option<Vec<f32>>> {
        let place = (slot, at, part);
        let read = || self.watch.read(self.plan.bytes(self.checkpoint, place), || self.plan.load(self.checkpoint, place));
        self.plan.has(place).then(read).transpose()
    }
}

/// Rows are stored as, for each key head, its query heads, its key, its value: the ranges that give queries, keys, values.
fn ungrouped_rows(spec: &AttentionSpec) -> Vec<Range<usize>> {
    let per_group = spec.heads / spec.kv_heads;
    let heads = |group: usize, from: usize, count: usize| {
        let first = (group * (per_group + 2) + from) * spec.head_dim;
        first..first + count * spec.head_dim
    };
    let parts = [(0, per_group), (per_group, 1), (per_group + 1, 1)];
    parts.iter().flat_map(|&(from, count)| (0..spec.kv_heads).map(move |group| heads(group, from, count))).collect()
}
