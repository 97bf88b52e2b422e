//! LLaMA 1, 2 and 3: pre-norm decoder with rotary positions, grouped heads and a gated feed-forward.

use super::Family;
use super::gated_decoder::{self, USUAL};
use crate::config::ConfigReader;
use crate::spec::ModelSpec;

pub(super) const FAMILY: Family =
    Family { model_types: &["llama"], examples: "llama-7b, Llama-2-7b, Llama-3.1-8B, TinyLlama", spec, names: &gated_decoder::NAMES };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.harmless(&["max_sequence_length"]);
    let mut model = gated_decoder::with_rotary(config, &USUAL);
    gated_decoder::read_attention_bias(config, &mut model);
    let bias = config.flag_or("mlp_bias", false);
    for block in &mut model.blocks {
        block.feed_forward.in_bias = bias;
        block.feed_forward.out_bias = bias;
    }
    model
}
