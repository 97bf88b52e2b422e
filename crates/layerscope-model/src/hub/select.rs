//! Which files of a repository make a model.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::names;
use crate::error::{Error, Result};

/// The file that every model needs.
pub(super) const CONFIG: &str = "config.json";

/// What tokenizers read; repositories have some of these.
pub(super) const OPTIONAL: &[&str] =
    &["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt"];

/// How a repository holds its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// In one file.
    Single(&'static str),
    /// In the files that an index names.
    Sharded(&'static str),
}

/// The forms of weights, the preferred one first.
const FORMS: [Weights; 4] = [
    Weights::Single("model.safetensors"),
    Weights::Sharded("model.safetensors.index.json"),
    Weights::Single("pytorch_model.bin"),
    Weights::Sharded("pytorch_model.bin.index.json"),
];

impl Weights {
    /// The file that tells this form.
    fn file(self) -> &'static str {
        match self {
            Weights::Single(file) | Weights::Sharded(file) => file,
        }
    }
}

/// The preferred form among the files there are.
pub(super) fn weights(has: impl Fn(&str) -> bool) -> Option<Weights> {
    FORMS.into_iter().find(|form| has(form.file()))
}

/// The names of all forms, for error messages.
pub(super) fn accepted() -> String {
    FORMS.map(Weights::file).join(", ")
}

/// The shards that an index names, each once.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>> {
    let bytes = std::fs::read(index).map_err(|source| Error::io(index, source))?;
    let parsed: Value = serde_json::from_slice(&bytes).map_err(|error| Error::file(index, format!("not JSON: {error}")))?;
    let map = parsed.get("weight_map").and_then(Value::as_object).filter(|map| !map.is_empty());
    let map = map.ok_or_else(|| Error::file(index, "no `weight_map` that says which tensor is in which file"))?;
    map.iter()
        .map(|(tensor, shard)| match shard.as_str() {
            Some(name) if names::is_plain_file(name) => Ok(name.to_owned()),
            _ => Err(Error::file(index, format!("places tensor {tensor:?} in {shard}, which is not a file name in this folder"))),
        })
        .collect()
}

/// The first file that a snapshot lacks to be complete; tokenizer files are optional.
pub(super) fn missing(snapshot: &Path) -> Result<Option<String>> {
    let has = |file: &str| snapshot.join(file).is_file();
    if !has(CONFIG) {
        return Ok(Some(CONFIG.to_owned()));
    }
    Ok(match weights(has) {
        None => Some("weights".to_owned()),
        Some(Weights::Single(_)) => None,
        Some(Weights::Sharded(index)) => shards(&snapshot.join(index))?.into_iter().find(|shard| !has(shard)),
    })
}
