//! Elementary functions that vectorize: no branches, no tables, every product-sum an explicit fused multiply-add, so that all
//! instruction sets give the same bits. Coefficients are minimax fits made for these ranges.

use crate::Activation;

/// `e^x` within 2 ulp; below -87 it goes to zero, above 88 it stays finite.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let value = exp_in_range(x.clamp(-87.0, 88.0));
    if x < -87.0 { 0.0 } else { value }
}

/// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// `e^x` for arguments known to lie within -87 to 88.
#[inline(always)]
fn exp_in_range(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let p = 0.001_394_112_1_f32;
    let p = p.mul_add(r, 0.008_363_18);
    let p = p.mul_add(r, 0.041_666_374);
    let p = p.mul_add(r, 0.166_665_76);
    let p = p.mul_add(r, 0.5);
    scale(shifted, (r * r).mul_add(p, r) + 1.0)
}

/// `2^x` for `x <= 0` within 2 ulp; below -125 it is zero.
#[inline(always)]
pub fn exp2_of_negative(x: f32) -> f32 {
    let value = exp2_in_range(x.max(-125.0));
    if x < -125.0 { 0.0 } else { value }
}

/// `2^x` for arguments known to lie within -125 to 127.
#[inline(always)]
fn exp2_in_range(x: f32) -> f32 {
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let p = 0.001_327_417_7_f32;
    let p = p.mul_add(r, 0.009_676_01);
    let p = p.mul_add(r, 0.055_507_302);
    let p = p.mul_add(r, 0.240_221_1);
    let p = p.mul_add(r, 0.693_146_94);
    scale(shifted, p.mul_add(r, 1.000_000_1))
}

/// `2^n p`, where `n` is in the low bits of `shifted`: an addition to the exponent.
#[inline(always)]
fn scale(shifted: f32, p: f32) -> f32 {
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The hyperbolic tangent, within a few ulp.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let t = x.abs();
    let s = t * t;
    let p = TANH[4];
    let p = p.mul_add(s, TANH[3]);
    let p = p.mul_add(s, TANH[2]);
    let p = p.mul_add(s, TANH[1]);
    let p = p.mul_add(s, TANH[0]);
    let near = (p * s).mul_add(t, t);
    let far = 1.0 - 2.0 / (exp(2.0 * t.min(10.0)) + 1.0);
    let magnitude = if t <= 0.625 { near } else { far };
    magnitude.copysign(x)
}

/// Of `(tanh(x) / x - 1) / x^2` in `x^2`, for `|x| <= 0.625`.
const TANH: [f32; 5] = [-0.333_332_84, 0.133_314_91, -0.053_743_497, 0.020_650_588, -0.005_717_045];

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The nearest bfloat16, ties to even.
#[inline(always)]
pub fn to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = f32::from_bits(bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000);
    if x.is_nan() { f32::NAN } else { rounded }
}

/// Something to be done with the function of an activation, whichever it is: the choice is made once, not per value.
pub trait WithFunction {
    /// Does it.
    fn call(self, function: impl Fn(f32) -> f32 + Copy);
}

/// Calls with the activation's function; none is the identity.
#[inline(always)]
pub fn with_activation(activation: Option<Activation>, work: impl WithFunction) {
    match activation {
        None => work.call(|x| x),
        Some(Activation::GeluErf) => work.call(gelu_erf),
        Some(Activation::GeluTanh) => work.call(gelu_tanh),
        Some(Activation::GeluQuick) => work.call(|x| x * sigmoid(1.702 * x)),
        Some(Activation::Relu) => work.call(|x| x.max(0.0)),
        Some(Activation::ReluSquared) => work.call(|x| x.max(0.0) * x.max(0.0)),
        Some(Activation::Silu) => work.call(|x| x * sigmoid(x)),
        Some(Activation::Tanh) => work.call(tanh),
    }
}

/// `values[i] = function(values[i], others[i])`, sixteen at a time by value, which the compiler always vectorizes.
#[inline(always)]
pub fn combine(values: &mut [f32], others: &[f32], function: impl Fn(f32, f32) -> f32) {
    let (chunks, rest) = values.as_chunks_mut::<16>();
    let (other_chunks, other_rest) = others.as_chunks::<16>();
    for (chunk, other) in chunks.iter_mut().zip(other_chunks) {
        let mut result = *chunk;
        for l in 0..16 {
            result[l] = function(result[l], other[l]);
        }
        *chunk = result;
    }
    for (value, other) in rest.iter_mut().zip(other_rest) {
        *value = function(*value, *other);
    }
}

/// `x Phi(x) = max(x, 0) - |x| Phi(-|x|)`, where `Phi(-t) = 2^Q(t)`, and beyond 6 it is 0 in f32.
#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    let t = x.abs();
    let u = t.min(6.0);
    let q = 4.336_34e-6_f32;
    let q = q.mul_add(u, -1.338_583_2e-5);
    let q = q.mul_add(u, -5.735_837e-4);
    let q = q.mul_add(u, 0.007_667_250_5);
    let q = q.mul_add(u, -0.052_947_015);
    let q = q.mul_add(u, -0.459_042_04);
    let q = q.mul_add(u, -1.151_129);
    let q = q.mul_add(u, -0.999_999_46);
    let tail = if t > 6.0 { 0.0 } else { exp2_in_range(q) };
    (-t).mul_add(tail, x.max(0.0))
}

/// `0.5 x (1 + tanh z) = x sigmoid(2 z)`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const TWICE_SQRT_2_OVER_PI: f32 = 1.595_769;
    x * sigmoid(TWICE_SQRT_2_OVER_PI * (0.044_715 * x * x).mul_add(x, x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    fn worst(range: std::ops::Range<i32>, step: f32, ours: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, relative: bool) -> f64 {
        range
            .map(|i| i as f32 * step)
            .map(|x| {
                let (a, b) = (ours(x) as f64, exact(x as f64));
                (a - b).abs() / if relative { b.abs().max(1e-30) } else { 1.0 }
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn rounding_to_bf16_is_to_the_nearest_and_to_even() {
        let numbers = (0..2_000_003u32).map(|i| f32::from_bits(i.wrapping_mul(2147)));
        for x in numbers.chain([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-41]) {
            let expected = half::bf16::from_f32(x).to_f32();
            assert!(to_bf16(x).to_bits() == expected.to_bits() || x.is_nan() && to_bf16(x).is_nan(), "{x:e}");
        }
        assert!(to_bf16(f32::from_bits(0x7fff_ffff)).is_nan());
    }

    #[test]
    fn functions_are_accurate() {
        assert!(worst(-86_000..88_000, 1e-3, exp, f64::exp, true) < 2e-7);
        assert!(worst(-124_000..1, 1e-3, exp2_of_negative, f64::exp2, true) < 2e-7);
        assert_eq!(exp2_of_negative(f32::NEG_INFINITY), 0.0);
        assert!(worst(1..120_000, 1e-4, tanh, f64::tanh, true) < 4e-7);
        assert!(worst(-12_000..12_000, 1e-3, gelu_erf, |x| reference::activation(Activation::GeluErf, x), false) < 3e-7);
        assert_eq!(exp(-200.0), 0.0);
        assert!(exp(f32::INFINITY).is_finite());
    }

    struct Apply<'a>(&'a mut [f32]);

    impl WithFunction for Apply<'_> {
        fn call(self, function: impl Fn(f32) -> f32 + Copy) {
            self.0.iter_mut().for_each(|value| *value = function(*value));
        }
    }

    #[test]
    fn activations_match_their_definitions() {
        for activation in [
            Activation::GeluErf,
            Activation::GeluTanh,
            Activation::GeluQuick,
            Activation::Relu,
            Activation::ReluSquared,
            Activation::Silu,
            Activation::Tanh,
        ] {
            for i in -2000..2000 {
                let x = i as f32 * 0.01;
                let mut value = [x];
                with_activation(Some(activation), Apply(&mut value));
                let exact = reference::activation(activation, x as f64);
                assert!((value[0] as f64 - exact).abs() <= 5e-7 * exact.abs().max(1.0), "{activation:?}({x}) = {} not {exact}", value[0]);
            }
        }
    }
}
