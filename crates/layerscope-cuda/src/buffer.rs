//! Activations on the card: floats, the operand of the next product, or both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::{Error, Result};

use crate::device::{Bound, Cuda};
use crate::launch::Word;
use crate::operand::OperandKind;

/// Row-major activations.
///
/// The kernel that produces rows for a product also writes them as its operand, and where nothing but products reads them, as that
/// alone. So each of the two representations is current or not; floats are made from the operand when somebody wants them.
///
/// An inner buffer lies between two products. It has no memory for floats until somebody wants them, and where an operand is one
/// 16-bit number, products write it as that.
pub struct Buffer {
    _bound: Bound,
    len: usize,
    is_inner: bool,
    floats: OnceLock<CudaSlice<f32>>,
    floats_are_current: AtomicBool,
    operand: Option<Operand>,
}

/// Rows as a product takes them.
struct Operand {
    numbers: CudaSlice<u16>,
    rows: usize,
    width: usize,
    is_current: bool,
}

/// Rows as they are: floats, or 16-bit numbers that stand for them.
pub(crate) struct Numbers {
    pub word: Word,
    pub are_halves: bool,
}

impl Buffer {
    /// Zeros.
    pub(crate) fn new(cuda: &Cuda, len: usize) -> Result<Buffer> {
        let buffer = Buffer { is_inner: false, ..Buffer::inner(cuda, len) };
        let _ = buffer.floats.set(cuda.zeros(len)?);
        Ok(buffer)
    }

    /// Rows between two products.
    pub(crate) fn inner(cuda: &Cuda, len: usize) -> Buffer {
        let (floats, floats_are_current) = (OnceLock::new(), AtomicBool::new(true));
        Buffer { _bound: cuda.bound(), len, is_inner: true, floats, floats_are_current, operand: None }
    }

    /// The floats of states that observers see; they always are current.
    ///
    /// # Panics
    ///
    /// For rows between two products, which nobody observes, and which may have no floats.
    pub fn floats(&self) -> &CudaSlice<f32> {
        self.floats.get().unwrap_or_else(|| unreachable!("rows between two products are not observed"))
    }

    /// The floats, made current in the stream.
    pub(crate) fn current_floats(&self, cuda: &Cuda, raw: &Arc<RawStream>) -> Result<&CudaSlice<f32>> {
        let floats = self.room_for_floats(cuda, raw)?;
        if let (false, Some(operand)) = (self.floats_are_current.load(Ordering::Relaxed), &self.operand) {
            cuda.activations().widen(cuda, raw, &operand.numbers, floats, operand.rows, operand.width)?;
            self.floats_are_current.store(true, Ordering::Relaxed);
        }
        Ok(floats)
    }

    /// The rows as they are, in 16-bit numbers if nothing else is current.
    pub(crate) fn numbers(&self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<Numbers> {
        let halves = self.operand(rows, width).filter(|_| cuda.operand().is_halves() && cuda.operand().padded(width) == width);
        match halves {
            Some(halves) if !self.floats_are_current.load(Ordering::Relaxed) => Ok(Numbers { word: halves.into(), are_halves: true }),
            _ => Ok(Numbers { word: self.current_floats(cuda, raw)?.into(), are_halves: false }),
        }
    }

    /// The same, to be changed in place: another representation is out of date.
    pub(crate) fn numbers_to_change(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<Numbers> {
        let numbers = self.numbers(cuda, raw, rows, width)?;
        if !numbers.are_halves {
            self.floats_to_write(cuda, raw)?;
        }
        Ok(numbers)
    }

    /// The floats, to be written: the operand is out of date.
    pub(crate) fn floats_to_write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>) -> Result<Word> {
        *self.floats_are_current.get_mut() = true;
        if let Some(operand) = &mut self.operand {
            operand.is_current = false;
        }
        Ok(self.room_for_floats(cuda, raw)?.into())
    }

    /// Copies floats of the host to the start.
    pub(crate) fn write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, values: &[f32]) -> Result<()> {
        self.check(cuda, values.len())?;
        self.floats_to_write(cuda, raw)?;
        let Some(floats) = self.floats.get_mut() else { return Ok(()) };
        raw.memcpy_htod(values, floats).map_err(|error| cuda.error(error))
    }

    /// Copies floats from the start to the host.
    pub(crate) fn read(&self, cuda: &Cuda, raw: &Arc<RawStream>, values: &mut [f32]) -> Result<()> {
        self.check(cuda, values.len())?;
        let floats = self.current_floats(cuda, raw)?;
        raw.memcpy_dtoh(&floats.slice(..values.len()), values).map_err(|error| cuda.error(error))
    }

    fn check(&self, cuda: &Cuda, count: usize) -> Result<()> {
        let problem = || format!("{count} floats of a buffer of {}", self.len);
        if count <= self.len { Ok(()) } else { Err(Error::Failed { device: cuda.name(), problem: problem() }) }
    }

    /// Both representations, to be written by one kernel; no operand where products take floats.
    pub(crate) fn both_to_write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<(Word, Word)> {
        let floats = self.floats_to_write(cuda, raw)?;
        Ok((floats, self.room_for_operand(cuda, raw, rows, width)?))
    }

    /// Where rows for nothing but products go: the operand, or the floats where products take floats. The other is null.
    pub(crate) fn factor_to_write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<(Word, Word)> {
        if cuda.operand() == OperandKind::Floats {
            return Ok((self.floats_to_write(cuda, raw)?, Word::NULL));
        }
        let operand = self.room_for_operand(cuda, raw, rows, width)?;
        *self.floats_are_current.get_mut() = false;
        Ok((Word::NULL, operand))
    }

    /// Whether products of as many columns are written as 16-bit numbers: without padding, which they would leave as it is.
    pub(crate) fn takes_halves(&self, kind: OperandKind, width: usize) -> bool {
        self.is_inner && kind.is_halves() && kind.padded(width) == width
    }

    /// The rows as a product takes them, if they are there: `width` numbers each.
    pub(crate) fn operand(&self, rows: usize, width: usize) -> Option<&CudaSlice<u16>> {
        let operand = self.operand.as_ref().filter(|operand| operand.is_current && operand.width == width && operand.rows >= rows)?;
        Some(&operand.numbers)
    }

    /// Floats that the buffer has from now on.
    fn room_for_floats(&self, cuda: &Cuda, raw: &Arc<RawStream>) -> Result<&CudaSlice<f32>> {
        if let Some(floats) = self.floats.get() {
            return Ok(floats);
        }
        let floats = cuda.allocate(raw, self.len)?;
        Ok(self.floats.get_or_init(|| floats))
    }

    /// An operand of as many rows, current from now on; its memory is kept for the next batch.
    fn room_for_operand(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<Word> {
        let kind = cuda.operand();
        if kind == OperandKind::Floats {
            return Ok(Word::NULL);
        }
        let row = kind.parts() * kind.padded(width);
        let has_room = self.operand.as_ref().is_some_and(|operand| operand.numbers.len() >= rows * row);
        if !has_room {
            self.operand = None;
            // For the whole buffer at once: later batches may be larger.
            let numbers = cuda.allocate(raw, (self.len / width).max(rows) * row)?;
            self.operand = Some(Operand { numbers, rows, width, is_current: true });
        }
        let Some(operand) = &mut self.operand else { return Ok(Word::NULL) };
        (operand.rows, operand.width, operand.is_current) = (rows, width, true);
        Ok(Word::from(&operand.numbers))
    }
}
