//! GPT-NeoX and Pythia: attention and feed-forward usually side by side, each behind its own norm; part of a head rotates.

use serde_json::{Map, Value};

use super::Family;
use super::gguf::{self, Facts, Gguf, Merges};
use super::rope::{self, Outside};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, ModelSpec, NormSpec, QkvStorage, Residual};

pub(super) const FAMILY: Family =
    Family { model_types: &["gpt_neox"], examples: "pythia-70m, gpt-neox-20b", spec, names: &NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    let width = config.count("hidden_size");
    let heads = config.count("num_attention_heads");
    let head_dim = config.divide(("hidden_size", width), ("num_attention_heads", heads));
    let positions = config.count_or("max_position_embeddings", 2048);
    let base = config.number_or("rotary_emb_base", 10_000.0);
    let fraction = config.optional_real("rotary_pct").unwrap_or(0.25);
    // Second names that some versions of the reference library wrote and none reads.
    config.only("rope_theta", base);
    config.only("partial_rotary_factor", fraction);
    let rotary = rope::all_layers(config, &Outside { base, fraction, head_dim, positions });
    let max_positions = rope::max_positions(&rotary, positions);
    let bias = config.flag_or("attention_bias", true);
    let norm = NormSpec::layer(config.number_or("layer_norm_eps", 1e-5));
    let block = BlockSpec {
        weights: 0,
        residual: match config.flag_or("use_parallel_residual", true) {
            true => Residual::Parallel { shared_norm: false },
            false => Residual::Sequential,
        },
        norms: BlockNorms::pre(norm),
        attention: AttentionSpec {
            causal: true,
            qkv: QkvStorage::FusedGroups,
            qkv_bias: bias,
            out_bias: bias,
            rotary: Some(rotary),
            ..AttentionSpec::multi_head(heads, head_dim)
        },
        feed_forward: FeedForwardSpec::plain(config.count("intermediate_size"), config.activation_or("hidden_act", "gelu")),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions,
        embedding: EmbeddingSpec::tokens(width),
        blocks: block.repeat(config.layers(&["num_hidden_layers"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

const NAMES: Names = Names {
    prefixes: &["gpt_neox.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embed_in"),
        (Slot::AttentionInNorm, "layers.{}.input_layernorm"),
        (Slot::QueryKeyValue, "layers.{}.attention.query_key_value"),
        (Slot::AttentionOutput, "layers.{}.attention.dense"),
        (Slot::FeedForwardInNorm, "layers.{}.post_attention_layernorm"),
        (Slot::Up, "layers.{}.mlp.dense_h_to_4h"),
        (Slot::Down, "layers.{}.mlp.dense_4h_to_h"),
        (Slot::FinalNorm, "final_layer_norm"),
    ],
    ignored: &[
        "layers.*.attention.bias",
        "layers.*.attention.masked_bias",
        "layers.*.attention.rotary_emb.inv_freq",
        "rotary_emb.inv_freq",
        "embed_out.weight",
        "lm_head.weight",
        "score.*",
        "classifier.*",
        "qa_outputs.*",
    ],
    linear_layout: LinearLayout::OutIn,
};

const GGUF: Gguf = Gguf {
    architecture: "gptneox",
    model_type: "gpt_neox",
    keys: &[
        ("attention.head_count_kv", ""),
        ("attention.layer_norm_epsilon", "layer_norm_eps"),
        ("rope.freq_base", "rotary_emb_base"),
        ("use_parallel_residual", "use_parallel_residual"),
    ],
    derive,
    names: &gguf::NAMES,
    merges: Merges::ByScore,
};

/// The format does not store the activation: it is the one that all published sizes but the largest have, the default.
fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    if let (Some(rotary), Some(head_dim @ 1..)) = (facts.rotary_dim(), facts.usual_head_dim()) {
        config.insert("rotary_pct".to_owned(), (rotary as f64 / head_dim as f64).into());
    }
    config.insert("attention_bias".to_owned(), facts.has("blk.0.attn_qkv.bias").into());
}
