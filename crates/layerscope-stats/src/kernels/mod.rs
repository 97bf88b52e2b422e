//! The inner loops: blocks of components over the rows of a chunk, sums in f64.
//!
//! Every loop is compiled for each instruction set. Multiply-adds are fused on all of them, and sums across components go in sixteen
//! fixed lanes, so all of them give the same bits.

mod corpus;
mod group;
mod norms;
mod passes;
mod plain;
mod products;
mod sums;

pub(crate) use corpus::{CorpusVectors, absorb_both, absorb_corpus};
pub(crate) use group::{GroupVectors, absorb_group, merge_group};
pub(crate) use norms::square_norms;
pub(crate) use plain::{PlainSums, absorb_plain, add_plain};
pub(crate) use products::{SumProducts, sum_products};

use std::ops::Range;

/// Components per strip: one cache line of f32, and few enough f64 sums to live in registers.
pub(crate) const LANES: usize = 16;

/// Components whose sums are taken together: they stay in the first-level cache while the rows pass by.
const BLOCK: usize = 256;

#[inline]
fn blocks(dim: usize) -> impl Iterator<Item = Range<usize>> {
    (0..dim).step_by(BLOCK).map(move |start| start..dim.min(start + BLOCK))
}

/// How new rows enter a running mean.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    /// 1 / n_b, of the rows that enter.
    pub each: f64,
    /// n_b / (n_a + n_b).
    pub share: f64,
    /// n_a n_b / (n_a + n_b).
    pub cross: f64,
    /// 1 / (non-zero rows that enter), and their share; 0 if none do.
    pub each_unit: f64,
    pub unit_share: f64,
}

impl Weights {
    /// For `n` rows, of which `units` are non-zero, joining `before.0` rows, of which `before.1` are non-zero.
    pub fn new(before: (u64, u64), n: u64, units: u64) -> Weights {
        let (a, b) = (before.0 as f64, n as f64);
        let share = b / (a + b);
        let unit_share = if units == 0 { 0.0 } else { units as f64 / (before.1 + units) as f64 };
        Weights { each: 1.0 / b, share, cross: a * share, each_unit: 1.0 / units.max(1) as f64, unit_share }
    }
}

/// Asks for a line of memory: at once, or soon.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T, at_once: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
        unsafe {
            match at_once {
                true => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
                false => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, at_once);
}

#[inline(always)]
fn plus<const W: usize>(mut x: [f64; W], y: [f64; W]) -> [f64; W] {
    for l in 0..W {
        x[l] += y[l];
    }
    x
}

/// `x y + sum`, rounded once.
#[inline(always)]
pub(crate) fn fused<const W: usize>(x: [f64; W], y: [f64; W], mut sum: [f64; W]) -> [f64; W] {
    for l in 0..W {
        sum[l] = x[l].mul_add(y[l], sum[l]);
    }
    sum
}

/// Halves the lanes until one is left.
#[inline(always)]
pub(crate) fn fold<const W: usize>(mut lanes: [f64; W]) -> f64 {
    let mut width = W / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}
