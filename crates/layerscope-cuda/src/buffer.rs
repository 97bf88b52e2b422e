//! Activations on the card: floats, and beside them the operand of the next product.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::Result;

use crate::device::Cuda;
use crate::launch::Word;
use crate::operand::OperandKind;

/// Row-major f32 activations.
///
/// The kernel that produces rows for a product also writes them as its operand, and where nothing but products reads them, as that
/// alone. So each of the two representations is current or not; floats are made from the operand when somebody wants them.
pub struct Buffer {
    floats: CudaSlice<f32>,
    floats_are_current: AtomicBool,
    operand: Option<Operand>,
}

/// Rows as a product takes them.
pub(crate) struct Operand {
    numbers: CudaSlice<u16>,
    rows: usize,
    width: usize,
    is_current: bool,
}

impl Buffer {
    pub(crate) fn new(floats: CudaSlice<f32>) -> Buffer {
        Buffer { floats, floats_are_current: AtomicBool::new(true), operand: None }
    }

    /// The floats. Those of states that observers see are always current.
    pub fn floats(&self) -> &CudaSlice<f32> {
        &self.floats
    }

    /// The floats, made current in the stream.
    pub(crate) fn current_floats(&self, cuda: &Cuda, raw: &Arc<RawStream>) -> Result<&CudaSlice<f32>> {
        if let (false, Some(operand)) = (self.floats_are_current.load(Ordering::Relaxed), &self.operand) {
            cuda.activations().widen(cuda, raw, &operand.numbers, &self.floats, operand.rows, operand.width)?;
            self.floats_are_current.store(true, Ordering::Relaxed);
        }
        Ok(&self.floats)
    }

    /// The floats, to be written: the operand is out of date.
    pub(crate) fn floats_to_write(&mut self) -> &mut CudaSlice<f32> {
        *self.floats_are_current.get_mut() = true;
        if let Some(operand) = &mut self.operand {
            operand.is_current = false;
        }
        &mut self.floats
    }

    /// Both representations, to be written by one kernel; no operand where products take floats.
    pub(crate) fn both_to_write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<(Word, Word)> {
        let operand = self.room_for_operand(cuda, raw, rows, width)?;
        *self.floats_are_current.get_mut() = true;
        Ok((Word::from(&self.floats), operand))
    }

    /// Where rows for nothing but products go: the operand, or the floats where products take floats. The other is null.
    pub(crate) fn factor_to_write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, rows: usize, width: usize) -> Result<(Word, Word)> {
        let (floats, operand) = self.both_to_write(cuda, raw, rows, width)?;
        if cuda.operand() == OperandKind::Floats {
            return Ok((floats, operand));
        }
        *self.floats_are_current.get_mut() = false;
        Ok((Word::NULL, operand))
    }

    /// The rows as a product takes them, if they are there: `width` numbers each.
    pub(crate) fn operand(&self, rows: usize, width: usize) -> Option<&CudaSlice<u16>> {
        let operand = self.operand.as_ref().filter(|operand| operand.is_current && operand.width == width && operand.rows >= rows)?;
        Some(&operand.numbers)
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
            let numbers = cuda.allocate(raw, (self.floats.len() / width).max(rows) * row)?;
            self.operand = Some(Operand { numbers, rows, width, is_current: true });
        }
        let Some(operand) = &mut self.operand else { return Ok(Word::NULL) };
        (operand.rows, operand.width, operand.is_current) = (rows, width, true);
        Ok(Word::from(&operand.numbers))
    }
}
