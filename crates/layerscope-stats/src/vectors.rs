//! Sums over the components of vectors, in sixteen fixed lanes: the same bits on every instruction set.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use crate::kernels::{LANES, fold, fused};

/// ||a - b||^2.
pub(crate) fn square_distance(isa: Isa, a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    square_distance_of(isa, a, b, &mut sum);
    sum
}

/// ||a + b||^2.
pub(crate) fn square_sum(isa: Isa, a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    square_sum_of(isa, a, b, &mut sum);
    sum
}

/// ||a||^2.
pub(crate) fn square_norm(isa: Isa, a: &[f64]) -> f64 {
    let mut sum = 0.0;
    square_norm_of(isa, a, &mut sum);
    sum
}

/// ||a - b||^2 in f64 of f32 vectors.
pub(crate) fn square_distance_f32(isa: Isa, a: &[f32], b: &[f32]) -> f64 {
    let mut sum = 0.0;
    square_distance_of_f32(isa, a, b, &mut sum);
    sum
}

for_each_isa! {
    fn square_distance_of = square_distance_body; (a: &[f64], b: &[f64], sum: &mut f64)
}

#[inline(always)]
fn square_distance_body(a: &[f64], b: &[f64], sum: &mut f64) {
    *sum = lane_sum(a, b, |x, y| (x - y) * (x - y));
}

for_each_isa! {
    fn square_sum_of = square_sum_body; (a: &[f64], b: &[f64], sum: &mut f64)
}

#[inline(always)]
fn square_sum_body(a: &[f64], b: &[f64], sum: &mut f64) {
    *sum = lane_sum(a, b, |x, y| (x + y) * (x + y));
}

for_each_isa! {
    fn square_norm_of = square_norm_body; (a: &[f64], sum: &mut f64)
}

#[inline(always)]
fn square_norm_body(a: &[f64], sum: &mut f64) {
    *sum = lane_sum(a, a, |x, _| x * x);
}

for_each_isa! {
    fn square_distance_of_f32 = square_distance_f32_body; (a: &[f32], b: &[f32], sum: &mut f64)
}

#[inline(always)]
fn square_distance_f32_body(a: &[f32], b: &[f32], sum: &mut f64) {
    *sum = lane_sum(a, b, |x, y| (f64::from(x) - f64::from(y)) * (f64::from(x) - f64::from(y)));
}

#[inline(always)]
fn lane_sum<T: Copy>(a: &[T], b: &[T], term: impl Fn(T, T) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (x, y) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] += term(x[l], y[l]);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += term(*x, *y);
    }
    fold(lanes)
}

for_each_isa! {
    /// Inner products of all pairs of rows of `dim` components: `gram[i * rows + j]`.
    pub(crate) fn row_products = row_products_body; (rows: &[f64], dim: usize, gram: &mut [f64])
}

#[inline(always)]
fn row_products_body(rows: &[f64], dim: usize, gram: &mut [f64]) {
    const TOGETHER: usize = 4;
    let count = rows.len() / dim;
    let row = |at: usize| &rows[at * dim..][..dim];
    for i in 0..count {
        for first in (i..count).step_by(TOGETHER) {
            // Rows beyond the last are the last again.
            let others: [&[f64]; TOGETHER] = std::array::from_fn(|k| row((first + k).min(count - 1)));
            let products = four_products(row(i), others);
            for (j, product) in (first..count).zip(products) {
                gram[i * count + j] = product;
                gram[j * count + i] = product;
            }
        }
    }
}

/// Products of one row with four, each in sixteen lanes of fused multiply-adds.
#[inline(always)]
fn four_products(a: &[f64], others: [&[f64]; 4]) -> [f64; 4] {
    let (strips, rest) = a.as_chunks::<LANES>();
    let [b, c, d, e] = others.map(|other| &other.as_chunks::<LANES>().0[..strips.len()]);
    // Four names instead of an array of four: the compiler keeps them in registers.
    let (mut ab, mut ac, mut ad, mut ae) = ([0.0f64; LANES], [0.0f64; LANES], [0.0f64; LANES], [0.0f64; LANES]);
    for s in 0..strips.len() {
        let x = strips[s];
        ab = fused(x, b[s], ab);
        ac = fused(x, c[s], ac);
        ad = fused(x, d[s], ad);
        ae = fused(x, e[s], ae);
    }
    let tail = a.len() - rest.len();
    let mut lanes = [ab, ac, ad, ae];
    std::array::from_fn(|k| {
        for l in 0..rest.len() {
            lanes[k][l] = rest[l].mul_add(others[k][tail + l], lanes[k][l]);
        }
        fold(lanes[k])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_their_definition_with_the_same_bits_on_every_instruction_set() {
        for dim in [1, 15, 16, 53] {
            let rows: Vec<f64> = (0..6 * dim).map(|at| ((at * 7919 % 1000) as f64).sin()).collect();
            let row = |at: usize| &rows[at * dim..][..dim];
            let sum = |term: &dyn Fn(f64, f64) -> f64| row(1).iter().zip(row(4)).map(|(x, y)| term(*x, *y)).sum::<f64>();
            let mut seen: Option<Vec<f64>> = None;
            for isa in Isa::available() {
                let mut gram = vec![0.0; 36];
                row_products(isa, &rows, dim, &mut gram);
                for (at, product) in gram.iter().enumerate() {
                    let exact: f64 = row(at / 6).iter().zip(row(at % 6)).map(|(x, y)| x * y).sum();
                    assert!((product - exact).abs() < 1e-12);
                }
                let narrow: Vec<f32> = rows.iter().map(|x| *x as f32).collect();
                let (apart, together) = (square_distance(isa, row(1), row(4)), square_sum(isa, row(1), row(4)));
                let apart_f32 = square_distance_f32(isa, &narrow[dim..2 * dim], &narrow[4 * dim..5 * dim]);
                assert!((apart - sum(&|x, y| (x - y).powi(2))).abs() < 1e-12);
                assert!((apart_f32 - apart).abs() < 1e-5);
                assert!((together - sum(&|x, y| (x + y).powi(2))).abs() < 1e-12);
                assert!((square_norm(isa, row(1)) - sum(&|x, _| x * x)).abs() < 1e-12);
                gram.extend([apart, together, apart_f32, square_norm(isa, row(1))]);
                assert!(seen.as_ref().is_none_or(|seen| *seen == gram), "{isa:?}");
                seen = Some(gram);
            }
        }
    }
}
