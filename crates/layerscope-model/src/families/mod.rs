//! The families of checkpoints that can be read. One file each, one row in [`FAMILIES`]; no family's name stands
//! anywhere else in the program.

mod albert;
mod bert;
mod distilbert;
mod electra;
mod gpt2;
mod modernbert;
mod mpnet;
mod roberta;

use crate::config::ConfigReader;
use crate::error::{Error, Result};
use crate::names::Names;
use crate::spec::ModelSpec;

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
];

impl Family {
    /// The family that a configuration names.
    pub fn of(config: &mut ConfigReader) -> Result<&'static Family> {
        let model_type = config.word_or("model_type", "");
        let file = config.file();
        if model_type.is_empty() {
            return Err(Error::config(file, "no `model_type`: is this the configuration of a Transformer?"));
        }
        FAMILIES
            .iter()
            .find(|family| family.model_types.contains(&model_type.as_str()))
            .ok_or_else(|| Error::Unsupported { file: file.to_owned(), model_type })
    }
}
