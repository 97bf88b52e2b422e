//! Kinds of numbers.

use std::fmt;

use layerscope_compute::NumberKind;

/// How a checkpoint stores the numbers of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    Q8_0,
    Q6K,
    Q5_1,
    Q5_0,
    Q5K,
    Q4_1,
    Q4_0,
    Q4K,
    F8E4m3,
    F8E5m2,
    F8E8m0,
    C128,
    C64,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

/// Numbers that are stored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many.
    pub numbers: usize,
    /// The bytes of all of them.
    pub bytes: usize,
}

impl Dtype {
    /// The numbers that are stored together: one, except in the kinds of few bits.
    pub fn block(self) -> Block {
        let (numbers, bytes) = match self {
            Dtype::Q8_0 => (32, 34),
            Dtype::Q4_0 => (32, 18),
            Dtype::Q4_1 => (32, 20),
            Dtype::Q5_0 => (32, 22),
            Dtype::Q5_1 => (32, 24),
            Dtype::Q4K => (256, 144),
            Dtype::Q5K => (256, 176),
            Dtype::Q6K => (256, 210),
            plain => (1, plain.size()),
        };
        Block { numbers, bytes }
    }

    /// Whether its numbers are stored in blocks and read as f32.
    pub fn is_quantized(self) -> bool {
        self.block().numbers > 1
    }

    /// In which numbers a matrix of this kind is read: halves as they are, all others as f32.
    pub fn read_as(self) -> NumberKind {
        match self {
            Dtype::F16 => NumberKind::F16,
            Dtype::Bf16 => NumberKind::Bf16,
            _ => NumberKind::F32,
        }
    }

    /// Bytes of one number; of one that is stored in blocks, once it is read.
    pub fn size(self) -> usize {
        match self {
            Dtype::Q8_0 | Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Q4K | Dtype::Q5K | Dtype::Q6K => 4,
            Dtype::C128 => 16,
            Dtype::F64 | Dtype::C64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::F8E4m3 | Dtype::F8E5m2 | Dtype::F8E8m0 | Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format!("{self:?}").to_lowercase().replace('k', "_k"))
    }
}
