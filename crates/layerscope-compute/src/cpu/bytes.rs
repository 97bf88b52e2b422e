//! Coarse products of rows, rounded to bytes: four multiply-adds where f32 has one, on processors with instructions for them.
//!
//! A row `a` becomes `scale * q` with `q` whole numbers up to 127, after a rotation that spreads single large components over all of
//! them. `error()` bounds what is lost.

use super::isa::{Isa, for_each_isa};
use super::near::NearPairs;

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
        let known = Isa::detect().set() == super::InstructionSet::Avx512 && is_x86_feature_detected!("avx512vnni");
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
        let isa = Isa::detect();
        let (mut turned, mut bytes) = (vec![0.0f32; dim], vec![0i8; quads * QUAD]);
        for (at, row) in states.chunks_exact(dim).enumerate() {
            turned.copy_from_slice(row);
            let mut rounded = Rounded::default();
            round(isa, &mut turned, &mut bytes[..dim], &mut rounded);
            rows.error = rows.error.max(rounded.error);
            rows.scales[at] = rounded.scale;
            rows.corrections[at] = -128 * rounded.sum;
            let (tile, panel) = (at / TILE * TILE * quads + at % TILE, at / PANEL * PANEL * quads + at % PANEL);
            for (quad, bytes) in bytes.as_chunks::<QUAD>().0.iter().enumerate() {
                rows.left[tile + quad * TILE] = *bytes;
                rows.right[panel + quad * PANEL] = bytes.map(|byte| (byte as u8) ^ 128);
            }
        }
        rows
    }

    /// Largest |a - scale q| / |a| of all rows.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// `c[i * stride + j]` = product of row `i` with row `j` of the other, at least in strips of 32 columns where some pair may be near; `c` has room for
    /// whole panels of columns. Masks are those of [`NearPairs::mark`].
    pub fn multiply_near(&self, other: &ByteRows, c: &mut [f32], stride: usize, near: &NearPairs<'_>, masks: &mut [u32]) {
        let columns = other.count.next_multiple_of(PANEL);
        assert!(self.quads == other.quads && stride >= columns, "rows of another shape");
        assert!(self.count == 0 || c.len() >= (self.count - 1) * stride + columns, "room for {} x {columns} products", self.count);
        for (panel, scales) in other.scales.as_chunks::<PANEL>().0.iter().enumerate() {
            let right = &other.right[panel * PANEL * self.quads..][..PANEL * self.quads];
            for first in (0..self.count).step_by(TILE) {
                let left = &self.left[first * self.quads..][..TILE * self.quads];
                let rows = first..self.count.min(first + TILE);
                let (row_scales, corrections) = (&self.scales[rows.clone()], &self.corrections[rows]);
                let tile = Tile { left, right, row_scales, corrections, scales, near, first, panel };
                tile.multiply(c, stride, masks);
            }
        }
    }
}

/// Rows with a panel of others.
struct Tile<'a> {
    left: &'a [[i8; QUAD]],
    right: &'a [[u8; QUAD]],
    row_scales: &'a [f32],
    corrections: &'a [i32],
    scales: &'a [f32; PANEL],
    near: &'a NearPairs<'a>,
    /// The first row.
    first: usize,
    panel: usize,
}

impl Tile<'_> {
    /// Which pairs may be near, and the products of rows where some are.
    fn multiply(&self, c: &mut [f32], stride: usize, masks: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: detected just now.
            return unsafe { self.multiply_vnni(c, stride, masks) };
        }
        self.multiply_plainly(c, stride, masks);
    }

    fn multiply_plainly(&self, c: &mut [f32], stride: usize, masks: &mut [u32]) {
        let mut sums = [[0i32; PANEL]; TILE];
        for (left, right) in self.left.chunks_exact(TILE).zip(self.right.chunks_exact(PANEL)) {
            for (sums, left) in sums.iter_mut().zip(left) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum += (0..QUAD).map(|l| i32::from(left[l]) * i32::from(right[l])).sum::<i32>();
                }
            }
        }
        for (i, (&scale, &correction)) in self.row_scales.iter().zip(self.corrections).enumerate() {
            let products = std::array::from_fn(|j| (sums[i][j] + correction) as f32 * scale * self.scales[j]);
            let mask = self.near.mask(self.first + i, self.panel, &products);
            masks[(self.first + i) * self.near.strips() + self.panel] = mask;
            if mask != 0 {
                c[(self.first + i) * stride + self.panel * PANEL..][..PANEL].copy_from_slice(&products);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn multiply_vnni(&self, c: &mut [f32], stride: usize, masks: &mut [u32]) {
        use std::arch::x86_64::*;
        let mut wide = [[_mm512_setzero_si512(); 2]; TILE];
        let (lines, panels) = (self.left.as_chunks::<TILE>().0, self.right.as_chunks::<PANEL>().0);
        for (line, panel) in lines.iter().zip(panels) {
            // SAFETY: a line of a panel is 128 bytes; loads are unaligned.
            let halves = unsafe { [_mm512_loadu_si512(panel.as_ptr().cast()), _mm512_loadu_si512(panel.as_ptr().add(16).cast())] };
            for i in 0..TILE {
                let quad = _mm512_set1_epi32(i32::from_ne_bytes(line[i].map(|byte| byte as u8)));
                wide[i][0] = _mm512_dpbusd_epi32(wide[i][0], halves[0], quad);
                wide[i][1] = _mm512_dpbusd_epi32(wide[i][1], halves[1], quad);
            }
        }
        let (near, from) = (self.near, self.panel * PANEL);
        // SAFETY: each is of 32 numbers; loads are unaligned.
        let load = |numbers: &[f32; PANEL]| unsafe { [_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers.as_ptr().add(16))] };
        let strip = |numbers: &[f32]| *numbers[from..].first_chunk::<PANEL>().expect("columns are padded to whole strips");
        let (scales, lows, limits) = (load(self.scales), load(&strip(near.lows)), load(&strip(near.limits)));
        for (i, wide) in wide.iter().enumerate().take(self.row_scales.len()) {
            let row = self.first + i;
            let (low, limit) = (_mm512_set1_ps(near.row_lows[row]), _mm512_set1_ps(near.row_limits[row]));
            let (scale, correction) = (_mm512_set1_ps(self.row_scales[i]), _mm512_set1_epi32(self.corrections[i]));
            let (mut mask, mut products) = (0, [_mm512_setzero_ps(); 2]);
            for half in 0..2 {
                let sums = _mm512_cvtepi32_ps(_mm512_add_epi32(wide[half], correction));
                products[half] = _mm512_mul_ps(_mm512_mul_ps(sums, scale), scales[half]);
                let twice = _mm512_add_ps(products[half], products[half]);
                let of_row = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_sub_ps(lows[half], twice), limit);
                let of_column = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_sub_ps(low, twice), limits[half]);
                mask |= u32::from(of_row | of_column) << (16 * half);
            }
            masks[row * near.strips() + self.panel] = mask;
            if mask != 0 {
                let target = &mut c[row * stride + from..][..PANEL];
                // SAFETY: 32 numbers; stores are unaligned.
                unsafe {
                    _mm512_storeu_ps(target.as_mut_ptr(), products[0]);
                    _mm512_storeu_ps(target.as_mut_ptr().add(16), products[1]);
                }
            }
        }
    }
}

/// How a row was rounded.
#[derive(Default)]
struct Rounded {
    scale: f32,
    /// Of the bytes.
    sum: i32,
    /// |a - scale q| / |a|.
    error: f64,
}

for_each_isa! {
    /// Turns a row and rounds it.
    fn round = round_body; (row: &mut [f32], bytes: &mut [i8], rounded: &mut Rounded)
}

#[inline(always)]
fn round_body(row: &mut [f32], bytes: &mut [i8], rounded: &mut Rounded) {
    const LANES: usize = 16;
    rotate(row);
    let mut peaks = [0.0f32; LANES];
    for row in row.chunks(LANES) {
        peaks.iter_mut().zip(row).for_each(|(peak, x)| *peak = peak.max(x.abs()));
    }
    let largest = peaks.iter().fold(0.0f32, |largest, peak| largest.max(*peak));
    let scale = largest / 127.0;
    if scale < f32::MIN_POSITIVE {
        bytes.fill(0);
        rounded.error = if largest > 0.0 { 1.0 } else { 0.0 }; // too small to be scaled: taken for zero
        return;
    }
    let (mut lost, mut square, mut sum) = ([0.0f64; LANES], [0.0f64; LANES], [0i32; LANES]);
    for (bytes, row) in bytes.chunks_mut(LANES).zip(row.chunks(LANES)) {
        for (l, (byte, &x)) in bytes.iter_mut().zip(row).enumerate() {
            // Adding and subtracting 1.5 * 2^23 rounds to a whole number.
            let whole = ((x / scale).clamp(-127.0, 127.0) + 12_582_912.0) - 12_582_912.0;
            *byte = whole as i8;
            let away = f64::from(x) - f64::from(scale) * f64::from(whole);
            lost[l] += away * away;
            square[l] += f64::from(x) * f64::from(x);
            sum[l] += whole as i32;
        }
    }
    *rounded = Rounded { scale, sum: sum.iter().sum(), error: (lost.iter().sum::<f64>() / square.iter().sum::<f64>()).sqrt() };
}

/// Turns a row by random signs and Hadamard matrices, so that no component stands out: the length and all products stay.
#[inline(always)]
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
        let (sixteens, few) = part.as_chunks_mut::<SIXTEEN>();
        sixteens.iter_mut().for_each(turn);
        turn_pairs(few, 1);
        turn_pairs(part, SIXTEEN);
        let scale = 1.0 / (size as f32).sqrt();
        part.iter_mut().for_each(|x| *x *= scale);
        rest = later;
    }
}

/// Sums and differences of numbers `half` apart, then twice as far apart, and so on.
#[inline(always)]
fn turn_pairs(part: &mut [f32], first: usize) {
    let mut half = first;
    while half < part.len() {
        for pair in part.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

const SIXTEEN: usize = 16;

/// The same of sixteen numbers, which stay in one register.
#[inline(always)]
fn turn(part: &mut [f32; SIXTEEN]) {
    #[inline(always)]
    fn step<const HALF: usize>(x: [f32; SIXTEEN]) -> [f32; SIXTEEN] {
        std::array::from_fn(|l| if l & HALF == 0 { x[l] + x[l ^ HALF] } else { x[l ^ HALF] - x[l] })
    }
    *part = step::<8>(step::<4>(step::<2>(step::<1>(*part))));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All products, whatever is near.
    fn multiply_all(left: &ByteRows, right: &ByteRows, c: &mut [f32], stride: usize) -> Vec<u32> {
        let (rows, columns) = (vec![0.0; left.count], vec![0.0; right.count.next_multiple_of(PANEL)]);
        let (row_limits, limits) = (vec![f32::INFINITY; rows.len()], vec![f32::NEG_INFINITY; columns.len()]);
        let near = NearPairs { row_lows: &rows, row_limits: &row_limits, lows: &columns, limits: &limits };
        let mut masks = vec![0; rows.len() * columns.len() / PANEL];
        left.multiply_near(right, c, stride, &near, &mut masks);
        masks
    }

    #[test]
    fn products_are_within_their_bound() {
        for (count, other, dim) in [(1, 1, 1), (13, 33, 7), (40, 70, 768), (25, 64, 1601)] {
            let number = |at: usize| ((at * 7919 % 10_007) as f32 / 5003.5 - 1.0).powi(3) * if at % dim == 3 { 100.0 } else { 1.0 };
            let (a, b): (Vec<f32>, Vec<f32>) =
                ((0..count * dim).map(number).collect(), (0..other * dim).map(|at| number(at + 77)).collect());
            let (left, right) = (ByteRows::new(&a, dim), ByteRows::new(&b, dim));
            let stride = other.next_multiple_of(PANEL);
            let mut c = vec![f32::NAN; count * stride];
            let masks = multiply_all(&left, &right, &mut c, stride);
            assert!(masks.iter().all(|mask| *mask == u32::MAX));
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
    fn every_way_gives_the_same() {
        let left: Vec<[i8; QUAD]> = (0..TILE * 5).map(|at| std::array::from_fn(|l| (at * 31 + l * 7) as i8)).collect();
        let right: Vec<[u8; QUAD]> = (0..PANEL * 5).map(|at| std::array::from_fn(|l| (at * 13 + l * 101) as u8)).collect();
        let numbers = |count: usize, step: usize| -> Vec<f32> { (0..count).map(|at| (at * step % 97) as f32 - 48.0).collect() };
        let (row_scales, corrections, scales) = (numbers(7, 5), [-3000; 7], numbers(PANEL, 7));
        let (row_lows, row_limits, lows, limits) = (numbers(7, 11), vec![-4e6; 7], numbers(PANEL, 3), vec![-5e6; PANEL]);
        let near = NearPairs { row_lows: &row_lows, row_limits: &row_limits, lows: &lows, limits: &limits };
        let (row_scales, corrections, scales) = (&row_scales[..], &corrections[..], scales.first_chunk().unwrap());
        let tile = Tile { left: &left, right: &right, row_scales, corrections, scales, near: &near, first: 0, panel: 0 };
        let [mut plain, mut fast] = [(vec![0.0; 7 * PANEL], vec![0; 7]), (vec![0.0; 7 * PANEL], vec![0; 7])];
        tile.multiply_plainly(&mut plain.0, PANEL, &mut plain.1);
        tile.multiply(&mut fast.0, PANEL, &mut fast.1);
        assert_eq!(plain, fast);
        let marked: u32 = plain.1.iter().map(|mask| mask.count_ones()).sum();
        assert!((1..7 * PANEL as u32).contains(&marked), "{marked}");
    }

    #[test]
    fn zero_rows_are_zero() {
        let rows = ByteRows::new(&[0.0, 0.0, 0.0, 1.0], 2);
        let mut c = vec![f32::NAN; 2 * PANEL];
        multiply_all(&rows, &rows, &mut c, PANEL);
        assert_eq!((c[0], c[1], c[PANEL]), (0.0, 0.0, 0.0));
        assert!((c[PANEL + 1] - 1.0).abs() < 0.02);
    }
}
