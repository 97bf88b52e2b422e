//! LLaMA 1, 2 and 3: pre-norm decoder with rotary positions, grouped heads and a gated feed-forward.

use serde_json::{Map, Value};

use super::Family;
use super::gated_decoder::{self, USUAL};
use super::gguf::{self, Facts, Gguf, Merges};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names};
use crate::spec::ModelSpec;

pub(super) const FAMILY: Family = Family {
    model_types: &["llama"],
    examples: "llama-7b, Llama-2-7b, Llama-3.1-8B, TinyLlama",
    spec,
    names: &gated_decoder::NAMES,
    gguf: Some(&GGUF),
};

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

/// Also Mistral's: that architecture has no name of its own there, nor its window.
const GGUF: Gguf = Gguf {
    architecture: "llama",
    model_type: "llama",
    keys: &[],
    derive,
    names: &Names { linear_layout: LinearLayout::OutInByPairs, ..gguf::NAMES },
    merges: Merges::ByScore,
};

fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    gated_decoder::read_gguf_head(facts, config);
    config.insert("attention_bias".to_owned(), facts.has("blk.0.attn_q.bias").into());
    config.insert("mlp_bias".to_owned(), facts.has("blk.0.ffn_up.bias").into());
}
