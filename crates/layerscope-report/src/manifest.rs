//! What a run says about itself: `manifest.json`.
//!
//! Four kinds of runs share one type: a measured run, a trajectory of several checkpoints, the weights of one checkpoint, and the
//! weights of several. A field is `None` where the manifest does not have it, and is then not written either: what is read and
//! written again keeps its bytes. Keys of newer programs are kept in `other`.
//!
//! ```
//! use layerscope_report::Manifest;
//!
//! let manifest: Manifest = serde_json::from_str(r#"{"model": {"name": "tiny"}, "later": 1}"#)?;
//! assert_eq!((manifest.model_name(), manifest.is_trajectory()), ("tiny", false));
//! assert_eq!(manifest.other["later"], 1);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod facts;
mod files;
mod settings;
mod timings;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use facts::{Checkpoint, CorpusCounts, Frequency, Host, Identity, MeasuredPoint, ModelFacts, Part, Shard, Status};
pub use files::{FileDigest, sha256};
pub use settings::{Setting, Settings};
pub use timings::Timings;

use crate::error::{Error, Result};

/// The file of a manifest, written last: a folder without it holds no finished run.
pub const FILE: &str = "manifest.json";

/// A value that a manifest can leave out (`None`) or give as null (`Some(None)`).
pub type Stated<T> = Option<Option<T>>;

/// What was measured, how, on what, and whether the numbers can be trusted. Fields are in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The version of the file's layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<u64>,
    /// The version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The words of the command, the program's name first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The model.
    #[serde(skip_serializing_if = "is_default")]
    pub model: ModelFacts,
    /// The measured points, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<MeasuredPoint>>,
    /// The text, in numbers.
    #[serde(skip_serializing_if = "is_default")]
    pub corpus: CorpusCounts,
    /// The part of the text that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The value that all of its documents have in the column of `--split`, where the run is a part of another. The model's name ends with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The parts of the run, in order, where it was measured with `--split`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Vec<Part>>,
    /// What makes a group: `token`, `word`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grouping: Option<String>,
    /// The frequencies of the selected groups; null where every group is selected.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    pub frequency: Stated<Frequency>,
    /// Words in a document, and how many documents have that many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence_words: Option<Vec<(u64, u64)>>,
    /// The settings, and where each came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// For each point the norm above which a state is massive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub massive_thresholds: Option<Vec<Option<f64>>>,
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// How long it took, over all interruptions and shards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// Where that time went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// States of all points, by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states_per_second: Option<f64>,
    /// The most memory that was in use; null where the system does not tell.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    pub peak_memory_bytes: Stated<u64>,
    /// How far the identities between measures are from holding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identities: Option<Vec<Identity>>,
    /// Remarks on the measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<String>>,
    /// What the user should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// Whether only weights were looked at, and no text was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_only: Option<bool>,
    /// The checkpoints of a training, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trajectory: Option<Vec<Checkpoint>>,
    /// The tables of the run by the names of their files, as they were written; `None` in runs of older programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, FileDigest>>,
    /// SHA-256 of the header of `state.safetensors`, which has a checksum of every number in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `f16` where the kept states were rounded after the tables were made, or before they were merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_states: Option<String>,
    /// What is left of the run where its states were pruned: `tables`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<String>,
    /// SHA-256 of everything else, see [`Manifest::sealed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Manifest {
    /// Reads the manifest of the run in `folder`; without one the run is not finished and is refused.
    pub fn read(folder: &Path) -> Result<Manifest> {
        Manifest::parse(folder, &Manifest::read_bytes(folder)?)
    }

    /// The bytes of the manifest in `folder`.
    pub(crate) fn read_bytes(folder: &Path) -> Result<Vec<u8>> {
        let path = folder.join(FILE);
        std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if !folder.exists() => Error::file(folder, "there is no such folder"),
            std::io::ErrorKind::NotFound if folder.join(".work").exists() => {
                Error::file(folder, "no finished run here (manifest.json is written last); resume it first")
            }
            std::io::ErrorKind::NotFound => Error::file(folder, "no finished run here: there is no manifest.json"),
            _ => Error::file(&path, error.to_string()),
        })
    }

    /// The manifest of the run in `folder` from its bytes.
    pub(crate) fn parse(folder: &Path, bytes: &[u8]) -> Result<Manifest> {
        let line = |problem| format!("{problem}; give the command of the run again to make it anew");
        Manifest::from_sealed(bytes).map_err(|problem| Error::file(&folder.join(FILE), line(problem)))
    }

    /// The model's short name; `model` where there is none.
    pub fn model_name(&self) -> &str {
        self.model.name.as_deref().unwrap_or("model")
    }

    /// What tells the texts of two runs from each other.
    pub fn text(&self) -> (Option<&str>, Option<&str>) {
        (self.corpus.fingerprint.as_deref(), self.part.as_deref())
    }

    /// Whether this is a run over the checkpoints of a training.
    pub fn is_trajectory(&self) -> bool {
        self.trajectory.is_some()
    }

    /// Whether only weights were looked at, and no text was read.
    pub fn is_weights_only(&self) -> bool {
        self.weights_only == Some(true)
    }

    /// The checkpoints of a training; none for a single run.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.trajectory.as_deref().unwrap_or_default()
    }

    /// What makes a group; `token` where the manifest does not say.
    pub fn grouping(&self) -> &str {
        self.grouping.as_deref().unwrap_or("token")
    }

    /// The frequencies of the selected groups, where there is such a range.
    pub fn frequency(&self) -> Option<Frequency> {
        self.frequency.flatten()
    }

    /// Words in a document, and how many documents have that many.
    pub fn sentence_words(&self) -> &[(u64, u64)] {
        self.sentence_words.as_deref().unwrap_or_default()
    }

    /// The value of a setting, by the name of its flag without the dashes; null and absent are the same.
    pub fn setting(&self, name: &str) -> Option<&Value> {
        self.settings.as_ref()?.get(name).map(|setting| &setting.value).filter(|value| !value.is_null())
    }

    /// What the user should know.
    pub fn warnings(&self) -> &[String] {
        self.warnings.as_deref().unwrap_or_default()
    }

    /// The manifest of a trajectory, begun with what its checkpoints have in common with this one.
    ///
    /// Time, warnings and the list of checkpoints are still to be set.
    pub fn begin_trajectory(&self, command: Vec<String>) -> Manifest {
        Manifest {
            command: Some(command),
            model: ModelFacts { revision: None, fingerprint: None, ..self.model.clone() },
            massive_thresholds: None,
            timings: None,
            states_per_second: None,
            peak_memory_bytes: None,
            identities: None,
            notes: None,
            files: None,
            state: None,
            kept_states: None,
            pruned: None,
            seal: None,
            ..self.clone()
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Only called where the key is there, so that null is told from nothing.
fn stated<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Stated<T>, D::Error> {
    Option::deserialize(value).map(Some)
}
