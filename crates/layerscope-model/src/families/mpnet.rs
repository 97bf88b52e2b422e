//! MPNet: BERT without segment types, with a learned bias on the scores by distance, shared by all blocks.

use super::{Family, bert, roberta};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{BiasSpec, ModelSpec};

pub(super) const FAMILY: Family =
    Family { model_types: &["mpnet"], examples: "microsoft/mpnet-base, all-mpnet-base-v2", spec, names: &NAMES, gguf: None };

/// Constants in the reference library's code; the configuration sets only the rows of the bias table.
const PADDING: usize = 1;
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;

fn spec(config: &mut ConfigReader) -> ModelSpec {
    let rows = config.count_or("relative_attention_num_buckets", BUCKETS);
    config.ensure(rows >= BUCKETS, || format!("`relative_attention_num_buckets` = {rows} is fewer than the {BUCKETS} in use"));
    let spec = bert::encoder(config, "gelu");
    let mut spec = roberta::number_from_padding(config, spec, PADDING);
    spec.embedding.types = 0;
    for block in &mut spec.blocks {
        block.attention.bias = Some(BiasSpec::Buckets { buckets: BUCKETS, rows, max_distance: MAX_DISTANCE });
    }
    spec
}

const NAMES: Names = Names {
    prefixes: &["mpnet.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embeddings.word_embeddings"),
        (Slot::PositionEmbedding, "embeddings.position_embeddings"),
        (Slot::EmbeddingNorm, "embeddings.LayerNorm"),
        (Slot::RelativeBias, "encoder.relative_attention_bias"),
        (Slot::Query, "encoder.layer.{}.attention.attn.q"),
        (Slot::Key, "encoder.layer.{}.attention.attn.k"),
        (Slot::Value, "encoder.layer.{}.attention.attn.v"),
        (Slot::AttentionOutput, "encoder.layer.{}.attention.attn.o"),
        (Slot::AfterAttentionNorm, "encoder.layer.{}.attention.LayerNorm"),
        (Slot::Up, "encoder.layer.{}.intermediate.dense"),
        (Slot::Down, "encoder.layer.{}.output.dense"),
        (Slot::AfterFeedForwardNorm, "encoder.layer.{}.output.LayerNorm"),
    ],
    ignored: &["embeddings.position_ids", "pooler.*", "lm_head.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
