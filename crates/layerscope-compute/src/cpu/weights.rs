//! Weights as the CPU keeps them: in the numbers of the file, laid out for products or row by row.

use super::bf16::Bf16Kernel;
use super::floats::Floats;
use super::gemm::{self, Epilogue, Part, Rows};
use super::half_panels::{Half, HalfPanels};
use super::isa::Isa;
use super::panels::Panels;
use crate::{Activation, HostTensor, HostValues, Result};

/// Rows to gather from.
pub struct CpuTable {
    rows: HostTensor,
}

impl CpuTable {
    pub(super) fn new(rows: HostTensor) -> CpuTable {
        CpuTable { rows }
    }

    /// Numbers of a row.
    pub(super) fn width(&self) -> usize {
        self.rows.columns
    }

    /// One row; numbers of 16 bits are widened into `wide`.
    pub(super) fn row<'a>(&'a self, row: usize, wide: &'a mut Vec<f32>) -> &'a [f32] {
        let width = self.width();
        match &self.rows.values {
            HostValues::F32(values) => &values[row * width..][..width],
            halves => {
                wide.resize(width, 0.0);
                halves.widen(row * width, wide);
                wide
            }
        }
    }
}

/// A linear layer, packed.
pub struct CpuLinear {
    weight: Weight,
    bias: Option<Vec<f32>>,
}

enum Weight {
    F32(Panels),
    Halves(HalfPanels),
}

impl CpuLinear {
    /// In the numbers of the file, or all in bfloat16.
    pub(super) fn new(weight: HostTensor, bias: Option<Vec<f32>>, in_bf16: bool) -> Result<CpuLinear> {
        let weight = match &weight.values {
            HostValues::F32(values) if !in_bf16 => Weight::F32(Panels::try_from_rows(values, weight.rows, weight.columns)?),
            HostValues::F16(_) if !in_bf16 => Weight::Halves(HalfPanels::from_tensor(&weight, Half::F16)?),
            _ => Weight::Halves(HalfPanels::from_tensor(&weight, Half::Bf16)?),
        };
        Ok(CpuLinear { weight, bias })
    }

    /// `out = activation(x W^T + b)`.
    #[allow(clippy::too_many_arguments)] // the product, its kernel and its working memory
    pub(super) fn apply(
        &self,
        isa: Isa,
        bf16: Option<Bf16Kernel>,
        x: &[f32],
        rows: usize,
        activation: Option<Activation>,
        out: &mut [f32],
        packed: &mut Floats,
    ) {
        let epilogue = Epilogue { bias: self.bias.as_deref(), activation };
        let a = |inputs: usize| Rows { data: &x[..rows * inputs], stride: inputs, count: rows };
        match (&self.weight, bf16) {
            (Weight::F32(weight), _) => {
                gemm::multiply(isa, a(weight.k), weight, &Part::all(weight), &mut out[..rows * weight.n], weight.n, epilogue, packed);
            }
            (Weight::Halves(weight), None) => {
                gemm::multiply_widened(isa, a(weight.k), weight, &mut out[..rows * weight.n], epilogue, packed);
            }
            (Weight::Halves(weight), Some(kernel)) => {
                gemm::multiply_bf16(kernel, a(weight.k), weight, &mut out[..rows * weight.n], epilogue, packed);
            }
        }
    }
}
