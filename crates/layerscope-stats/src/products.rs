//! Products A^T B in f64 of matrices whose rows come from f32 states, packed once and used for several products.
//!
//! Every element is one chain of fused multiply-adds in the order of the rows, cut every [`K_BLOCK`](crate::panels::K_BLOCK): its bits depend neither on the
//! instruction set nor on the other columns. A product of two f32 numbers fits f64, so what is lost is lost in sums only.

#[cfg(target_arch = "x86_64")]
use layerscope_compute::cpu::InstructionSet;
use layerscope_compute::cpu::Isa;

pub(crate) use crate::panels::{PANEL, Panels, panel_bytes, panels_of};

/// Numbers of a block of the result: a panel by a panel.
pub(crate) const AREA: usize = PANEL * PANEL;
/// Numbers that [`gram`] gives: the blocks on and above the diagonal.
pub(crate) fn gram_len(width: usize) -> usize {
    let panels = panels_of(width);
    panels * (panels + 1) / 2 * AREA
}

/// Where element (i, j), i <= j, of a [`gram`] lies.
pub(crate) fn gram_place(i: usize, j: usize) -> usize {
    let (p, q) = (i / PANEL, j / PANEL);
    (q * (q + 1) / 2 + p) * AREA + i % PANEL * PANEL + j % PANEL
}

/// Where element (i, j) of a [`product`] lies whose right-hand side has `width` columns.
pub(crate) fn product_place(i: usize, j: usize, width: usize) -> usize {
    (i / PANEL * panels_of(width) + j / PANEL) * AREA + i % PANEL * PANEL + j % PANEL
}

/// A^T A: blocks (p, q), p <= q, one after another by q, then p. Below the diagonal of a diagonal block lies its mirror image.
pub(crate) fn gram(isa: Isa, a: &Panels, blocks: &mut Vec<f64>) {
    blocks.resize(gram_len(a.width), 0.0);
    multiply(isa, a, a, true, blocks);
}

/// A^T B: blocks (p, q) one after another by p, then q.
pub(crate) fn product(isa: Isa, a: &Panels, b: &Panels, blocks: &mut Vec<f64>) {
    assert_eq!(a.depth, b.depth, "matrices of a product have the same rows");
    blocks.resize(panels_of(a.width) * panels_of(b.width) * AREA, 0.0);
    multiply(isa, a, b, false, blocks);
}

fn multiply(isa: Isa, a: &Panels, b: &Panels, half: bool, blocks: &mut [f64]) {
    if a.depth == 0 {
        blocks.fill(0.0);
    }
    match isa.set() {
        // SAFETY: detected at run time.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { x86::multiply_avx512(a, b, half, blocks) },
        // SAFETY: detected at run time.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { x86::multiply_avx2(a, b, half, blocks) },
        _ => multiply_blocks::<Portable>(a, b, half, blocks),
    }
}

#[inline(always)]
fn multiply_blocks<K: Kernel>(a: &Panels, b: &Panels, half: bool, blocks: &mut [f64]) {
    let right_panels = panels_of(b.width);
    for (first, depth) in a.blocks() {
        for q in 0..right_panels {
            let right = b.panel(first, depth, q);
            let left_panels = if half { q + 1 } else { panels_of(a.width) };
            for p in 0..left_panels {
                let place = if half { q * (q + 1) / 2 + p } else { p * right_panels + q };
                let block = &mut blocks[place * AREA..][..AREA];
                let left = a.panel(first, depth, p);
                // SAFETY: both panels hold `depth` lines of PANEL numbers, the block PANEL of them, and lines are aligned.
                unsafe { K::block(depth, left.as_ptr(), right.as_ptr(), block.as_mut_ptr(), first > 0) };
            }
        }
    }
}

/// One way to compute a block.
trait Kernel {
    /// `c (+)= a^T b` with `a` and `b` of `depth` lines of [`PANEL`] numbers.
    ///
    /// # Safety
    /// The pointers must be valid for those extents, `a` and `b` aligned to 64 bytes, and the instruction set present.
    unsafe fn block(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool);
}

/// Plain Rust for registers of two numbers, of which 64-bit ARM has 32: four rows of half a panel are 24 accumulators.
struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    unsafe fn block(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool) {
        const ROWS: usize = 4;
        for i in (0..PANEL).step_by(ROWS) {
            for j in [0, PANEL / 2] {
                // SAFETY: the caller vouches for the extents.
                unsafe { portable_tile::<ROWS, { PANEL / 2 }>(depth, a.add(i), b.add(j), c.add(i * PANEL + j), accumulate) };
            }
        }
    }
}

/// A part of a block: `H` rows of `N` columns.
///
/// # Safety
/// As for a block, with pointers to where the part begins.
#[inline(always)]
unsafe fn portable_tile<const H: usize, const N: usize>(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool) {
    let mut sums = [[0.0f64; N]; H];
    for l in 0..depth {
        // SAFETY: forwarded from the caller.
        let (left, right) = unsafe { (&*a.add(l * PANEL).cast::<[f64; H]>(), &*b.add(l * PANEL).cast::<[f64; N]>()) };
        for i in 0..H {
            let sum = sums[i];
            sums[i] = std::array::from_fn(|j| left[i].mul_add(right[j], sum[j]));
        }
    }
    for i in 0..H {
        // SAFETY: forwarded from the caller.
        let row = unsafe { &mut *c.add(i * PANEL).cast::<[f64; N]>() };
        *row = if accumulate { std::array::from_fn(|j| row[j] + sums[i][j]) } else { sums[i] };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Kernel, PANEL, Panels, multiply_blocks};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    pub fn multiply_avx512(a: &Panels, b: &Panels, half: bool, blocks: &mut [f64]) {
        multiply_blocks::<Avx512>(a, b, half, blocks);
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn multiply_avx2(a: &Panels, b: &Panels, half: bool, blocks: &mut [f64]) {
        multiply_blocks::<Avx2>(a, b, half, blocks);
    }

    /// Eight rows of three vectors at a time: 24 accumulators.
    struct Avx512;

    impl Kernel for Avx512 {
        #[inline(always)]
        unsafe fn block(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool) {
            for i in (0..PANEL).step_by(8) {
                // SAFETY: forwarded from the caller.
                unsafe { avx512_tile(depth, a.add(i), b, c.add(i * PANEL), accumulate) };
            }
        }
    }

    /// Rows of the left panel that are fetched before their turn: it is new to the first-level cache, the right one is not.
    const AHEAD: usize = 8;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512_tile(depth: usize, mut a: *const f64, mut b: *const f64, c: *mut f64, accumulate: bool) {
        // SAFETY: the caller vouches for the extents and the alignment.
        unsafe {
            for line in 0..3 * 8 {
                _mm_prefetch::<_MM_HINT_T0>(c.add(8 * line).cast());
            }
            let mut sums = [[_mm512_setzero_pd(); 3]; 8];
            for _ in 0..depth {
                _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(AHEAD * PANEL).cast());
                let right = [_mm512_load_pd(b), _mm512_load_pd(b.add(8)), _mm512_load_pd(b.add(16))];
                for i in 0..8 {
                    let left = _mm512_set1_pd(*a.add(i));
                    for v in 0..3 {
                        sums[i][v] = _mm512_fmadd_pd(left, right[v], sums[i][v]);
                    }
                }
                a = a.add(PANEL);
                b = b.add(PANEL);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let target = c.add(i * PANEL + 8 * v);
                    _mm512_storeu_pd(target, if accumulate { _mm512_add_pd(_mm512_loadu_pd(target), sum) } else { sum });
                }
            }
        }
    }

    /// Four rows of three vectors at a time, for each half of the panel.
    struct Avx2;

    impl Kernel for Avx2 {
        #[inline(always)]
        unsafe fn block(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool) {
            for j in (0..PANEL).step_by(12) {
                for i in (0..PANEL).step_by(4) {
                    // SAFETY: forwarded from the caller.
                    unsafe { avx2_tile(depth, a.add(i), b.add(j), c.add(i * PANEL + j), accumulate) };
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2_tile(depth: usize, mut a: *const f64, mut b: *const f64, c: *mut f64, accumulate: bool) {
        // SAFETY: the caller vouches for the extents; 12 numbers keep the alignment to 32 bytes.
        unsafe {
            let mut sums = [[_mm256_setzero_pd(); 3]; 4];
            for _ in 0..depth {
                let right = [_mm256_load_pd(b), _mm256_load_pd(b.add(4)), _mm256_load_pd(b.add(8))];
                for i in 0..4 {
                    let left = _mm256_broadcast_sd(&*a.add(i));
                    for v in 0..3 {
                        sums[i][v] = _mm256_fmadd_pd(left, right[v], sums[i][v]);
                    }
                }
                a = a.add(PANEL);
                b = b.add(PANEL);
            }
            for (i, sums) in sums.iter().enumerate() {
                for (v, &sum) in sums.iter().enumerate() {
                    let target = c.add(i * PANEL + 4 * v);
                    _mm256_storeu_pd(target, if accumulate { _mm256_add_pd(_mm256_loadu_pd(target), sum) } else { sum });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::sample_hash;

    fn states(seed: u64, len: usize) -> Vec<f32> {
        (0..len).map(|at| (sample_hash(seed, at as u64, 0) >> 40) as f32 / 1e7 - 0.6).collect()
    }

    #[test]
    fn products_equal_their_definition_with_the_same_bits_on_every_instruction_set() {
        for (depth, width, other) in [(1, 1, 1), (3, 24, 25), (130, 23, 50), (300, 49, 7), (0, 5, 5)] {
            let rows: Vec<u32> = (0..depth as u32).rev().collect();
            let (x, y) = (states(1, depth * width), states(2, depth * other));
            let (mut a, mut b) = (Panels::default(), Panels::default());
            let mut seen: Option<(Vec<f64>, Vec<f64>)> = None;
            for isa in Isa::available() {
                a.fill(isa, &[9.0; 7 * 50], &[0, 1, 2, 3, 4, 5, 6], &[0.0; 50]); // leftovers of an earlier use must not show
                a.fill(isa, &x, &rows, &vec![0.25; width]);
                b.fill(isa, &y, &rows, &vec![0.25; other]);
                let (mut square, mut across) = (Vec::new(), Vec::new());
                gram(isa, &a, &mut square);
                product(isa, &a, &b, &mut across);
                let entry = |x: &[f32], width: usize, row: usize, i: usize| f64::from(x[row * width + i]) - 0.25;
                for i in 0..width {
                    for j in i..width {
                        let exact: f64 = (0..depth).map(|row| entry(&x, width, row, i) * entry(&x, width, row, j)).sum();
                        assert!((square[gram_place(i, j)] - exact).abs() < 1e-12, "{isa:?} {depth} {i} {j}");
                    }
                    for j in 0..other {
                        let exact: f64 = (0..depth).map(|row| entry(&x, width, row, i) * entry(&y, other, row, j)).sum();
                        assert!((across[product_place(i, j, other)] - exact).abs() < 1e-12, "{isa:?} {depth} {i} {j}");
                    }
                }
                let found = (square, across);
                assert!(seen.as_ref().is_none_or(|seen| *seen == found), "{isa:?}");
                seen = Some(found);
            }
        }
    }

    #[test]
    fn columns_and_rows_fill_the_same_panels() {
        let (depth, width) = (250, 30);
        let x = states(5, depth * width);
        let columns: Vec<f64> =
            (0..width).flat_map(|j| (0..depth).map(move |l| (l, j))).map(|(l, j)| f64::from(x[l * width + j])).collect();
        let (mut a, mut b) = (Panels::default(), Panels::default());
        a.fill(Isa::detect(), &x, &(0..depth as u32).collect::<Vec<u32>>(), &vec![0.0; width]);
        b.fill_columns(&columns, depth);
        assert_eq!(a.data(), b.data());
    }
}
