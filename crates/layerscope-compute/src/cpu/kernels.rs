//! The innermost loop of the product: one tile of C, all in registers.

use super::half_panels::widen;
use super::panels::PANEL;

/// Floats that a tile prefetches in each inner step. Spread like this the requests cost nothing; all at once before the
/// tile they filled the queue of misses and took 4 % of the time.
pub const AHEAD: usize = 2;

/// Floats of one row of A that lie together: a cache line, so that packing is copying.
pub const LINE: usize = 16;

/// A tile's operands: `c[height, PANEL] (+)= a b`. In a product of pairs the floats of `a` and `b` are bits of two bfloat16 each.
#[derive(Clone, Copy)]
pub struct Operands {
    /// Inner indices, or pairs of them.
    pub depth: usize,
    /// Packed as `[depth / LINE][height][LINE]`, in whole lines; after them, MAX_TILE lines of anything.
    pub a: *const f32,
    /// Packed as `[depth][PANEL]`.
    pub b: *const f32,
    /// Rows at `stride`.
    pub c: *mut f32,
    pub stride: usize,
    /// Add to `c` instead of replacing it.
    pub accumulate: bool,
    /// What later tiles will read: the next `AHEAD * depth` floats may be prefetched. Any address will do.
    pub ahead: *const f32,
}

/// One way to compute a tile.
pub trait Kernel {
    /// Most rows of a tile.
    const TILE: usize;
    /// Numbers of A in one float of its packed block.
    const NUMBERS: usize = 1;

    /// Packs one line of A from `NUMBERS * LINE` numbers.
    #[inline(always)]
    fn pack(numbers: &[f32], line: &mut [f32; LINE]) {
        line.copy_from_slice(numbers);
    }

    /// Lines of pairs of bfloat16 become a line of first numbers and a line of second ones each, in f32.
    #[inline(always)]
    fn widen_bf16(pairs: &[f32], wide: &mut [f32]) {
        widen(pairs, wide, |bits| bits << 16, |bits| bits & 0xffff_0000);
    }

    /// The height of tiles for so many rows: nearly equal ones, no tile of one row after tiles of twelve.
    #[inline(always)]
    fn height(rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(Self::TILE))
    }

    /// Computes a tile of `height` rows.
    ///
    /// # Safety
    /// `a`, `b` and `c` must be valid for their extents, `height <= TILE`, and the instruction set present.
    unsafe fn tile(height: usize, operands: Operands);
}

/// Calls `$tile::<H>` with the constant `H` equal to the run-time height.
macro_rules! with_height {
    ($height:expr, $tile:ident, $args:tt; $($h:literal)*) => {
        match $height {
            $($h => with_height!(@call $tile, $h, $args),)*
            _ => unreachable!("tile height"),
        }
    };
    // SAFETY: forwarded from the caller of `Kernel::tile`.
    (@call $tile:ident, $h:literal, ($($arg:expr),*)) => { unsafe { $tile::<$h>($($arg),*) } };
}
pub(super) use with_height;

/// Another kernel for rows that are rounded to bfloat16.
pub struct Rounded<K>(std::marker::PhantomData<K>);

impl<K: Kernel> Kernel for Rounded<K> {
    const TILE: usize = K::TILE;

    #[inline(always)]
    fn pack(numbers: &[f32], line: &mut [f32; LINE]) {
        for l in 0..LINE {
            line[l] = super::math::to_bf16(numbers[l]);
        }
    }

    #[inline(always)]
    fn widen_bf16(pairs: &[f32], wide: &mut [f32]) {
        K::widen_bf16(pairs, wide);
    }

    #[inline(always)]
    unsafe fn tile(height: usize, operands: Operands) {
        // SAFETY: forwarded.
        unsafe { K::tile(height, operands) }
    }
}

/// Plain Rust for registers of four floats, of which 64-bit ARM has 32: six rows of half a panel are 24 accumulators.
pub struct Portable;

impl Kernel for Portable {
    const TILE: usize = 6;

    #[inline(always)]
    unsafe fn tile(height: usize, operands: Operands) {
        with_height!(height, portable_tile, (operands); 1 2 3 4 5 6)
    }
}

#[inline(always)]
unsafe fn portable_tile<const H: usize>(operands: Operands) {
    const HALF: usize = PANEL / 2;
    let Operands { depth, a, b, c, stride, accumulate, ahead: _ } = operands;
    for first in [0, HALF] {
        let mut sums = [[0.0f32; HALF]; H];
        for l in 0..depth {
            // SAFETY: the caller vouches for `depth` lines of a panel, and for whole lines of every row.
            unsafe {
                let line = &*b.add(l * PANEL + first).cast::<[f32; HALF]>();
                let x = a.add(l / LINE * H * LINE + l % LINE);
                for i in 0..H {
                    sums[i] = multiply_add(*x.add(i * LINE), line, sums[i]);
                }
            }
        }
        for i in 0..H {
            // SAFETY: the caller vouches for `H` rows of PANEL floats at `stride`.
            let row = unsafe { &mut *c.add(i * stride + first).cast::<[f32; HALF]>() };
            *row = if accumulate { std::array::from_fn(|j| row[j] + sums[i][j]) } else { sums[i] };
        }
    }
}

/// x line + sum.
#[inline(always)]
fn multiply_add<const N: usize>(x: f32, line: &[f32; N], sum: [f32; N]) -> [f32; N] {
    std::array::from_fn(|j| x.mul_add(line[j], sum[j]))
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512, prefetch_ahead};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{AHEAD, Kernel, LINE, Operands, PANEL};
    use std::arch::x86_64::*;

    /// Asks for one more line of [`Operands::ahead`] every few inner steps.
    #[inline(always)]
    pub fn prefetch_ahead(ahead: *const f32, step: usize) {
        if step.is_multiple_of(16 / AHEAD) {
            // SAFETY: prefetching touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(step * AHEAD).cast()) };
        }
    }

    /// Twelve rows of two 16-float vectors: 24 accumulators.
    pub struct Avx512;

    impl Kernel for Avx512 {
        const TILE: usize = 12;

        #[inline(always)]
        unsafe fn tile(height: usize, operands: Operands) {
            with_height!(height, avx512_tile, (operands); 1 2 3 4 5 6 7 8 9 10 11 12)
        }

        #[inline(always)]
        fn widen_bf16(pairs: &[f32], wide: &mut [f32]) {
            // SAFETY: only products run by detection use this kernel.
            unsafe { avx512_widen(pairs, wide) }
        }
    }

    /// Written out: of the plain loop the compiler makes gathers from many lines, which took a sixth of the time.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn avx512_widen(pairs: &[f32], wide: &mut [f32]) {
        let upper = _mm512_set1_epi32(!0xffff);
        for (line, target) in pairs.chunks_exact(PANEL).zip(wide.chunks_exact_mut(2 * PANEL)) {
            for j in [0, PANEL / 2] {
                // SAFETY: a line is two vectors of 16, a target four; loads and stores are unaligned.
                unsafe {
                    let bits = _mm512_loadu_si512(line.as_ptr().add(j).cast());
                    _mm512_storeu_si512(target.as_mut_ptr().add(j).cast(), _mm512_slli_epi32::<16>(bits));
                    _mm512_storeu_si512(target.as_mut_ptr().add(PANEL + j).cast(), _mm512_and_si512(bits, upper));
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512_tile<const H: usize>(operands: Operands) {
        let Operands { depth, mut a, mut b, c, stride, accumulate, ahead } = operands;
        // SAFETY: the caller vouches for the extents; prefetches may point anywhere.
        unsafe {
            for i in 0..H {
                _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride).cast());
                _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride + 16).cast());
            }
            let mut sums = [[_mm512_setzero_ps(); 2]; H];
            let mut soon = a.wrapping_add(LINE * H);
            for l in 0..depth {
                prefetch_ahead(ahead, l);
                let (left, right) = (_mm512_load_ps(b), _mm512_load_ps(b.add(16)));
                _mm_prefetch::<_MM_HINT_T0>(soon.cast());
                soon = soon.wrapping_add(H);
                for i in 0..H {
                    let x = _mm512_set1_ps(*a.add(i * LINE));
                    sums[i][0] = _mm512_fmadd_ps(x, left, sums[i][0]);
                    sums[i][1] = _mm512_fmadd_ps(x, right, sums[i][1]);
                }
                a = a.wrapping_add(if (l + 1).is_multiple_of(LINE) { LINE * (H - 1) + 1 } else { 1 });
                b = b.add(PANEL);
            }
            for (i, sum) in sums.iter().enumerate() {
                let row = c.add(i * stride);
                for (half, &sum) in sum.iter().enumerate() {
                    let target = row.add(16 * half);
                    _mm512_storeu_ps(target, if accumulate { _mm512_add_ps(_mm512_loadu_ps(target), sum) } else { sum });
                }
            }
        }
    }

    /// Six rows of two 8-float vectors, once for each half of the panel.
    pub struct Avx2;

    impl Kernel for Avx2 {
        const TILE: usize = 6;

        #[inline(always)]
        unsafe fn tile(height: usize, operands: Operands) {
            for half in [0, PANEL / 2] {
                let (b, c) = (operands.b.wrapping_add(half), operands.c.wrapping_add(half));
                with_height!(height, avx2_tile, (Operands { b, c, ..operands }); 1 2 3 4 5 6)
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2_tile<const H: usize>(operands: Operands) {
        let Operands { depth, mut a, mut b, c, stride, accumulate, ahead } = operands;
        // SAFETY: the caller vouches for the extents.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); 2]; H];
            for l in 0..depth {
                prefetch_ahead(ahead, l);
                let (left, right) = (_mm256_load_ps(b), _mm256_load_ps(b.add(8)));
                for i in 0..H {
                    let x = _mm256_set1_ps(*a.add(i * LINE));
                    sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
                    sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
                }
                a = a.wrapping_add(if (l + 1).is_multiple_of(LINE) { LINE * (H - 1) + 1 } else { 1 });
                b = b.add(PANEL);
            }
            for (i, sum) in sums.iter().enumerate() {
                let row = c.add(i * stride);
                for (half, &sum) in sum.iter().enumerate() {
                    let target = row.add(8 * half);
                    _mm256_storeu_ps(target, if accumulate { _mm256_add_ps(_mm256_loadu_ps(target), sum) } else { sum });
                }
            }
        }
    }
}
