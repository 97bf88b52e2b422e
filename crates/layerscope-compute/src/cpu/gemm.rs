//! `C = A B` with B in panels, and what is done to a tile of C while it is still in the cache.
//!
//! Every element of C is one chain of fused multiply-adds in the order of `k`, cut every [`K_BLOCK`]: its bits depend neither
//! on how many other rows are computed with it nor on the instruction set. `benches/products` compares crates in
//! speed and in this.

use super::floats::Floats;
use super::isa::{InstructionSet, Isa};
use super::kernels::{AHEAD, Kernel, LINE, Operands, Portable};
use super::math::{self, WithFunction};
use super::panels::{PANEL, Panels};
use crate::Activation;
use std::ops::Range;

/// Inner indices accumulated in registers: a block of a panel, 48 KiB, passes through the first-level cache once per tile.
const K_BLOCK: usize = 384;
/// Rows packed together: a block of A, 792 KiB, stays in the second-level cache while all of B passes by.
const M_BLOCK: usize = 528;
/// Most rows of any kernel's tile.
const MAX_TILE: usize = 12;

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

/// Multiplies rows by panels into rows of `c_stride` floats. `packed` is working memory.
#[allow(clippy::too_many_arguments)] // the eight things a product consists of
pub fn multiply(isa: Isa, a: Rows, b: &Panels, part: &Part, c: &mut [f32], c_stride: usize, epilogue: Epilogue, packed: &mut Floats) {
    let columns = b.n.min(part.panels.end * PANEL) - part.panels.start * PANEL;
    assert!(part.panels.end <= b.count() && part.inner.end <= b.k);
    assert!(a.count == 0 || a.data.len() >= (a.count - 1) * a.stride + part.inner.len());
    assert!(a.count == 0 || c.len() >= (a.count - 1) * c_stride + columns);
    assert!(c_stride >= columns && epilogue.bias.is_none_or(|bias| bias.len() >= columns));
    packed.resize(M_BLOCK * K_BLOCK);
    match isa.set() {
        // SAFETY: values of `Isa` come from detection at run time.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { multiply_avx512(a, b, part, c, c_stride, epilogue, packed) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { multiply_avx2(a, b, part, c, c_stride, epilogue, packed) },
        InstructionSet::Portable => blocks::<Portable>(a, b, part, c, c_stride, epilogue, packed),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn multiply_avx512(a: Rows, b: &Panels, part: &Part, c: &mut [f32], c_stride: usize, epilogue: Epilogue, packed: &mut [f32]) {
    blocks::<super::kernels::Avx512>(a, b, part, c, c_stride, epilogue, packed);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(a: Rows, b: &Panels, part: &Part, c: &mut [f32], c_stride: usize, epilogue: Epilogue, packed: &mut [f32]) {
    blocks::<super::kernels::Avx2>(a, b, part, c, c_stride, epilogue, packed);
}

/// The loops around the kernel: blocks of rows, blocks of `k`, panels, tiles.
#[inline(always)]
fn blocks<K: Kernel>(a: Rows, b: &Panels, part: &Part, c: &mut [f32], c_stride: usize, epilogue: Epilogue, packed: &mut [f32]) {
    const { assert!(K::TILE <= MAX_TILE) };
    let columns = b.n.min(part.panels.end * PANEL) - part.panels.start * PANEL;
    let inner = part.inner.len();
    // Blocks of nearly equal height: a block of few rows would read all of B for little work.
    let block = a.count.div_ceil(a.count.div_ceil(M_BLOCK).max(1)).next_multiple_of(K::TILE).clamp(K::TILE, M_BLOCK);
    for row0 in (0..a.count).step_by(block) {
        let rows = block.min(a.count - row0);
        // Tiles of nearly equal height: no tile of one row after tiles of twelve.
        let tile = rows.div_ceil(rows.div_ceil(K::TILE));
        for k0 in (0..inner).step_by(K_BLOCK) {
            let depth = K_BLOCK.min(inner - k0);
            let padded = depth.next_multiple_of(LINE);
            let (first, last) = (k0 == 0, k0 + depth == inner);
            pack_rows(Rows { data: &a.data[row0 * a.stride + k0..], stride: a.stride, count: rows }, depth, tile, packed);
            for (j0, panel) in (0..columns).step_by(PANEL).zip(part.panels.clone()) {
                let width = PANEL.min(columns - j0);
                let b_block = &b.panel(panel, part.inner.start + k0)[..depth * PANEL];
                let next_block = next_panel_block(b, part, panel, part.inner.start + k0, depth);
                for (place, i0) in (0..rows).step_by(tile).enumerate() {
                    let height = tile.min(rows - i0);
                    let ahead = next_block.get(place * depth * AHEAD..).unwrap_or(b_block).as_ptr();
                    let at = (row0 + i0) * c_stride + j0;
                    let operands = Operands {
                        depth,
                        a: packed[i0 * padded..][..height * padded].as_ptr(),
                        b: b_block.as_ptr(),
                        c: c[at..].as_mut_ptr(),
                        stride: c_stride,
                        accumulate: !first,
                        ahead,
                    };
                    if width == PANEL {
                        // SAFETY: `c` holds `height` rows of PANEL columns at `c_stride` from `at` on (asserted by `multiply`).
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

/// The block of B that is needed after this one: prefetched, or the first tile on every panel waits for a distant cache.
#[inline(always)]
fn next_panel_block<'a>(b: &'a Panels, part: &Part, panel: usize, k0: usize, depth: usize) -> &'a [f32] {
    match panel + 1 < part.panels.end {
        true => &b.panel(panel + 1, k0)[..depth * PANEL],
        false => &[],
    }
}

/// A tile that is narrower than a panel goes through a full one.
///
/// # Safety
/// As for [`Kernel::tile`], but `c` only for the first `width` columns.
#[inline(always)]
unsafe fn edge_tile<K: Kernel>(height: usize, operands: Operands, width: usize) {
    let mut full = [0.0; MAX_TILE * PANEL];
    // SAFETY: `full` holds MAX_TILE rows of PANEL columns.
    unsafe { K::tile(height, Operands { c: full.as_mut_ptr(), stride: PANEL, accumulate: false, ..operands }) };
    for (i, line) in full.chunks_exact(PANEL).take(height).enumerate() {
        // SAFETY: the caller vouches for `height` rows of `width` floats at `stride`.
        let target = unsafe { std::slice::from_raw_parts_mut(operands.c.add(i * operands.stride), width) };
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

/// Interleaves the rows of each tile line by line: `packed[tile][l / LINE][row][l % LINE]`.
#[inline(always)]
fn pack_rows(a: Rows, depth: usize, tile: usize, packed: &mut [f32]) {
    let padded = depth.next_multiple_of(LINE);
    for i0 in (0..a.count).step_by(tile) {
        let height = tile.min(a.count - i0);
        let (block, _) = packed[i0 * padded..][..height * padded].as_chunks_mut::<LINE>();
        for i in 0..height {
            let (lines, rest) = a.data[(i0 + i) * a.stride..][..depth].as_chunks::<LINE>();
            for (target, line) in block.iter_mut().skip(i).step_by(height).zip(lines) {
                *target = *line;
            }
            if !rest.is_empty() {
                block[lines.len() * height + i][..rest.len()].copy_from_slice(rest);
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
