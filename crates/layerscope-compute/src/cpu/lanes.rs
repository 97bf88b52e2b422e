//! Reductions in sixteen fixed lanes: vectorizable, and the same order of additions everywhere.

const LANES: usize = 16;

/// Sum of `term(x)` over the values.
#[inline(always)]
pub fn sum(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            lanes[l] += term(chunk[l]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += term(x);
    }
    fold(lanes, |a, b| a + b)
}

/// Replaces every value by `function(value)` and sums the results. The values must be whole groups of sixteen.
#[inline(always)]
pub fn replace_and_sum(values: &mut [f32], function: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for chunk in values.as_chunks_mut::<LANES>().0 {
        for l in 0..LANES {
            chunk[l] = function(chunk[l]);
            lanes[l] += chunk[l];
        }
    }
    fold(lanes, |a, b| a + b)
}

/// The largest value; negative infinity for none.
#[inline(always)]
pub fn max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for l in 0..LANES {
            lanes[l] = larger(chunk[l], lanes[l]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(x, *lane);
    }
    fold(lanes, larger)
}

/// Halves the lanes until one is left.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] = join(lanes[l], lanes[l + width]);
        }
        width /= 2;
    }
    lanes[0]
}
