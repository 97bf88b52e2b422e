//! Falcon, three ways: 7B with one key head and both halves of a block behind one norm; 40B, the "new decoder", with
//! grouped heads and usually two norms; RW with as many key heads as queries, halves in sequence, and ALiBi.

use serde_json::{Map, Value};

use super::gguf::{Facts, Gguf, Merges};
use super::{Family, rope};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BiasSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, ModelSpec, NormSpec, QkvStorage, Residual,
};

pub(super) const FAMILY: Family =
    Family { model_types: &["falcon"], examples: "falcon-7b, falcon-40b, falcon-rw-1b", spec, names: &NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    config.only("apply_residual_connection_post_layernorm", false);
    config.harmless(&["ff_factor", "n_inner"]);
    let width = config.count_any(&["n_embed", "hidden_size"]);
    let heads = config.count_any(&["num_attention_heads", "n_head"]);
    let head_dim = config.divide(("hidden_size", width), ("num_attention_heads", heads));
    let new_decoder = config.flag_or("new_decoder_architecture", false);
    let (qkv, kv_heads) = key_heads(config, new_decoder, heads);
    let norm = NormSpec::layer(config.number_or("layer_norm_epsilon", 1e-5));
    let (residual, norms) = arrangement(config, new_decoder, norm);
    let bias = config.flag_or("bias", false);
    let mut attention =
        AttentionSpec { kv_heads, causal: true, qkv, qkv_bias: bias, out_bias: bias, ..AttentionSpec::multi_head(heads, head_dim) };
    let max_positions = if config.flag_or("alibi", false) {
        config.harmless(&["max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters"]);
        attention.bias = Some(BiasSpec::Alibi { rounded_to_bf16: true, scaled_with_scores: true });
        None
    } else {
        let positions = config.count_or("max_position_embeddings", 2048);
        let rotary = rope::whole_heads(config, head_dim, positions);
        let longest = rope::max_positions(&rotary, positions);
        attention.rotary = Some(rotary);
        longest
    };
    let block = BlockSpec {
        weights: 0,
        residual,
        norms,
        attention,
        feed_forward: FeedForwardSpec {
            in_bias: bias,
            out_bias: bias,
            ..FeedForwardSpec::plain(config.count_or("ffn_hidden_size", 4 * width), config.activation_or("activation", "gelu"))
        },
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions,
        embedding: EmbeddingSpec::tokens(width),
        blocks: block.repeat(config.layers(&["num_hidden_layers", "n_layer"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

/// How queries, keys and values lie in their one tensor, and how many key heads there are.
fn key_heads(config: &mut ConfigReader, new_decoder: bool, heads: usize) -> (QkvStorage, usize) {
    let multi_query = config.flag_or("multi_query", true);
    let written = config.optional_count("num_kv_heads").or_else(|| config.optional_count("n_head_kv")).unwrap_or(heads);
    if new_decoder {
        config.divide(("num_attention_heads", heads), ("num_kv_heads", written));
        (QkvStorage::FusedGroups, written)
    } else if multi_query {
        (QkvStorage::FusedBlocks, 1) // the written number is without effect here
    } else {
        config.ensure(written == heads, || {
            format!("`num_kv_heads` = {written} contradicts `num_attention_heads` = {heads} without `multi_query` and `new_decoder_architecture`")
        });
        (QkvStorage::FusedGroups, heads)
    }
}

/// How the halves of a block meet and where its norms stand. The reference library fails on the other combinations.
fn arrangement(config: &mut ConfigReader, new_decoder: bool, norm: NormSpec) -> (Residual, BlockNorms) {
    let parallel = config.flag_or("parallel_attn", true);
    let norms_in_parallel = config.count_or("num_ln_in_parallel_attn", if new_decoder { 2 } else { 1 });
    match (new_decoder, parallel, norms_in_parallel) {
        (true, true, 2) => (Residual::Parallel { shared_norm: false }, BlockNorms::pre(norm)),
        (_, true, 1) => (Residual::Parallel { shared_norm: true }, BlockNorms { attention_in: Some(norm), ..BlockNorms::default() }),
        (false, false, _) => (Residual::Sequential, BlockNorms::pre(norm)),
        (true, false, _) => {
            config.ensure(false, || "`parallel_attn` = false contradicts `new_decoder_architecture` = true".to_owned());
            (Residual::Sequential, BlockNorms::pre(norm))
        }
        (_, true, other) => {
            config.refuse("num_ln_in_parallel_attn", &other.to_string());
            (Residual::Sequential, BlockNorms::pre(norm))
        }
    }
}

const NAMES: Names = Names {
    prefixes: &["transformer.", ""],
    // Norms are called `ln_attn` and `ln_mlp` where both stand in parallel.
    modules: &[
        (Slot::TokenEmbedding, "word_embeddings"),
        (Slot::AttentionInNorm, "h.{}.input_layernorm"),
        (Slot::AttentionInNorm, "h.{}.ln_attn"),
        (Slot::QueryKeyValue, "h.{}.self_attention.query_key_value"),
        (Slot::AttentionOutput, "h.{}.self_attention.dense"),
        (Slot::FeedForwardInNorm, "h.{}.post_attention_layernorm"),
        (Slot::FeedForwardInNorm, "h.{}.ln_mlp"),
        (Slot::Up, "h.{}.mlp.dense_h_to_4h"),
        (Slot::Down, "h.{}.mlp.dense_4h_to_h"),
        (Slot::FinalNorm, "ln_f"),
    ],
    ignored: &[
        "h.*.self_attention.rotary_emb.inv_freq",
        "h.*.self_attention.maybe_rotary.inv_freq",
        "rotary_emb.inv_freq",
        "lm_head.weight",
        "score.*",
        "classifier.*",
        "qa_outputs.*",
    ],
    linear_layout: LinearLayout::OutIn,
};

const GGUF: Gguf = Gguf {
    architecture: "falcon",
    model_type: "falcon",
    keys: &[
        ("attention.head_count_kv", "num_kv_heads"),
        ("attention.layer_norm_epsilon", "layer_norm_epsilon"),
        ("feed_forward_length", "ffn_hidden_size"),
    ],
    derive,
    names: &Names {
        prefixes: &[""],
        // The second norm is the attention's, where there are two.
        modules: &[
            (Slot::TokenEmbedding, "token_embd"),
            (Slot::AttentionInNorm, "blk.{}.attn_norm_2"),
            (Slot::AttentionInNorm, "blk.{}.attn_norm"),
            (Slot::QueryKeyValue, "blk.{}.attn_qkv"),
            (Slot::AttentionOutput, "blk.{}.attn_output"),
            (Slot::FeedForwardInNorm, "blk.{}.attn_norm"),
            (Slot::Up, "blk.{}.ffn_up"),
            (Slot::Down, "blk.{}.ffn_down"),
            (Slot::FinalNorm, "output_norm"),
        ],
        ignored: &["output.weight"],
        linear_layout: LinearLayout::OutIn,
    },
    merges: Merges::ByScore,
};

/// Both halves always stand side by side; one key head is the 7B's way, more are the new decoder's.
fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    let new_decoder = facts.count("attention.head_count_kv").is_some_and(|heads| heads > 1);
    let norms = if facts.has("blk.0.attn_norm_2.weight") { 2 } else { 1 };
    config.insert("new_decoder_architecture".to_owned(), new_decoder.into());
    config.insert("num_ln_in_parallel_attn".to_owned(), norms.into());
    config.insert("bias".to_owned(), facts.has("blk.0.attn_qkv.bias").into());
}
