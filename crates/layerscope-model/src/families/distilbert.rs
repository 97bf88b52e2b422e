//! DistilBERT: BERT without segment types, under configuration keys and tensor names of its own.

use super::Family;
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, LearnedPositions, ModelSpec, NormSpec, Residual};

pub(super) const FAMILY: Family = Family {
    model_types: &["distilbert"],
    examples: "distilbert-base-uncased, distilbert-base-multilingual-cased",
    spec,
    names: &NAMES,
    gguf: None,
};

fn spec(config: &mut ConfigReader) -> ModelSpec {
    // Sinusoidal positions are written into the table once, at initialization: checkpoints hold them.
    config.harmless(&["dropout", "sinusoidal_pos_embds", "tie_weights_"]);
    let width = config.count_any(&["dim", "hidden_size"]);
    let heads = config.count_any(&["n_heads", "num_attention_heads"]);
    let head_dim = config.divide(("dim", width), ("n_heads", heads));
    let positions = config.count("max_position_embeddings");
    let norm = NormSpec::layer(1e-12);
    let block = BlockSpec {
        weights: 0,
        residual: Residual::Sequential,
        norms: BlockNorms::post(norm),
        attention: AttentionSpec::multi_head(heads, head_dim),
        feed_forward: FeedForwardSpec::plain(config.count("hidden_dim"), config.activation_or("activation", "gelu")),
    };
    ModelSpec {
        vocabulary: config.count("vocab_size"),
        width,
        max_positions: Some(positions),
        embedding: EmbeddingSpec {
            positions: Some(LearnedPositions { rows: positions, offset: 0 }),
            norm: Some(norm),
            ..EmbeddingSpec::tokens(width)
        },
        blocks: block.repeat(config.layers(&["n_layers", "num_hidden_layers"])),
        final_norm: None,
        output_projection: None,
    }
}

const NAMES: Names = Names {
    prefixes: &["distilbert.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embeddings.word_embeddings"),
        (Slot::PositionEmbedding, "embeddings.position_embeddings"),
        (Slot::EmbeddingNorm, "embeddings.LayerNorm"),
        (Slot::Query, "transformer.layer.{}.attention.q_lin"),
        (Slot::Key, "transformer.layer.{}.attention.k_lin"),
        (Slot::Value, "transformer.layer.{}.attention.v_lin"),
        (Slot::AttentionOutput, "transformer.layer.{}.attention.out_lin"),
        (Slot::AfterAttentionNorm, "transformer.layer.{}.sa_layer_norm"),
        (Slot::Up, "transformer.layer.{}.ffn.lin1"),
        (Slot::Down, "transformer.layer.{}.ffn.lin2"),
        (Slot::AfterFeedForwardNorm, "transformer.layer.{}.output_layer_norm"),
    ],
    ignored: &[
        "embeddings.position_ids",
        "vocab_transform.*",
        "vocab_layer_norm.*",
        "vocab_projector.*",
        "pre_classifier.*",
        "classifier.*",
        "qa_outputs.*",
    ],
    linear_layout: LinearLayout::OutIn,
};
