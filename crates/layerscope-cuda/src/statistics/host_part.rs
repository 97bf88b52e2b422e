//! What the host keeps of a point: everything about massive states, and the sketches that the card does not compute.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use layerscope_stats::sketch::{BatchSpace, Covariance, Sketch, SketchKind, SketchSet, Sketches};
use layerscope_stats::{BatchInfo, BatchRows, Error, PointState, Result};

use super::scatter::Before;

/// A point's state on the host.
pub(super) struct HostPart {
    /// Massive states in the moments, and what only the host computes.
    pub state: PointState,
    /// Massive states alone, where a covariance is kept.
    pub covariance: Option<Covariance>,
    /// Pairs that are massive at one of the points, where pairs are kept.
    pub pairs: Sketches,
    /// The batch that enters next, and those that came before their turn.
    next: u64,
    early: BTreeMap<u64, Option<MassiveBatch>>,
}

/// What the card found in a batch.
pub(super) struct MassiveBatch {
    pub massive: Option<f64>,
    /// The massive rows.
    pub here: MassiveRows,
    /// Those that are massive here or at the point before.
    pub pairs: Option<MassivePairs>,
}

/// Some rows of a batch.
pub(super) struct MassiveRows {
    pub info: BatchInfo,
    pub states: Vec<f32>,
}

/// Some rows of a batch at two points.
pub(super) struct MassivePairs {
    pub info: BatchInfo,
    pub before: Before,
    pub states_before: Vec<f32>,
    pub states: Vec<f32>,
}

/// A panic elsewhere is reported where it happened.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostPart {
    pub fn new(state: PointState, covariance: Option<Covariance>, pairs: Sketches) -> HostPart {
        HostPart { state, covariance, pairs, next: 0, early: BTreeMap::new() }
    }

    /// Refuses to be looked at while batches are on their way.
    pub fn check_complete(&self, committed: u64) -> Result<()> {
        match self.next == committed {
            true => Ok(()),
            false => Err(Error::Rows(format!("{} batches are not finished", committed - self.next))),
        }
    }

    /// Takes what was found in the batch with this ticket.
    pub fn arrive(&mut self, ticket: u64, found: Option<MassiveBatch>) -> Result<()> {
        self.early.insert(ticket, found);
        while let Some(found) = self.early.remove(&self.next) {
            self.next += 1;
            found.map_or(Ok(()), |found| self.enter(&found))?;
        }
        Ok(())
    }

    fn enter(&mut self, MassiveBatch { massive, here, pairs }: &MassiveBatch) -> Result<()> {
        let dim = self.state.dim();
        if !here.states.is_empty() {
            let rows = BatchRows::of(&here.states, dim, &here.info)?;
            self.state.moments.update_with_massive(&rows);
            self.covariance.as_mut().map_or(Ok(()), |covariance| covariance.add(&rows, *massive))?;
        }
        let Some(MassivePairs { info, before, states_before, states }) = pairs else { return Ok(()) };
        let (mut space, wanted) = (BatchSpace::new(), SketchSet::of(&[SketchKind::Pairs]));
        space.prepare(wanted, before.massive, &BatchRows::of(states_before, before.dim, info)?)?;
        let rows = BatchRows::of(states, dim, info)?;
        space.prepare(wanted, *massive, &rows)?;
        self.pairs.update(space.contribution(), &rows)
    }
}
