//! Positions: rotary angles, ALiBi slopes, and bucketed distances.

use layerscope_compute::PositionBias;

use crate::batch::Batch;
use crate::spec::{BiasSpec, RotaryScaling, RotarySpec};

/// Cosines and sines for every row of a batch, `dim / 2` a row.
pub(crate) fn rotary_angles(spec: &RotarySpec, batch: &Batch, cos: &mut Vec<f32>, sin: &mut Vec<f32>) {
    cos.clear();
    sin.clear();
    if matches!(spec.scaling, RotaryScaling::Dynamic { .. }) {
        for range in batch.ranges() {
            let frequencies = rotary_frequencies(spec, range.len());
            batch.positions()[range].iter().for_each(|&position| push_angles(&frequencies, position, cos, sin));
        }
        return;
    }
    let frequencies = rotary_frequencies(spec, 0);
    // Sequences share their positions: the angles of each are computed once, and copied.
    let (mut all_cos, mut all_sin) = (Vec::new(), Vec::new());
    for &position in batch.positions() {
        let row = position as usize * frequencies.len()..(position as usize + 1) * frequencies.len();
        while all_cos.len() < row.end {
            push_angles(&frequencies, (all_cos.len() / frequencies.len()) as u32, &mut all_cos, &mut all_sin);
        }
        cos.extend_from_slice(&all_cos[row.clone()]);
        sin.extend_from_slice(&all_sin[row]);
    }
}

fn push_angles(frequencies: &[f32], position: u32, cos: &mut Vec<f32>, sin: &mut Vec<f32>) {
    for frequency in frequencies {
        let (s, c) = (position as f32 * frequency).sin_cos();
        cos.push(c);
        sin.push(s);
    }
}

/// `1 / base^(2i / dim)`, stretched. In f32 and in the reference library's order of operations: an ulp here is turned by
/// the position into a visible angle.
fn rotary_frequencies(spec: &RotarySpec, length: usize) -> Vec<f32> {
    let base = match spec.scaling {
        RotaryScaling::Dynamic { factor, trained } if length > trained => {
            let stretch = (factor as f64 * length as f64 / trained as f64) - (factor as f64 - 1.0);
            (spec.base as f64 * stretch.powf(spec.dim as f64 / (spec.dim as f64 - 2.0))) as f32
        }
        _ => spec.base,
    };
    let plain = (0..spec.dim / 2).map(|i| 1.0 / base.powf((2 * i) as f32 / spec.dim as f32));
    match spec.scaling {
        RotaryScaling::None | RotaryScaling::Dynamic { .. } => plain.collect(),
        RotaryScaling::Each { ref factors } => plain.zip(factors).map(|(frequency, factor)| frequency / factor).collect(),
        RotaryScaling::Linear { factor } => plain.map(|frequency| frequency / factor).collect(),
        RotaryScaling::Llama3 { factor, low, high, trained } => plain
            .map(|frequency| {
                let wavelength = 2.0 * std::f32::consts::PI / frequency;
                if wavelength < trained as f32 / high {
                    frequency
                } else if wavelength > trained as f32 / low {
                    frequency / factor
                } else {
                    let smooth = (trained as f32 / wavelength - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            })
            .collect(),
    }
}

/// The score bias of one block. `table` is the learned table of bucketed distances.
pub(crate) fn position_bias(spec: &BiasSpec, heads: usize, scale: f32, table: Option<&[f32]>) -> PositionBias {
    match *spec {
        BiasSpec::Alibi { rounded_to_bf16, scaled_with_scores } => {
            PositionBias::Alibi { slopes: alibi_slopes(heads), rounded_to_bf16, scale: if scaled_with_scores { scale } else { 1.0 } }
        }
        BiasSpec::Buckets { buckets, max_distance, .. } => {
            let table = table.unwrap_or_default();
            let reach = max_distance as isize;
            let distances = (-reach..=reach).map(|distance| bucket(distance, buckets, max_distance)).collect::<Vec<_>>();
            let values = (0..heads).flat_map(|head| distances.iter().map(move |bucket| table[bucket * heads + head])).collect();
            PositionBias::Relative { values, reach: max_distance }
        }
    }
}

/// Geometric slopes: `2^(-8 i / n)` for `n` a power of two; other counts take every second slope of the next one.
fn alibi_slopes(heads: usize) -> Vec<f32> {
    let powers = |base: f64, exponents: &mut dyn Iterator<Item = usize>| -> Vec<f32> {
        let base = base as f32 as f64;
        exponents.map(|exponent| base.powi(exponent as i32) as f32).collect()
    };
    let base = |count: usize| 2f64.powf(-(2f64.powf(-((count as f64).log2() - 3.0))));
    let whole = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let mut slopes = powers(base(whole), &mut (1..=whole));
    slopes.extend(powers(base(2 * whole), &mut (1..).step_by(2).take(heads - whole)));
    slopes
}

/// The bucket of `key - query`: exact for near ones, logarithmic up to `max_distance`, the upper half for keys ahead.
fn bucket(distance: isize, buckets: usize, max_distance: usize) -> usize {
    let half = buckets / 2;
    let exact = half / 2;
    let ahead = if distance > 0 { half } else { 0 };
    let distance = distance.unsigned_abs();
    if distance < exact {
        return ahead + distance;
    }
    let logarithm = (distance as f32 / exact as f32).ln() / ((max_distance as f64 / exact as f64).ln() as f32);
    ahead + (exact + (logarithm * (half - exact) as f32) as usize).min(half - 1)
}

#[cfg(test)]
mod tests {
    use layerscope_compute::RotaryPairs;

    use super::*;

    #[test]
    fn slopes_follow_the_published_rule() {
        assert_eq!(alibi_slopes(8)[..3], [0.5, 0.25, 0.125]);
        let twelve = alibi_slopes(12);
        assert_eq!(twelve.len(), 12);
        assert_eq!(twelve[7], 1.0 / 256.0);
        assert!((twelve[8] - 2f32.powf(-0.5)).abs() < 1e-7 && (twelve[9] - 2f32.powf(-1.5)).abs() < 1e-7);
    }

    #[test]
    fn a_row_of_angles_is_that_of_its_position() {
        let spec = RotarySpec { base: 10_000.0, dim: 6, pairs: RotaryPairs::Halves, scaling: RotaryScaling::None };
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        rotary_angles(&spec, &Batch::pack([vec![5, 1, 6], vec![8, 9, 1, 1]]), &mut cos, &mut sin);
        let frequencies = rotary_frequencies(&spec, 0);
        let angle = |position: usize, i: usize| (position as f32 * frequencies[i]).sin_cos();
        let rows = [0, 1, 2, 0, 1, 2, 3].into_iter().flat_map(|position| (0..3).map(move |i| angle(position, i)));
        let (expected_sin, expected_cos): (Vec<f32>, Vec<f32>) = rows.unzip();
        assert_eq!((cos, sin), (expected_cos, expected_sin));
    }

    #[test]
    fn buckets_are_exact_near_and_saturate_far() {
        assert_eq!((-3..=3).map(|distance| bucket(distance, 32, 128)).collect::<Vec<_>>(), [3, 2, 1, 0, 17, 18, 19]);
        assert_eq!(bucket(-127, 32, 128), 15);
        assert_eq!(bucket(-500, 32, 128), 15);
        assert_eq!(bucket(500, 32, 128), 31);
    }
}
