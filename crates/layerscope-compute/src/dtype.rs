//! In which numbers a model's products are computed.

/// The numbers of the products; everything between two products is f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComputeDtype {
    /// f32 throughout.
    #[default]
    F32,
    /// Operands are rounded to bfloat16, sums are f32. Attention's own products stay f32.
    Bf16,
}

impl ComputeDtype {
    /// All of them.
    pub const ALL: [ComputeDtype; 2] = [ComputeDtype::F32, ComputeDtype::Bf16];

    /// As a user writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ComputeDtype::F32 => "f32",
            ComputeDtype::Bf16 => "bf16",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<ComputeDtype> {
        ComputeDtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}
