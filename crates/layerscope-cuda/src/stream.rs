//! One worker's queue on the card.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream as RawStream};
use layerscope_compute::{Latch, Result};

use crate::buffer::Buffer;
use crate::device::Cuda;

/// What an operation does, for those who ask where the time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Uploads.
    Upload,
    /// Rows of embeddings, and sums of rows.
    Rows,
    /// Norms, with the sums before them.
    Norm,
    /// Matrix products.
    Product,
    /// Activations, gates, and conversions of operands.
    Activation,
    /// Rotations.
    Rotary,
    /// Attention.
    Attention,
    /// Statistics.
    Statistics,
}

/// A stream, its working memory and its first failure.
pub struct CudaStream {
    raw: Arc<RawStream>,
    latch: Latch,
    pub(crate) scratch: Scratch,
    clock: Option<Vec<(Work, CudaEvent, CudaEvent)>>,
    cuda: Cuda,
}

/// Working memory that grows to what operations need.
#[derive(Default)]
pub(crate) struct Scratch {
    /// An operand of a product, converted.
    pub operand: Option<CudaSlice<u16>>,
    /// What cuBLASLt works in.
    pub products: Option<CudaSlice<u8>>,
}

impl Scratch {
    /// Rows that no kernel has written as an operand.
    pub fn convert(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, x: &Buffer, rows: usize, width: usize) -> Result<()> {
        let floats = x.current_floats(cuda, raw)?;
        let needed = rows * cuda.operand().parts() * cuda.operand().padded(width);
        let operand = match &mut self.operand {
            Some(operand) if operand.len() >= needed => operand,
            small => {
                *small = None;
                small.insert(cuda.allocate(raw, needed)?)
            }
        };
        cuda.activations().convert(cuda, raw, (rows, width), floats, operand)
    }
}

impl CudaStream {
    pub(crate) fn new(cuda: &Cuda) -> Result<CudaStream> {
        let raw = cuda.context().new_stream().map_err(|error| cuda.error(error))?;
        Ok(CudaStream { raw, latch: Latch::default(), scratch: Scratch::default(), clock: None, cuda: cuda.clone() })
    }

    /// The driver's stream.
    pub fn raw(&self) -> &Arc<RawStream> {
        &self.raw
    }

    /// Does work unless an earlier one failed, and keeps its failure.
    pub fn run(&mut self, kind: Work, work: impl FnOnce(&Arc<RawStream>) -> Result<()>) {
        self.run_with(kind, |raw, _| work(raw));
    }

    /// The same with the stream's working memory.
    pub(crate) fn run_with(&mut self, kind: Work, work: impl FnOnce(&Arc<RawStream>, &mut Scratch) -> Result<()>) {
        let CudaStream { raw, latch, scratch, clock, cuda } = self;
        latch.run(|| match clock {
            None => work(raw, scratch),
            Some(times) => {
                let now = || raw.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(|error| cuda.error(error));
                let start = now()?;
                work(raw, scratch)?;
                times.push((kind, start, now()?));
                Ok(())
            }
        });
    }

    /// Waits for all work and hands out the first failure.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let waited = self.raw.synchronize().map_err(|error| self.cuda.error(error));
        self.latch.release().and(waited)
    }

    /// From now on, takes the time of every operation; forgets earlier times.
    pub fn start_clock(&mut self) {
        self.clock = Some(Vec::new());
    }

    /// Milliseconds of every operation since [`start_clock`](CudaStream::start_clock), in order; stops the clock.
    pub fn times(&mut self) -> Result<Vec<(Work, f32)>> {
        let times = self.clock.take().unwrap_or_default();
        times.iter().map(|(kind, start, end)| Ok((*kind, start.elapsed_ms(end).map_err(|error| self.cuda.error(error))?))).collect()
    }
}

impl Drop for CudaStream {
    /// Buffers that the stream uses may be freed right after it, and its own are now.
    fn drop(&mut self) {
        let _ = self.raw.context().bind_to_thread();
        let _ = self.raw.synchronize();
    }
}
