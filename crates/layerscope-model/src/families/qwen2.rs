//! Qwen2 and Qwen2.5: queries, keys and values have biases; late layers may see a sliding window.

use super::Family;
use super::gated_decoder::{self, Defaults, USUAL};
use super::gguf::{self, Gguf, Merges};
use crate::config::ConfigReader;
use crate::spec::ModelSpec;

pub(super) const FAMILY: Family =
    Family { model_types: &["qwen2"], examples: "Qwen2-0.5B, Qwen2.5-7B", spec, names: &gated_decoder::NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.only("use_mrope", false);
    let mut model = gated_decoder::with_rotary(config, &Defaults { kv_heads: Some(32), positions: 32_768, ..USUAL });
    gated_decoder::read_late_windows(config, &mut model);
    for block in &mut model.blocks {
        block.attention.qkv_bias = true;
    }
    model
}

const GGUF: Gguf = Gguf {
    architecture: "qwen2",
    model_type: "qwen2",
    keys: &[],
    derive: gated_decoder::read_gguf_head,
    names: &gguf::NAMES,
    merges: Merges::ByScore,
};
