//! `C = A B` with B in panels, and what is done to a tile of C while it is still in the cache.
//!
//! Every element of C is one chain of fused multiply-adds in the order of `k`, cut every [`K_BLOCK`]: its bits depend neither
//! on how many other rows are computed with it nor on the instruction set. `benches/products` compares crates in
//! speed and in this. Products in bfloat16 are the same loops with pairs of numbers in the place of floats; their chains are those of
//! the [`Bf16Kernel`].

use std::mem::MaybeUninit;
use std::ops::Range;

use super::bf16::Bf16Kernel;
use super::floats::Floats;
use super::half_panels::{HalfPanels, Pairs, Widened};
#[cfg(target_arch = "x86_64")]
use super::isa::InstructionSet;
use super::isa::Isa;
use super::kernels::{AHEAD, Kernel, LINE, Operands, Portable, Rounded};
use super::math::{self, WithFunction};
use super::panels::{PANEL, Panels};
use crate::Activation;

/// Inner indices (pairs, in bfloat16) accumulated in registers: a block of a panel, 48 KiB, passes through the first-level cache once
/// per tile.
const K_BLOCK: usize = 384;
/// Rows packed together: a block of A, 432 KiB, stays in the second-level cache while all of B passes by.
const M_BLOCK: usize = 288;
/// Most rows of any kernel's tile.
const MAX_TILE: usize = 32;
/// A block of A, and some more: a kernel may read a few lines beyond the last row.
const PACKED: usize = M_BLOCK * K_BLOCK + MAX_TILE * LINE;
/// A block of B, where it is widened first.
const WIDE: usize = K_BLOCK * PANEL;

/// A left-hand side: rows of `stride` floats.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The first row's first float in use, and everything after.
    pub data: &'a [f32],
    /// Floats from one row to the next.
    pub stride: usize,
    /// Number of rows.
    pub count: usize,
}

/// What is done to the finished sums.
#[derive(Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// Added to each column.
    pub bias: Option<&'a [f32]>,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// The part of B that takes part: inner indices and panels.
#[derive(Clone)]
pub struct Part {
    /// Inner indices of B; column `l` of A meets inner index `inner.start + l`.
    pub inner: Range<usize>,
    /// Panels of B; the first column of C is the first column of the first panel.
    pub panels: Range<usize>,
}

impl Part {
    /// All of B.
    pub fn all(b: &Panels) -> Part {
        Part { inner: 0..b.k, panels: 0..b.count() }
    }
}

/// What the product reads as its right-hand side: panels, in blocks.
pub(super) trait RightSide {
    /// Inner dimension and columns.
    fn size(&self) -> (usize, usize);
    /// `depth` inner indices of a panel from `l` on, in the layout of the kernel; `wide` is working memory.
    fn block<'a, K: Kernel>(&'a self, panel: usize, l: usize, depth: usize, wide: &'a mut [f32]) -> &'a [f32];
    /// What must be read from memory for that block.
    fn ahead(&self, panel: usize, l: usize, depth: usize) -> &[f32];
}

impl RightSide for Panels {
    #[inline(always)]
    fn size(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    #[inline(always)]
    fn block<'a, K: Kernel>(&'a self, panel: usize, l: usize, depth: usize, _: &'a mut [f32]) -> &'a [f32] {
        &self.panel(panel, l)[..depth * PANEL]
    }

    #[inline(always)]
    fn ahead(&self, panel: usize, l: usize, depth: usize) -> &[f32] {
        &self.panel(panel, l)[..depth * PANEL]
    }
}

/// A left-hand side, the part of a right-hand side that it meets, and where the product goes.
struct Product<'a, B> {
    a: Rows<'a>,
    b: &'a B,
    part: Part,
    c: &'a mut [f32],
    c_stride: usize,
    epilogue: Epilogue<'a>,
}

/// Multiplies rows by panels into rows of `c_stride` floats. `packed` is working memory.
#[allow(clippy::too_many_arguments)] // the eight things a product consists of
pub fn multiply(isa: Isa, a: Rows, b: &Panels, part: &Part, c: &mut [f32], c_stride: usize, epilogue: Epilogue, packed: &mut Floats) {
    Product { a, b, part: part.clone(), c, c_stride, epilogue }.run(isa, packed);
}

/// The same with all of a weight of 16 bits a number, in f32.
pub(super) fn multiply_widened(isa: Isa, a: Rows, b: &HalfPanels, c: &mut [f32], epilogue: Epilogue, packed: &mut Floats) {
    let part = Part { inner: 0..b.k, panels: 0..b.n.div_ceil(PANEL) };
    Product { a, b: &Widened(b), part, c, c_stride: b.n, epilogue }.run(isa, packed);
}

/// The same in bfloat16: rows are rounded, sums are f32.
pub(super) fn multiply_bf16(kernel: Bf16Kernel, a: Rows, b: &HalfPanels, c: &mut [f32], epilogue: Epilogue, packed: &mut Floats) {
    let part = |inner: usize| Part { inner: 0..inner, panels: 0..b.n.div_ceil(PANEL) };
    match kernel {
        Bf16Kernel::Emulated(isa) => {
            Product { a, b: &Widened(b), part: part(b.k), c, c_stride: b.n, epilogue }.run_rounded(isa, packed);
        }
        #[cfg(target_arch = "x86_64")]
        kernel => Product { a, b: &Pairs(b), part: part(b.k.div_ceil(2)), c, c_stride: b.n, epilogue }.run_pairs(kernel, packed),
    }
}

impl<B: RightSide> Product<'_, B> {
    fn columns(&self) -> usize {
        self.b.size().1.min(self.part.panels.end * PANEL) - self.part.panels.start * PANEL
    }

    /// Checks the extents that the kernels rely on, and makes room; an inner index is `numbers` numbers of A.
    fn prepare(&self, numbers: usize, packed: &mut Floats) {
        let ((k, n), Part { inner, panels }, columns) = (self.b.size(), &self.part, self.columns());
        assert!(panels.end <= n.div_ceil(PANEL) && inner.end <= k.div_ceil(numbers));
        assert!(self.a.count == 0 || self.a.data.len() >= (self.a.count - 1) * self.a.stride + (inner.len() * numbers).min(k));
        assert!(self.a.count == 0 || self.c.len() >= (self.a.count - 1) * self.c_stride + columns);
        assert!(self.c_stride >= columns && self.epilogue.bias.is_none_or(|bias| bias.len() >= columns));
        packed.resize(PACKED + WIDE);
    }

    fn run(self, isa: Isa, packed: &mut Floats) {
        self.prepare(1, packed);
        match isa.set() {
            // SAFETY: values of `Isa` come from detection at run time.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { blocks_avx512::<super::kernels::Avx512, B>(self, packed) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { blocks_avx2::<super::kernels::Avx2, B>(self, packed) },
            _ => blocks::<Portable, B>(self, packed),
        }
    }

    fn run_rounded(self, isa: Isa, packed: &mut Floats) {
        self.prepare(1, packed);
        match isa.set() {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { blocks_avx512::<Rounded<super::kernels::Avx512>, B>(self, packed) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { blocks_avx2::<Rounded<super::kernels::Avx2>, B>(self, packed) },
            _ => blocks::<Rounded<Portable>, B>(self, packed),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn run_pairs(self, kernel: Bf16Kernel, packed: &mut Floats) {
        use super::bf16::{Avx512Bf16, Tiles};
        self.prepare(2, packed);
        match kernel {
            Bf16Kernel::Emulated(_) => unreachable!("floats, not pairs"),
            // SAFETY: values of `Bf16Kernel` come from detection at run time.
            Bf16Kernel::Avx512(_) => unsafe { blocks_avx512_bf16::<Avx512Bf16, B>(self, packed) },
            // SAFETY: as above; processors with tiles of bfloat16 have the vectors too.
            Bf16Kernel::Amx(tiles) => tiles.with(|| unsafe { blocks_avx512_bf16::<Tiles, B>(self, packed) }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
fn blocks_avx512_bf16<K: Kernel, B: RightSide>(product: Product<B>, packed: &mut [f32]) {
    blocks::<K, B>(product, packed);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn blocks_avx512<K: Kernel, B: RightSide>(product: Product<B>, packed: &mut [f32]) {
    blocks::<K, B>(product, packed);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn blocks_avx2<K: Kernel, B: RightSide>(product: Product<B>, packed: &mut [f32]) {
    blocks::<K, B>(product, packed);
}

/// The loops around the kernel: blocks of rows, blocks of `k`, panels, tiles.
#[inline(always)]
fn blocks<K: Kernel, B: RightSide>(product: Product<B>, packed: &mut [f32]) {
    const { assert!(K::TILE <= MAX_TILE) };
    let columns = product.columns();
    let Product { a, b, part, c, c_stride, epilogue } = product;
    let (packed, wide) = packed.split_at_mut(PACKED);
    let (inner, numbers) = (part.inner.len(), (part.inner.len() * K::NUMBERS).min(b.size().0));
    // Blocks of nearly equal height: a block of few rows would read all of B for little work.
    let block = a.count.div_ceil(a.count.div_ceil(M_BLOCK).max(1)).next_multiple_of(K::TILE).clamp(K::TILE, M_BLOCK);
    for row0 in (0..a.count).step_by(block) {
        let rows = block.min(a.count - row0);
        let tile = K::height(rows);
        for k0 in (0..inner).step_by(K_BLOCK) {
            let depth = K_BLOCK.min(inner - k0);
            let padded = depth.next_multiple_of(LINE);
            let (first, last) = (k0 == 0, k0 + depth == inner);
            let (left, l0) = (k0 * K::NUMBERS, part.inner.start + k0);
            let width = (depth * K::NUMBERS).min(numbers - left);
            pack_rows::<K>(Rows { data: &a.data[row0 * a.stride + left..], stride: a.stride, count: rows }, width, tile, packed);
            for (j0, panel) in (0..columns).step_by(PANEL).zip(part.panels.clone()) {
                let width = PANEL.min(columns - j0);
                // What is needed after this block is prefetched, or the first tile on every panel waits for a distant cache.
                let next = if panel + 1 < part.panels.end { b.ahead(panel + 1, l0, depth) } else { &[] };
                let b_block = b.block::<K>(panel, l0, depth, wide);
                for (place, i0) in (0..rows).step_by(tile).enumerate() {
                    let height = tile.min(rows - i0);
                    let ahead = next.get(place * depth * AHEAD..).unwrap_or(b_block).as_ptr();
                    let at = (row0 + i0) * c_stride + j0;
                    let operands = Operands {
                        depth,
                        a: packed[i0 * padded..].as_ptr(),
                        b: b_block.as_ptr(),
                        c: c[at..].as_mut_ptr(),
                        stride: c_stride,
                        accumulate: !first,
                        ahead,
                    };
                    if width == PANEL {
                        // SAFETY: `c` holds `height` rows of PANEL columns at `c_stride` from `at` on (asserted by `prepare`).
                        unsafe { K::tile(height, operands) };
                    } else {
                        // SAFETY: as above, for `width` columns.
                        unsafe { edge_tile::<K>(height, operands, width) };
                    }
                    if last {
                        finish(&mut c[at..], c_stride, height, width, j0, epilogue);
                    }
                }
            }
        }
    }
}

/// A tile that is narrower than a panel goes through a full one.
///
/// # Safety
/// As for [`Kernel::tile`], but `c` only for the first `width` columns.
#[inline(always)]
unsafe fn edge_tile<K: Kernel>(height: usize, operands: Operands, width: usize) {
    let mut full = MaybeUninit::<[f32; MAX_TILE * PANEL]>::uninit();
    let full = full.as_mut_ptr().cast::<f32>();
    // SAFETY: `full` holds MAX_TILE rows of PANEL columns.
    unsafe { K::tile(height, Operands { c: full, stride: PANEL, accumulate: false, ..operands }) };
    for i in 0..height {
        // SAFETY: the kernel wrote `height` rows; the caller vouches for as many of `width` floats at `stride`.
        let (line, target) = unsafe {
            let target = operands.c.add(i * operands.stride);
            (std::slice::from_raw_parts(full.add(i * PANEL), width), std::slice::from_raw_parts_mut(target, width))
        };
        for (value, sum) in target.iter_mut().zip(line) {
            *value = if operands.accumulate { *value + sum } else { *sum };
        }
    }
}

/// Bias and activation of one tile of `height` rows and `width` columns, the first of which is column `j0` of C.
#[inline(always)]
fn finish(c: &mut [f32], stride: usize, height: usize, width: usize, j0: usize, epilogue: Epilogue) {
    if epilogue.bias.is_none() && epilogue.activation.is_none() {
        return;
    }
    let bias = epilogue.bias.map_or(&[0.0; PANEL][..width], |bias| &bias[j0..][..width]);
    math::with_activation(epilogue.activation, TileEpilogue { c, stride, height, bias });
}

struct TileEpilogue<'a> {
    c: &'a mut [f32],
    stride: usize,
    height: usize,
    bias: &'a [f32],
}

impl WithFunction for TileEpilogue<'_> {
    #[inline(always)]
    fn call(self, function: impl Fn(f32) -> f32 + Copy) {
        for i in 0..self.height {
            let row = &mut self.c[i * self.stride..][..self.bias.len()];
            math::combine(row, self.bias, |sum, bias| function(sum + bias));
        }
    }
}

/// Interleaves the rows of each tile line by line: `packed[tile][l / LINE][row][l % LINE]`; a line is filled up with zeros.
#[inline(always)]
fn pack_rows<K: Kernel>(a: Rows, numbers: usize, tile: usize, packed: &mut [f32]) {
    let padded = numbers.div_ceil(K::NUMBERS * LINE) * LINE;
    for i0 in (0..a.count).step_by(tile) {
        let height = tile.min(a.count - i0);
        let (block, _) = packed[i0 * padded..][..height * padded].as_chunks_mut::<LINE>();
        for i in 0..height {
            let mut lines = a.data[(i0 + i) * a.stride..][..numbers].chunks_exact(K::NUMBERS * LINE);
            let mut targets = block.iter_mut().skip(i).step_by(height);
            for (line, target) in (&mut lines).zip(&mut targets) {
                K::pack(line, target);
            }
            if let Some(target) = targets.next() {
                let mut line = [0.0; 2 * LINE];
                line[..lines.remainder().len()].copy_from_slice(lines.remainder());
                K::pack(&line[..K::NUMBERS * LINE], target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).max(1);
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state as f32 / u32::MAX as f32 - 0.5
            })
            .collect()
    }

    fn product(isa: Isa, m: usize, k: usize, n: usize, a: &[f32], w: &[f32]) -> Vec<f32> {
        let mut c = vec![f32::NAN; m * n];
        let b = Panels::from_rows(w, n, k);
        multiply(isa, Rows { data: a, stride: k, count: m }, &b, &Part::all(&b), &mut c, n, Epilogue::default(), &mut Floats::default());
        c
    }

    #[test]
    fn agrees_with_the_definition() {
        for (m, k, n) in [(1, 1, 1), (13, 7, 33), (25, 300, 64), (250, 40, 31), (3, 600, 100)] {
            let (a, w) = (numbers(1, m * k), numbers(2, n * k));
            let c = product(Isa::detect(), m, k, n, &a, &w);
            for i in 0..m {
                for j in 0..n {
                    let exact: f64 = (0..k).map(|l| a[i * k + l] as f64 * w[j * k + l] as f64).sum();
                    assert!((c[i * n + j] as f64 - exact).abs() < 1e-5, "{m}x{k}x{n} at {i},{j}");
                }
            }
        }
    }

    #[test]
    fn bits_depend_neither_on_the_number_of_rows_nor_on_the_instruction_set() {
        for (k, n) in [(16, 16), (37, 50), (384, 96), (1100, 40)] {
            let (a, w) = (numbers(3, 260 * k), numbers(4, n * k));
            let whole = product(Isa::portable(), 260, k, n, &a, &w);
            for isa in Isa::available() {
                for m in [1, 2, 5, 12, 13, 25, 240, 259] {
                    for offset in [0, 1] {
                        let c = product(isa, m, k, n, &a[offset * k..], &w);
                        assert!(c.iter().zip(&whole[offset * n..]).all(|(x, y)| x.to_bits() == y.to_bits()), "{isa:?} m={m} k={k} n={n}");
                    }
                }
            }
        }
    }
}
