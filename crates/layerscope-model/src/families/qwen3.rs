//! Qwen3: queries and keys are normalized head by head.

use serde_json::{Map, Value};

use super::Family;
use super::gated_decoder::{self, Defaults, USUAL};
use super::gguf::{self, Facts, Gguf, Merges};
use crate::config::ConfigReader;
use crate::spec::{ModelSpec, QkNorm};

pub(super) const FAMILY: Family =
    Family { model_types: &["qwen3"], examples: "Qwen3-0.6B, Qwen3-8B", spec, names: &gated_decoder::NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    let defaults = Defaults { kv_heads: Some(32), head_dim: Some(128), positions: 32_768, ..USUAL };
    let mut model = gated_decoder::with_rotary(config, &defaults);
    gated_decoder::read_attention_bias(config, &mut model);
    gated_decoder::read_late_windows(config, &mut model);
    for block in &mut model.blocks {
        block.attention.qk_norm = block.norms.attention_in.map(|norm| QkNorm { norm, per_head: true });
    }
    model
}

const GGUF: Gguf = Gguf { architecture: "qwen3", model_type: "qwen3", keys: &[], derive, names: &gguf::NAMES, merges: Merges::ByScore };

fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    gated_decoder::read_gguf_head(facts, config);
    config.insert("attention_bias".to_owned(), facts.has("blk.0.attn_q.bias").into());
}
