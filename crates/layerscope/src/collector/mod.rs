//! States that were computed elsewhere, into the very sketches and tables of a measurement.
//!
//! A [`Collector`] takes rows of states at any layer, in any order and from several threads. Collectors of several processes
//! [merge](Collector::merge), can be [encoded](Collector::encode) and come back, and [finish](Collector::finish) as a run on disk.
//!
//! ```
//! use layerscope::{Collector, CollectorSettings, GroupsOf, PointName, StateRows};
//!
//! let collector = Collector::new(CollectorSettings::new(2))?;
//! let rows = StateRows::new(&[1.0, 2.0, 3.0, 2.0]).groups(GroupsOf::Ids(&[7, 7]));
//! collector.update(PointName::of_layer(0), &rows)?;
//! assert_eq!(collector.states(PointName::of_layer(0)), 2);
//! # Ok::<(), layerscope::Error>(())
//! ```

mod end;
mod few;
mod groups;
pub(crate) mod import;
mod point;
mod rows;
mod settings;
mod stored;

pub use rows::{GroupsOf, StateRows, document_of};
pub use settings::{CollectorSettings, ModelNote};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use layerscope_stats::sketch::{PointMoments, SketchKind, SketchSet};
use layerscope_stats::{BatchInfo, BatchRows, NOT_COUNTED, Segments};

use layerscope_error::{line, setting};

use crate::error::{Error, Result};
use crate::measure::items::document_number;
use crate::store::point_name::PointName;
use crate::store::state::differences;
use groups::Groups;
use point::{CollectedPoint, Lanes, document};
use rows::{Piece, pieces};

/// Rows of a piece where every sketch is kept: what a batch of a measurement has.
const PIECE: usize = 1024;

/// Sketches of states that come from anywhere.
pub struct Collector {
    settings: CollectorSettings,
    sketches: SketchSet,
    groups: Mutex<Groups>,
    points: Mutex<BTreeMap<PointName, Arc<Mutex<CollectedPoint>>>>,
    lanes: Lanes,
    /// Memory of updates that are over, and whose: fresh pages cost more than their numbers.
    spare: Mutex<Vec<(ThreadId, PointMoments)>>,
}

impl Collector {
    /// Of no states yet.
    pub fn new(settings: CollectorSettings) -> Result<Collector> {
        let sketches = settings.check()?;
        Ok(Collector {
            settings,
            sketches,
            groups: Mutex::default(),
            points: Mutex::default(),
            lanes: Lanes::default(),
            spare: Mutex::default(),
        })
    }

    /// What is collected, and how.
    pub fn settings(&self) -> &CollectorSettings {
        &self.settings
    }

    /// The points that have states, in order.
    pub fn places(&self) -> Vec<PointName> {
        lock(&self.points).keys().copied().collect()
    }

    /// States counted at a point.
    pub fn states(&self, at: PointName) -> u64 {
        let point = lock(&self.points).get(&at).cloned();
        point.map_or(0, |point| lock(&point).state.states())
    }

    /// Adds rows at a point. A refused batch leaves everything as it was.
    pub fn update(&self, at: PointName, rows: &StateRows<'_>) -> Result<()> {
        let (dim, count) = (self.settings.dim, rows.check(&self.settings)?);
        if count == 0 || self.update_few(at, rows, count)? {
            return Ok(());
        }
        let offsets = rows.sequence_offsets(count);
        let keep_pairs = self.sketches.contains(SketchKind::Pairs) && rows.is_identified();
        let longest =
            if [SketchKind::Covariance, SketchKind::Pairs].iter().any(|kind| self.sketches.contains(*kind)) { PIECE } else { 4 * PIECE };
        let cut = pieces(count, &offsets, longest);

        // Whatever could be refused is looked at before anything is counted.
        let (nothing, none) = (Segments::default(), []);
        let states = |piece: &Piece| &rows.states[piece.rows.start * dim..piece.rows.end * dim];
        let batches: Vec<BatchRows<'_>> =
            cut.iter().map(|piece| BatchRows::new(states(piece), dim, &nothing, &none)).collect::<Result<_, _>>()?;
        let norms = batches.iter().flat_map(|batch| batch.norms());
        let counts = |row: usize| rows.mask.is_none_or(|mask| mask[row]);
        let bad: Vec<usize> = norms.enumerate().filter(|(row, norm)| !norm.is_finite() && counts(*row)).map(|(row, _)| row).collect();
        if let Some(row) = bad.first().filter(|_| !self.settings.skip_bad) {
            let line = line![
                format!("{at}, row {row}: the states are not finite; skip such rows with "),
                setting("on-error").to("skip"),
                ", or leave them out with a mask"
            ];
            return Err(Error::usage(line));
        }
        let (numbers, known, chosen) = {
            let mut groups = lock(&self.groups);
            let mut numbers = groups.numbers(&rows.groups, count)?;
            (0..count).filter(|row| !counts(*row)).for_each(|row| numbers[row] = NOT_COUNTED);
            bad.iter().for_each(|&row| numbers[row] = NOT_COUNTED);
            let chosen: Vec<u32> = self.settings.tokens.iter().filter_map(|token| groups.named(token)).collect();
            (numbers, groups.len(), chosen)
        };

        let point = self.point(at);
        let mut lane = self.lanes.take(keep_pairs.then(|| (at, rows.identity())));
        let previous = lane.previous(bad.is_empty());
        for (place, (piece, batch)) in cut.iter().zip(batches).enumerate() {
            let info = BatchInfo::new(numbers[piece.rows.clone()].to_vec(), piece.offsets.clone());
            let info = match rows.documents {
                Some(documents) => {
                    info.with_documents(documents[piece.rows.clone()].iter().map(|&d| document_number(document(d))).collect())
                }
                None => info,
            };
            let info = match rows.positions {
                Some(positions) => info.with_positions(positions[piece.rows.clone()].to_vec()),
                None => info,
            };
            let batch = batch.regrouped(&info)?;
            let space = lane.space(place);
            space.prepare(self.sketches, self.settings.massive_at(at), &batch)?;
            let mut point = lock(&point);
            point.grow(known);
            chosen.iter().for_each(|&group| point.state.moments.choose(group));
            point.enter(&batch, space, previous, rows, piece, &self.settings)?;
        }
        lock(&point).state.excluded += bad.len() as u64;
        self.lanes.give_back(lane);
        Ok(())
    }

    /// Adds what another one has collected, with the same settings.
    pub fn merge(&self, other: &Collector) -> Result<()> {
        let differing = differences(&other.settings.fingerprint(), &self.settings.fingerprint());
        if !differing.is_empty() {
            return Err(Error::mismatch(format!("the settings of the two collectors differ: {differing}")));
        }
        let (keys, points): (Groups, Vec<(PointName, CollectedPoint)>) = {
            let points = lock(&other.points);
            (lock(&other.groups).clone(), points.iter().map(|(at, point)| (*at, lock(point).clone())).collect())
        };
        let names = lock(&self.groups).absorb(&keys)?;
        let known = lock(&self.groups).len();
        for (at, theirs) in points {
            let ours = self.point(at);
            let mut ours = lock(&ours);
            ours.grow(known);
            ours.merge(&theirs, &names)?;
        }
        Ok(())
    }

    fn point(&self, at: PointName) -> Arc<Mutex<CollectedPoint>> {
        let mut points = lock(&self.points);
        Arc::clone(points.entry(at).or_insert_with(|| Arc::new(Mutex::new(CollectedPoint::new(at, &self.settings, self.sketches)))))
    }
}

/// A panic elsewhere is reported where it happened; the data behind a lock is consistent between updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
