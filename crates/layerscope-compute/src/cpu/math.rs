//! Elementary functions that vectorize: no branches, no tables, every product-sum an explicit fused multiply-add, so that all
//! instruction sets give the same bits. Coefficients are minimax fits made for these ranges.

use crate::Activation;

/// `e^x` within 2 ulp; below -87 it goes to zero, above 88 it stays finite.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, clamped));
    let p = 0.001_394_112_1_f32;
    let p = p.mul_add(r, 0.008_363_18);
    let p = p.mul_add(r, 0.041_666_374);
    let p = p.mul_add(r, 0.166_665_76);
    let p = p.mul_add(r, 0.5);
    let p = (r * r).mul_add(p, r) + 1.0;
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    let value = p * two_to_n;
    if x < -87.0 { 0.0 } else { value }
}

/// The error function, absolute error below 1e-7.
#[inline(always)]
#[allow(clippy::approx_constant)] // a fitted coefficient, an ulp away from 2/sqrt(pi)
pub fn erf(x: f32) -> f32 {
    let t = x.abs().min(4.0);
    let s = t * t;
    // |x| <= 1: x P(x^2).
    let p = 7.889_123e-5_f32;
    let p = p.mul_add(s, -8.020_842e-4);
    let p = p.mul_add(s, 5.189_535_7e-3);
    let p = p.mul_add(s, -0.026_854_444);
    let p = p.mul_add(s, 0.112_836);
    let p = p.mul_add(s, -0.376_126_26);
    let p = p.mul_add(s, 1.128_379_1);
    let near = p * t;
    // 1 < |x|: 1 - exp(-Q(|x|)).
    let q = -2.512_896_6e-7_f32;
    let q = q.mul_add(t, 2.531_429e-5);
    let q = q.mul_add(t, -4.637_849e-4);
    let q = q.mul_add(t, 4.282_372e-3);
    let q = q.mul_add(t, -0.025_373_533);
    let q = q.mul_add(t, 0.108_638_97);
    let q = q.mul_add(t, 0.633_039_65);
    let q = q.mul_add(t, 1.129_661_2);
    let q = q.mul_add(t, -2.043_58e-4);
    let far = 1.0 - exp(-q);
    let magnitude = if t <= 1.0 { near } else { far };
    magnitude.copysign(x)
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

/// Applies an activation to a run of values.
#[inline(always)]
pub fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::GeluErf => each(values, gelu_erf),
        Activation::GeluTanh => each(values, gelu_tanh),
        Activation::GeluQuick => each(values, |x| x * sigmoid(1.702 * x)),
        Activation::Relu => each(values, |x| x.max(0.0)),
        Activation::ReluSquared => each(values, |x| x.max(0.0) * x.max(0.0)),
        Activation::Silu => each(values, |x| x * sigmoid(x)),
        Activation::Tanh => each(values, tanh),
    }
}

#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    let half = 0.5 * x;
    half.mul_add(erf(x * std::f32::consts::FRAC_1_SQRT_2), half)
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let inner = SQRT_2_OVER_PI * (0.044_715 * x * x).mul_add(x, x);
    let half = 0.5 * x;
    half.mul_add(tanh(inner), half)
}

#[inline(always)]
fn each(values: &mut [f32], function: impl Fn(f32) -> f32) {
    for value in values {
        *value = function(*value);
    }
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
    fn functions_are_accurate() {
        assert!(worst(-86_000..88_000, 1e-3, exp, f64::exp, true) < 2e-7);
        assert!(worst(-60_000..60_000, 1e-4, erf, reference::erf, false) < 1.2e-7);
        assert!(worst(1..120_000, 1e-4, tanh, f64::tanh, true) < 4e-7);
        assert_eq!(exp(-200.0), 0.0);
        assert!(exp(f32::INFINITY).is_finite());
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
                activate(activation, &mut value);
                let exact = reference::activation(activation, x as f64);
                assert!((value[0] as f64 - exact).abs() <= 5e-7 * exact.abs().max(1.0), "{activation:?}({x}) = {} not {exact}", value[0]);
            }
        }
    }
}
