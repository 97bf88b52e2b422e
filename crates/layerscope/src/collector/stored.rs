//! Collectors as bytes: to be saved, or sent to another process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use layerscope_stats::PointState;
use layerscope_stats::sketch::{HashSample, Mergeable, PointMoments, Sketches, Tensors};
use serde::{Deserialize, Serialize};

use super::groups::{GroupKey, Groups};
use super::point::{CollectedPoint, Counts};
use super::{Collector, CollectorSettings, lock};
use crate::error::{Error, Result};
use crate::store::folder::Folder;
use crate::store::point_name::PointName;
use crate::store::state::{About, StateFile, encode_state};

/// What belongs to the tensors.
#[derive(Serialize, Deserialize)]
struct Details {
    #[serde(rename = "gathered")]
    collected: CollectorSettings,
    groups: Vec<GroupKey>,
    grouped: bool,
    points: Vec<PointDetails>,
}

#[derive(Serialize, Deserialize)]
struct PointDetails {
    at: PointName,
    excluded: u64,
    documents: u64,
    sequences: u64,
    rows: u64,
    previous: Option<PointName>,
}

impl Collector {
    /// Everything it knows.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let points: Vec<(PointName, CollectedPoint)> = lock(&self.points).iter().map(|(at, point)| (*at, lock(point).clone())).collect();
        let groups = lock(&self.groups).clone();
        let details = Details {
            collected: self.settings().clone(),
            groups: groups.keys().to_vec(),
            grouped: groups.is_grouped(),
            points: points.iter().map(|(at, point)| point_details(*at, point)).collect(),
        };
        let mut tensors = Tensors::default();
        for (at, point) in &points {
            tensors.nest(&at.stored(), point_tensors(point));
        }
        let details = serde_json::to_value(details).map_err(|error| Error::io("a collector in memory".as_ref(), error.into()))?;
        encode_state(&About { fingerprint: self.settings().fingerprint(), details }, &tensors)
    }

    /// Back from what [`Collector::encode`] made; `name` is what errors call it.
    pub fn decode(bytes: Vec<u8>, name: &str) -> Result<Collector> {
        Collector::of_state(&StateFile::decode(bytes, name)?)
    }

    /// Writes it to a file: after a crash at any moment the file is the old one or the new one, whole.
    pub fn save(&self, path: &Path) -> Result<()> {
        Folder::put_file(path, &self.encode()?)
    }

    /// Reads what [`Collector::save`] wrote.
    pub fn load(path: &Path) -> Result<Collector> {
        Collector::of_state(&StateFile::open(path)?)
    }

    fn of_state(state: &StateFile) -> Result<Collector> {
        let damaged = |problem: String| Error::damaged(state.path(), problem);
        let details: Details = serde_json::from_value(state.about().details.clone())
            .map_err(|error| damaged(format!("no saved collector, or its details are not readable ({error})")))?;
        let collector = Collector::new(details.collected)?;
        let groups = match (details.grouped, details.groups.is_empty()) {
            (false, false) => Groups::ungrouped(),
            _ => Groups::from_keys(details.groups)?,
        };
        let mut points = BTreeMap::new();
        for entry in details.points {
            let point = point_from(&mut state.read(&entry.at.stored())?, &entry, collector.settings())?;
            if point.state.dim() != collector.settings().dim || point.state.moments.group_count() > groups.len() {
                return Err(damaged(format!("the sketches of {} do not fit its settings", entry.at)));
            }
            points.insert(entry.at, Arc::new(Mutex::new(point)));
        }
        *lock(&collector.groups) = groups;
        *lock(&collector.points) = points;
        Ok(collector)
    }
}

fn point_details(at: PointName, point: &CollectedPoint) -> PointDetails {
    let Counts { documents, sequences, rows } = point.counts;
    PointDetails { at, excluded: point.state.excluded, documents, sequences, rows, previous: point.previous }
}

/// Kept states are not numbered before the end: they are in the samples.
fn point_tensors(point: &CollectedPoint) -> Tensors<'_> {
    let mut tensors = point.state.encode();
    tensors.0.retain(|name, _| name != "kept" && name != "excluded");
    point.samples.iter().enumerate().for_each(|(class, sample)| tensors.nest(&format!("kept.{class}"), sample.encode()));
    tensors
}

fn point_from(tensors: &mut Tensors<'_>, entry: &PointDetails, settings: &CollectorSettings) -> Result<CollectedPoint> {
    let sample = |class: usize| HashSample::decode(&mut tensors.take_nested(&format!("kept.{class}")));
    let samples = (0..=settings.tokens.len()).map(sample).collect::<Result<Vec<_>, _>>()?;
    let moments = PointMoments::decode(&mut tensors.take_nested("moments"))?;
    Ok(CollectedPoint {
        state: PointState { moments, sketches: Sketches::decode(tensors)?, kept: Vec::new(), excluded: entry.excluded },
        samples,
        counts: Counts { documents: entry.documents, sequences: entry.sequences, rows: entry.rows },
        previous: entry.previous,
    })
}
