//! Between two products: bias, activation, gate, and the change of rows to operands and back.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream as RawStream};
use layerscope_compute::{Activation, Result};

use crate::buffer::Buffer;
use crate::device::Cuda;
use crate::kernels::Kernels;
use crate::launch::{Grid, Word, launch};
use crate::operand::OperandKind;

const THREADS: usize = 256;

/// The kernels of `kernels/activations.cu`.
pub(crate) struct Activations {
    activate: CudaFunction,
    activate_halves: CudaFunction,
    gate: CudaFunction,
    gate_halves: CudaFunction,
    widen: CudaFunction,
    narrow: CudaFunction,
    pack_weight: CudaFunction,
}

/// The numbers of `kernels/activations.cu`.
fn code(activation: Option<Activation>) -> u32 {
    match activation {
        None => 0,
        Some(Activation::GeluErf) => 1,
        Some(Activation::GeluTanh) => 2,
        Some(Activation::GeluQuick) => 3,
        Some(Activation::Relu) => 4,
        Some(Activation::ReluSquared) => 5,
        Some(Activation::Silu) => 6,
        Some(Activation::Tanh) => 7,
    }
}

/// Columns that threads handle, four each.
fn columns(kind: OperandKind, width: usize) -> usize {
    kind.padded(width).next_multiple_of(4)
}

/// One thread for four columns.
fn grid(kind: OperandKind, rows: usize, width: usize) -> Grid {
    Grid::over(rows * columns(kind, width) / 4, THREADS)
}

impl Activations {
    pub fn load(kernels: &Kernels, kind: OperandKind) -> Result<Activations> {
        let function = |name: &str| kernels.function("activations", &[kind.definition()], name);
        Ok(Activations {
            activate: function("activate")?,
            activate_halves: function("activate_halves")?,
            gate: function("gate")?,
            gate_halves: function("gate_halves")?,
            widen: function("widen")?,
            narrow: function("narrow")?,
            pack_weight: function("pack_weight")?,
        })
    }

    /// `activation(x + bias)` of a product in `out`. With an activation, it becomes what the next product takes.
    pub fn finish(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        (rows, width): (usize, usize),
        bias: Option<&CudaSlice<f32>>,
        activation: Option<Activation>,
        out: &mut Buffer,
    ) -> Result<()> {
        let x = out.numbers(cuda, raw, rows, width)?;
        if x.are_halves {
            let words = [x.word, bias.into(), rows.into(), width.into(), code(activation).into()];
            let grid = Grid::over(rows * width / 8, THREADS);
            return launch(raw, &self.activate_halves, grid, &words).map_err(|error| cuda.error(error));
        }
        let (floats, operand) = match activation {
            Some(_) => out.factor_to_write(cuda, raw, rows, width)?,
            None => (x.word, Word::NULL),
        };
        self.launch_activate(cuda, raw, (rows, width), [x.word, bias.into(), floats, operand], activation)
    }

    /// Floats to an operand.
    pub fn convert(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        size: (usize, usize),
        floats: &CudaSlice<f32>,
        operand: &CudaSlice<u16>,
    ) -> Result<()> {
        self.launch_activate(cuda, raw, size, [floats.into(), Word::NULL, Word::NULL, operand.into()], None)
    }

    fn launch_activate(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        (rows, width): (usize, usize),
        [x, bias, floats, operand]: [Word; 4],
        activation: Option<Activation>,
    ) -> Result<()> {
        let kind = cuda.operand();
        let words = [x, bias, floats, operand, rows.into(), width.into(), columns(kind, width).into(), code(activation).into()];
        launch(raw, &self.activate, grid(kind, rows, width), &words).map_err(|error| cuda.error(error))
    }

    /// `activation(x[r, j]) * x[r, width + j]`, into what the next product takes.
    pub fn gate(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        (rows, width): (usize, usize),
        x: &Buffer,
        activation: Activation,
        out: &mut Buffer,
    ) -> Result<()> {
        let kind = cuda.operand();
        let x = x.numbers(cuda, raw, rows, 2 * width)?;
        let (floats, operand) = out.factor_to_write(cuda, raw, rows, width)?;
        let size = [rows.into(), width.into(), columns(kind, width).into(), code(Some(activation)).into()];
        let (function, words) = match x.are_halves {
            true => (&self.gate_halves, [&[x.word, operand], &size[..]].concat()),
            false => (&self.gate, [&[x.word, floats, operand], &size[..]].concat()),
        };
        launch(raw, function, grid(kind, rows, width), &words).map_err(|error| cuda.error(error))
    }

    /// A bias in the 16-bit numbers of the products.
    pub fn narrow(&self, cuda: &Cuda, floats: &CudaSlice<f32>) -> Result<CudaSlice<u16>> {
        let halves = cuda.allocate(cuda.keeper(), floats.len())?;
        let words = [floats.into(), Word::from(&halves), floats.len().into()];
        launch(cuda.keeper(), &self.narrow, Grid::over(floats.len(), THREADS), &words).map_err(|error| cuda.error(error))?;
        cuda.keep(0, |_| Ok(halves))
    }

    /// An operand to floats.
    pub fn widen(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        operand: &CudaSlice<u16>,
        floats: &CudaSlice<f32>,
        rows: usize,
        width: usize,
    ) -> Result<()> {
        let words = [operand.into(), floats.into(), rows.into(), width.into(), cuda.operand().padded(width).into()];
        launch(raw, &self.widen, Grid::over(rows * width, THREADS), &words).map_err(|error| cuda.error(error))
    }

    /// A stored weight `[rows, width]` as the other factor of a product, of as many parts.
    pub fn pack_weight(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        (stored, kind): (Word, u32),
        packed: Word,
        (rows, width): (usize, usize),
        parts: usize,
    ) -> Result<()> {
        let padded = cuda.operand().padded(width);
        let words = [stored, kind.into(), packed, rows.into(), width.into(), padded.into(), parts.into()];
        launch(raw, &self.pack_weight, Grid::over(rows * padded, THREADS), &words).map_err(|error| cuda.error(error))
    }
}
