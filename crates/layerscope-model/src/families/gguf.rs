//! GGUF files: their metadata as a configuration, and what they store otherwise than checkpoints of the reference library.

use serde_json::{Map, Number, Value as Json, json};

use super::{FAMILIES, Family};
use crate::checkpoint::Checkpoint;
use crate::config::ConfigReader;
use crate::error::{Error, Result, TRACE_MEASURES_IT};
use crate::gguf::{Metadata, Value};
use crate::names::{LinearLayout, Names, Slot};
use crate::spec::{ModelSpec, NormSpec, QkvStorage, RotaryScaling};

/// How a family's GGUF files read.
#[derive(Debug)]
pub struct Gguf {
    /// The family's name in `general.architecture`.
    pub architecture: &'static str,
    /// Its `model_type`.
    pub model_type: &'static str,
    /// Keys of the metadata, without the architecture before them, and the keys of `config.json` that they are; `""` has no effect.
    /// They go before [`COMMON`].
    pub keys: &'static [(&'static str, &'static str)],
    /// What takes more than another name.
    pub derive: fn(&Facts<'_>, &mut Map<String, Json>),
    /// From tensor names to places in the specification.
    pub names: &'static Names,
    /// Which merges of a SentencePiece vocabulary come first.
    pub merges: Merges,
}

/// The order of the merges that a vocabulary without a list of them implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merges {
    /// By the score of what they make.
    ByScore,
    /// By the place of what they make.
    ByPlace,
}

/// The names of tensors, the same in nearly all architectures. A specification asks only for those it needs.
pub(super) const NAMES: Names = Names {
    prefixes: &[""],
    modules: &[
        (Slot::TokenEmbedding, "token_embd"),
        (Slot::PositionEmbedding, "position_embd"),
        (Slot::EmbeddingNorm, "token_embd_norm"),
        (Slot::AttentionInNorm, "blk.{}.attn_norm"),
        (Slot::QueryKeyValue, "blk.{}.attn_qkv"),
        (Slot::Query, "blk.{}.attn_q"),
        (Slot::Key, "blk.{}.attn_k"),
        (Slot::Value, "blk.{}.attn_v"),
        (Slot::QueryNorm, "blk.{}.attn_q_norm"),
        (Slot::KeyNorm, "blk.{}.attn_k_norm"),
        (Slot::AttentionOutput, "blk.{}.attn_output"),
        (Slot::AttentionOutNorm, "blk.{}.post_attention_norm"),
        (Slot::FeedForwardInNorm, "blk.{}.ffn_norm"),
        (Slot::Gate, "blk.{}.ffn_gate"),
        (Slot::Up, "blk.{}.ffn_up"),
        (Slot::Down, "blk.{}.ffn_down"),
        (Slot::FeedForwardOutNorm, "blk.{}.post_ffw_norm"),
        (Slot::FinalNorm, "output_norm"),
    ],
    // The head, and divisors of rotary frequencies, which are read apart.
    ignored: &["output.weight", "rope_freqs.weight"],
    linear_layout: LinearLayout::OutIn,
};

/// Keys that most architectures have.
const COMMON: &[(&str, &str)] = &[
    ("attention.causal", "is_causal"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", ""),   // read by `Facts::head_dim`
    ("attention.value_length", ""), // the same number, or the shapes of tensors do not fit
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("final_logit_softcapping", ""),
    ("logit_scale", ""),
    ("pooling_type", ""),
    ("rope.dimension_count", ""), // read by `Facts::rotary_dim`
    ("rope.freq_base", "rope_theta"),
    ("tensor_data_layout", ""),
    ("vocab_size", ""), // the token embedding has so many rows
];

/// Keys that change the computation unless they have this value.
const REFUSED: &[(&str, f64)] = &[
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.scale", 0.0),
    ("attn_logit_softcapping", 0.0),
    ("embedding_scale", 1.0),
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("residual_scale", 1.0),
];

/// The file of divisors of rotary frequencies.
const FREQUENCIES: &str = "rope_freqs.weight";

/// What a file says about its model.
pub struct Facts<'a> {
    checkpoint: &'a Checkpoint,
    metadata: &'a Metadata,
    architecture: &'static str,
}

impl Facts<'_> {
    /// A count under a key of the architecture.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.metadata.count(&format!("{}.{key}", self.architecture))
    }

    /// Whether the file has a tensor.
    pub fn has(&self, tensor: &str) -> bool {
        self.checkpoint.info(tensor).is_some()
    }

    /// Width of a head, as far as the metadata tells it apart from the model's width over the heads.
    pub fn head_dim(&self) -> Option<u64> {
        self.count("attention.key_length")
    }

    /// The width over the heads.
    pub fn usual_head_dim(&self) -> Option<u64> {
        self.count("embedding_length")?.checked_div(self.count("attention.head_count")?)
    }

    /// Dimensions of a head that turn.
    pub fn rotary_dim(&self) -> Option<u64> {
        self.count("rope.dimension_count")
    }

    /// The stretching of rotary positions as `rope_scaling`.
    pub fn read_rope_scaling(&self, config: &mut Map<String, Json>) {
        let key = |name: &str| format!("{}.rope.scaling.{name}", self.architecture);
        let older = format!("{}.rope.scale_linear", self.architecture);
        let kind = self.metadata.text(&key("type"));
        let factor = self.metadata.get(&key("factor")).or_else(|| self.metadata.get(&older)).map(json_of);
        let kind = match kind {
            Some(kind) => kind,
            None if factor.as_ref().and_then(Json::as_f64).is_some_and(|factor| factor != 1.0) => "linear",
            None => return,
        };
        if kind != "none" {
            let mut scaling = json!({ "rope_type": kind });
            scaling["factor"] = factor.unwrap_or_default();
            config.insert("rope_scaling".to_owned(), scaling);
        }
    }
}

/// The family of a file, how its files read, and its configuration.
pub(crate) fn configuration(checkpoint: &Checkpoint, metadata: &Metadata) -> Result<(&'static Family, &'static Gguf, ConfigReader)> {
    let file = checkpoint.folder();
    let (family, gguf) = family(metadata).map_err(|problem| Error::config(file, problem))?;
    let facts = Facts { checkpoint, metadata, architecture: gguf.architecture };
    let mut config = Map::new();
    config.insert("model_type".to_owned(), gguf.model_type.into());
    config.insert("tie_word_embeddings".to_owned(), (!facts.has("output.weight")).into());
    if let Some([rows, _]) = checkpoint.info("token_embd.weight").map(|info| info.shape.as_slice()) {
        config.insert("vocab_size".to_owned(), (*rows).into());
    }
    let name_of = |key: &str| format!("{}.{key}", gguf.architecture);
    for (key, value) in metadata.below(&name_of("")) {
        let known = gguf.keys.iter().chain(COMMON).find(|(known, _)| *known == key);
        match known {
            Some((_, "")) => {}
            Some((_, known)) => drop(config.insert((*known).to_owned(), json_of(value))),
            None if key.starts_with("rope.scaling.") || key == "rope.scale_linear" => {}
            None => drop(config.insert(name_of(key), json_of(value))),
        }
    }
    facts.read_rope_scaling(&mut config);
    (gguf.derive)(&facts, &mut config);
    let renamed = gguf.keys.iter().chain(COMMON).filter(|(_, known)| !known.is_empty());
    let renamed = renamed.map(|(key, known)| ((*known).to_owned(), name_of(key))).collect();
    let mut config = ConfigReader::translated(file, config, renamed);
    for (key, accepted) in REFUSED {
        config.only(&name_of(key), *accepted);
    }
    Ok((family, gguf, config))
}

/// The family that `general.architecture` names.
pub(super) fn family(metadata: &Metadata) -> Result<(&'static Family, &'static Gguf), String> {
    let architecture = metadata.text("general.architecture").ok_or("no `general.architecture`: is this a language model?")?;
    let all = || FAMILIES.iter().filter_map(|family| Some((family, family.gguf?)));
    all().find(|(_, gguf)| gguf.architecture == architecture).ok_or_else(|| {
        let names: Vec<_> = all().map(|(_, gguf)| gguf.architecture).collect();
        let found = architecture.escape_debug();
        let read = names.join(", ");
        format!("architecture `{found}` is not supported; of GGUF files, Layerscope reads {read}; {TRACE_MEASURES_IT}")
    })
}

/// What every GGUF file stores in its own way: fused projections one after the other, norms as they are applied, and the stretching of
/// rotary frequencies as numbers.
pub(crate) fn adapt(spec: &mut ModelSpec, checkpoint: &Checkpoint) -> Result<()> {
    let applied = |norm: &mut Option<NormSpec>| {
        if let Some(norm) = norm {
            norm.gamma_offset = 0.0;
        }
    };
    applied(&mut spec.embedding.norm);
    applied(&mut spec.final_norm);
    for block in &mut spec.blocks {
        let norms = &mut block.norms;
        [&mut norms.attention_in, &mut norms.attention_out, &mut norms.after_attention].into_iter().for_each(applied);
        [&mut norms.feed_forward_in, &mut norms.feed_forward_out, &mut norms.after_feed_forward].into_iter().for_each(applied);
        if let Some(qk_norm) = &mut block.attention.qk_norm {
            qk_norm.norm.gamma_offset = 0.0;
        }
        if block.attention.qkv == QkvStorage::FusedGroups {
            block.attention.qkv = QkvStorage::FusedBlocks;
        }
        if let Some(rotary) = &mut block.attention.rotary
            && checkpoint.info(FREQUENCIES).is_some()
        {
            let factors = checkpoint.read(FREQUENCIES, &[rotary.dim / 2])?;
            let problem = match (factors.iter().find(|factor| **factor <= 0.0), &rotary.scaling) {
                (Some(factor), _) => Some(format!("has the divisor {factor}; divisors of frequencies are positive")),
                (_, RotaryScaling::None) => None,
                _ => Some("stretches rotary positions that the metadata stretches too; one of the two".to_owned()),
            };
            if let Some(problem) = problem {
                return Err(Error::tensor(checkpoint.folder(), FREQUENCIES, problem));
            }
            rotary.scaling = RotaryScaling::Each { factors };
        }
    }
    Ok(())
}

/// A value as JSON; what JSON cannot write becomes a text, which no key takes for a number.
fn json_of(value: &Value) -> Json {
    match value {
        Value::Unsigned(number) => (*number).into(),
        Value::Signed(number) => (*number).into(),
        Value::Real(number) => Number::from_f64(*number).map_or_else(|| number.to_string().into(), Json::Number),
        Value::Flag(flag) => (*flag).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(_) => value.to_string().into(),
    }
}
