//! Gatherers as bytes: to be saved, or sent to another process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use layerscope_stats::sketch::{HashSample, Lenses, PointSketch, Sketch, Tensors};
use serde::{Deserialize, Serialize};

use super::groups::{GroupKey, Groups};
use super::place::Place;
use super::point::{Counts, GatheredPoint};
use super::{GatherSettings, Gatherer, lock};
use crate::error::{Error, Result};
use crate::facts::PointFacts;
use crate::state::{About, StateFile, encode_state};
use crate::store::Store;

/// What belongs to the tensors.
#[derive(Serialize, Deserialize)]
struct Details {
    gathered: GatherSettings,
    groups: Vec<GroupKey>,
    grouped: bool,
    points: Vec<PointDetails>,
}

#[derive(Serialize, Deserialize)]
struct PointDetails {
    at: Place,
    excluded: u64,
    documents: u64,
    sequences: u64,
    rows: u64,
    previous: Option<Place>,
}

impl Gatherer {
    /// Everything it knows.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let points: Vec<(Place, GatheredPoint)> = lock(&self.points).iter().map(|(at, point)| (*at, lock(point).clone())).collect();
        let groups = lock(&self.groups).clone();
        let details = Details {
            gathered: self.settings().clone(),
            groups: groups.keys().to_vec(),
            grouped: groups.is_grouped(),
            points: points.iter().map(|(at, point)| point_details(*at, point)).collect(),
        };
        let mut tensors = Tensors::default();
        for (at, point) in &points {
            tensors.nest(&name(*at), point_tensors(point));
        }
        let details = serde_json::to_value(details).map_err(|error| Error::io("a collector in memory".as_ref(), error.into()))?;
        encode_state(&About { fingerprint: self.settings().fingerprint(), details }, &tensors)
    }

    /// Back from what [`Gatherer::encode`] made; `name` is what errors call it.
    pub fn decode(bytes: Vec<u8>, name: &str) -> Result<Gatherer> {
        Gatherer::of_state(&StateFile::decode(bytes, name)?)
    }

    /// Writes it to a file: after a crash at any moment the file is the old one or the new one, whole.
    pub fn save(&self, path: &Path) -> Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::Usage(format!("{} is no file name", path.display())))?;
        let bytes = self.encode()?;
        Store::create(folder)?.put_atomic(name, |out| out.write_all(&bytes))
    }

    /// Reads what [`Gatherer::save`] wrote.
    pub fn load(path: &Path) -> Result<Gatherer> {
        Gatherer::of_state(&StateFile::open(path)?)
    }

    fn of_state(state: &StateFile) -> Result<Gatherer> {
        let damaged = |problem: String| Error::damaged(state.path(), problem);
        let details: Details = serde_json::from_value(state.about().details.clone())
            .map_err(|error| damaged(format!("no saved collector, or its details are not readable ({error})")))?;
        let gatherer = Gatherer::new(details.gathered)?;
        let groups = match (details.grouped, details.groups.is_empty()) {
            (false, false) => Groups::ungrouped(),
            _ => Groups::from_keys(details.groups)?,
        };
        let mut points = BTreeMap::new();
        for entry in details.points {
            let point = point_from(&mut state.read(&name(entry.at))?, &entry, gatherer.settings())?;
            if point.moments.dim() != gatherer.settings().dim || point.moments.group_count() > groups.len() {
                return Err(damaged(format!("the sketches of {} do not fit its settings", entry.at)));
            }
            points.insert(entry.at, Arc::new(Mutex::new(point)));
        }
        *lock(&gatherer.groups) = groups;
        *lock(&gatherer.points) = points;
        Ok(gatherer)
    }
}

/// The prefix of a point's tensors.
pub(super) fn name(at: Place) -> String {
    PointFacts::name(&at.facts(None))
}

fn point_details(at: Place, point: &GatheredPoint) -> PointDetails {
    let Counts { documents, sequences, rows } = point.counts;
    PointDetails { at, excluded: point.excluded, documents, sequences, rows, previous: point.previous }
}

fn point_tensors(point: &GatheredPoint) -> Tensors<'_> {
    let mut tensors = Tensors::default();
    tensors.nest("moments", point.moments.tensors());
    tensors.nest("lenses", point.lenses.tensors());
    point.kept.iter().enumerate().for_each(|(class, sample)| tensors.nest(&format!("kept.{class}"), sample.tensors()));
    tensors
}

fn point_from(tensors: &mut Tensors<'_>, entry: &PointDetails, settings: &GatherSettings) -> Result<GatheredPoint> {
    let kept = |class: usize| HashSample::from_tensors(&mut tensors.take_nested(&format!("kept.{class}")));
    let kept = (0..=settings.tokens.len()).map(kept).collect::<Result<Vec<_>, _>>()?;
    Ok(GatheredPoint {
        moments: PointSketch::from_tensors(&mut tensors.take_nested("moments"))?,
        lenses: Lenses::from_tensors(&mut tensors.take_nested("lenses"))?,
        kept,
        excluded: entry.excluded,
        counts: Counts { documents: entry.documents, sequences: entry.sequences, rows: entry.rows },
        previous: entry.previous,
    })
}
