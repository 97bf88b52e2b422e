//! GPT-J: attention and feed-forward side by side behind one norm; neighbouring dimensions rotate together.

use layerscope_compute::RotaryPairs;

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, ModelSpec, NormSpec, Residual, RotaryScaling, RotarySpec,
};

pub(super) const FAMILY: Family = Family { model_types: &["gptj"], examples: "gpt-j-6b", spec, names: &NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    config.only("rotary", true);
    config.only("scale_attn_weights", true);
    config.harmless(&["n_ctx"]);
    let width = config.count_any(&["n_embd", "hidden_size"]);
    let heads = config.count_any(&["n_head", "num_attention_heads"]);
    let head_dim = config.divide(("n_embd", width), ("n_head", heads));
    let rotary = rotary(config, head_dim);
    let norm = NormSpec::layer(config.number_or("layer_norm_epsilon", 1e-5));
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Parallel { shared_norm: true },
        norms: BlockNorms { attention_in: Some(norm), ..BlockNorms::default() },
        attention: AttentionSpec {
            causal: true,
            qkv_bias: false,
            out_bias: false,
            rotary: Some(rotary),
            ..AttentionSpec::multi_head(heads, head_dim)
        },
        feed_forward: FeedForwardSpec::plain(
            config.count_or("n_inner", 4 * width),
            config.activation_or("activation_function", "gelu_new"),
        ),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(config.count_any(&["n_positions", "max_position_embeddings"])),
        embedding: EmbeddingSpec::tokens(width),
        blocks: block.repeat(config.layers(&["n_layer", "num_hidden_layers"])),
        final_norm: Some(norm),
        output_projection: None,
    }
}

/// The leading `rotary_dim` dimensions. Null is refused: the reference library then makes angles that fit only one head.
fn rotary(config: &mut ConfigReader, head_dim: usize) -> RotarySpec {
    if config.is_null("rotary_dim") {
        config.refuse("rotary_dim", "null");
    }
    let dim = config.count_or("rotary_dim", 64);
    config.ensure(dim > 0 && dim.is_multiple_of(2) && dim <= head_dim, || {
        format!("`rotary_dim` = {dim} should be an even part of the {head_dim} dimensions of a head")
    });
    RotarySpec { base: 10_000.0, dim, pairs: RotaryPairs::Interleaved, scaling: RotaryScaling::None }
}

const NAMES: Names = Names {
    prefixes: &["transformer.", ""],
    modules: &[
        (Slot::TokenEmbedding, "wte"),
        (Slot::AttentionInNorm, "h.{}.ln_1"),
        (Slot::Query, "h.{}.attn.q_proj"),
        (Slot::Key, "h.{}.attn.k_proj"),
        (Slot::Value, "h.{}.attn.v_proj"),
        (Slot::AttentionOutput, "h.{}.attn.out_proj"),
        (Slot::Up, "h.{}.mlp.fc_in"),
        (Slot::Down, "h.{}.mlp.fc_out"),
        (Slot::FinalNorm, "ln_f"),
    ],
    ignored: &["h.*.attn.bias", "h.*.attn.masked_bias", "h.*.attn.embed_positions", "lm_head.*", "score.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
