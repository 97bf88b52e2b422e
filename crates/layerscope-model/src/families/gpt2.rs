//! GPT-2: pre-norm decoder with learned positions; its linear layers are stored transposed.

use super::Family;
use super::gguf::{self, Gguf, Merges};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, LearnedPositions, ModelSpec, NormSpec, QkvStorage, Residual,
};

pub(super) const FAMILY: Family =
    Family { model_types: &["gpt2"], examples: "gpt2, gpt2-medium, distilgpt2", spec, names: &NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.only("scale_attn_by_inverse_layer_idx", false);
    config.harmless(&["n_ctx", "reorder_and_upcast_attn"]);
    super::read_decoder_keys(config);
    let width = config.count_any(&["n_embd", "hidden_size"]);
    let heads = config.count_any(&["n_head", "num_attention_heads"]);
    let head_dim = config.divide(("n_embd", width), ("n_head", heads));
    let positions = config.count_any(&["n_positions", "max_position_embeddings"]);
    let norm = NormSpec::layer(config.number_or("layer_norm_epsilon", 1e-5));
    let mut attention = AttentionSpec { causal: true, qkv: QkvStorage::FusedBlocks, ..AttentionSpec::multi_head(heads, head_dim) };
    if !config.flag_or("scale_attn_weights", true) {
        attention.scale = 1.0;
    }
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::pre(norm),
        attention,
        feed_forward: FeedForwardSpec::plain(
            config.count_or("n_inner", 4 * width),
            config.activation_or("activation_function", "gelu_new"),
        ),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(positions),
        embedding: EmbeddingSpec { positions: Some(LearnedPositions { rows: positions, offset: 0 }), ..EmbeddingSpec::tokens(width) },
        blocks: block.repeat(config.layers(&["n_layer", "num_hidden_layers"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

const NAMES: Names = Names {
    prefixes: &["transformer.", ""],
    modules: &[
        (Slot::TokenEmbedding, "wte"),
        (Slot::PositionEmbedding, "wpe"),
        (Slot::AttentionInNorm, "h.{}.ln_1"),
        (Slot::QueryKeyValue, "h.{}.attn.c_attn"),
        (Slot::AttentionOutput, "h.{}.attn.c_proj"),
        (Slot::FeedForwardInNorm, "h.{}.ln_2"),
        (Slot::Up, "h.{}.mlp.c_fc"),
        (Slot::Down, "h.{}.mlp.c_proj"),
        (Slot::FinalNorm, "ln_f"),
    ],
    ignored: &[
        "h.*.attn.bias",
        "h.*.attn.masked_bias",
        "lm_head.weight",
        "score.*",
        "classifier.*",
        "qa_outputs.*",
        "multiple_choice_head.*",
    ],
    linear_layout: LinearLayout::InOut,
};

const GGUF: Gguf = Gguf {
    architecture: "gpt2",
    model_type: "gpt2",
    keys: &[("attention.head_count_kv", ""), ("attention.layer_norm_epsilon", "layer_norm_epsilon"), ("feed_forward_length", "n_inner")],
    derive: |_, _| {},
    names: &gguf::NAMES,
    merges: Merges::ByScore,
};
