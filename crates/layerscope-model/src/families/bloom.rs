//! BLOOM: pre-norm decoder whose positions are ALiBi; the token vectors are normalized.

use layerscope_compute::Activation;

use super::Family;
use super::gguf::{self, Gguf, Merges};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BiasSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, ModelSpec, NormSpec, QkvStorage, Residual,
};

pub(super) const FAMILY: Family =
    Family { model_types: &["bloom"], examples: "bloom-560m, bloomz-7b1", spec, names: &NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    let residual = match config.flag_or("apply_residual_connection_post_layernorm", false) {
        true => Residual::SequentialFromNorms,
        false => Residual::Sequential,
    };
    // With more than one slice the "exact" path of the reference library leaves out two biases.
    if config.count_or("pretraining_tp", 1) > 1 {
        config.only("slow_but_exact", false);
    }
    config.harmless(&["slow_but_exact", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion"]);
    config.harmless(&["n_inner", "offset_alibi", "seq_length", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id"]);
    let width = config.count_any(&["n_embed", "hidden_size"]);
    let heads = config.count_any(&["n_head", "num_attention_heads"]);
    let head_dim = config.divide(("hidden_size", width), ("n_head", heads));
    let norm = NormSpec::layer(config.number_or("layer_norm_epsilon", 1e-5));
    let block = BlockSpec {
        weights: 0,
        residual,
        norms: BlockNorms::pre(norm),
        attention: AttentionSpec {
            causal: true,
            qkv: QkvStorage::FusedGroups,
            bias: Some(BiasSpec::Alibi { rounded_to_bf16: false, scaled_with_scores: false }),
            ..AttentionSpec::multi_head(heads, head_dim)
        },
        feed_forward: FeedForwardSpec::plain(4 * width, Activation::GeluTanh),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: None,
        embedding: EmbeddingSpec { norm: Some(norm), ..EmbeddingSpec::tokens(width) },
        blocks: block.repeat(config.layers(&["n_layer", "num_hidden_layers"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

const NAMES: Names = Names {
    prefixes: &["transformer.", ""],
    modules: &[
        (Slot::TokenEmbedding, "word_embeddings"),
        (Slot::EmbeddingNorm, "word_embeddings_layernorm"),
        (Slot::AttentionInNorm, "h.{}.input_layernorm"),
        (Slot::QueryKeyValue, "h.{}.self_attention.query_key_value"),
        (Slot::AttentionOutput, "h.{}.self_attention.dense"),
        (Slot::FeedForwardInNorm, "h.{}.post_attention_layernorm"),
        (Slot::Up, "h.{}.mlp.dense_h_to_4h"),
        (Slot::Down, "h.{}.mlp.dense_4h_to_h"),
        (Slot::FinalNorm, "ln_f"),
    ],
    ignored: &["lm_head.weight", "score.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};

const GGUF: Gguf = Gguf {
    architecture: "bloom",
    model_type: "bloom",
    keys: &[
        ("attention.head_count_kv", ""),
        ("attention.layer_norm_epsilon", "layer_norm_epsilon"),
        ("context_length", ""),
        ("feed_forward_length", ""), // four times the width, or the shapes of tensors do not fit
    ],
    derive: |_, _| {},
    names: &gguf::NAMES,
    merges: Merges::ByScore,
};
