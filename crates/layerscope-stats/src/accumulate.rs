//! What is accumulated where: the second half of a device, beside the operations of [`Backend`].
//!
//! Once a batch, its [`BatchInfo`] goes to the device. At every point a worker [prepares](Accumulate::prepare) what the batch
//! contributes, in memory of its own, and [commits](Accumulate::commit) it when its turn comes; what comes early may be
//! [set aside](Accumulate::set_aside), so that its worker goes on. Between batches a point's state can be
//! [fetched](Accumulate::fetch), and [loaded](Accumulate::load) again. State files, merges and tables know nothing of devices.
//!
//! A device that computes on the host gets all of this for nothing: there the resident state is the [`PointState`].

use std::borrow::Cow;

use layerscope_compute::{Backend, HostBackend, Memory, States};

use crate::batch::BatchInfo;
use crate::error::{Error, Result};
use crate::point::{PointShape, PointState};
use crate::rows::{BatchRows, DetachedRows};
use crate::sketch::{BatchSpace, Contribution, SketchSet};

/// What is wanted of the states of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// What is kept beside the moments.
    pub sketches: SketchSet,
    /// The norm beyond which a state is massive.
    pub massive: Option<f64>,
    /// Leave states out that are not finite; otherwise the first one is an error.
    pub skip_bad: bool,
}

impl Wanted {
    /// Computes what the finite rows of a batch contribute to some sketches, on the host; returns those rows. Others are an error unless
    /// they may be left out.
    pub fn prepare<'a>(&self, sketches: SketchSet, rows: BatchRows<'a>, batch: &mut BatchSpace) -> Result<BatchRows<'a>> {
        let bad = rows.not_finite();
        if let Some(&row) = bad.first().filter(|_| !self.skip_bad) {
            return Err(Error::NotFinite { row });
        }
        if !bad.is_empty() {
            // The point before has other rows: this batch is no pair.
            batch.start_batch();
        }
        let rows = rows.without(&bad);
        batch.prepare(sketches, self.massive, &rows)?;
        Ok(rows)
    }
}

/// A counted row that is not finite, found after the batch went on: it entered nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRow {
    /// How many points of the batch were prepared before the one where it was found.
    pub point: usize,
    /// The row.
    pub row: u32,
}

/// A device that accumulates what it computes.
pub trait Accumulate: Backend {
    /// What a batch says about its rows, where the device wants it.
    type Info: Send + Sync;
    /// A worker's memory for what a batch contributes at one point after another.
    type Space: Send;
    /// What a batch contributes at one point.
    type Prepared<'a>;
    /// The same where it was set aside until the turn of its batch.
    type Waiting: Send;
    /// A point's state where the device keeps it.
    type Resident: Send;

    /// Takes what a batch says about its rows; once a batch.
    fn info(&self, stream: &mut Self::Stream, info: BatchInfo) -> Result<Self::Info>;
    /// Memory for one worker; it grows to what batches need, and stays.
    fn space(&self) -> Result<Self::Space>;
    /// Forgets the previous point: to be called before the first point of every batch.
    fn start_batch(&self, space: &mut Self::Space);
    /// Computes what a batch contributes at its next point: nearly all of the work, before the turn.
    fn prepare<'a, 's: 'a>(
        &self,
        states: &mut States<'s, Self>,
        info: &'a Self::Info,
        wanted: &Wanted,
        space: &'a mut Self::Space,
    ) -> Result<Self::Prepared<'a>>;
    /// Adds what was prepared: little work, in turn.
    fn commit(&self, stream: &mut Self::Stream, prepared: &Self::Prepared<'_>, resident: &mut Self::Resident) -> Result<()>;
    /// Takes what was prepared out of the worker's memory, so that the worker can go on; gives it back where the device cannot do that.
    fn set_aside<'a>(&self, prepared: Self::Prepared<'a>) -> Result<Self::Waiting, Self::Prepared<'a>>;
    /// Adds what was set aside: the same numbers as [`Accumulate::commit`].
    fn commit_waiting(
        &self,
        stream: &mut Self::Stream,
        waiting: Self::Waiting,
        info: &Self::Info,
        resident: &mut Self::Resident,
    ) -> Result<()>;
    /// To be called when a batch went through all points and the stream was waited for: what only the device knew so far. Until then
    /// its states are not complete, and nothing may be [fetched](Accumulate::fetch).
    fn finish_batch(&self, _stream: &mut Self::Stream, _space: &mut Self::Space) -> Result<Option<LateRow>> {
        Ok(None)
    }
    /// ||x|| of every counted state.
    fn norms(&self, states: &mut States<'_, Self>, info: &Self::Info, space: &mut Self::Space) -> Result<Vec<f64>>;

    /// Puts a point's state on the device.
    fn load(&self, state: PointState) -> Result<Self::Resident>;
    /// A point's state as it is now.
    fn fetch<'a>(&self, resident: &'a Self::Resident) -> Result<Cow<'a, PointState>>;

    /// A point's state, taken off the device.
    fn take(&self, resident: Self::Resident) -> Result<PointState> {
        Ok(self.fetch(&resident)?.into_owned())
    }

    /// What the state of one point takes.
    fn point_memory(&self, shape: &PointShape) -> Memory;
    /// What a worker's space grows to with batches of `rows` rows.
    fn space_memory(&self, sketches: SketchSet, rows: usize, dim: usize) -> Memory;
}

/// A worker's memory on the host.
#[derive(Default)]
pub struct HostSpace {
    /// Means of rows, where several rows make one item.
    pooled: Vec<f32>,
    batch: BatchSpace,
}

/// What a batch contributes on the host.
pub struct HostPrepared<'a> {
    rows: BatchRows<'a>,
    space: &'a mut BatchSpace,
}

/// The same, set aside.
pub struct HostWaiting {
    rows: DetachedRows,
    contribution: Contribution,
}

impl<B: HostBackend> Accumulate for B {
    type Info = BatchInfo;
    type Space = HostSpace;
    type Prepared<'a> = HostPrepared<'a>;
    type Waiting = HostWaiting;
    type Resident = PointState;

    fn info(&self, _: &mut B::Stream, info: BatchInfo) -> Result<BatchInfo> {
        Ok(info)
    }

    fn space(&self) -> Result<HostSpace> {
        Ok(HostSpace::default())
    }

    fn start_batch(&self, space: &mut HostSpace) {
        space.batch.start_batch();
    }

    fn prepare<'a, 's: 'a>(
        &self,
        states: &mut States<'s, B>,
        info: &'a BatchInfo,
        wanted: &Wanted,
        space: &'a mut HostSpace,
    ) -> Result<HostPrepared<'a>> {
        let HostSpace { pooled, batch } = space;
        let rows = BatchRows::of(info.items(states.as_slice(), states.width, pooled), states.width, info)?;
        let rows = wanted.prepare(wanted.sketches, rows, batch)?;
        Ok(HostPrepared { rows, space: batch })
    }

    fn commit(&self, _: &mut B::Stream, prepared: &HostPrepared<'_>, resident: &mut PointState) -> Result<()> {
        resident.commit(&prepared.rows, prepared.space.contribution())
    }

    fn set_aside<'a>(&self, prepared: Self::Prepared<'a>) -> Result<HostWaiting, Self::Prepared<'a>> {
        Ok(HostWaiting { rows: prepared.rows.detached(), contribution: prepared.space.take_contribution() })
    }

    fn commit_waiting(&self, _: &mut B::Stream, mut waiting: HostWaiting, info: &BatchInfo, resident: &mut PointState) -> Result<()> {
        resident.commit(&waiting.rows.attached(info), &waiting.contribution)
    }

    fn norms(&self, states: &mut States<'_, B>, info: &BatchInfo, space: &mut HostSpace) -> Result<Vec<f64>> {
        let rows = BatchRows::of(info.items(states.as_slice(), states.width, &mut space.pooled), states.width, info)?;
        Ok(rows.segments().counted().iter().map(|&row| rows.norms()[row as usize]).collect())
    }

    fn load(&self, state: PointState) -> Result<PointState> {
        Ok(state)
    }

    fn fetch<'a>(&self, resident: &'a PointState) -> Result<Cow<'a, PointState>> {
        Ok(Cow::Borrowed(resident))
    }

    fn take(&self, resident: PointState) -> Result<PointState> {
        Ok(resident)
    }

    fn point_memory(&self, shape: &PointShape) -> Memory {
        Memory::on_host(shape.bytes())
    }

    fn space_memory(&self, sketches: SketchSet, rows: usize, dim: usize) -> Memory {
        Memory::on_host(BatchSpace::bytes(sketches, rows, dim))
    }
}
