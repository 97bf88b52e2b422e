//! Hub ids to local files, through the cache that the Python library uses too.
//!
//! One request lists a revision's files and its commit; each wanted file the cache lacks is then downloaded to
//! `blobs/ETAG` and linked from `snapshots/COMMIT/FILE`; at last `refs/REVISION` remembers the commit, so that an
//! offline run finds what the last complete one fetched.

mod cache;
mod client;
mod download;
mod names;
mod select;
mod settings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use layerscope_error::{Line, line, setting};
pub use settings::HubSettings;

use crate::checkpoint::{gguf_in, is_gguf};
use crate::error::{Error, Result};
use crate::foreign;
use cache::Repository;
use client::{Client, Failure};
use select::Weights;

/// A model hub and the local cache in front of it.
///
/// ```no_run
/// let hub = layerscope_model::hub::Hub::from_env();
/// let folder = hub.fetch("openai-community/gpt2", None)?;
/// assert!(folder.join("config.json").is_file());
/// # Ok::<(), layerscope_model::Error>(())
/// ```
pub struct Hub {
    settings: HubSettings,
    client: Client,
    on_progress: Option<Box<OnProgress>>,
}

/// What a download calls as bytes arrive.
pub type OnProgress = dyn Fn(Progress<'_>) + Send + Sync;

/// How far the download of one file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file's name in the repository.
    pub file: &'a str,
    /// Bytes on disk, those of an earlier attempt included.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Hub {
    /// The hub that the environment describes (see [`HubSettings::from_lookup`]), through its proxy if it names one.
    pub fn from_env() -> Self {
        let settings = HubSettings::from_lookup(|name| std::env::var(name).ok());
        Self::build(settings, ureq::Proxy::try_from_env())
    }

    /// A hub of the given settings, reached without a proxy.
    pub fn new(cache: impl Into<PathBuf>, endpoint: &str, token: Option<&str>, offline: bool) -> Self {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Self::build(HubSettings { cache: cache.into(), endpoint, token: token.map(str::to_owned), offline }, None)
    }

    fn build(settings: HubSettings, proxy: Option<ureq::Proxy>) -> Self {
        let client = Client::new(&settings.endpoint, settings.token.as_deref(), proxy);
        Hub { settings, client, on_progress: None }
    }

    /// How often a failed request is made again, and how long to wait before the first of them; each wait doubles.
    pub fn retries(mut self, retries: u32, pause: Duration) -> Self {
        self.client.set_retries(retries, pause);
        self
    }

    /// How long a server may stay silent before its connection counts as cut.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.client.set_patience(patience);
        self
    }

    /// Calls `report` as bytes arrive.
    pub fn on_progress(mut self, report: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Box::new(report));
        self
    }

    /// Where files come from and go to.
    pub fn settings(&self) -> &HubSettings {
        &self.settings
    }

    /// The folder of a model, or its GGUF file: `model` itself where it exists here, a snapshot in the hub cache where it is a hub id.
    pub fn locate(&self, model: &str, revision: Option<&str>) -> Result<PathBuf> {
        let folder = Path::new(model);
        if folder.is_dir() || (is_gguf(folder) && folder.is_file()) {
            return match revision {
                None => Ok(gguf_in(folder)?.unwrap_or_else(|| folder.to_owned())),
                Some(_) => {
                    let remedy = line!["leave out ", setting("revision"), " or give a hub id"];
                    Err(Error::file(folder, line!["a local model has no revisions; ", remedy]))
                }
            };
        }
        if folder.is_file() {
            return Err(foreign::file(folder));
        }
        if names::id(model).is_err() {
            return Err(Error::hub(model, "neither an existing folder nor a hub id (`org/name`)"));
        }
        self.fetch(model, revision)
    }

    /// The folder with a hub model's config.json, weights and tokenizer, downloading what the cache lacks.
    ///
    /// The revision is a branch, tag or commit, `main` where there is none. Where the hub cannot be reached, a complete
    /// cached copy is used.
    pub fn fetch(&self, model: &str, revision: Option<&str>) -> Result<PathBuf> {
        let revision = revision.unwrap_or("main");
        names::id(model).and_then(|()| names::revision(revision)).map_err(|problem| Error::hub(model, problem))?;
        let repository = Repository::new(&self.settings.cache, model);
        if self.settings.offline {
            return self.cached(&repository, revision)?.map_err(|problem| {
                let remedy = "HF_HUB_OFFLINE is set; unset it to download";
                Error::hub(model, format!("{problem} in the cache {} and {remedy}", self.settings.cache.display()))
            });
        }
        match self.client.list(model, revision) {
            Ok(listing) => self.fill(&repository, revision, &listing),
            Err(Failure::Passing(problem)) => match self.cached(&repository, revision)? {
                Ok(snapshot) => Ok(snapshot),
                Err(_) => Err(Error::hub(
                    model,
                    format!("cannot reach {}: {problem}; check the network and HF_ENDPOINT, or try again", self.settings.endpoint),
                )),
            },
            Err(failure) => Err(self.unlisted(model, revision, failure)),
        }
    }

    /// The branches and tags of a model, from the cache if the hub cannot be reached.
    pub fn revisions(&self, model: &str) -> Result<Vec<String>> {
        names::id(model).map_err(|problem| Error::hub(model, problem))?;
        let cached = Repository::new(&self.settings.cache, model).revisions();
        if self.settings.offline {
            return Ok(cached);
        }
        match self.client.refs(model) {
            Ok(names) => Ok(names),
            Err(Failure::Passing(_)) if !cached.is_empty() => Ok(cached),
            Err(failure) => Err(self.unserved(model, "its list of revisions", failure)),
        }
    }

    /// Whether the cache has all of a revision.
    pub fn is_cached(&self, model: &str, revision: &str) -> bool {
        names::id(model).is_ok()
            && names::revision(revision).is_ok()
            && matches!(self.cached(&Repository::new(&self.settings.cache, model), revision), Ok(Ok(_)))
    }

    /// Removes a revision from the cache; files that other revisions share stay.
    pub fn evict(&self, model: &str, revision: &str) -> Result<()> {
        names::id(model).and_then(|()| names::revision(revision)).map_err(|problem| Error::hub(model, problem))?;
        Repository::new(&self.settings.cache, model).evict(revision)
    }

    /// The snapshot of a revision if the cache has all of it, else what it lacks.
    fn cached(&self, repository: &Repository, revision: &str) -> Result<std::result::Result<PathBuf, String>> {
        let Some(commit) = repository.commit(revision)? else { return Ok(Err(format!("no revision `{revision}`"))) };
        let snapshot = repository.snapshot(&commit);
        repository.check(&snapshot)?;
        Ok(match select::missing(&snapshot)? {
            None => Ok(snapshot),
            Some(file) => Err(format!("no {file} of revision `{revision}`")),
        })
    }

    /// Completes the snapshot of a listed commit and points the revision to it.
    fn fill(&self, repository: &Repository, revision: &str, listing: &client::Listing) -> Result<PathBuf> {
        let model = repository.id();
        let has = |file: &str| listing.files.contains(file);
        if !has(select::CONFIG) {
            return Err(Error::incomplete(
                model,
                format!("revision `{revision}` has no {}; it is not the repository of a Transformer", select::CONFIG),
            ));
        }
        let Some(weights) = select::weights(has) else {
            return Err(Error::incomplete(
                model,
                format!("revision `{revision}` has no weights in a known format; Layerscope reads {}", select::accepted()),
            ));
        };
        let snapshot = repository.create_snapshot(&listing.commit)?;
        let fetch = |file: &str| self.fetch_file(repository, &listing.commit, file);
        fetch(select::CONFIG)?;
        select::OPTIONAL.iter().filter(|file| has(file)).try_for_each(|file| fetch(file))?;
        match weights {
            Weights::Single(file) => fetch(file)?,
            Weights::Sharded(index) => {
                fetch(index)?;
                for shard in select::shards(&snapshot.join(index))? {
                    if !has(&shard) {
                        return Err(Error::incomplete(
                            model,
                            format!("{index} names `{shard}`, but revision `{revision}` does not contain it"),
                        ));
                    }
                    fetch(&shard)?;
                }
            }
        }
        repository.check(&snapshot)?;
        repository.set_commit(revision, &listing.commit)?;
        Ok(snapshot)
    }

    /// Makes sure one file is in the snapshot.
    fn fetch_file(&self, repository: &Repository, commit: &str, file: &str) -> Result<()> {
        if repository.holds(commit, file)? {
            return Ok(());
        }
        let remote =
            self.client.describe(repository.id(), commit, file).map_err(|failure| self.unserved(repository.id(), file, failure))?;
        download::blob(&self.client, repository, &remote, self.on_progress.as_deref())
            .map_err(|trouble| trouble.into_error(|failure| self.unserved(repository.id(), file, failure)))?;
        repository.link(&remote.etag, commit, file)
    }

    /// Why a revision could not be listed.
    fn unlisted(&self, model: &str, revision: &str, failure: Failure) -> Error {
        let Failure::Refused { status: 404, code } = failure else { return self.unserved(model, "its list of files", failure) };
        let endpoint = &self.settings.endpoint;
        let (problem, remedy) = match code.as_deref() {
            Some("RevisionNotFound") => (format!("no revision `{revision}` at {endpoint}"), line!["check ", setting("revision")]),
            Some("RepoNotFound") => (format!("no such model at {endpoint}"), line![NAME_OR_TOKEN]),
            _ if revision == "main" => (format!("no such model at {endpoint} (404)"), line![NAME_OR_TOKEN]),
            _ => (format!("no such model or no revision `{revision}` at {endpoint} (404)"), line![NAME_OR_TOKEN]),
        };
        Error::hub(model, line![problem, "; ", remedy])
    }

    /// Why something of a model could not be fetched.
    fn unserved(&self, model: &str, what: &str, failure: Failure) -> Error {
        let endpoint = &self.settings.endpoint;
        let (problem, remedy): (String, Line) = match failure {
            Failure::Passing(problem) => (problem, "check the network and try again".into()),
            Failure::Unusable(problem) => (problem, format!("check HF_ENDPOINT ({endpoint})").into()),
            Failure::Refused { status: 404, .. } => (format!("not at {endpoint} (404)"), line!["check the name and ", setting("revision")]),
            Failure::Refused { status, code } if code.as_deref() == Some("GatedRepo") => (
                format!("gated ({status})"),
                format!("accept its licence at {endpoint}/{model} and set HF_TOKEN to a token of that account").into(),
            ),
            Failure::Refused { status: 401, .. } if self.settings.token.is_none() => {
                ("a token is required (401)".to_owned(), NAME_OR_TOKEN.into())
            }
            Failure::Refused { status: 401, .. } => {
                (format!("{endpoint} does not accept the token (401)"), "check the name, and HF_TOKEN or `hf auth login`".into())
            }
            Failure::Refused { status: 403, .. } => (
                "forbidden (403)".to_owned(),
                format!("accept the licence at {endpoint}/{model} and set HF_TOKEN to a token that may read it").into(),
            ),
            Failure::Refused { status, .. } => (format!("{endpoint} answers {status}"), "check HF_ENDPOINT".into()),
        };
        Error::hub(model, line![format!("{what}: {problem}; "), remedy])
    }
}

const NAME_OR_TOKEN: &str = "check the name (a typo?), or set HF_TOKEN if it is private";
