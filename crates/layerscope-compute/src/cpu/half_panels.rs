//! Weights of 16 bits a number in panels: `[panel][k / 2][PANEL][2]`, two neighbours in `k` side by side.
//!
//! It is the layout of [`panels`](super::panels) with a pair in the place of a float, and the one that instructions for bfloat16 read.
//! The f32 product widens a block at a time, which is exact: weights stay in memory as their file has them.

use half::{bf16, f16};

use super::floats::Floats;
use super::gemm::RightSide;
use super::kernels::{Kernel, LINE};
use super::math;
use super::panels::{PANEL, fill_panel};
use crate::{HostTensor, HostValues, Result};

/// Which 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE 754.
    F16,
    /// The upper half of an f32.
    Bf16,
}

/// A matrix `[k, n]` in panels of pairs; what is beyond `n` and beyond `k` is zero.
pub struct HalfPanels {
    /// Inner dimension.
    pub k: usize,
    /// Columns in use.
    pub n: usize,
    half: Half,
    /// Each float is the bits of a pair, the first number in the low half.
    pairs: Floats,
}

impl HalfPanels {
    /// From a weight stored as `[n, k]`, as `half`; what is stored otherwise is rounded to bfloat16.
    pub fn from_tensor(weight: &HostTensor, half: Half) -> Result<HalfPanels> {
        let (n, k) = (weight.rows, weight.columns);
        let pairs = Floats::try_zeros(n.next_multiple_of(PANEL) * pairs_of(k))?;
        let mut panels = HalfPanels { k, n, half, pairs };
        match (&weight.values, half) {
            (HostValues::F16(values), Half::F16) => panels.fill(values, f16::to_bits),
            (HostValues::Bf16(values), Half::Bf16) => panels.fill(values, bf16::to_bits),
            (HostValues::F32(values), _) => panels.fill(values, upper_half),
            (HostValues::F16(values), _) => panels.fill(values, |x| upper_half(x.to_f32())),
            (HostValues::Bf16(values), _) => panels.fill(values, bf16::to_bits),
        }
        Ok(panels)
    }

    fn fill<T: Copy>(&mut self, weight: &[T], bits: impl Fn(T) -> u16) {
        let (k, n, pairs) = (self.k, self.n, pairs_of(self.k));
        let mut rows = vec![0.0; PANEL * pairs];
        for (j0, panel) in (0..n).step_by(PANEL).zip(self.pairs.chunks_exact_mut(PANEL * pairs)) {
            let used = PANEL.min(n - j0);
            for (row, target) in weight[j0 * k..(j0 + used) * k].chunks_exact(k).zip(rows.chunks_exact_mut(pairs)) {
                let (whole, last) = row.as_chunks::<2>();
                for (target, [low, high]) in target.iter_mut().zip(whole) {
                    *target = pair(bits(*low), bits(*high));
                }
                if let [last] = last {
                    target[whole.len()] = pair(bits(*last), 0);
                }
            }
            fill_panel(&rows, pairs, used, pairs, panel);
        }
    }

    /// Panel `j` from pair `l` on.
    #[inline(always)]
    fn panel(&self, j: usize, l: usize) -> &[f32] {
        let pairs = pairs_of(self.k);
        &self.pairs[j * PANEL * pairs + l * PANEL..(j + 1) * PANEL * pairs]
    }
}

/// Pairs of a column: whole lines of 16, which is what tiles of bfloat16 take.
fn pairs_of(k: usize) -> usize {
    k.div_ceil(2 * LINE) * LINE
}

fn upper_half(x: f32) -> u16 {
    (math::to_bf16(x).to_bits() >> 16) as u16
}

fn pair(low: u16, high: u16) -> f32 {
    f32::from_bits(u32::from(low) | u32::from(high) << 16)
}

/// The numbers as f32, for a product in f32.
pub struct Widened<'a>(pub &'a HalfPanels);

impl RightSide for Widened<'_> {
    fn size(&self) -> (usize, usize) {
        (self.0.k, self.0.n)
    }

    #[inline(always)]
    fn block<'a, K: Kernel>(&'a self, panel: usize, l: usize, depth: usize, wide: &'a mut [f32]) -> &'a [f32] {
        let from = &self.0.panel(panel, l / 2)[..depth.div_ceil(2) * PANEL];
        let to = &mut wide[..depth.next_multiple_of(2) * PANEL];
        match self.0.half {
            Half::Bf16 => K::widen_bf16(from, to),
            Half::F16 => widen(from, to, |bits| f16_as_f32(bits & 0xffff), |bits| f16_as_f32(bits >> 16)),
        }
        &wide[..depth * PANEL]
    }

    #[inline(always)]
    fn ahead(&self, panel: usize, l: usize, depth: usize) -> &[f32] {
        &self.0.panel(panel, l / 2)[..depth.div_ceil(2) * PANEL]
    }
}

/// The pairs as they lie, for a product in bfloat16.
pub struct Pairs<'a>(pub &'a HalfPanels);

impl RightSide for Pairs<'_> {
    fn size(&self) -> (usize, usize) {
        assert!(self.0.half == Half::Bf16, "pairs of bfloat16");
        (self.0.k, self.0.n)
    }

    #[inline(always)]
    fn block<'a, K: Kernel>(&'a self, panel: usize, l: usize, _: usize, _: &'a mut [f32]) -> &'a [f32] {
        self.0.panel(panel, l)
    }

    #[inline(always)]
    fn ahead(&self, panel: usize, l: usize, depth: usize) -> &[f32] {
        &self.0.panel(panel, l)[..depth * PANEL]
    }
}

/// A line of pairs becomes a line of first numbers and a line of second ones.
#[inline(always)]
pub(super) fn widen(pairs: &[f32], wide: &mut [f32], first: impl Fn(u32) -> u32, second: impl Fn(u32) -> u32) {
    let (lines, _) = pairs.as_chunks::<PANEL>();
    let (targets, _) = wide.as_chunks_mut::<{ 2 * PANEL }>();
    for (target, line) in targets.iter_mut().zip(lines) {
        for j in 0..PANEL {
            target[j] = f32::from_bits(first(line[j].to_bits()));
        }
        for j in 0..PANEL {
            target[PANEL + j] = f32::from_bits(second(line[j].to_bits()));
        }
    }
}

/// The bits of a finite f16 as an f32. Without a branch, and without arithmetic on subnormal numbers, which is slow.
#[inline(always)]
fn f16_as_f32(bits: u32) -> u32 {
    const SMALLEST_NORMAL: u32 = 113 << 23; // 2^-14
    let magnitude = (bits & 0x7fff) << 13;
    let normal = magnitude + (112 << 23);
    let subnormal = (f32::from_bits(magnitude + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL)).to_bits();
    (bits & 0x8000) << 16 | if magnitude < 1 << 23 { subnormal } else { normal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::Portable;

    #[test]
    fn every_finite_f16_is_widened_exactly() {
        for bits in (0..=u16::MAX).filter(|bits| f16::from_bits(*bits).is_finite()) {
            assert_eq!(f16_as_f32(bits.into()), f16::from_bits(bits).to_f32().to_bits(), "{bits:x}");
        }
    }

    #[test]
    fn blocks_are_the_columns_of_the_weight_and_padding_is_zero() {
        let (n, k) = (41, 37);
        let numbers = || (0..n * k).map(|i| (i % 251) as f32 - 125.0); // exact in every kind
        for (values, half) in [
            (HostValues::F32(numbers().collect()), Half::Bf16),
            (HostValues::F16(numbers().map(f16::from_f32).collect()), Half::F16),
            (HostValues::F16(numbers().map(f16::from_f32).collect()), Half::Bf16),
            (HostValues::Bf16(numbers().map(bf16::from_f32).collect()), Half::Bf16),
        ] {
            let panels = HalfPanels::from_tensor(&HostTensor { values, rows: n, columns: k }, half).expect("enough memory");
            let expected = numbers().collect::<Vec<_>>();
            for (first, depth) in [(0, 37), (2, 35), (36, 1)] {
                let mut wide = vec![f32::NAN; 38 * PANEL];
                for (panel, used) in [(0, 32), (1, 9)] {
                    let widened = Widened(&panels);
                    let block = widened.block::<Portable>(panel, first, depth, &mut wide);
                    for (l, line) in block.chunks_exact(PANEL).enumerate() {
                        let columns: Vec<f32> = (0..used).map(|j| expected[(panel * PANEL + j) * k + first + l]).collect();
                        assert_eq!((&line[..used], line[used..].iter().all(|&x| x == 0.0)), (&columns[..], true));
                    }
                }
            }
            assert_eq!(panels.panel(0, 0).len(), 32 * PANEL, "37 numbers are 19 pairs, in two lines of 16");
            assert!(panels.panel(0, 19).iter().all(|&pair| pair.to_bits() == 0));
        }
    }
}
