//! OPT: learned positions that start at row 2; norms before each half of a block, or after it (350m, whose token vectors
//! are narrower than the model, as are the states it ends with).

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{
    AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, LearnedPositions, ModelSpec, NormSpec, Projection, Residual,
};

pub(super) const FAMILY: Family =
    Family { model_types: &["opt"], examples: "opt-125m, opt-350m, opt-6.7b", spec, names: &NAMES, gguf: None };

/// Rows of the position table before position 0.
const OFFSET: usize = 2;

fn spec(config: &mut ConfigReader) -> ModelSpec {
    super::read_decoder_keys(config);
    config.harmless(&["dropout", "layerdrop", "init_std"]);
    let width = config.count("hidden_size");
    let heads = config.count("num_attention_heads");
    let head_dim = config.divide(("hidden_size", width), ("num_attention_heads", heads));
    let positions = config.count("max_position_embeddings");
    let token_width = config.count_or("word_embed_proj_dim", width);
    let bias = config.flag_or("enable_bias", true);
    let affine = config.flag_or("layer_norm_elementwise_affine", true);
    let norm = NormSpec { gamma: affine, beta: affine, ..NormSpec::layer(1e-5) };
    let norm_before = config.flag_or("do_layer_norm_before", true);
    let final_norm = !config.flag_or("_remove_final_layer_norm", false) && norm_before;
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: if norm_before { BlockNorms::pre(norm) } else { BlockNorms::post(norm) },
        attention: AttentionSpec { causal: true, qkv_bias: bias, out_bias: bias, ..AttentionSpec::multi_head(heads, head_dim) },
        feed_forward: FeedForwardSpec {
            in_bias: bias,
            out_bias: bias,
            ..FeedForwardSpec::plain(config.count("ffn_dim"), config.activation_or("activation_function", "relu"))
        },
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(positions),
        embedding: EmbeddingSpec {
            positions: Some(LearnedPositions { rows: positions + OFFSET, offset: OFFSET }),
            projection: (token_width != width).then_some(Projection { bias: false, before_positions: true }),
            ..EmbeddingSpec::tokens(token_width)
        },
        blocks: block.repeat(config.layers(&["num_hidden_layers"])),
        final_norm: final_norm.then_some(norm),
        // Back to the tokens' width, which the head reads.
        output_projection: (token_width != width).then_some(token_width),
    }
}

const NAMES: Names = Names {
    prefixes: &["model.decoder.", "decoder.", ""],
    // A block's two norms keep their names wherever they stand.
    modules: &[
        (Slot::TokenEmbedding, "embed_tokens"),
        (Slot::EmbeddingProjection, "project_in"),
        (Slot::PositionEmbedding, "embed_positions"),
        (Slot::AttentionInNorm, "layers.{}.self_attn_layer_norm"),
        (Slot::Query, "layers.{}.self_attn.q_proj"),
        (Slot::Key, "layers.{}.self_attn.k_proj"),
        (Slot::Value, "layers.{}.self_attn.v_proj"),
        (Slot::AttentionOutput, "layers.{}.self_attn.out_proj"),
        (Slot::AfterAttentionNorm, "layers.{}.self_attn_layer_norm"),
        (Slot::FeedForwardInNorm, "layers.{}.final_layer_norm"),
        (Slot::Up, "layers.{}.fc1"),
        (Slot::Down, "layers.{}.fc2"),
        (Slot::AfterFeedForwardNorm, "layers.{}.final_layer_norm"),
        (Slot::FinalNorm, "final_layer_norm"),
        (Slot::OutputProjection, "project_out"),
    ],
    ignored: &["lm_head.weight", "score.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
