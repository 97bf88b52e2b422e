//! What is collected of states that come from elsewhere.

use std::collections::BTreeMap;

use layerscope_error::{line, setting};
use layerscope_stats::measure::{Family, needs};
use layerscope_stats::sketch::{SketchKind, SketchSet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::settings::parse;
use crate::store::point_name::PointName;
use crate::store::state::Fingerprint;

/// No model has states of as many components, and their memory can still be counted.
const MOST_COMPONENTS: usize = 1 << 24;

/// What is collected, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectorSettings {
    /// Components of a state.
    pub dim: usize,
    /// Families of measures, by name.
    pub measures: Vec<String>,
    /// Numbers of clusters of the sample.
    pub clusters: Vec<usize>,
    /// Whether standard errors are computed (uses more memory).
    pub confidence: bool,
    /// Size of the hash sample.
    pub sample_states: usize,
    /// Seed of the hash.
    pub seed: u64,
    /// Smallest and largest n_t of the selected groups.
    pub frequency: (u64, u64),
    /// Groups whose states are kept, by id or name.
    pub tokens: Vec<String>,
    /// How many states are kept of each of them.
    pub token_states: usize,
    /// The norm beyond which a state is massive.
    pub massive_norm: Option<f64>,
    /// The same at single points, by their stored names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub massive_norms: BTreeMap<String, f64>,
    /// Whether rows that are not finite are left out and counted, not refused.
    pub skip_bad: bool,
    /// What groups are.
    pub group: String,
    /// The model, as far as it is known.
    pub model: ModelNote,
}

/// What is known of a model whose states come from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelNote {
    /// Its short name.
    pub name: String,
    /// Its revision.
    pub revision: Option<String>,
    /// Its kind.
    pub family: String,
    /// Attention heads.
    pub heads: usize,
    /// Numbers in its tensors.
    pub parameters: usize,
    /// Rows of the token embedding.
    pub vocabulary: usize,
    /// Whether tokens see only what is before them.
    pub causal: bool,
}

impl CollectorSettings {
    /// The defaults of a measurement.
    pub fn new(dim: usize) -> CollectorSettings {
        CollectorSettings {
            dim,
            measures: Family::DEFAULT.iter().map(|family| family.name().to_owned()).collect(),
            clusters: Vec::new(),
            confidence: false,
            sample_states: 20_000,
            seed: 0,
            frequency: (10, 100_000),
            tokens: Vec::new(),
            token_states: 500,
            massive_norm: None,
            massive_norms: BTreeMap::new(),
            skip_bad: false,
            group: "token".to_owned(),
            model: ModelNote { name: "states".to_owned(), family: "states from elsewhere".to_owned(), ..ModelNote::default() },
        }
    }

    /// The norm beyond which a state of a point is massive.
    pub(super) fn massive_at(&self, at: PointName) -> Option<f64> {
        self.massive_norms.get(&at.stored()).copied().or(self.massive_norm)
    }

    /// The families of measures.
    pub(super) fn families(&self) -> Result<Vec<Family>> {
        parse::families(self.measures.iter().map(String::as_str))
    }

    /// The sketches that these settings need.
    pub(super) fn check(&self) -> Result<SketchSet> {
        if self.dim == 0 {
            return Err(Error::usage(line![setting("dim"), " is the number of components of a state, at least 1"]));
        }
        if self.dim > MOST_COMPONENTS {
            let line = format!(" is too many; states have at most {MOST_COMPONENTS} components");
            return Err(Error::usage(line![setting("dim").to(self.dim), line]));
        }
        if self.frequency.0 > self.frequency.1 {
            let range = format!("{}:{}", self.frequency.0, self.frequency.1);
            return Err(Error::usage(line![setting("frequency").to(range), " selects no groups"]));
        }
        if self.clusters.iter().any(|clusters| *clusters < 2) {
            return Err(Error::usage(line![setting("clusters"), " are numbers of clusters, at least 2"]));
        }
        for (name, number) in [("sample-states", self.sample_states), ("token-states", self.token_states)] {
            if u32::try_from(number).is_err() {
                return Err(Error::usage(line![setting(name).to(number), format!(" is too many; give at most {}", u32::MAX)]));
            }
        }
        if self.clusters.iter().any(|clusters| *clusters > self.sample_states) {
            let line = format!(" are numbers of clusters, at most the {} states of the sample", self.sample_states);
            return Err(Error::usage(line![setting("clusters"), line]));
        }
        if self.massive_norm.iter().chain(self.massive_norms.values()).any(|norm| norm.is_nan() || *norm <= 0.0) {
            return Err(Error::usage(line![setting("massive-norm"), " is a norm above 0"]));
        }
        let mut sketches = needs(&self.families()?);
        let wants_sample = sketches.contains(SketchKind::Sample) || !self.clusters.is_empty();
        sketches.set(SketchKind::Sample, wants_sample && self.sample_states > 0);
        sketches.set(SketchKind::Blocks, self.confidence);
        Ok(sketches)
    }

    /// Everything that must be equal to merge.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.as_map()
    }

    /// As a manifest shows them.
    pub(super) fn shown(&self) -> Map<String, Value> {
        let mut map = self.as_map();
        map.remove("model");
        map.into_iter().map(|(name, value)| (name.replace('_', "-"), json!({ "value": value, "from": "collector" }))).collect()
    }

    fn as_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }
}
