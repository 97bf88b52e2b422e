//! Massive states: few rows, which are copied to the host and enter there.
//!
//! How many there are, only the card knows. So their rows are copied aside on the card, and a worker looks at the count when it comes
//! by the same place of the ring again: by then the card has long passed it, and nobody waited. What a batch found enters a point in
//! the order in which batches were committed there, whoever comes first.

use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaSlice, CudaStream as RawStream, DriverError};
use layerscope_stats::{BatchInfo, Result};

use super::host_part::{HostPart, MassiveBatch, MassivePairs, MassiveRows, lock};
use super::scatter::Before;
use super::space::{BAD_ROWS, FLAGS, FOUND_ROWS, Grown};
use crate::device::Cuda;
use crate::landing::Landing;
use crate::launch::Word;

/// Points that a worker is ahead of what it knows.
const SLOTS: usize = 2;

/// A found row as one word, as in `statistics.cuh`.
const MASSIVE_HERE: u32 = 1 << 31;
const ROW_BITS: u32 = (1 << 30) - 1;

/// Rows that were copied aside at the last few points.
pub(super) struct MassiveRing {
    cuda: Cuda,
    /// Copies do not wait for what the worker has put in its stream since.
    copier: Arc<RawStream>,
    slots: Vec<Slot>,
}

/// Memory for the massive rows of one point.
pub(super) struct Slot {
    found: Grown<u32>,
    copies: Grown<f32>,
    before: Grown<f32>,
    /// The flags of the point before and of this one.
    pub flags: Landing<u32>,
    pending: Mutex<Option<Pending>>,
}

/// Where the kernels write.
#[derive(Clone, Copy)]
pub(super) struct SlotWords {
    pub found: Word,
    pub copies: Word,
    pub before: Word,
}

/// What is on its way.
pub(super) struct Pending {
    pub info: Arc<BatchInfo>,
    pub dim: usize,
    pub massive: Option<f64>,
    /// The point before, if there are products with it.
    pub before: Option<Before>,
    /// Where it enters; None as long as the batch was not committed.
    pub entry: Option<(Arc<Mutex<HostPart>>, u64)>,
}

impl MassiveRing {
    pub fn new(cuda: &Cuda) -> layerscope_compute::Result<MassiveRing> {
        let slot = || {
            let flags = Landing::new(cuda, 2 * FLAGS)?;
            Ok(Slot { found: Grown::default(), copies: Grown::default(), before: Grown::default(), flags, pending: Mutex::default() })
        };
        let make = || Ok((cuda.context().new_stream()?, (0..SLOTS).map(|_| slot()).collect::<Result<Vec<_>, DriverError>>()?));
        let (copier, slots) = make().map_err(|error: DriverError| cuda.error(error))?;
        Ok(MassiveRing { cuda: cuda.clone(), copier, slots })
    }

    /// What it grows to on the card.
    pub fn bytes(rows: usize, dim: usize, has_pairs: bool) -> usize {
        SLOTS * rows * (1 + dim * (1 + usize::from(has_pairs))) * size_of::<f32>()
    }

    /// Makes the place for the batch's next point free, with room for its rows.
    pub fn reserve(&mut self, stream: &Arc<RawStream>, point: usize, (rows, dim, before): (usize, usize, usize)) -> Result<SlotWords> {
        self.settle(point)?;
        let Slot { found, copies, before: others, .. } = &mut self.slots[point % SLOTS];
        found.reserve(&self.cuda, stream, rows)?;
        copies.reserve(&self.cuda, stream, rows * dim)?;
        others.reserve(&self.cuda, stream, rows * before)?;
        Ok(SlotWords { found: found.word(), copies: copies.word(), before: others.word() })
    }

    /// The place of a point.
    pub fn slot(&mut self, point: usize) -> &mut Slot {
        &mut self.slots[point % SLOTS]
    }

    /// Says to which state the rows of a point belong.
    pub fn commit(&self, point: usize, host: &Arc<Mutex<HostPart>>, ticket: u64) -> Result<()> {
        match &mut *lock(&self.slots[point % SLOTS].pending) {
            Some(pending) => pending.entry = Some((host.clone(), ticket)),
            // The stream has failed, and will say so.
            None => lock(host).arrive(ticket, None)?,
        }
        Ok(())
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
        let (cuda, copier, slot) = (&self.cuda, &self.copier, &mut self.slots[point % SLOTS]);
        let Some(mut pending) = lock(&slot.pending).take() else { return Ok(()) };
        let Some((host, ticket)) = pending.entry.take() else { return Ok(()) };
        let batch = slot.read(copier, pending).map_err(|error| cuda.error(error))?;
        lock(&host).arrive(ticket, batch)
    }
}

impl Slot {
    /// The kernels and the copy of the flags are in the stream.
    pub fn fill(&mut self, pending: Pending) {
        *lock(&self.pending) = Some(pending);
    }

    /// What the card found; None if that is nothing.
    fn read(&self, copier: &Arc<RawStream>, pending: Pending) -> Result<Option<MassiveBatch>, DriverError> {
        let Pending { info, dim, massive, before, .. } = pending;
        let flags = self.flags.wait()?;
        let (flags_before, flags) = flags.split_at(FLAGS);
        let count = flags[FOUND_ROWS] as usize;
        let words: Vec<u32> = read(copier, &self.found, count)?;
        if count == 0 {
            return Ok(None);
        }
        let states: Vec<f32> = read(copier, &self.copies, count * dim)?;
        // Where a row is not finite at one of the points, the batch is no pair.
        let is_pair = flags_before[BAD_ROWS] + flags[BAD_ROWS] == 0;
        let pairs = match before.filter(|_| is_pair) {
            Some(before) => {
                let rows: Vec<u32> = words.iter().map(|word| word & ROW_BITS).collect();
                let others = read(copier, &self.before, count * before.dim)?;
                Some(MassivePairs { info: info.excerpt(&rows), before, states_before: others, states: states.clone() })
            }
            None => None,
        };
        let here = || words.iter().zip(states.chunks_exact(dim)).filter(|(word, _)| **word & MASSIVE_HERE != 0);
        let rows: Vec<u32> = here().map(|(word, _)| word & ROW_BITS).collect();
        let states = here().flat_map(|(_, state)| state).copied().collect();
        Ok(Some(MassiveBatch { massive, here: MassiveRows { info: info.excerpt(&rows), states }, pairs }))
    }
}

fn read<T: cudarc::driver::DeviceRepr>(copier: &Arc<RawStream>, memory: &Grown<T>, count: usize) -> Result<Vec<T>, DriverError> {
    let slice: Option<&CudaSlice<T>> = memory.slice().filter(|_| count > 0);
    let numbers = slice.map_or(Ok(Vec::new()), |slice| copier.clone_dtoh(&slice.slice(..count)))?;
    copier.synchronize()?;
    Ok(numbers)
}
