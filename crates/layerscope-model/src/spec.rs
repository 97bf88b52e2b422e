//! What a model computes, as pure data. Families translate `config.json` into this; everything after reads only this.

use layerscope_compute::{Activation, NormKind, RotaryPairs};

use crate::requirements::Part;

/// A Transformer, from token ids to the last hidden state.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Rows of the token embedding.
    pub vocabulary: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Longest sequence the positions allow, if they limit it.
    pub max_positions: Option<usize>,
    /// What happens before the first block.
    pub embedding: EmbeddingSpec,
    /// The blocks in order.
    pub blocks: Vec<BlockSpec>,
    /// The normalization after the last block.
    pub final_norm: Option<NormSpec>,
    /// Width to which a last linear layer, without bias, takes the states after everything else.
    pub output_projection: Option<usize>,
}

/// Token, position and type vectors, and what is done to their sum.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingSpec {
    /// Width of the token vectors; differs from the model's only with a projection.
    pub width: usize,
    /// Factor on the token vectors.
    pub scale: f32,
    /// Learned vectors added per position.
    pub positions: Option<LearnedPositions>,
    /// A token that has no place in the sequence: it reads the row before position 0's, and tokens after it are
    /// numbered as if it were not there.
    pub unnumbered: Option<u32>,
    /// Number of segment types; a single-text input is all type 0. Zero: no such table.
    pub types: usize,
    /// Normalization of the sum.
    pub norm: Option<NormSpec>,
    /// From the tokens' width to the model's.
    pub projection: Option<Projection>,
}

impl EmbeddingSpec {
    /// Width of what is normed: the model's where the projection comes first.
    pub(crate) fn norm_width(&self, model: usize) -> usize {
        let before_positions = self.projection.is_some_and(|projection| projection.before_positions);
        if before_positions { model } else { self.width }
    }

    /// Token vectors alone.
    pub fn tokens(width: usize) -> Self {
        EmbeddingSpec { width, scale: 1.0, positions: None, unnumbered: None, types: 0, norm: None, projection: None }
    }
}

/// A table of position vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedPositions {
    /// Rows of the table.
    pub rows: usize,
    /// Row of position 0.
    pub offset: usize,
}

/// Where the embedding's projection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Whether it has a bias.
    pub bias: bool,
    /// Before positions are added (which then have the model's width), or after everything else.
    pub before_positions: bool,
}

/// A normalization layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSpec {
    /// Layer or RMS.
    pub kind: NormKind,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether there is a gamma.
    pub gamma: bool,
    /// Added to the stored gamma: 1 where checkpoints store the deviation from one.
    pub gamma_offset: f32,
    /// Factor on gamma; 1 unless the model is altered.
    pub gamma_scale: f32,
    /// Whether there is a beta.
    pub beta: bool,
}

impl NormSpec {
    /// Layer normalization with gamma and beta.
    pub fn layer(epsilon: f32) -> Self {
        NormSpec { kind: NormKind::Layer, epsilon, gamma: true, gamma_offset: 0.0, gamma_scale: 1.0, beta: true }
    }

    /// RMS normalization with gamma.
    pub fn rms(epsilon: f32) -> Self {
        NormSpec { kind: NormKind::Rms, epsilon, gamma: true, gamma_offset: 0.0, gamma_scale: 1.0, beta: false }
    }

    /// Gamma and beta as they are applied, read part by part; None where they change nothing.
    pub(crate) fn parameters<E>(&self, width: usize, read: impl Fn(Part) -> Result<Values, E>) -> Result<(Values, Values), E> {
        let stored = if self.gamma { read(Part::Weight)? } else { None };
        let gamma = stored.map(|gamma| gamma.iter().map(|value| (value + self.gamma_offset) * self.gamma_scale).collect());
        let scaled = || (self.gamma_scale != 1.0).then(|| vec![self.gamma_scale; width]);
        Ok((gamma.or_else(scaled), if self.beta { read(Part::Bias)? } else { None }))
    }
}

/// The numbers of a gamma or beta, where there is one.
type Values = Option<Vec<f32>>;

/// One block: see the diagram in `block.rs` for where each norm stands.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSpec {
    /// Which stored block holds the weights; differs from the block's own place where blocks share weights.
    pub weights: usize,
    /// How attention and feed-forward meet the residual stream.
    pub residual: Residual,
    /// The norm slots.
    pub norms: BlockNorms,
    /// The attention.
    pub attention: AttentionSpec,
    /// The feed-forward.
    pub feed_forward: FeedForwardSpec,
}

impl BlockSpec {
    /// The same block `layers` times, each with weights of its own.
    pub fn repeat(&self, layers: usize) -> Vec<BlockSpec> {
        (0..layers).map(|layer| BlockSpec { weights: layer, ..self.clone() }).collect()
    }
}

/// How the two halves of a block are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// Attention first, the feed-forward reads its result.
    Sequential,
    /// The same, but each half is added to its own normed input: the stream continues from the norms.
    SequentialFromNorms,
    /// Both read the block's input.
    Parallel {
        /// Both read the output of the attention's input norm.
        shared_norm: bool,
    },
}

/// The six places of a block where a norm can stand; `None` is the identity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockNorms {
    /// Before attention.
    pub attention_in: Option<NormSpec>,
    /// On attention's output, before it is added.
    pub attention_out: Option<NormSpec>,
    /// On the residual stream after attention was added.
    pub after_attention: Option<NormSpec>,
    /// Before the feed-forward.
    pub feed_forward_in: Option<NormSpec>,
    /// On the feed-forward's output, before it is added.
    pub feed_forward_out: Option<NormSpec>,
    /// On the residual stream after the feed-forward was added.
    pub after_feed_forward: Option<NormSpec>,
}

impl BlockNorms {
    /// Norms before attention and feed-forward.
    pub fn pre(norm: NormSpec) -> Self {
        BlockNorms { attention_in: Some(norm), feed_forward_in: Some(norm), ..Self::default() }
    }

    /// Norms on the residual stream after each addition.
    pub fn post(norm: NormSpec) -> Self {
        BlockNorms { after_attention: Some(norm), after_feed_forward: Some(norm), ..Self::default() }
    }
}

/// Self-attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Attend only backwards.
    pub causal: bool,
    /// Attend only where `|query - key| < window`.
    pub window: Option<usize>,
    /// How queries, keys and values are stored.
    pub qkv: QkvStorage,
    /// Bias of queries, keys and values.
    pub qkv_bias: bool,
    /// Bias of the output projection.
    pub out_bias: bool,
    /// Norm of queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Rotation of queries and keys.
    pub rotary: Option<RotarySpec>,
    /// Bias of the scores by distance.
    pub bias: Option<BiasSpec>,
}

impl AttentionSpec {
    /// Columns of a row of queries, keys and values together.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Plain multi-head attention: both ways, separate projections with biases, scores divided by `sqrt(head_dim)`.
    pub fn multi_head(heads: usize, head_dim: usize) -> Self {
        AttentionSpec {
            heads,
            kv_heads: heads,
            head_dim,
            scale: (head_dim as f32).powf(-0.5),
            causal: false,
            window: None,
            qkv: QkvStorage::Separate,
            qkv_bias: true,
            out_bias: true,
            qk_norm: None,
            rotary: None,
            bias: None,
        }
    }
}

/// How a checkpoint stores the three input projections of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkvStorage {
    /// Three tensors.
    Separate,
    /// One tensor whose rows are all queries, all keys, all values.
    FusedBlocks,
    /// One tensor, for each key head: its query heads, its key, its value.
    FusedGroups,
}

/// Normalization of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkNorm {
    /// The norm.
    pub norm: NormSpec,
    /// Over each head, or over all heads together.
    pub per_head: bool,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
pub struct RotarySpec {
    /// Base of the frequencies.
    pub base: f32,
    /// Leading dimensions of each head that are rotated.
    pub dim: usize,
    /// Which dimensions turn together.
    pub pairs: RotaryPairs,
    /// Stretching for longer contexts.
    pub scaling: RotaryScaling,
}

/// How rotary frequencies are stretched.
#[derive(Clone, Debug, PartialEq)]
pub enum RotaryScaling {
    /// Not at all.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// The base grows with the sequence's length once it exceeds the trained one (defined per sequence).
    Dynamic {
        /// The factor.
        factor: f32,
        /// The trained length.
        trained: usize,
    },
    /// Each frequency divided by a number of its own.
    Each {
        /// The numbers, one for every pair of dimensions.
        factors: Vec<f32>,
    },
    /// Low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// Wavelengths beyond `trained / low` are divided.
        low: f32,
        /// Wavelengths below `trained / high` are kept.
        high: f32,
        /// The trained length.
        trained: usize,
    },
}

/// Score biases by distance.
#[derive(Clone, Debug, PartialEq)]
pub enum BiasSpec {
    /// Linear in distance, slopes by the usual geometric rule over heads.
    Alibi {
        /// Rounded through bfloat16.
        rounded_to_bf16: bool,
        /// Multiplied by the score factor together with the scores.
        scaled_with_scores: bool,
    },
    /// Learned values for logarithmic buckets of distance, shared by all blocks.
    Buckets {
        /// Buckets in use, half for each direction.
        buckets: usize,
        /// Rows of the table, of which the first are used.
        rows: usize,
        /// Distances beyond share the last bucket.
        max_distance: usize,
    },
}

/// The feed-forward.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForwardSpec {
    /// Width of the hidden layer.
    pub width: usize,
    /// The nonlinearity.
    pub activation: Activation,
    /// Whether and how a gate multiplies the hidden layer.
    pub gate: Gate,
    /// Bias of the input projection(s).
    pub in_bias: bool,
    /// Bias of the output projection.
    pub out_bias: bool,
}

impl FeedForwardSpec {
    /// Two layers with biases.
    pub fn plain(width: usize, activation: Activation) -> Self {
        FeedForwardSpec { width, activation, gate: Gate::None, in_bias: true, out_bias: true }
    }

    /// `activation(gate) * up`, three tensors, no biases.
    pub fn gated(width: usize, activation: Activation) -> Self {
        FeedForwardSpec { width, activation, gate: Gate::Separate, in_bias: false, out_bias: false }
    }
}

/// Gating of the feed-forward's hidden layer: `activation(gate) * up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// `activation(up)` alone.
    None,
    /// Gate and up are two tensors.
    Separate,
    /// One tensor: gate rows first, then up rows.
    Fused,
}
