//! RoBERTa and XLM-RoBERTa: BERT whose positions are numbered from after the padding token's id.

use super::{Family, bert};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names};
use crate::spec::ModelSpec;

pub(super) const FAMILY: Family =
    Family { model_types: &["roberta"], examples: "roberta-base, distilroberta-base", spec, names: &NAMES, gguf: None };

pub(super) const MULTILINGUAL: Family =
    Family { model_types: &["xlm-roberta"], examples: "xlm-roberta-base, multilingual-e5-base", spec, names: &NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.harmless(&["output_past"]);
    let spec = bert::encoder_or_decoder(config);
    let padding = config.count_or("pad_token_id", 1);
    number_from_padding(config, spec, padding)
}

/// Gives the first token the position row after the padding token's id, and padding itself the row of its id.
pub(super) fn number_from_padding(config: &mut ConfigReader, mut spec: ModelSpec, padding: usize) -> ModelSpec {
    if let Some(positions) = &mut spec.embedding.positions {
        let rows = positions.rows;
        positions.offset = padding + 1;
        config.ensure(rows > positions.offset, || {
            format!("`max_position_embeddings` = {rows} leaves no position after the padding token {padding}")
        });
        spec.max_positions = Some(rows.saturating_sub(positions.offset));
        spec.embedding.unnumbered = Some(padding as u32);
    }
    spec
}

const NAMES: Names = Names {
    prefixes: &["roberta.", ""],
    modules: bert::MODULES,
    ignored: &["embeddings.position_ids", "pooler.*", "lm_head.*", "classifier.*", "qa_outputs.*"],
    linear_layout: LinearLayout::OutIn,
};
