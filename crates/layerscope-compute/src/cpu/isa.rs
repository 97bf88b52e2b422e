//! Instruction sets, and running one body of code compiled for each of them.
//!
//! Bodies are written with explicit `mul_add` and fixed lane counts, so that every instruction set gives the same bits; only
//! the speed differs. (Without hardware fused multiply-add the portable version is correct but slow.)

use std::fmt;

/// An instruction set of this machine, for the kernels to use.
///
/// Whoever holds one may run code compiled for it: values come from detection alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(InstructionSet);

/// The instruction sets that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// AVX-512 (F, BW, DQ, VL).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON, which every 64-bit ARM processor has: the compiler's baseline there, so that the portable code is compiled for it.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Whatever the compiler's baseline is.
    Portable,
}

impl Isa {
    /// The best one this machine has.
    pub fn detect() -> Isa {
        Isa::available()[0]
    }

    /// All that this machine has, best first.
    pub fn available() -> Vec<Isa> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if fma
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                found.push(Isa(InstructionSet::Avx512));
            }
            if fma {
                found.push(Isa(InstructionSet::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Isa(InstructionSet::Neon));
        found.push(Isa::portable());
        found
    }

    /// The one that every machine has.
    pub fn portable() -> Isa {
        Isa(InstructionSet::Portable)
    }

    /// Floats of a register.
    pub fn lanes(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => 16,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => 8,
            _ => 4,
        }
    }

    /// Which one it is.
    pub fn set(self) -> InstructionSet {
        self.0
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

/// Defines `fn $name(isa, args)` that runs the `#[inline(always)]` function `$body` compiled for the given instruction set.
#[macro_export]
macro_rules! for_each_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $body:path; ($($arg:ident: $type:ty),* $(,)?)) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::cpu::Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $type),*) {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $type),*) {
                $body($($arg),*)
            }
            match isa.set() {
                // SAFETY: values of `Isa` come from detection at run time.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::InstructionSet::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::InstructionSet::Avx2 => unsafe { avx2($($arg),*) },
                _ => $body($($arg),*),
            }
        }
    };
}
pub(crate) use for_each_isa;
