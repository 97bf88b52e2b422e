//! States that were computed elsewhere, into the very sketches and tables of a measurement.
//!
//! A [`Gatherer`] takes rows of states at any layer, in any order and from several threads. Gatherers of several processes
//! [merge](Gatherer::merge), can be [encoded](Gatherer::encode) and come back, and [finish](Gatherer::finish) as a run on disk.
//!
//! ```
//! use layerscope::gather::{GatherSettings, Gatherer, GroupsOf, Place, StateRows};
//!
//! let gatherer = Gatherer::new(GatherSettings::new(2))?;
//! let rows = StateRows::new(&[1.0, 2.0, 3.0, 2.0]).groups(GroupsOf::Ids(&[7, 7]));
//! gatherer.update(Place::of_layer(0), &rows)?;
//! assert_eq!(gatherer.states(Place::of_layer(0)), 2);
//! # Ok::<(), layerscope::Error>(())
//! ```

mod end;
mod few;
mod groups;
mod place;
mod point;
mod rows;
mod settings;
mod stored;

pub use place::Place;
pub use rows::{GroupsOf, StateRows, document_of};
pub use settings::{GatherSettings, ModelNote};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use layerscope_stats::sketch::{PointSketch, SketchSet};
use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};

use crate::error::{Error, Result};
use crate::state::differences;
use groups::Groups;
use point::{GatheredPoint, Lanes};
use rows::{Piece, pieces};

/// Rows of a piece where every sketch is kept: what a batch of a measurement has.
const PIECE: usize = 1024;

/// Sketches of states that come from anywhere.
pub struct Gatherer {
    settings: GatherSettings,
    sketches: SketchSet,
    groups: Mutex<Groups>,
    points: Mutex<BTreeMap<Place, Arc<Mutex<GatheredPoint>>>>,
    lanes: Lanes,
    /// Memory of updates that are over, and whose: fresh pages cost more than their numbers.
    spare: Mutex<Vec<(ThreadId, PointSketch)>>,
}

impl Gatherer {
    /// Of no states yet.
    pub fn new(settings: GatherSettings) -> Result<Gatherer> {
        let sketches = settings.check()?;
        Ok(Gatherer {
            settings,
            sketches,
            groups: Mutex::default(),
            points: Mutex::default(),
            lanes: Lanes::default(),
            spare: Mutex::default(),
        })
    }

    /// What is gathered, and how.
    pub fn settings(&self) -> &GatherSettings {
        &self.settings
    }

    /// The points that have states, in order.
    pub fn places(&self) -> Vec<Place> {
        lock(&self.points).keys().copied().collect()
    }

    /// States counted at a point.
    pub fn states(&self, at: Place) -> u64 {
        let point = lock(&self.points).get(&at).cloned();
        point.map_or(0, |point| lock(&point).states())
    }

    /// Adds rows at a point. A refused batch leaves everything as it was.
    pub fn update(&self, at: Place, rows: &StateRows<'_>) -> Result<()> {
        let (dim, count) = (self.settings.dim, rows.check(&self.settings)?);
        if count == 0 || self.update_few(at, rows, count)? {
            return Ok(());
        }
        let offsets = rows.sequence_offsets(count);
        let keep_pairs = self.sketches.pairs && rows.is_identified();
        let longest = if self.sketches.covariance || self.sketches.pairs { PIECE } else { 4 * PIECE };
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
            return Err(Error::Usage(format!(
                "{at}, row {row}: the states are not finite; leave such rows out with --on-error skip, or with a mask"
            )));
        }
        let (numbers, known) = {
            let mut groups = lock(&self.groups);
            let mut numbers = groups.numbers(&rows.groups, count)?;
            (0..count).filter(|row| !counts(*row)).for_each(|row| numbers[row] = NOT_COUNTED);
            bad.iter().for_each(|&row| numbers[row] = NOT_COUNTED);
            (numbers, groups.len())
        };

        let point = self.point(at);
        let mut lane = self.lanes.take(keep_pairs.then(|| (at, rows.identity())));
        let previous = lane.previous(bad.is_empty());
        for (place, (piece, batch)) in cut.iter().zip(batches).enumerate() {
            let segments = Segments::new(&numbers[piece.rows.clone()]);
            let batch = batch.regrouped(&segments, &piece.offsets)?;
            let space = lane.space(place);
            space.prepare(self.sketches, self.settings.massive_norm, &batch)?;
            let mut point = lock(&point);
            point.grow(known);
            point.enter(&batch, space, previous, rows, piece, &self.settings)?;
        }
        lock(&point).excluded += bad.len() as u64;
        self.lanes.give_back(lane);
        Ok(())
    }

    /// Adds what another one has gathered, with the same settings.
    pub fn merge(&self, other: &Gatherer) -> Result<()> {
        let differing = differences(&other.settings.fingerprint(), &self.settings.fingerprint());
        if !differing.is_empty() {
            return Err(Error::Mismatch(format!("these were gathered in another way: {differing}")));
        }
        let (keys, points): (Groups, Vec<(Place, GatheredPoint)>) = {
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

    fn point(&self, at: Place) -> Arc<Mutex<GatheredPoint>> {
        let mut points = lock(&self.points);
        Arc::clone(points.entry(at).or_insert_with(|| Arc::new(Mutex::new(GatheredPoint::new(&self.settings, self.sketches)))))
    }
}

/// A panic elsewhere is reported where it happened; the data behind a lock is consistent between updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
