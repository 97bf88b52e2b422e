//! What a row of floats becomes before it is multiplied.

use cudarc::cublaslt::sys::{cublasComputeType_t, cudaDataType_t};
use layerscope_compute::{ComputeDtype, NumberKind};

/// How an operand of a product is stored. `kernels/operand.cuh` says the same to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandKind {
    /// The floats themselves.
    Floats,
    /// Rounded to bfloat16.
    Bf16,
    /// Rounded to half precision.
    F16,
    /// As two bfloat16 terms, `[high | low | high]`.
    Split,
}

impl OperandKind {
    /// The one that products in these numbers take.
    pub fn of(dtype: ComputeDtype) -> OperandKind {
        match dtype {
            ComputeDtype::F32 | ComputeDtype::Tf32 => OperandKind::Floats,
            ComputeDtype::F32x3 => OperandKind::Split,
            ComputeDtype::Bf16 => OperandKind::Bf16,
            ComputeDtype::F16 => OperandKind::F16,
        }
    }

    /// Whether a row of 16-bit numbers takes the place of its floats: so it stays between two products.
    pub fn is_halves(self) -> bool {
        matches!(self, OperandKind::Bf16 | OperandKind::F16)
    }

    /// Parts of a row beside its floats.
    pub fn parts(self) -> usize {
        match self {
            OperandKind::Floats => 0,
            OperandKind::Bf16 | OperandKind::F16 => 1,
            OperandKind::Split => 3,
        }
    }

    /// Parts of a weight of this stored kind: where bfloat16 holds it, nothing is left for a second term.
    pub fn weight_parts(self, stored: NumberKind) -> usize {
        if self == OperandKind::Split && stored == NumberKind::Bf16 { 2 } else { self.parts() }
    }

    /// Numbers of one part: floats need no padding, and 16-bit rows begin at multiples of 16 bytes.
    pub fn padded(self, width: usize) -> usize {
        if self == OperandKind::Floats { width } else { width.next_multiple_of(8) }
    }

    /// Bytes of one of its numbers.
    pub fn data_size(self) -> usize {
        if self == OperandKind::Floats { size_of::<f32>() } else { size_of::<u16>() }
    }

    /// What the kernels are compiled with.
    pub fn definition(self) -> String {
        format!("OPERAND={}", self as u32)
    }

    /// As cuBLASLt calls its numbers.
    pub fn data_type(self) -> cudaDataType_t {
        match self {
            OperandKind::Floats => cudaDataType_t::CUDA_R_32F,
            OperandKind::F16 => cudaDataType_t::CUDA_R_16F,
            OperandKind::Bf16 | OperandKind::Split => cudaDataType_t::CUDA_R_16BF,
        }
    }
}

/// As cuBLASLt calls the products.
pub(crate) fn compute_type(dtype: ComputeDtype) -> cublasComputeType_t {
    match dtype {
        ComputeDtype::Tf32 => cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        _ => cublasComputeType_t::CUBLAS_COMPUTE_32F,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_where_they_are_converted() {
        assert_eq!(OperandKind::of(ComputeDtype::Tf32).padded(37), 37);
        assert_eq!(OperandKind::of(ComputeDtype::F32x3).padded(37), 40);
        assert_eq!(OperandKind::Bf16.padded(64), 64);
    }

    #[test]
    fn a_weight_that_is_bfloat16_has_no_second_term() {
        assert_eq!(OperandKind::Split.weight_parts(NumberKind::F32), 3);
        assert_eq!(OperandKind::Split.weight_parts(NumberKind::Bf16), 2);
        assert_eq!(OperandKind::Bf16.weight_parts(NumberKind::F32), 1);
    }
}
