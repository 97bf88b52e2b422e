//! OLMo 2: norms on the outputs of attention and feed-forward; queries and keys are normalized over all heads together.

use serde_json::{Map, Value};

use super::Family;
use super::gated_decoder::{self, Defaults, USUAL};
use super::gguf::{self, Facts, Gguf, Merges};
use crate::config::ConfigReader;
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{BlockNorms, ModelSpec, QkNorm};

pub(super) const FAMILY: Family =
    Family { model_types: &["olmo2"], examples: "OLMo-2-0425-1B, OLMo-2-1124-7B", spec, names: &NAMES, gguf: Some(&GGUF) };

fn spec(config: &mut ConfigReader) -> ModelSpec {
    config.only("clip_qkv", serde_json::Value::Null);
    let mut model = gated_decoder::with_rotary(config, &Defaults { epsilon: 1e-5, ..USUAL });
    gated_decoder::read_attention_bias(config, &mut model);
    for block in &mut model.blocks {
        let norm = block.norms.attention_in;
        block.norms = BlockNorms { attention_out: norm, feed_forward_out: norm, ..BlockNorms::default() };
        block.attention.qk_norm = norm.map(|norm| QkNorm { norm, per_head: false });
    }
    model
}

const NAMES: Names = Names {
    prefixes: &["model.", ""],
    modules: &[
        (Slot::TokenEmbedding, "embed_tokens"),
        (Slot::Query, "layers.{}.self_attn.q_proj"),
        (Slot::Key, "layers.{}.self_attn.k_proj"),
        (Slot::Value, "layers.{}.self_attn.v_proj"),
        (Slot::QueryNorm, "layers.{}.self_attn.q_norm"),
        (Slot::KeyNorm, "layers.{}.self_attn.k_norm"),
        (Slot::AttentionOutput, "layers.{}.self_attn.o_proj"),
        (Slot::AttentionOutNorm, "layers.{}.post_attention_layernorm"),
        (Slot::Gate, "layers.{}.mlp.gate_proj"),
        (Slot::Up, "layers.{}.mlp.up_proj"),
        (Slot::Down, "layers.{}.mlp.down_proj"),
        (Slot::FeedForwardOutNorm, "layers.{}.post_feedforward_layernorm"),
        (Slot::FinalNorm, "norm"),
    ],
    ignored: gated_decoder::IGNORED,
    linear_layout: LinearLayout::OutIn,
};

const GGUF: Gguf = Gguf { architecture: "olmo2", model_type: "olmo2", keys: &[], derive, names: &gguf::NAMES, merges: Merges::ByScore };

fn derive(facts: &Facts<'_>, config: &mut Map<String, Value>) {
    gated_decoder::read_gguf_head(facts, config);
    config.insert("attention_bias".to_owned(), facts.has("blk.0.attn_q.bias").into());
}
