//! Sums over the components of vectors, in fixed lanes: the same bits on every instruction set.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use crate::kernels::{LANES, fold, fused};

/// ||a - b||^2.
pub(crate) fn square_distance(isa: Isa, a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    square_distance_of(isa, a, b, &mut sum);
    sum
}

/// ||a - b||^2 in f64 of f32 vectors.
pub(crate) fn square_distance_f32(isa: Isa, a: &[f32], b: &[f32]) -> f64 {
    let mut sum = 0.0;
    square_distance_of_f32(isa, a, b, &mut sum);
    sum
}

/// ||a - b||^2 in f32 throughout, off by at most (d / 64 + 10) / 2^24 of it.
pub(crate) fn square_distance_narrow(isa: Isa, a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0;
    square_distance_of_narrow(isa, a, b, &mut sum);
    sum
}

/// a.b in f32 throughout.
pub(crate) fn dot_narrow(isa: Isa, a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0;
    dot_of_narrow(isa, a, b, &mut sum);
    sum
}

for_each_isa! {
    fn square_distance_of_narrow = square_distance_narrow_body; (a: &[f32], b: &[f32], sum: &mut f32)
}

#[inline(always)]
fn square_distance_narrow_body(a: &[f32], b: &[f32], sum: &mut f32) {
    *sum = narrow_sum(a, b, |x, y, sum| (x - y).mul_add(x - y, sum));
}

for_each_isa! {
    fn dot_of_narrow = dot_narrow_body; (a: &[f32], b: &[f32], sum: &mut f32)
}

#[inline(always)]
fn dot_narrow_body(a: &[f32], b: &[f32], sum: &mut f32) {
    *sum = narrow_sum(a, b, |x, y, sum| x.mul_add(y, sum));
}

#[inline(always)]
fn narrow_sum(a: &[f32], b: &[f32], add: impl Fn(f32, f32, f32) -> f32) -> f32 {
    /// Four vectors of 16, so that none waits for its last sum.
    const WIDE: usize = 64;
    let mut lanes = [0.0f32; WIDE];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<WIDE>(), b.as_chunks::<WIDE>());
    for (x, y) in a.iter().zip(b) {
        for l in 0..WIDE {
            lanes[l] = add(x[l], y[l], lanes[l]);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = add(*x, *y, *lane);
    }
    let mut width = WIDE;
    while width > 1 {
        width /= 2;
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
    }
    lanes[0]
}

for_each_isa! {
    fn square_distance_of = square_distance_body; (a: &[f64], b: &[f64], sum: &mut f64)
}

#[inline(always)]
fn square_distance_body(a: &[f64], b: &[f64], sum: &mut f64) {
    *sum = lane_sum(a, b, |x, y| (x - y) * (x - y));
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

/// Writes `(x - center) / ||x - center||` and returns that norm; of a zero deviation nothing useful is written.
pub(crate) fn unit_deviation(isa: Isa, x: &[f32], center: &[f64], unit: &mut [f64]) -> f64 {
    let mut norm = 0.0;
    unit_deviation_of(isa, x, center, unit, &mut norm);
    norm
}

for_each_isa! {
    fn unit_deviation_of = unit_deviation_body; (x: &[f32], center: &[f64], unit: &mut [f64], norm: &mut f64)
}

#[inline(always)]
fn unit_deviation_body(x: &[f32], center: &[f64], unit: &mut [f64], norm: &mut f64) {
    for ((unit, &x), center) in unit.iter_mut().zip(x).zip(center) {
        *unit = f64::from(x) - center;
    }
    *norm = lane_sum(unit, unit, |x, _| x * x).sqrt();
    let inverse = 1.0 / *norm;
    unit.iter_mut().for_each(|x| *x *= inverse);
}

/// From one state to another.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub from: &'a [f32],
    pub to: &'a [f32],
    /// 1 / ||to - from||.
    pub inverse: f64,
}

/// ||a - b||^2 and ||a + b||^2 of the unit vectors of two steps.
pub(crate) fn unit_steps(isa: Isa, a: Step, b: Step) -> [f64; 2] {
    let mut sums = [0.0; 2];
    unit_steps_of(isa, a, b, &mut sums);
    sums
}

for_each_isa! {
    fn unit_steps_of = unit_steps_body; (a: Step, b: Step, sums: &mut [f64; 2])
}

#[inline(always)]
fn unit_steps_body(a: Step, b: Step, sums: &mut [f64; 2]) {
    let (mut apart, mut together) = ([0.0; LANES], [0.0; LANES]);
    let mut add = |lane: usize, [a0, a1, b0, b1]: [f32; 4]| {
        let (x, y) = ((f64::from(a1) - f64::from(a0)) * a.inverse, (f64::from(b1) - f64::from(b0)) * b.inverse);
        apart[lane] = (x - y).mul_add(x - y, apart[lane]);
        together[lane] = (x + y).mul_add(x + y, together[lane]);
    };
    let [(a0, a0_rest), (a1, a1_rest), (b0, b0_rest), (b1, b1_rest)] = [a.from, a.to, b.from, b.to].map(<[f32]>::as_chunks::<LANES>);
    for (((a0, a1), b0), b1) in a0.iter().zip(a1).zip(b0).zip(b1) {
        for l in 0..LANES {
            add(l, [a0[l], a1[l], b0[l], b1[l]]);
        }
    }
    for (l, (((&a0, &a1), &b0), &b1)) in a0_rest.iter().zip(a1_rest).zip(b0_rest).zip(b1_rest).enumerate() {
        add(l, [a0, a1, b0, b1]);
    }
    *sums = [fold(apart), fold(together)];
}

for_each_isa! {
    /// Inner products of all pairs of rows of `dim` components: `gram[i * rows + j]`.
    pub(crate) fn row_products = row_products_body; (rows: &[f64], dim: usize, gram: &mut [f64])
}

#[inline(always)]
fn row_products_body(rows: &[f64], dim: usize, gram: &mut [f64]) {
    const LEFT: usize = 2;
    const RIGHT: usize = 4;
    let count = rows.len() / dim;
    // Rows beyond the last are the last again.
    let row = |at: usize| &rows[at.min(count - 1) * dim..][..dim];
    for i in (0..count).step_by(LEFT) {
        for j in (i..count).step_by(RIGHT) {
            let products = eight_products([row(i), row(i + 1)], [row(j), row(j + 1), row(j + 2), row(j + 3)]);
            for (i, products) in (i..count).zip(products) {
                for (j, product) in (j..count).zip(products) {
                    gram[i * count + j] = product;
                    gram[j * count + i] = product;
                }
            }
        }
    }
}

/// Lanes of a product of two rows: few, so that the sums of eight products stay in registers.
const PRODUCT_LANES: usize = 8;

/// Products of two rows with four, each in lanes of fused multiply-adds.
#[inline(always)]
fn eight_products(left: [&[f64]; 2], right: [&[f64]; 4]) -> [[f64; 4]; 2] {
    let strips = left[0].len() / PRODUCT_LANES;
    let [a, b] = left.map(|row| &row.as_chunks::<PRODUCT_LANES>().0[..strips]);
    let [c, d, e, f] = right.map(|row| &row.as_chunks::<PRODUCT_LANES>().0[..strips]);
    // Eight names instead of an array of eight: the compiler keeps them in registers.
    let zeros = [0.0f64; PRODUCT_LANES];
    let (mut ac, mut ad, mut ae, mut af) = (zeros, zeros, zeros, zeros);
    let (mut bc, mut bd, mut be, mut bf) = (zeros, zeros, zeros, zeros);
    for s in 0..strips {
        (ac, bc) = (fused(a[s], c[s], ac), fused(b[s], c[s], bc));
        (ad, bd) = (fused(a[s], d[s], ad), fused(b[s], d[s], bd));
        (ae, be) = (fused(a[s], e[s], ae), fused(b[s], e[s], be));
        (af, bf) = (fused(a[s], f[s], af), fused(b[s], f[s], bf));
    }
    let lanes = [[ac, ad, ae, af], [bc, bd, be, bf]];
    let mut products = [[0.0; 4]; 2];
    for (i, left) in left.iter().enumerate() {
        for (j, right) in right.iter().enumerate() {
            let mut lanes = lanes[i][j];
            let rest = strips * PRODUCT_LANES..left.len();
            lanes.iter_mut().zip(&left[rest.clone()]).zip(&right[rest]).for_each(|((lane, x), y)| *lane = x.mul_add(*y, *lane));
            products[i][j] = fold(lanes);
        }
    }
    products
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
                let apart = square_distance(isa, row(1), row(4));
                let apart_f32 = square_distance_f32(isa, &narrow[dim..2 * dim], &narrow[4 * dim..5 * dim]);
                assert!((apart - sum(&|x, y| (x - y).powi(2))).abs() < 1e-12);
                assert!((apart_f32 - apart).abs() < 1e-5);
                gram.extend([apart, apart_f32]);
                let (origin, mut unit) = (row(2), vec![0.0; dim]);
                let norm = unit_deviation(isa, &narrow[..dim], origin, &mut unit);
                let exact: f64 = narrow[..dim].iter().zip(origin).map(|(&x, y)| (f64::from(x) - y).powi(2)).sum();
                assert!((norm * norm - exact).abs() < 1e-12);
                for ((&x, y), unit) in narrow.iter().zip(origin).zip(&unit) {
                    assert!((unit * norm - (f64::from(x) - y)).abs() < 1e-14);
                }
                let step =
                    |from: usize, to: usize, inverse| Step { from: &narrow[from * dim..][..dim], to: &narrow[to * dim..][..dim], inverse };
                let [minus, plus] = unit_steps(isa, step(0, 1, 0.5), step(3, 5, 2.0));
                let steps = |sign: f64| -> f64 {
                    let at = |row: usize, l: usize| f64::from(narrow[row * dim + l]);
                    (0..dim).map(|l| ((at(1, l) - at(0, l)) * 0.5 + sign * (at(5, l) - at(3, l)) * 2.0).powi(2)).sum()
                };
                assert!((minus - steps(-1.0)).abs() < 1e-11 && (plus - steps(1.0)).abs() < 1e-11);
                gram.extend(unit.into_iter().chain([norm, minus, plus]));
                assert!(seen.as_ref().is_none_or(|seen| *seen == gram), "{isa:?}");
                seen = Some(gram);
            }
        }
    }
}
