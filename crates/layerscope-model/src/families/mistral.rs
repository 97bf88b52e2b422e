//! Mistral: every layer sees a sliding window, unless that is null.

use super::Family;
use super::gated_decoder::{self, Defaults, USUAL};
use crate::config::ConfigReader;
use crate::spec::ModelSpec;

pub(super) const FAMILY: Family =
    Family { model_types: &["mistral"], examples: "Mistral-7B-v0.1, Mistral-Nemo", spec, names: &gated_decoder::NAMES, gguf: None };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.only_empty("layer_types"); // of another family, which alternates
    let mut model = gated_decoder::with_rotary(config, &Defaults { kv_heads: Some(8), positions: 131_072, ..USUAL });
    let window = gated_decoder::sliding_window(config, 4096);
    for block in &mut model.blocks {
        block.attention.window = window;
    }
    model
}
