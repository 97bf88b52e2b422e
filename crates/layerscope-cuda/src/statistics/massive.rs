//! Massive states: few rows, which are copied to the host and enter there.
//!
//! How many there are, only the card knows. So their rows are copied aside on the card, and a worker looks at the count when it comes
//! by the same place of the ring again: by then the card has long passed it, and nobody waited. What a batch found enters a point in
//! the order in which batches were committed there, whoever comes first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaStream as RawStream, DriverError, PinnedHostSlice};
use layerscope_stats::{BatchInfo, BatchRows, Error, PointState, Result};

use super::space::{FLAGS, Grown};
use crate::device::Cuda;

/// Points that a worker is ahead of what it knows.
const SLOTS: usize = 2;

/// The word of the flags that counts massive rows, as in `rows.cu`.
const MASSIVE_ROWS: usize = 2;

/// What the host keeps of a point: everything about massive states, and the sketches that the card does not compute.
pub(super) struct HostPart {
    pub state: PointState,
    /// The batch that enters next, and those that came before their turn.
    next: u64,
    early: BTreeMap<u64, Option<MassiveBatch>>,
}

/// The massive rows of a batch.
struct MassiveBatch {
    info: BatchInfo,
    states: Vec<f32>,
}

impl HostPart {
    pub fn new(state: PointState) -> HostPart {
        HostPart { state, next: 0, early: BTreeMap::new() }
    }

    /// Refuses to be looked at while batches are on their way.
    pub fn check_complete(&self, committed: u64) -> Result<()> {
        match self.next == committed {
            true => Ok(()),
            false => Err(Error::Rows(format!("{} batches are not finished", committed - self.next))),
        }
    }

    /// Takes what was found in the batch with this ticket.
    fn arrive(&mut self, ticket: u64, found: Option<MassiveBatch>) -> Result<()> {
        self.early.insert(ticket, found);
        while let Some(found) = self.early.remove(&self.next) {
            self.next += 1;
            if let Some(MassiveBatch { info, states }) = found {
                let rows = BatchRows::of(&states, self.state.dim(), &info)?;
                self.state.moments.update_with_massive(&rows);
            }
        }
        Ok(())
    }
}

/// A panic elsewhere is reported where it happened.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows that were copied aside at the last few points.
pub(super) struct MassiveRing {
    cuda: Cuda,
    /// Copies do not wait for what the worker has put in its stream since.
    copier: Arc<RawStream>,
    slots: Vec<Slot>,
}

/// Memory for the massive rows of one point.
pub(super) struct Slot {
    pub found: Grown<u32>,
    pub copies: Grown<f32>,
    pub flags: PinnedHostSlice<u32>,
    pending: Mutex<Option<Pending>>,
}

struct Pending {
    info: Arc<BatchInfo>,
    dim: usize,
    /// Where it enters; None as long as the batch was not committed.
    entry: Option<(Arc<Mutex<HostPart>>, u64)>,
}

impl MassiveRing {
    pub fn new(cuda: &Cuda) -> layerscope_compute::Result<MassiveRing> {
        let slot = || {
            // SAFETY: nobody reads the words before the card has written them. Flags 0: they are read by the host.
            let flags = unsafe { cuda.context().alloc_pinned_with_flags(FLAGS, 0) }?;
            Ok(Slot { found: Grown::default(), copies: Grown::default(), flags, pending: Mutex::default() })
        };
        let make = || Ok((cuda.context().new_stream()?, (0..SLOTS).map(|_| slot()).collect::<Result<Vec<_>, DriverError>>()?));
        let (copier, slots) = make().map_err(|error: DriverError| cuda.error(error))?;
        Ok(MassiveRing { cuda: cuda.clone(), copier, slots })
    }

    /// The place for the batch's next point, free again, with room for its rows.
    pub fn slot(&mut self, stream: &Arc<RawStream>, point: usize, rows: usize, dim: usize) -> Result<&mut Slot> {
        self.settle(point)?;
        let slot = &mut self.slots[point % SLOTS];
        slot.found.reserve(&self.cuda, stream, rows)?;
        slot.copies.reserve(&self.cuda, stream, rows * dim)?;
        Ok(slot)
    }

    /// Says to which state the rows of a point belong.
    pub fn commit(&self, point: usize, host: &Arc<Mutex<HostPart>>, ticket: u64) {
        if let Some(pending) = &mut *lock(&self.slots[point % SLOTS].pending) {
            pending.entry = Some((host.clone(), ticket));
        }
    }

    /// Lets in whatever is left of a batch.
    pub fn settle_all(&mut self) -> Result<()> {
        (0..SLOTS).try_for_each(|point| self.settle(point))
    }

    /// Forgets what is left of a batch that failed.
    pub fn abandon(&mut self) -> Result<()> {
        for slot in &mut self.slots {
            if let Some(Pending { entry: Some((host, ticket)), .. }) = lock(&slot.pending).take() {
                lock(&host).arrive(ticket, None)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, point: usize) -> Result<()> {
        let Slot { found, copies, flags, pending } = &mut self.slots[point % SLOTS];
        let Some(Pending { info, dim, entry: Some((host, ticket)) }) = lock(pending).take() else { return Ok(()) };
        let (cuda, copier) = (&self.cuda, &self.copier);
        let read = || -> Result<Option<MassiveBatch>, DriverError> {
            let count = flags.as_slice()?[MASSIVE_ROWS] as usize;
            let (Some(found), Some(copies)) = (found.slice().filter(|_| count > 0), copies.slice()) else { return Ok(None) };
            let rows = copier.clone_dtoh(&found.slice(..count))?;
            let states = copier.clone_dtoh(&copies.slice(..count * dim))?;
            copier.synchronize()?;
            Ok(Some(MassiveBatch { info: info.excerpt(&rows), states }))
        };
        let batch = read().map_err(|error| cuda.error(error))?;
        lock(&host).arrive(ticket, batch)
    }
}

impl Slot {
    /// The kernels and the copy of the flags are in the stream.
    pub fn is_filled(&mut self, info: &Arc<BatchInfo>, dim: usize) {
        *lock(&self.pending) = Some(Pending { info: info.clone(), dim, entry: None });
    }
}
