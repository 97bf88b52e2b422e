//! Products in bfloat16: operands of 16 bits, sums in f32.
//!
//! All kernels compute the same: `sum over k of round(a) * b`, products exact, added up in f32. Each has its own order and rounding of
//! the additions, so an element's bits depend on the kernel, and within one kernel on nothing else: not on its batch, thread or number of
//! rows. The kernels of the processor take subnormal numbers for zero.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
pub(super) use amx::Tiles;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512Bf16;

use std::fmt;

use super::Isa;

/// What computes products in bfloat16. Whoever holds one may run it: values come from detection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16Kernel {
    /// Tiles of the processor: AMX-BF16.
    #[cfg(target_arch = "x86_64")]
    Amx(Detected<Tiles>),
    /// Vectors of the processor: AVX512-BF16.
    #[cfg(target_arch = "x86_64")]
    Avx512(Detected<Avx512Bf16>),
    /// The f32 product of rounded rows and widened weights: the definition, at the speed of f32.
    Emulated(Isa),
}

/// A proof that this machine has a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected<K>(K);

impl Bf16Kernel {
    /// The best one this machine has.
    pub fn detect() -> Bf16Kernel {
        Bf16Kernel::available()[0]
    }

    /// All that this machine has, best first.
    pub fn available() -> Vec<Bf16Kernel> {
        let isa = Isa::detect();
        #[allow(unused_mut)] // on other processors
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if isa.set() == super::InstructionSet::Avx512 && is_x86_feature_detected!("avx512bf16") {
            found.extend(amx::permitted().then_some(Bf16Kernel::Amx(Detected(Tiles))));
            found.push(Bf16Kernel::Avx512(Detected(Avx512Bf16)));
        }
        found.push(Bf16Kernel::Emulated(isa));
        found
    }
}

impl fmt::Display for Bf16Kernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            #[cfg(target_arch = "x86_64")]
            Bf16Kernel::Amx(_) => "AMX-BF16",
            #[cfg(target_arch = "x86_64")]
            Bf16Kernel::Avx512(_) => "AVX512-BF16",
            Bf16Kernel::Emulated(_) => "emulated",
        })
    }
}

#[cfg(test)]
mod tests;
