//! Tiles of sixteen rows of 64 bytes: AMX-BF16. The instructions have no stable intrinsics; they are written in assembly.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::Detected;
use super::avx512::pack_pairs;
use crate::cpu::kernels::{Kernel, LINE, Operands};
use crate::cpu::panels::PANEL;

/// Two by two tiles of 16 x 16 sums. Registers 0 to 3 hold the sums, 4 and 5 rows of A, 6 and 7 columns of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles;

/// Rows of a tile register.
const ROWS: usize = 16;
/// Bytes of a line of A, which is a row of a tile.
const A_STRIDE: usize = LINE * size_of::<f32>();
/// Bytes of a line of a panel: a row of two tiles.
const B_STRIDE: usize = PANEL * size_of::<f32>();

impl Kernel for Tiles {
    const TILE: usize = 2 * ROWS;
    const NUMBERS: usize = 2;

    #[inline(always)]
    fn pack(numbers: &[f32], line: &mut [f32; LINE]) {
        // SAFETY: only `multiply_bf16` packs with this kernel, after detection.
        unsafe { pack_pairs(numbers, line) }
    }

    /// Whole tiles, then a rest.
    #[inline(always)]
    fn height(_: usize) -> usize {
        Self::TILE
    }

    /// A tile of fewer rows reads lines beyond them (there are some), and goes by way of a full one.
    #[inline(always)]
    unsafe fn tile(height: usize, operands: Operands) {
        if height == Self::TILE {
            // SAFETY: the caller vouches for the extents.
            return unsafe { sums(height, operands) };
        }
        let mut full = MaybeUninit::<[f32; Tiles::TILE * PANEL]>::uninit();
        let full = full.as_mut_ptr().cast::<f32>();
        // SAFETY: `full` holds 32 rows of PANEL; the caller vouches for `height` rows of `c`. Sums of rows that are not there start
        // from what happens to lie in `full`, and are dropped.
        unsafe {
            if operands.accumulate {
                full.write_bytes(0, Self::TILE * PANEL);
                (0..height).for_each(|i| full.add(i * PANEL).copy_from_nonoverlapping(operands.c.add(i * operands.stride), PANEL));
            }
            sums(height, Operands { c: full, stride: PANEL, ..operands });
            (0..height).for_each(|i| operands.c.add(i * operands.stride).copy_from_nonoverlapping(full.add(i * PANEL), PANEL));
        }
    }
}

/// Computes a tile into 32 rows of `c`, or 16 where `height` has no more. A chain of sums starts from `c`, or from zero.
///
/// # Safety
/// `a` and `b` hold whole lines, `c` the rows, and tiles are configured.
#[inline(always)]
unsafe fn sums(height: usize, operands: Operands) {
    let Operands { depth, mut a, mut b, c, stride, accumulate, ahead } = operands;
    let (c_stride, lower) = (stride * size_of::<f32>(), c.wrapping_add(ROWS * stride));
    let two = height > ROWS;
    // SAFETY: the caller vouches for the extents. No other code uses tile registers; prefetches may point anywhere.
    unsafe {
        if accumulate {
            asm!("tileloadd tmm0, [{c} + {s}*1]", "tileloadd tmm1, [{c} + {s}*1 + 64]",
                c = in(reg) c, s = in(reg) c_stride, options(nostack, preserves_flags, readonly));
            if two {
                asm!("tileloadd tmm2, [{c} + {s}*1]", "tileloadd tmm3, [{c} + {s}*1 + 64]",
                    c = in(reg) lower, s = in(reg) c_stride, options(nostack, preserves_flags, readonly));
            }
        } else {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, preserves_flags, nomem));
        }
        for l in (0..depth).step_by(LINE) {
            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(2 * l).cast());
            _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(2 * l + LINE).cast());
            if two {
                asm!(
                    "tileloadd tmm6, [{b} + {bs}*1]",
                    "tileloadd tmm4, [{a} + {s}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{b} + {bs}*1 + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{a} + {s}*1 + 1024]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    a = in(reg) a, s = in(reg) A_STRIDE, b = in(reg) b, bs = in(reg) B_STRIDE,
                    options(nostack, preserves_flags, readonly)
                );
            } else {
                asm!(
                    "tileloadd tmm6, [{b} + {bs}*1]",
                    "tileloadd tmm4, [{a} + {s}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{b} + {bs}*1 + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    a = in(reg) a, s = in(reg) A_STRIDE, b = in(reg) b, bs = in(reg) B_STRIDE,
                    options(nostack, preserves_flags, readonly)
                );
            }
            a = a.wrapping_add(height * LINE);
            b = b.wrapping_add(LINE * PANEL);
        }
        asm!("tilestored [{c} + {s}*1], tmm0", "tilestored [{c} + {s}*1 + 64], tmm1",
            c = in(reg) c, s = in(reg) c_stride, options(nostack, preserves_flags));
        if two {
            asm!("tilestored [{c} + {s}*1], tmm2", "tilestored [{c} + {s}*1 + 64], tmm3",
                c = in(reg) lower, s = in(reg) c_stride, options(nostack, preserves_flags));
        }
    }
}

/// How many rows and bytes every tile register has.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_of_a_row: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<Configuration>() == 64);

/// Eight full tiles.
static CONFIGURATION: Configuration = {
    let (mut bytes_of_a_row, mut rows) = ([0; 16], [0; 16]);
    let mut register = 0;
    while register < 8 {
        (bytes_of_a_row[register], rows[register]) = (64, ROWS as u8);
        register += 1;
    }
    Configuration { palette: 1, start_row: 0, reserved: [0; 14], bytes_of_a_row, rows }
};

impl Detected<Tiles> {
    /// Does work with the tiles configured, and gives them back.
    pub fn with(self, work: impl FnOnce()) {
        // SAFETY: tiles are there and permitted, as `self` proves; the configuration is one of the first palette.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIGURATION, options(nostack, preserves_flags, readonly)) };
        work();
        // SAFETY: as above.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

/// Whether this machine has tiles of bfloat16, and the system lets this process use them.
pub fn permitted() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    *PERMITTED.get_or_init(|| detected() && request())
}

/// AMX-BF16 and AMX-TILE (leaf 7), and the system saves tiles (bits 17 and 18 of XCR0).
fn detected() -> bool {
    const TILES: u32 = 1 << 22 | 1 << 24;
    const SAVED: u64 = 1 << 17 | 1 << 18;
    #[target_feature(enable = "xsave")]
    fn saved() -> u64 {
        // SAFETY: called where the system has switched XGETBV on.
        unsafe { _xgetbv(0) }
    }
    #[allow(unused_unsafe)] // safe in newer compilers
    // SAFETY: every x86-64 has CPUID; leaves are asked for only up to the highest. XGETBV is on if OSXSAVE is.
    unsafe {
        let on = __cpuid(1).ecx & 1 << 27 != 0;
        on && __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES == TILES && saved() & SAVED == SAVED
    }
}

/// Linux hands out tiles on request, once per process and for all of its threads.
#[cfg(target_os = "linux")]
fn request() -> bool {
    const ARCH_PRCTL: u64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let status: i64;
    // SAFETY: a system call that changes nothing but what this process may use; it overwrites rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => status, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") TILE_DATA,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    status == 0
}

#[cfg(not(target_os = "linux"))]
fn request() -> bool {
    false
}
