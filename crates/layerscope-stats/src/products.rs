//! Products A^T B in f64 of matrices whose rows come from f32 states, packed once and used for several products.
//!
//! Every element is one chain of fused multiply-adds in the order of the rows, cut every [`K_BLOCK`]: its bits depend neither on the
//! instruction set nor on the other columns. A product of two f32 numbers fits f64, so what is lost is lost in sums only.

use layerscope_compute::cpu::{InstructionSet, Isa};
use layerscope_compute::for_each_isa;

/// Columns of a panel: three vectors of eight.
pub(crate) const PANEL: usize = 24;
/// Numbers of a block of the result: a panel by a panel.
pub(crate) const AREA: usize = PANEL * PANEL;
/// Rows accumulated in registers: a block of a panel, 24 KiB, stays in the first-level cache while others pass by.
const K_BLOCK: usize = 128;

/// 64 bytes, so that panels start on cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f64; 8]);

/// A matrix of `depth` rows in panels of [`PANEL`] columns; columns beyond its width are zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panels {
    depth: usize,
    width: usize,
    lines: Vec<Line>,
}

/// Panels that so many columns take.
pub(crate) fn panels_of(width: usize) -> usize {
    width.div_ceil(PANEL)
}

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

/// Memory of panels, in bytes.
pub(crate) fn panel_bytes(depth: usize, width: usize) -> usize {
    depth * panels_of(width) * PANEL * size_of::<f64>()
}

impl Panels {
    /// Refills with `states[row] - center` for every one of `rows`, reusing the memory.
    pub fn fill(&mut self, isa: Isa, states: &[f32], rows: &[u32], center: &[f64]) {
        self.resize(rows.len(), center.len());
        pack(isa, states, rows, center, self.data_mut());
    }

    /// Refills with columns: column `j` is `columns[j * depth..][..depth]`.
    pub fn fill_columns(&mut self, columns: &[f64], depth: usize) {
        let width = columns.len() / depth.max(1);
        self.resize(depth, width);
        let panels = panels_of(width);
        let mut target = self.data_mut().chunks_exact_mut(PANEL);
        for first_row in (0..depth).step_by(K_BLOCK) {
            for first in (0..panels).map(|panel| panel * PANEL) {
                let used = PANEL.min(width - first);
                for (l, line) in (first_row..depth.min(first_row + K_BLOCK)).zip(target.by_ref()) {
                    for j in 0..used {
                        line[j] = columns[(first + j) * depth + l];
                    }
                    line[used..].fill(0.0);
                }
            }
        }
    }

    /// Refills with some rows of others, minus a center.
    pub fn fill_rows(&mut self, of: &Panels, rows: &[u32], center: &[f64]) {
        self.resize(rows.len(), of.width);
        let mut target = self.data_mut().as_chunks_mut::<PANEL>().0.iter_mut();
        for block in rows.chunks(K_BLOCK) {
            for (panel, center) in center.chunks(PANEL).enumerate() {
                for (&row, line) in block.iter().zip(target.by_ref()) {
                    line.copy_from_slice(of.line(row as usize, panel));
                    line.iter_mut().zip(center).for_each(|(x, center)| *x -= center);
                }
            }
        }
    }

    /// The mean of some rows, 0 if there are none.
    pub fn mean_of_rows(&self, rows: &[u32]) -> Vec<f64> {
        let mut mean = vec![0.0; self.width];
        for &row in rows {
            for (panel, mean) in mean.chunks_mut(PANEL).enumerate() {
                mean.iter_mut().zip(self.line(row as usize, panel)).for_each(|(mean, x)| *mean += x);
            }
        }
        let n = rows.len().max(1) as f64;
        mean.iter_mut().for_each(|mean| *mean /= n);
        mean
    }

    /// The part of a row that lies in one panel.
    fn line(&self, row: usize, panel: usize) -> &[f64] {
        let first = row / K_BLOCK * K_BLOCK;
        let depth = K_BLOCK.min(self.depth - first);
        &self.panel(first, depth, panel)[(row - first) * PANEL..][..PANEL]
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    fn resize(&mut self, depth: usize, width: usize) {
        (self.depth, self.width) = (depth, width);
        self.lines.resize(depth * panels_of(width) * (PANEL / 8), Line([0.0; 8]));
    }

    /// First row and number of rows of every block.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let depth = self.depth;
        (0..depth).step_by(K_BLOCK).map(move |first| (first, K_BLOCK.min(depth - first)))
    }

    /// The part of a panel that belongs to the block of `depth` rows from `first` on.
    #[inline(always)]
    fn panel(&self, first: usize, depth: usize, panel: usize) -> &[f64] {
        let start = (first * panels_of(self.width) + panel * depth) * PANEL;
        &self.data()[start..start + depth * PANEL]
    }

    #[inline(always)]
    fn data(&self) -> &[f64] {
        // SAFETY: a Line is exactly eight numbers without padding.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 8) }
    }

    fn data_mut(&mut self) -> &mut [f64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 8) }
    }
}

for_each_isa! {
    /// `states[row] - center` in panels, a block of rows after another.
    fn pack = pack_body; (states: &[f32], rows: &[u32], center: &[f64], target: &mut [f64])
}

#[inline(always)]
fn pack_body(states: &[f32], rows: &[u32], center: &[f64], target: &mut [f64]) {
    let dim = center.len();
    let mut lines = target.as_chunks_mut::<PANEL>().0.iter_mut();
    for block in rows.chunks(K_BLOCK) {
        for first in (0..dim).step_by(PANEL) {
            let used = PANEL.min(dim - first);
            let center = &center[first..first + used];
            for (&row, line) in block.iter().zip(lines.by_ref()) {
                let state = &states[row as usize * dim + first..][..used];
                if let (Ok(state), Ok(center)) = (<&[f32; PANEL]>::try_from(state), <&[f64; PANEL]>::try_from(center)) {
                    for j in 0..PANEL {
                        line[j] = f64::from(state[j]) - center[j];
                    }
                } else {
                    line.fill(0.0);
                    line.iter_mut().zip(state).zip(center).for_each(|((to, x), center)| *to = f64::from(*x) - center);
                }
            }
        }
    }
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
        InstructionSet::Portable => multiply_blocks::<Portable>(a, b, half, blocks),
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

/// Plain Rust; vectorizes wherever the target has vectors.
struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    unsafe fn block(depth: usize, a: *const f64, b: *const f64, c: *mut f64, accumulate: bool) {
        const ROWS: usize = 4;
        // SAFETY: the caller vouches for the extents.
        let (a, b, c) = unsafe {
            let lines = |pointer| std::slice::from_raw_parts(pointer, depth * PANEL);
            (lines(a), lines(b), std::slice::from_raw_parts_mut(c, AREA))
        };
        for i0 in (0..PANEL).step_by(ROWS) {
            let mut sums = [[0.0f64; PANEL]; ROWS];
            for (left, right) in a.chunks_exact(PANEL).zip(b.chunks_exact(PANEL)) {
                for i in 0..ROWS {
                    for j in 0..PANEL {
                        sums[i][j] = left[i0 + i].mul_add(right[j], sums[i][j]);
                    }
                }
            }
            for (row, sum) in c[i0 * PANEL..].chunks_exact_mut(PANEL).zip(&sums) {
                for j in 0..PANEL {
                    row[j] = if accumulate { row[j] + sum[j] } else { sum[j] };
                }
            }
        }
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
