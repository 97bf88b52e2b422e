//! What a model is called.

use std::path::{Component, Path};

use layerscope_model::checkpoint::is_gguf;
use serde_json::Value;

/// Names of folders that say nothing of what is in them.
const GENERIC: [&str; 8] = ["model", "models", "checkpoint", "checkpoints", "snapshots", "final", "best", "output"];

/// The short name of a model: a hub id as it is; of a GGUF file its name; of a folder the last part of its path that says something.
///
/// A snapshot in the hub's cache has its hub id. Where no part of the path says anything, what `config.json` remembers as the
/// model's name does, unless that is a path: it comes last because it often names what a model was fine-tuned from.
pub fn model_name(asked_for: &str) -> String {
    if is_gguf(Path::new(asked_for))
        && let Some(stem) = Path::new(asked_for).file_stem()
    {
        return stem.to_string_lossy().into_owned();
    }
    let Some(path) = Path::new(asked_for).canonicalize().ok().filter(|path| path.is_dir()) else { return asked_for.to_owned() };
    // As it was written: a link may have the better name. Only `.` and `..` have none.
    let written = Path::new(asked_for);
    let path = if written.file_name().is_some() { std::path::absolute(written).unwrap_or(path) } else { path };
    let is_named = |part: &Component<'_>| !matches!(part, Component::RootDir | Component::Prefix(_));
    let parts: Vec<String> = path.components().rev().filter(is_named).map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if let [_, snapshots, cached, ..] = parts.as_slice()
        && let Some(id) = cached.strip_prefix("models--").filter(|_| snapshots == "snapshots")
    {
        return id.replacen("--", "/", 1);
    }
    let telling = |part: &&String| !GENERIC.contains(&part.to_lowercase().as_str());
    let remembered = || {
        let config: Value = serde_json::from_slice(&std::fs::read(path.join("config.json")).ok()?).ok()?;
        let name = config["_name_or_path"].as_str()?.to_owned();
        let is_path = name.starts_with(['/', '.', '~']) || name.contains('\\') || name.matches('/').count() > 1;
        (!name.is_empty() && !is_path && !GENERIC.contains(&name.to_lowercase().as_str())).then_some(name)
    };
    let named = parts.iter().take(NEARBY).find(telling).cloned();
    named.or_else(remembered).or_else(|| parts.first().cloned()).unwrap_or_else(|| asked_for.to_owned())
}

/// How many parts of a path are near enough to name a model.
const NEARBY: usize = 3;
