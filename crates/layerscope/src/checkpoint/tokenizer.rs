//! The tokenizer of a model: a file of its folder, or part of its GGUF file.

use std::path::Path;

use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::checkpoint::is_gguf;
use layerscope_model::families::GgufTokenizer;

use crate::error::Result;

/// Loads the tokenizer of a model's folder or GGUF file.
pub fn load_tokenizer(place: &Path, wrap: Wrap) -> Result<Tokenizer> {
    if !is_gguf(place) {
        return Ok(Tokenizer::load(place, wrap)?);
    }
    let GgufTokenizer { json, ends } = GgufTokenizer::open(place)?;
    Ok(Tokenizer::from_json(place, &json, ends, wrap)?)
}
