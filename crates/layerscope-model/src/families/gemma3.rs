//! Gemma 3, alone or as the text half of the model that also sees: sandwich norms, scaled embeddings, layers that see a
//! window between layers that see everything, each kind with a rotation of its own.

use serde_json::{Map, Value};

use super::Family;
use super::gated_decoder::{self, Defaults, USUAL};
use super::gguf::{self, Facts, Gguf, Merges};
use super::rope::{self, Outside};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{BlockNorms, ModelSpec, NormSpec, QkNorm};

pub(super) const FAMILY: Family =
    Family { model_types: &["gemma3", "gemma3_text"], examples: "gemma-3-1b-pt, gemma-3-4b-pt", spec, names: &NAMES, gguf: Some(&GGUF) };

const DEFAULTS: Defaults = Defaults {
    vocabulary: Some(262_208),
    heads: Some(8),
    kv_heads: Some(4),
    head_dim: Some(256),
    positions: 131_072,
    activation_key: "hidden_activation",
    activation: "gelu_pytorch_tanh",
    ..USUAL
};

fn spec(config: &mut ConfigReader) -> ModelSpec {
    if config.word_or("model_type", "") == "gemma3_text" {
        return text(config);
    }
    config.harmless(&["vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"]);
    config.harmless(&["boi_token_id", "eoi_token_id", "image_token_id"]);
    let mut nested = config.section("text_config").unwrap_or_else(|| config.empty_section());
    let model = text(&mut nested);
    config.absorb("text_config", nested);
    model
}

fn text(config: &mut ConfigReader) -> ModelSpec {
    config.only("attn_logit_softcapping", serde_json::Value::Null);
    let both_ways = config.flag_or("use_bidirectional_attention", false);
    config.harmless(&["final_logit_softcapping", "cache_implementation", "_sliding_window_pattern"]);
    let mut model = gated_decoder::without_positions(config, &DEFAULTS);
    gated_decoder::read_attention_bias(config, &mut model);
    model.embedding.scale = (model.width as f64).sqrt() as f32;

    let (head_dim, positions) = (model.blocks[0].attention.head_dim, model.max_positions.unwrap_or(DEFAULTS.positions));
    let full = Outside { base: config.number_or("rope_theta", 1e6), fraction: 1.0, head_dim, positions };
    let sliding = Outside { base: config.number_or("rope_local_base_freq", 1e4), ..full };
    let rotary = rope::by_layer_type(config, &full, &sliding);
    model.max_positions = rope::max_positions(&rotary.full, positions);

    let scalar = config.optional_real("query_pre_attn_scalar").unwrap_or(256.0);
    config.ensure(scalar > 0.0, || format!("`query_pre_attn_scalar` = {scalar} should be positive"));
    let window = gated_decoder::sliding_window(config, 4096);
    config.ensure(window.is_some(), || "`sliding_window` should be a count, found null".to_owned());
    let period = config.count_or("sliding_window_pattern", 6).max(1);
    let slides = gated_decoder::sliding_layers(config, model.blocks.len(), |layer| (layer + 1) % period != 0);

    let centered = |norm: NormSpec| NormSpec { gamma_offset: 1.0, ..norm };
    for (block, slides) in model.blocks.iter_mut().zip(slides) {
        let norm = block.norms.attention_in.map(centered);
        block.norms =
            BlockNorms { attention_in: norm, attention_out: norm, feed_forward_in: norm, feed_forward_out: norm, ..BlockNorms::default() };
        block.attention.qk_norm = norm.map(|norm| QkNorm { norm, per_head: true });
        block.attention.scale = scalar.powf(-0.5) as f32;
        // Attending both ways, the window is split between the two directions.
        block.attention.window = window.filter(|_| slides).map(|window| if both_ways { window / 2 + 1 } else { window });
        block.attention.causal = !both_ways;
        block.attention.rotary = Some(if slides { rotary.sliding.clone() } else { rotary.full.clone() });
    }
    model.final_norm = model.final_norm.map(centered);
    model
}

const NAMES: Names = Names {
    prefixes: &["language_model.model.", "model.language_model.", "language_model.", "model.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embed_tokens"),
        (Slot::AttentionInNorm, "layers.{}.input_layernorm"),
        (Slot::Query, "layers.{}.self_attn.q_proj"),
        (Slot::Key, "layers.{}.self_attn.k_proj"),
        (Slot::Value, "layers.{}.self_attn.v_proj"),
        (Slot::QueryNorm, "layers.{}.self_attn.q_norm"),
        (Slot::KeyNorm, "layers.{}.self_attn.k_norm"),
        (Slot::AttentionOutput, "layers.{}.self_attn.o_proj"),
        (Slot::AttentionOutNorm, "layers.{}.post_attention_layernorm"),
        (Slot::FeedForwardInNorm, "layers.{}.pre_feedforward_layernorm"),
        (Slot::Gate, "layers.{}.mlp.gate_proj"),
        (Slot::Up, "layers.{}.mlp.up_proj"),
        (Slot::Down, "layers.{}.mlp.down_proj"),
        (Slot::FeedForwardOutNorm, "layers.{}.post_feedforward_layernorm"),
        (Slot::FinalNorm, "norm"),
    ],
    // Heads and the half that sees; some lie outside the text model's prefix.
    ignored: &[
        "lm_head.weight",
        "language_model.lm_head.weight",
        "score.*",
        "vision_tower.*",
        "model.vision_tower.*",
        "multi_modal_projector.*",
        "model.multi_modal_projector.*",
    ],
    linear_layout: LinearLayout::OutIn,
};

const GGUF: Gguf = Gguf {
    architecture: "gemma3",
    model_type: "gemma3_text",
    keys: &[
        ("attention.sliding_window", "sliding_window"),
        ("attention.sliding_window_pattern", "sliding_window_pattern"),
        ("rope.freq_base_swa", "rope_local_base_freq"),
    ],
    derive,
    names: &gguf::NAMES,
    merges: Merges::ByPlace,
};

/// Layers of the one published size whose scores are not scaled by the width of a head.
const LAYERS_OF_27B: u64 = 62;

/// The format does not store `query_pre_attn_scalar`: it is the width of a head, in the largest model the width over the heads.
fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    if let Some(head_dim) = facts.head_dim() {
        config.insert("head_dim".to_owned(), head_dim.into());
    }
    let largest = facts.count("block_count") == Some(LAYERS_OF_27B);
    let scalar = if largest { facts.usual_head_dim() } else { facts.head_dim() };
    if let Some(scalar) = scalar {
        config.insert("query_pre_attn_scalar".to_owned(), scalar.into());
    }
}
