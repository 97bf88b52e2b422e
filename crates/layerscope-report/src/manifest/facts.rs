//! The parts of a manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Stated, stated};

/// A model in a few words: a row of table 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFacts {
    /// Its short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its revision, for hub models.
    pub revision: Option<String>,
    /// SHA-256 of configuration and weights; none for a trajectory.
    pub fingerprint: Option<String>,
    /// The `model_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Number of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<u64>,
    /// Width of the states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// Attention heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Numbers in its tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Rows of the token embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u64>,
    /// Kind and placement of the norms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norms: Option<String>,
    /// Whether a token sees only what comes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causal: Option<bool>,
    /// Whether a norm follows the last block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<bool>,
    /// A drawing of its block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagram: Option<String>,
    /// How the model was altered, if it was.
    pub altered: Option<String>,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A measured point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredPoint {
    /// The index of the reference library's `hidden_states`.
    pub layer: u64,
    /// `embedding`, `block`, `final_norm` or `projected`.
    pub point: String,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The text, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorpusCounts {
    /// A hash over all documents that the filters kept, the same in every shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The files that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// Records read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Documents measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
    /// Sequences the model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences: Option<u64>,
    /// Tokens the model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// States counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<u64>,
    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
    /// Documents that could not be used, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<BTreeMap<String, u64>>,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One of several parts of the text, numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shard {
    /// Which one.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// A part of a run that was measured with `--split`: a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The value that all of its documents have in the column.
    pub value: String,
    /// Its folder, in that of the run.
    pub folder: String,
}

/// A range of frequencies, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frequency {
    /// The smallest n_t.
    pub minimum: u64,
    /// The largest n_t.
    pub maximum: u64,
}

/// The range of the paper.
impl Default for Frequency {
    fn default() -> Frequency {
        Frequency { minimum: 10, maximum: 100_000 }
    }
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub cores: u64,
    /// Its instruction set; after a comma, what computed products in bfloat16.
    pub isa: String,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An identity between measures, and how far it is from holding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The layer of the point.
    pub layer: Option<i64>,
    /// The point.
    pub point: Option<String>,
    /// The states it is over.
    pub selection: Option<String>,
    /// The identity as a formula.
    pub identity: Option<String>,
    /// The relative difference of its sides; none where that is not finite.
    pub residual: Option<f64>,
    /// States, groups or components it is over.
    pub n: Option<i64>,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A checkpoint of a trajectory, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Its revision, or the name of its folder.
    pub revision: String,
    /// Its training step, where its name tells it.
    pub step: Option<i64>,
    /// Whether it was measured.
    pub status: Status,
    /// Why it was not.
    pub reason: Option<String>,
    /// The folder of its run, relative to the trajectory's; none where only weights were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// SHA-256 of its configuration and weights; null where it could not be read.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    pub fingerprint: Stated<String>,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What became of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is part of the tables.
    Measured,
    /// It is not there.
    #[default]
    Missing,
    /// It is there, but cannot be used.
    Broken,
    /// A word of a newer program.
    #[serde(untagged)]
    Other(String),
}
