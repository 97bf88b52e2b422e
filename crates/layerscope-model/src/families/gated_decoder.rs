//! What the decoders with RMS norms, rotary positions and a gated feed-forward have in common: the keys of their
//! configurations, and, where norms stand before attention and feed-forward, the names of their tensors.

use serde_json::{Map, Value};

use super::gguf::Facts;
use super::rope;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, ModelSpec, NormSpec, Residual};

/// What the reference library assumes where a configuration is silent.
pub(super) struct Defaults {
    /// Rows of the token embedding; `None` makes the key required.
    pub vocabulary: Option<usize>,
    /// Query heads; `None` makes the key required.
    pub heads: Option<usize>,
    /// Key and value heads; `None` is as many as queries.
    pub kv_heads: Option<usize>,
    /// Width of a head; `None` is the model's width over the heads.
    pub head_dim: Option<usize>,
    /// The trained length.
    pub positions: usize,
    /// Of all norms.
    pub epsilon: f32,
    /// The activation's key.
    pub activation_key: &'static str,
    /// The activation.
    pub activation: &'static str,
}

/// Every key required that can be; the rest as most of these families have it.
pub(super) const USUAL: Defaults = Defaults {
    vocabulary: None,
    heads: None,
    kv_heads: None,
    head_dim: None,
    positions: 2048,
    epsilon: 1e-6,
    activation_key: "hidden_act",
    activation: "silu",
};

/// The model with norms before attention and feed-forward, no biases, and no positions yet.
pub(super) fn without_positions(config: &mut ConfigReader, defaults: &Defaults) -> ModelSpec {
    super::read_decoder_keys(config);
    let width = config.count("hidden_size");
    let heads = match defaults.heads {
        Some(heads) => config.count_or("num_attention_heads", heads),
        None => config.count("num_attention_heads"),
    };
    let kv_heads = match config.is_null("num_key_value_heads") {
        true => heads,
        false => config.count_or("num_key_value_heads", defaults.kv_heads.unwrap_or(heads)),
    };
    config.divide(("num_attention_heads", heads), ("num_key_value_heads", kv_heads));
    let head_dim = match config.optional_count("head_dim").or(defaults.head_dim) {
        Some(head_dim) => head_dim,
        None => config.divide(("hidden_size", width), ("num_attention_heads", heads)),
    };
    let norm = NormSpec::rms(config.number_or("rms_norm_eps", defaults.epsilon));
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::pre(norm),
        attention: AttentionSpec { kv_heads, causal: true, qkv_bias: false, out_bias: false, ..AttentionSpec::multi_head(heads, head_dim) },
        feed_forward: FeedForwardSpec::gated(
            config.count("intermediate_size"),
            config.activation_or(defaults.activation_key, defaults.activation),
        ),
    };
    ModelSpec {
        vocabulary: match defaults.vocabulary {
            Some(rows) => config.count_or("vocab_size", rows),
            None => config.count("vocab_size"),
        },
        width,
        max_positions: Some(config.count_or("max_position_embeddings", defaults.positions)),
        embedding: EmbeddingSpec::tokens(width),
        blocks: block.repeat(config.layers(&["num_hidden_layers"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

/// The same with one rotation of whole heads in all layers.
pub(super) fn with_rotary(config: &mut ConfigReader, defaults: &Defaults) -> ModelSpec {
    let mut model = without_positions(config, defaults);
    let positions = model.max_positions.unwrap_or(defaults.positions);
    let head_dim = model.blocks[0].attention.head_dim;
    let rotary = rope::whole_heads(config, head_dim, positions);
    model.max_positions = rope::max_positions(&rotary, positions);
    for block in &mut model.blocks {
        block.attention.rotary = Some(rotary.clone());
    }
    model
}

/// `attention_bias`: one switch for all four projections of attention.
pub(super) fn read_attention_bias(config: &mut ConfigReader, model: &mut ModelSpec) {
    let bias = config.flag_or("attention_bias", false);
    for block in &mut model.blocks {
        block.attention.qkv_bias = bias;
        block.attention.out_bias = bias;
    }
}

/// `sliding_window`: null is none, absent is the reference library's `default`.
pub(super) fn sliding_window(config: &mut ConfigReader, default: usize) -> Option<usize> {
    if config.is_null("sliding_window") {
        return None;
    }
    let window = config.count_or("sliding_window", default);
    config.ensure(window > 0, || "`sliding_window` should be at least 1, found 0".to_owned());
    Some(window)
}

/// Which layers see only a window: `layer_types` where it is written, else those that `by_default` names.
pub(super) fn sliding_layers(config: &mut ConfigReader, layers: usize, by_default: impl Fn(usize) -> bool) -> Vec<bool> {
    let Some(kinds) = config.optional_words("layer_types") else {
        return (0..layers).map(by_default).collect();
    };
    config.ensure(kinds.len() == layers, || format!("`layer_types` names {} layers, `num_hidden_layers` = {layers}", kinds.len()));
    if let Some(other) = kinds.iter().find(|kind| !matches!(kind.as_str(), "full_attention" | "sliding_attention")) {
        config.refuse("layer_types", other);
    }
    kinds.iter().map(|kind| kind == "sliding_attention").collect()
}

/// `use_sliding_window`, `sliding_window` and the layers from `max_window_layers` on, or those of `layer_types`.
pub(super) fn read_late_windows(config: &mut ConfigReader, model: &mut ModelSpec) {
    let window = sliding_window(config, 4096);
    let window = if config.flag_or("use_sliding_window", false) { window } else { None };
    let first = config.count_or("max_window_layers", 28);
    let sliding = sliding_layers(config, model.blocks.len(), |layer| window.is_some() && layer >= first);
    config.ensure(window.is_some() || !sliding.contains(&true), || {
        "`layer_types` has sliding layers but `use_sliding_window` and `sliding_window` give no window".to_owned()
    });
    for (block, sliding) in model.blocks.iter_mut().zip(sliding) {
        block.attention.window = window.filter(|_| sliding);
    }
}

pub(super) const NAMES: Names = Names {
    prefixes: &["model.", "transformer.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embed_tokens"),
        (Slot::AttentionInNorm, "layers.{}.input_layernorm"),
        (Slot::Query, "layers.{}.self_attn.q_proj"),
        (Slot::Key, "layers.{}.self_attn.k_proj"),
        (Slot::Value, "layers.{}.self_attn.v_proj"),
        (Slot::QueryNorm, "layers.{}.self_attn.q_norm"),
        (Slot::KeyNorm, "layers.{}.self_attn.k_norm"),
        (Slot::AttentionOutput, "layers.{}.self_attn.o_proj"),
        (Slot::FeedForwardInNorm, "layers.{}.post_attention_layernorm"),
        (Slot::Gate, "layers.{}.mlp.gate_proj"),
        (Slot::Up, "layers.{}.mlp.up_proj"),
        (Slot::Down, "layers.{}.mlp.down_proj"),
        (Slot::FinalNorm, "norm"),
    ],
    ignored: IGNORED,
    linear_layout: LinearLayout::OutIn,
};

/// Buffers of older checkpoints, and heads.
pub(super) const IGNORED: &[&str] =
    &["layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq", "lm_head.weight", "score.*", "qa_outputs.*", "classifier.*"];

/// GGUF files of these decoders: the width of a head, where it is not the usual one.
pub(super) fn read_gguf_head(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    let head_dim = facts.head_dim().or(facts.rotary_dim());
    if let Some(head_dim) = head_dim {
        config.insert("head_dim".to_owned(), head_dim.into());
    }
    if let (Some(rotary), Some(head_dim)) = (facts.rotary_dim(), head_dim)
        && rotary != head_dim
    {
        config.insert("partial_rotary_factor".to_owned(), (rotary as f64 / head_dim as f64).into());
    }
}
