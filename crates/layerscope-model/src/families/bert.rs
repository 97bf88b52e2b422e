//! BERT: post-norm encoder with learned positions and segment types.

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, LearnedPositions, ModelSpec, NormSpec, Residual};

pub(super) const FAMILY: Family =
    Family { model_types: &["bert"], examples: "bert-base-uncased, all-MiniLM-L6-v2", spec, names: &NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.harmless(&[
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ]);
    encoder_or_decoder(config)
}

/// The encoder under BERT's keys, attending only backwards where the configuration calls it a decoder.
pub(super) fn encoder_or_decoder(config: &mut ConfigReader) -> ModelSpec {
    let mut spec = encoder(config, "gelu");
    let causal = config.flag_or("is_decoder", false);
    for block in &mut spec.blocks {
        block.attention.causal = causal;
    }
    spec
}

/// The encoder that BERT's keys describe; its descendants change a part or two.
pub(super) fn encoder(config: &mut ConfigReader, default_activation: &str) -> ModelSpec {
    config.only("position_embedding_type", "absolute");
    let width = config.count("hidden_size");
    let heads = config.count("num_attention_heads");
    let head_dim = config.divide(("hidden_size", width), ("num_attention_heads", heads));
    let positions = config.count("max_position_embeddings");
    let norm = NormSpec::layer(config.number_or("layer_norm_eps", 1e-12));
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::post(norm),
        attention: AttentionSpec::multi_head(heads, head_dim),
        feed_forward: FeedForwardSpec::plain(config.count("intermediate_size"), config.activation_or("hidden_act", default_activation)),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(positions),
        embedding: EmbeddingSpec {
            positions: Some(LearnedPositions { rows: positions, offset: 0 }),
            types: config.count_or("type_vocab_size", 2),
            norm: Some(norm),
            ..EmbeddingSpec::tokens(width)
        },
        blocks: block.repeat(config.layers(&["num_hidden_layers"])),
        final_norm: None,
        output_projection: None,
    }
}

const NAMES: Names = Names {
    prefixes: &["bert.", ""],
    modules: MODULES,
    ignored: &["embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};

/// The modules of BERT and of those that kept its names.
pub(super) const MODULES: &[(Slot, &str)] = &[
    (Slot::TokenEmbedding, "embeddings.word_embeddings"),
    (Slot::PositionEmbedding, "embeddings.position_embeddings"),
    (Slot::TypeEmbedding, "embeddings.token_type_embeddings"),
    (Slot::EmbeddingNorm, "embeddings.LayerNorm"),
    (Slot::Query, "encoder.layer.{}.attention.self.query"),
    (Slot::Key, "encoder.layer.{}.attention.self.key"),
    (Slot::Value, "encoder.layer.{}.attention.self.value"),
    (Slot::AttentionOutput, "encoder.layer.{}.attention.output.dense"),
    (Slot::AfterAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"),
    (Slot::Up, "encoder.layer.{}.intermediate.dense"),
    (Slot::Down, "encoder.layer.{}.output.dense"),
    (Slot::AfterFeedForwardNorm, "encoder.layer.{}.output.LayerNorm"),
];
