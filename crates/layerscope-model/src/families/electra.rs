//! ELECTRA: BERT with token vectors of a width of their own, projected to the model's.

use super::{Family, bert};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{ModelSpec, Projection};

pub(super) const FAMILY: Family = Family {
    model_types: &["electra"],
    examples: "google/electra-small-discriminator, google/electra-base-generator",
    spec,
    names: &NAMES,
    gguf: None,
};

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.harmless(&["summary_activation", "summary_type", "summary_use_proj"]);
    let mut spec = bert::encoder_or_decoder(config);
    spec.embedding.width = config.count("embedding_size");
    if spec.embedding.width != spec.width {
        spec.embedding.projection = Some(Projection { bias: true, before_positions: false });
    }
    spec
}

const NAMES: Names = Names {
    prefixes: &["electra.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embeddings.word_embeddings"),
        (Slot::PositionEmbedding, "embeddings.position_embeddings"),
        (Slot::TypeEmbedding, "embeddings.token_type_embeddings"),
        (Slot::EmbeddingNorm, "embeddings.LayerNorm"),
        (Slot::EmbeddingProjection, "embeddings_project"),
        (Slot::Query, "encoder.layer.{}.attention.self.query"),
        (Slot::Key, "encoder.layer.{}.attention.self.key"),
        (Slot::Value, "encoder.layer.{}.attention.self.value"),
        (Slot::AttentionOutput, "encoder.layer.{}.attention.output.dense"),
        (Slot::AfterAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"),
        (Slot::Up, "encoder.layer.{}.intermediate.dense"),
        (Slot::Down, "encoder.layer.{}.output.dense"),
        (Slot::AfterFeedForwardNorm, "encoder.layer.{}.output.LayerNorm"),
    ],
    ignored: &[
        "embeddings.position_ids",
        "discriminator_predictions.*",
        "generator_predictions.*",
        "generator_lm_head.*",
        "sequence_summary.*",
        "classifier.*",
        "qa_outputs.*",
    ],
    linear_layout: LinearLayout::OutIn,
};
