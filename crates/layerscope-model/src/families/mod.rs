//! The families of checkpoints that can be read. One file each, one row in [`FAMILIES`]; no family's name stands
//! anywhere else in the program.

mod albert;
mod bert;
mod bloom;
mod distilbert;
mod electra;
mod falcon;
mod gated_decoder;
mod gemma3;
pub(crate) mod gguf;
mod gguf_tokenizer;
mod gpt2;
mod gpt_neo;
mod gpt_neox;
mod gptj;
mod llama;
mod mistral;
mod modernbert;
mod mpnet;
mod olmo2;
mod opt;
mod pre_tokenizers;
mod qwen2;
mod qwen3;
mod roberta;
mod rope;

use crate::config::ConfigReader;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::spec::ModelSpec;
use gguf::Gguf;
pub use gguf_tokenizer::{GgufTokenizer, tokenizer_bytes};

/// One family of checkpoints: how its `config.json` reads and what its tensors are called.
#[derive(Debug)]
pub struct Family {
    /// The `model_type`s of `config.json` that it answers to.
    pub model_types: &'static [&'static str],
    /// Well-known checkpoints.
    pub examples: &'static str,
    /// From configuration to specification.
    pub spec: fn(&mut ConfigReader) -> ModelSpec,
    /// From tensor names to places in the specification.
    pub names: &'static Names,
    /// How its GGUF files read, where the format knows the family.
    pub gguf: Option<&'static Gguf>,
}

/// Every family, in the order `layerscope models` prints them.
pub const FAMILIES: &[Family] = &[
    bert::FAMILY,
    roberta::FAMILY,
    roberta::MULTILINGUAL,
    electra::FAMILY,
    distilbert::FAMILY,
    albert::FAMILY,
    mpnet::FAMILY,
    modernbert::FAMILY,
    gpt2::FAMILY,
    gpt_neo::FAMILY,
    gptj::FAMILY,
    gpt_neox::FAMILY,
    opt::FAMILY,
    bloom::FAMILY,
    falcon::FAMILY,
    llama::FAMILY,
    mistral::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    olmo2::FAMILY,
    gemma3::FAMILY,
];

impl Family {
    /// The family that a configuration names.
    pub fn of(config: &mut ConfigReader) -> Result<&'static Family> {
        let model_type = config.word_or("model_type", "");
        let file = config.file().to_owned();
        if model_type.is_empty() {
            return Err(Error::config(&file, "no `model_type`: is this the configuration of a Transformer?"));
        }
        FAMILIES.iter().find(|family| family.model_types.contains(&model_type.as_str())).ok_or(Error::Unsupported { file, model_type })
    }
}

/// Keys of any decoder: `is_causal` set to false makes the reference library attend both ways; the heads on top do not matter.
fn read_decoder_keys(config: &mut ConfigReader) {
    config.only("is_causal", true);
    config.harmless(&["is_decoder"]);
    config.harmless(&["summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"]);
}
