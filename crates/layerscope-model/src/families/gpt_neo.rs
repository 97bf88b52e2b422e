//! GPT-Neo: pre-norm decoder with learned positions, scores that are not scaled, and local layers between global ones.

use serde_json::Value;

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, LearnedPositions, ModelSpec, NormSpec, Residual};

pub(super) const FAMILY: Family =
    Family { model_types: &["gpt_neo"], examples: "gpt-neo-125m, gpt-neo-1.3B", spec, names: &NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    let width = config.count("hidden_size");
    let heads = config.count_any(&["num_heads", "num_attention_heads"]);
    let head_dim = config.divide(("hidden_size", width), ("num_heads", heads));
    let positions = config.count("max_position_embeddings");
    let norm = NormSpec::layer(config.number_or("layer_norm_epsilon", 1e-5));
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::pre(norm),
        attention: AttentionSpec { scale: 1.0, causal: true, qkv_bias: false, ..AttentionSpec::multi_head(heads, head_dim) },
        feed_forward: FeedForwardSpec::plain(
            config.count_or("intermediate_size", 4 * width),
            config.activation_or("activation_function", "gelu_new"),
        ),
    };
    let mut blocks = block.repeat(config.layers(&["num_layers", "num_hidden_layers"]));
    let window = config.count_or("window_size", 256);
    config.ensure(window > 0, || "`window_size` should be at least 1, found 0".to_owned());
    let local = local_layers(config, blocks.len());
    for (block, local) in blocks.iter_mut().zip(local) {
        block.attention.window = local.then_some(window);
    }
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(positions),
        embedding: EmbeddingSpec { positions: Some(LearnedPositions { rows: positions, offset: 0 }), ..EmbeddingSpec::tokens(width) },
        blocks,
        final_norm: Some(norm),
        output_projection: None,
    }
}

/// Which layers are local: from `attention_layers`, one word a layer, else from `attention_types`, `[[words, times], ...]`.
fn local_layers(config: &mut ConfigReader, layers: usize) -> Vec<bool> {
    let pattern = config.value("attention_types").unwrap_or_else(|| serde_json::json!([[["global", "local"], 12]]));
    let (key, kinds) = match config.optional_words("attention_layers") {
        Some(kinds) => ("attention_layers", Some(kinds)),
        None => ("attention_types", expand(&pattern, layers)),
    };
    let kinds = kinds.unwrap_or_default();
    config.ensure(kinds.len() == layers, || format!("`{key}` does not describe `num_layers` = {layers} layers"));
    if let Some(other) = kinds.iter().find(|kind| !matches!(kind.as_str(), "global" | "local")) {
        config.refuse(key, other);
    }
    kinds.iter().map(|kind| kind == "local").collect()
}

/// Writes out `[[words, times], ...]`; `None` where it is something else or repeats more often than there are layers.
fn expand(pattern: &Value, layers: usize) -> Option<Vec<String>> {
    let mut kinds = Vec::new();
    for item in pattern.as_array()? {
        let words: Vec<_> = item.get(0)?.as_array()?.iter().map(|word| Some(word.as_str()?.to_owned())).collect::<Option<_>>()?;
        let times = item.get(1)?.as_u64()?;
        if times > layers as u64 {
            return None;
        }
        for _ in 0..times {
            kinds.extend_from_slice(&words);
        }
    }
    Some(kinds)
}

const NAMES: Names = Names {
    prefixes: &["transformer.", ""],
    modules: &[
        (Slot::TokenEmbedding, "wte"),
        (Slot::PositionEmbedding, "wpe"),
        (Slot::AttentionInNorm, "h.{}.ln_1"),
        (Slot::Query, "h.{}.attn.attention.q_proj"),
        (Slot::Key, "h.{}.attn.attention.k_proj"),
        (Slot::Value, "h.{}.attn.attention.v_proj"),
        (Slot::AttentionOutput, "h.{}.attn.attention.out_proj"),
        (Slot::FeedForwardInNorm, "h.{}.ln_2"),
        (Slot::Up, "h.{}.mlp.c_fc"),
        (Slot::Down, "h.{}.mlp.c_proj"),
        (Slot::FinalNorm, "ln_f"),
    ],
    ignored: &["h.*.attn.attention.bias", "h.*.attn.attention.masked_bias", "lm_head.weight", "score.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
