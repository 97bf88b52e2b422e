//! ModernBERT: pre-norm encoder with rotary positions, a gated feed-forward, and windowed attention in most blocks.

use layerscope_compute::RotaryPairs;

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, Gate, ModelSpec, NormSpec, QkvStorage, Residual, RotaryScaling,
    RotarySpec,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["modernbert"],
    examples: "answerdotai/ModernBERT-base, nomic-ai/modernbert-embed-base",
    spec,
    names: &NAMES,
    gguf: None,
};

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.only("position_embedding_type", "absolute");
    config.harmless(&[
        "classifier_activation",
        "classifier_bias",
        "classifier_pooling",
        "decoder_bias",
        "deterministic_flash_attn",
        "initializer_cutoff_factor",
        "layer_norm_eps", // published beside `norm_eps`, which is the one in use
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    ]);
    let width = config.count("hidden_size");
    let heads = config.count("num_attention_heads");
    let head_dim = config.divide(("hidden_size", width), ("num_attention_heads", heads));
    config.only("head_dim", head_dim);
    config.ensure(head_dim.is_multiple_of(2), || format!("rotary positions need an even width of heads, found {head_dim}"));
    let norm = NormSpec { beta: config.flag_or("norm_bias", false), ..NormSpec::layer(config.number_or("norm_eps", 1e-5)) };
    let attention_bias = config.flag_or("attention_bias", false);
    let mlp_bias = config.flag_or("mlp_bias", false);
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::pre(norm),
        attention: AttentionSpec {
            qkv: QkvStorage::FusedBlocks,
            qkv_bias: attention_bias,
            out_bias: attention_bias,
            ..AttentionSpec::multi_head(heads, head_dim)
        },
        feed_forward: FeedForwardSpec {
            gate: Gate::Fused,
            in_bias: mlp_bias,
            out_bias: mlp_bias,
            ..FeedForwardSpec::plain(config.count("intermediate_size"), config.activation_or("hidden_activation", "gelu"))
        },
    };
    let mut blocks = block.repeat(config.layers(&["num_hidden_layers"]));

    let (global_base, local_base) = rotary_bases(config);
    let window = window(config);
    let local = local_layers(config, blocks.len());
    for (block, local) in blocks.iter_mut().zip(local) {
        let base = if local { local_base } else { global_base };
        block.attention.rotary = Some(RotarySpec { base, dim: head_dim, pairs: RotaryPairs::Halves, scaling: RotaryScaling::None });
        block.attention.window = local.then_some(window);
    }
    // The embedding's norm stands directly before it.
    if let Some(first) = blocks.first_mut() {
        first.norms.attention_in = None;
    }
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(config.count_or("max_position_embeddings", 8192)),
        embedding: EmbeddingSpec { norm: Some(norm), ..EmbeddingSpec::tokens(width) },
        blocks,
        final_norm: Some(norm),
        output_projection: None,
    }
}

/// `local_attention` counts both sides: a token sees those at a distance of up to half of it, that included.
fn window(config: &mut ConfigReader) -> usize {
    let both_sides = config.count_or("local_attention", 128);
    config.optional_count("sliding_window").unwrap_or(both_sides / 2) + 1
}

/// Which blocks attend within the window: listed in today's files, every one but each n-th in published ones.
fn local_layers(config: &mut ConfigReader, layers: usize) -> Vec<bool> {
    let period = config.count_or("global_attn_every_n_layers", 3);
    let Some(types) = config.optional_words("layer_types") else {
        config.ensure(period > 0, || "`global_attn_every_n_layers` should be at least 1, found 0".to_owned());
        return (0..layers).map(|layer| layer % period.max(1) != 0).collect();
    };
    config.ensure(types.len() == layers, || format!("`layer_types` lists {} layers, `num_hidden_layers` = {layers}", types.len()));
    if let Some(other) = types.iter().find(|kind| !["full_attention", "sliding_attention"].contains(&kind.as_str())) {
        config.refuse("layer_types", other);
    }
    types.iter().map(|kind| kind == "sliding_attention").collect()
}

/// The rotary bases of blocks that see everything and of windowed ones: two keys in published files, a section each in
/// today's.
fn rotary_bases(config: &mut ConfigReader) -> (f32, f32) {
    config.only_empty("rope_scaling");
    let mut global = config.number_or("global_rope_theta", 160_000.0);
    let mut local = config.number_or("local_rope_theta", 10_000.0);
    if let Some(mut sections) = config.section("rope_parameters") {
        sections.only_empty("rope_theta"); // must stand in the section of a layer type
        for (layer_type, base) in [("full_attention", &mut global), ("sliding_attention", &mut local)] {
            if let Some(mut section) = sections.section(layer_type) {
                section.only("rope_type", "default");
                section.only("type", "default");
                *base = section.number_or("rope_theta", *base);
                sections.absorb(layer_type, section);
            }
        }
        config.absorb("rope_parameters", sections);
    }
    (global, local)
}

const NAMES: Names = Names {
    prefixes: &["model.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embeddings.tok_embeddings"),
        (Slot::EmbeddingNorm, "embeddings.norm"),
        (Slot::AttentionInNorm, "layers.{}.attn_norm"),
        (Slot::QueryKeyValue, "layers.{}.attn.Wqkv"),
        (Slot::AttentionOutput, "layers.{}.attn.Wo"),
        (Slot::FeedForwardInNorm, "layers.{}.mlp_norm"),
        (Slot::GateUp, "layers.{}.mlp.Wi"),
        (Slot::Down, "layers.{}.mlp.Wo"),
        (Slot::FinalNorm, "final_norm"),
    ],
    ignored: &["head.*", "decoder.*", "classifier.*"],
    linear_layout: LinearLayout::OutIn,
};
