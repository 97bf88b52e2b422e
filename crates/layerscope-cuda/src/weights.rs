//! Tables and norms on the card.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use half::slice::HalfFloatSliceExt;
use layerscope_compute::{HostTensor, HostValues, NormKind, NumberKind, Result};

use crate::device::{Bound, Cuda};
use crate::launch::Word;

/// Numbers as the checkpoint stores them.
pub(crate) enum Stored {
    Floats(CudaSlice<f32>),
    Halves(CudaSlice<u16>, NumberKind),
}

impl Stored {
    pub fn upload(cuda: &Cuda, values: &HostValues) -> Result<Stored> {
        Ok(match values {
            HostValues::F32(values) => Stored::Floats(cuda.upload(values)?),
            HostValues::F16(values) => Stored::Halves(cuda.upload(values.reinterpret_cast())?, NumberKind::F16),
            HostValues::Bf16(values) => Stored::Halves(cuda.upload(values.reinterpret_cast())?, NumberKind::Bf16),
        })
    }

    pub fn word(&self) -> Word {
        match self {
            Stored::Floats(numbers) => numbers.into(),
            Stored::Halves(numbers, _) => numbers.into(),
        }
    }

    pub fn kind(&self) -> NumberKind {
        match self {
            Stored::Floats(_) => NumberKind::F32,
            Stored::Halves(_, kind) => *kind,
        }
    }

    /// The number of its kind in `kernels/common.cuh`.
    pub fn code(&self) -> u32 {
        match self.kind() {
            NumberKind::F32 => 0,
            NumberKind::F16 => 1,
            NumberKind::Bf16 => 2,
        }
    }
}

/// Rows to gather from, in the numbers of the file.
pub struct CudaTable {
    _bound: Bound,
    pub(crate) stored: Stored,
    pub(crate) width: usize,
}

impl CudaTable {
    pub(crate) fn new(cuda: &Cuda, rows: HostTensor) -> Result<CudaTable> {
        Ok(CudaTable { _bound: cuda.bound(), stored: Stored::upload(cuda, &rows.values)?, width: rows.columns })
    }
}

/// Row numbers.
pub struct CudaIndices {
    _bound: Bound,
    pub(crate) numbers: CudaSlice<u32>,
}

impl CudaIndices {
    pub(crate) fn new(cuda: &Cuda, capacity: usize) -> Result<CudaIndices> {
        Ok(CudaIndices { _bound: cuda.bound(), numbers: cuda.zeros(capacity)? })
    }

    pub(crate) fn write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, values: &[u32]) -> Result<()> {
        if self.numbers.len() < values.len() {
            self.numbers = cuda.allocate(raw, values.len())?;
        }
        raw.memcpy_htod(values, &mut self.numbers).map_err(|error| cuda.error(error))
    }
}

/// A normalization; a missing gamma is filled in.
pub struct CudaNorm {
    _bound: Bound,
    pub(crate) kind: NormKind,
    pub(crate) epsilon: f32,
    pub(crate) width: usize,
    pub(crate) gamma: CudaSlice<f32>,
    pub(crate) beta: Option<CudaSlice<f32>>,
}

impl CudaNorm {
    pub(crate) fn new(
        cuda: &Cuda,
        kind: NormKind,
        epsilon: f32,
        width: usize,
        gamma: Option<Vec<f32>>,
        beta: Option<Vec<f32>>,
    ) -> Result<CudaNorm> {
        let gamma = cuda.upload(&gamma.unwrap_or_else(|| vec![1.0; width]))?;
        let beta = beta.map(|beta| cuda.upload(&beta)).transpose()?;
        Ok(CudaNorm { _bound: cuda.bound(), kind, epsilon, width, gamma, beta })
    }
}
