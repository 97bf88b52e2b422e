//! Coarse products of rows, rounded to bytes: four multiply-adds where f32 has one, on processors with instructions for them.
//!
//! A row `a` becomes `scale * q` with `q` whole numbers up to 127, after a rotation that spreads single large components over all of
//! them. `error()` bounds what is lost.

/// Rows of a tile and columns of a panel: 24 accumulators, as in the f32 product.
const TILE: usize = 12;
const PANEL: usize = 32;
/// Components that one instruction multiplies and adds up.
const QUAD: usize = 4;
/// Largest part of a rotation.
const ROTATED: usize = 1024;
/// Products of more components than these could overflow their sums.
const MOST: usize = 1 << 15;

/// Rows as bytes, laid out for both sides of a product.
pub struct ByteRows {
    count: usize,
    quads: usize,
    /// Signed, `[tile][quad][row of the tile]`.
    left: Vec<[i8; QUAD]>,
    /// Moved by 128 so that they are unsigned, `[panel][quad][column of the panel]`.
    right: Vec<[u8; QUAD]>,
    /// Of every row, padded to whole panels.
    scales: Vec<f32>,
    /// -128 sum(q) of every row: corrects for the right side being moved by 128.
    corrections: Vec<i32>,
    error: f64,
}

impl ByteRows {
    /// Whether this machine has the instructions, and sums of `dim` products fit them.
    pub fn available(dim: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        let known = super::Isa::detect().set() == super::InstructionSet::Avx512 && is_x86_feature_detected!("avx512vnni");
        #[cfg(not(target_arch = "x86_64"))]
        let known = false;
        known && dim <= MOST
    }

    /// Rounds rows of `dim` components.
    pub fn new(states: &[f32], dim: usize) -> ByteRows {
        let count = states.len() / dim;
        let quads = dim.div_ceil(QUAD);
        let mut rows = ByteRows {
            count,
            quads,
            left: vec![[0; QUAD]; count.next_multiple_of(TILE) * quads],
            right: vec![[128; QUAD]; count.next_multiple_of(PANEL) * quads],
            scales: vec![0.0; count.next_multiple_of(PANEL)],
            corrections: vec![0; count],
            error: 0.0,
        };
        let (mut turned, mut bytes) = (vec![0.0f32; quads * QUAD], vec![0i8; quads * QUAD]);
        for (at, row) in states.chunks_exact(dim).enumerate() {
            turned[..dim].copy_from_slice(row);
            rotate(&mut turned[..dim]);
            let largest = turned.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            if largest / 127.0 >= f32::MIN_POSITIVE {
                rows.round(at, &turned, largest / 127.0, &mut bytes);
            } else if largest > 0.0 {
                rows.error = 1.0; // too small to be scaled: taken for zero
            }
        }
        rows
    }

    /// Largest |a - scale q| / |a| of all rows.
    pub fn error(&self) -> f64 {
        self.error
    }

    fn round(&mut self, at: usize, turned: &[f32], scale: f32, bytes: &mut [i8]) {
        let (mut lost, mut square) = (0.0f64, 0.0f64);
        for (byte, &x) in bytes.iter_mut().zip(turned) {
            // Adding and subtracting 1.5 * 2^23 rounds to a whole number.
            let whole = ((x / scale).clamp(-127.0, 127.0) + 12_582_912.0) - 12_582_912.0;
            *byte = whole as i8;
            lost += (f64::from(x) - f64::from(scale) * f64::from(whole)).powi(2);
            square += f64::from(x).powi(2);
        }
        self.error = self.error.max((lost / square).sqrt());
        self.scales[at] = scale;
        self.corrections[at] = -128 * bytes.iter().map(|&byte| i32::from(byte)).sum::<i32>();
        let (tile, panel) = (at / TILE * TILE * self.quads + at % TILE, at / PANEL * PANEL * self.quads + at % PANEL);
        for (quad, bytes) in bytes.as_chunks::<QUAD>().0.iter().enumerate() {
            self.left[tile + quad * TILE] = *bytes;
            self.right[panel + quad * PANEL] = bytes.map(|byte| (byte as u8) ^ 128);
        }
    }

    /// `c[i * stride + j]` = product of row `i` with row `j` of the other; `c` has room for whole panels of columns.
    pub fn multiply(&self, other: &ByteRows, c: &mut [f32], stride: usize) {
        let columns = other.count.next_multiple_of(PANEL);
        assert!(self.quads == other.quads && stride >= columns, "rows of another shape");
        assert!(self.count == 0 || c.len() >= (self.count - 1) * stride + columns, "room for {} x {columns} products", self.count);
        for (panel, scales) in other.scales.chunks_exact(PANEL).enumerate() {
            let right = &other.right[panel * PANEL * self.quads..][..PANEL * self.quads];
            for first in (0..self.count).step_by(TILE) {
                let left = &self.left[first * self.quads..][..TILE * self.quads];
                let height = TILE.min(self.count - first);
                let mut sums = [[0i32; PANEL]; TILE];
                tile(left, right, &mut sums);
                for (i, sums) in sums.iter().enumerate().take(height) {
                    let target = &mut c[(first + i) * stride + panel * PANEL..][..PANEL];
                    let (scale, correction) = (self.scales[first + i], self.corrections[first + i]);
                    for j in 0..PANEL {
                        target[j] = (sums[j] + correction) as f32 * scale * scales[j];
                    }
                }
            }
        }
    }
}

/// Sums of products of a tile with a panel.
fn tile(left: &[[i8; QUAD]], right: &[[u8; QUAD]], sums: &mut [[i32; PANEL]; TILE]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
        // SAFETY: detected just now.
        return unsafe { tile_vnni(left, right, sums) };
    }
    for (left, right) in left.chunks_exact(TILE).zip(right.chunks_exact(PANEL)) {
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum += (0..QUAD).map(|l| i32::from(left[l]) * i32::from(right[l])).sum::<i32>();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn tile_vnni(left: &[[i8; QUAD]], right: &[[u8; QUAD]], sums: &mut [[i32; PANEL]; TILE]) {
    use std::arch::x86_64::*;
    let mut wide = [[_mm512_setzero_si512(); 2]; TILE];
    let (lines, _) = left.as_chunks::<TILE>();
    let (panels, _) = right.as_chunks::<PANEL>();
    for (line, panel) in lines.iter().zip(panels) {
        // SAFETY: a line of a panel is 128 bytes; loads are unaligned.
        let halves = unsafe { [_mm512_loadu_si512(panel.as_ptr().cast()), _mm512_loadu_si512(panel.as_ptr().add(16).cast())] };
        for i in 0..TILE {
            let quad = _mm512_set1_epi32(i32::from_ne_bytes(line[i].map(|byte| byte as u8)));
            wide[i][0] = _mm512_dpbusd_epi32(wide[i][0], halves[0], quad);
            wide[i][1] = _mm512_dpbusd_epi32(wide[i][1], halves[1], quad);
        }
    }
    for (sums, wide) in sums.iter_mut().zip(wide) {
        // SAFETY: 32 numbers of four bytes; stores are unaligned.
        unsafe {
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), wide[0]);
            _mm512_storeu_si512(sums.as_mut_ptr().add(16).cast(), wide[1]);
        }
    }
}

/// Turns a row by random signs and Hadamard matrices, so that no component stands out: the length and all products stay.
fn rotate(row: &mut [f32]) {
    let mut rest = row;
    let mut signs = 0x9e37_79b9_7f4a_7c15u64;
    while !rest.is_empty() {
        let size = (1 << rest.len().ilog2()).min(ROTATED);
        let (part, later) = rest.split_at_mut(size);
        for x in part.iter_mut() {
            // A linear congruential generator's high bit.
            signs = signs.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *x = if signs >> 63 == 0 { *x } else { -*x };
        }
        let mut half = 1;
        while half < size {
            for pair in part.chunks_exact_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        let scale = 1.0 / (size as f32).sqrt();
        part.iter_mut().for_each(|x| *x *= scale);
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_within_their_bound() {
        for (count, other, dim) in [(1, 1, 1), (13, 33, 7), (40, 70, 768), (25, 64, 1601)] {
            let number = |at: usize| ((at * 7919 % 10_007) as f32 / 5003.5 - 1.0).powi(3) * if at % dim == 3 { 100.0 } else { 1.0 };
            let (a, b): (Vec<f32>, Vec<f32>) =
                ((0..count * dim).map(number).collect(), (0..other * dim).map(|at| number(at + 77)).collect());
            let (left, right) = (ByteRows::new(&a, dim), ByteRows::new(&b, dim));
            let stride = other.next_multiple_of(PANEL);
            let mut c = vec![f32::NAN; count * stride];
            left.multiply(&right, &mut c, stride);
            let lost = left.error() + right.error() + left.error() * right.error() + 1e-5;
            assert!(lost < 0.05, "{lost}");
            let product = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
            for (i, x) in a.chunks_exact(dim).enumerate() {
                for (j, y) in b.chunks_exact(dim).enumerate() {
                    let bound = lost * (product(x, x) * product(y, y)).sqrt();
                    assert!((f64::from(c[i * stride + j]) - product(x, y)).abs() <= bound, "{count} x {dim}, {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn every_way_gives_the_same_sums() {
        let left: Vec<[i8; QUAD]> = (0..TILE * 5).map(|at| std::array::from_fn(|l| (at * 31 + l * 7) as i8)).collect();
        let right: Vec<[u8; QUAD]> = (0..PANEL * 5).map(|at| std::array::from_fn(|l| (at * 13 + l * 101) as u8)).collect();
        let mut sums = [[0; PANEL]; TILE];
        tile(&left, &right, &mut sums);
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let terms = (0..5).flat_map(|quad| (0..QUAD).map(move |l| (quad * TILE + i, quad * PANEL + j, l)));
                assert_eq!(*sum, terms.map(|(a, b, l)| i32::from(left[a][l]) * i32::from(right[b][l])).sum::<i32>());
            }
        }
    }

    #[test]
    fn zero_rows_are_zero() {
        let rows = ByteRows::new(&[0.0, 0.0, 0.0, 1.0], 2);
        let mut c = vec![f32::NAN; 2 * PANEL];
        rows.multiply(&rows, &mut c, PANEL);
        assert_eq!((c[0], c[1], c[PANEL]), (0.0, 0.0, 0.0));
        assert!((c[PANEL + 1] - 1.0).abs() < 0.02);
    }
}
