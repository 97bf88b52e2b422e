//! Vectors of sixteen pairs: AVX512-BF16.

use std::arch::x86_64::*;

use crate::cpu::kernels::{Kernel, LINE, Operands, prefetch_ahead, with_height};
use crate::cpu::panels::PANEL;

/// Twelve rows of two vectors of 16 sums: 24 accumulators, as in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512Bf16;

impl Kernel for Avx512Bf16 {
    const TILE: usize = 12;
    const NUMBERS: usize = 2;

    #[inline(always)]
    fn pack(numbers: &[f32], line: &mut [f32; LINE]) {
        // SAFETY: only `multiply_bf16` packs with this kernel, after detection.
        unsafe { pack_pairs(numbers, line) }
    }

    #[inline(always)]
    unsafe fn tile(height: usize, operands: Operands) {
        with_height!(height, tile, (operands); 1 2 3 4 5 6 7 8 9 10 11 12)
    }
}

/// Rounds 32 numbers to a line of 16 pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn pack_pairs(numbers: &[f32], line: &mut [f32; LINE]) {
    assert!(numbers.len() >= 2 * LINE);
    // SAFETY: 32 numbers and a line of 64 bytes; loads and stores are unaligned.
    unsafe {
        let (low, high) = (_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers.as_ptr().add(16)));
        let pairs: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        _mm512_storeu_si512(line.as_mut_ptr().cast(), pairs);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<const H: usize>(operands: Operands) {
    let Operands { depth, mut a, mut b, c, stride, accumulate, ahead } = operands;
    // SAFETY: the caller vouches for the extents; prefetches may point anywhere. A vector is sixteen pairs, whatever its type.
    unsafe {
        for i in 0..H {
            _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride).cast());
            _mm_prefetch::<_MM_HINT_T0>(c.add(i * stride + 16).cast());
        }
        let mut sums = [[_mm512_setzero_ps(); 2]; H];
        let mut soon = a.wrapping_add(LINE * H);
        for l in 0..depth {
            prefetch_ahead(ahead, l);
            let (left, right) = (pairs(_mm512_load_ps(b)), pairs(_mm512_load_ps(b.add(16))));
            _mm_prefetch::<_MM_HINT_T0>(soon.cast());
            soon = soon.wrapping_add(H);
            for i in 0..H {
                let x = pairs(_mm512_set1_ps(*a.add(i * LINE)));
                sums[i][0] = _mm512_dpbf16_ps(sums[i][0], x, left);
                sums[i][1] = _mm512_dpbf16_ps(sums[i][1], x, right);
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

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(bits: __m512) -> __m512bh {
    // SAFETY: both are 64 bytes, and any bits are numbers.
    unsafe { std::mem::transmute(bits) }
}
