//! In which numbers a model's products are computed.

/// The numbers of the products. The residual stream is f32 in any case; what lies between two products of a block is f32 too, but for
/// GPUs, which keep it in the 16-bit numbers of products that have them. A device computes some of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComputeDtype {
    /// f32 throughout.
    #[default]
    F32,
    /// Operands are split into two bfloat16 terms, whose three larger products are summed in f32.
    F32x3,
    /// Operands lose the last 13 bits of their mantissa, sums are f32.
    Tf32,
    /// Operands are rounded to bfloat16, sums are f32. On processors, attention's own products stay f32.
    Bf16,
    /// Operands are rounded to IEEE 754 half precision, sums are f32: numbers beyond 65,504 become infinite.
    F16,
}

impl ComputeDtype {
    /// All of them.
    pub const ALL: [ComputeDtype; 5] = [ComputeDtype::F32, ComputeDtype::F32x3, ComputeDtype::Tf32, ComputeDtype::Bf16, ComputeDtype::F16];

    /// As a user writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ComputeDtype::F32 => "f32",
            ComputeDtype::F32x3 => "f32x3",
            ComputeDtype::Tf32 => "tf32",
            ComputeDtype::Bf16 => "bf16",
            ComputeDtype::F16 => "f16",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<ComputeDtype> {
        ComputeDtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}
