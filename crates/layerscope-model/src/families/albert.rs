//! ALBERT: BERT with narrow token vectors and blocks that share their weights.

use super::{Family, bert};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{ModelSpec, Projection};

pub(super) const FAMILY: Family =
    Family { model_types: &["albert"], examples: "albert-base-v2, albert-xxlarge-v2", spec, names: &NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    // A group of several layers would be one step of the depth but several blocks.
    config.only("inner_group_num", 1);
    // The original code's settings; the reference library reads none of them.
    config.harmless(&["down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type", "num_memory_blocks", "output_past"]);
    let mut spec = bert::encoder(config, "gelu_new");
    spec.embedding.width = config.count("embedding_size");
    spec.embedding.projection = Some(Projection { bias: true, before_positions: false });

    let layers = spec.blocks.len();
    let groups = config.count_or("num_hidden_groups", 1);
    config.ensure((1..=layers).contains(&groups), || {
        format!("`num_hidden_groups` = {groups} should be between 1 and `num_hidden_layers` = {layers}")
    });
    // The quotient of quotients, in double precision, is the reference library's.
    let layers_per_group = layers as f64 / groups as f64;
    for (layer, block) in spec.blocks.iter_mut().enumerate() {
        block.weights = (layer as f64 / layers_per_group) as usize;
    }
    spec
}

const NAMES: Names = Names {
    prefixes: &["albert.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embeddings.word_embeddings"),
        (Slot::PositionEmbedding, "embeddings.position_embeddings"),
        (Slot::TypeEmbedding, "embeddings.token_type_embeddings"),
        (Slot::EmbeddingNorm, "embeddings.LayerNorm"),
        (Slot::EmbeddingProjection, "encoder.embedding_hidden_mapping_in"),
        (Slot::Query, "encoder.albert_layer_groups.{}.albert_layers.0.attention.query"),
        (Slot::Key, "encoder.albert_layer_groups.{}.albert_layers.0.attention.key"),
        (Slot::Value, "encoder.albert_layer_groups.{}.albert_layers.0.attention.value"),
        (Slot::AttentionOutput, "encoder.albert_layer_groups.{}.albert_layers.0.attention.dense"),
        (Slot::AfterAttentionNorm, "encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm"),
        (Slot::Up, "encoder.albert_layer_groups.{}.albert_layers.0.ffn"),
        (Slot::Down, "encoder.albert_layer_groups.{}.albert_layers.0.ffn_output"),
        (Slot::AfterFeedForwardNorm, "encoder.albert_layer_groups.{}.albert_layers.0.full_layer_layer_norm"),
    ],
    ignored: &["embeddings.position_ids", "pooler.*", "predictions.*", "sop_classifier.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
