//! Where the environment says the hub and its cache are.

use std::path::{Path, PathBuf};

/// What the hub client needs to know, by the Python library's rules.
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// The folder of `models--org--name` folders.
    pub cache: PathBuf,
    /// Scheme and host of the hub, without a slash at the end.
    pub endpoint: String,
    /// Sent to the endpoint and to nobody else.
    pub token: Option<String>,
    /// Use the cache alone.
    pub offline: bool,
}

impl HubSettings {
    /// Reads the environment through `lookup`.
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | HF_HUB_CACHE (HUGGINGFACE_HUB_CACHE) | the cache; `$HF_HOME/hub` |
    /// | HF_HOME | `$XDG_CACHE_HOME/huggingface`, or `~/.cache/huggingface` |
    /// | HF_TOKEN (HUGGING_FACE_HUB_TOKEN) | the token; else the content of the file HF_TOKEN_PATH, `$HF_HOME/token` |
    /// | HF_ENDPOINT | `https://huggingface.co` |
    /// | HF_HUB_OFFLINE (TRANSFORMERS_OFFLINE) | 1, true, yes or on: no network |
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&str]| names.iter().find_map(|name| lookup(name).filter(|value| !value.trim().is_empty()));
        let user = first(&["HOME", "USERPROFILE"]).map_or_else(PathBuf::new, PathBuf::from);
        let path = |names: &[&str]| first(names).map(|value| expand(&value, &user));

        let home =
            path(&["HF_HOME"]).unwrap_or_else(|| path(&["XDG_CACHE_HOME"]).unwrap_or_else(|| user.join(".cache")).join("huggingface"));
        let token = first(&["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
            .or_else(|| std::fs::read_to_string(path(&["HF_TOKEN_PATH"]).unwrap_or_else(|| home.join("token"))).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty());
        let endpoint = first(&["HF_ENDPOINT"]).unwrap_or_else(|| "https://huggingface.co".to_owned());
        HubSettings {
            cache: path(&["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"]).unwrap_or_else(|| home.join("hub")),
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            token,
            offline: first(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]).is_some_and(|value| truthy(&value)),
        }
    }
}

/// The words that the Python library takes for true.
fn truthy(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// A leading `~` is the user's folder.
fn expand(value: &str, user: &Path) -> PathBuf {
    match value.strip_prefix('~') {
        Some("") => user.to_owned(),
        Some(rest) if rest.starts_with('/') => user.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(value),
    }
}
