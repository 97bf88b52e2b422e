//! Components that stand out of their states.

use super::{Mergeable, Preparation, Sketch, SketchShape, Tensors};
use crate::error::Result;
use crate::rows::BatchRows;

/// A massive component is larger than this,
const LARGE: f32 = 100.0;
/// and larger than so many times the median of its state (Sun et al. 2024).
const ABOVE_MEDIAN: f32 = 1000.0;

/// How many components are massive: |a| > 100 and |a| > 1,000 times the median |a| of the state (Sun et al. 2024).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peaks {
    all: Counts,
    typical: Counts,
}

/// Massive components, and states that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Massive components.
    pub components: u64,
    /// States.
    pub states: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.components += other.components;
        self.states += other.states;
    }
}

impl Peaks {
    /// In all states.
    pub fn all(&self) -> Counts {
        self.all
    }

    /// In states whose norm is not massive.
    pub fn typical(&self) -> Counts {
        self.typical
    }
}

/// The massive components of a state; `space` is used for its sizes.
fn massive_components(state: &[f32], space: &mut Vec<f32>) -> u64 {
    if !state.iter().any(|a| a.abs() > LARGE) {
        return 0;
    }
    space.clear();
    space.extend(state.iter().map(|a| a.abs()));
    let median = median(space);
    let massive = |a: &&f32| a.abs() > LARGE && f64::from(a.abs()) > f64::from(ABOVE_MEDIAN) * median;
    state.iter().filter(massive).count() as u64
}

/// The middle value; the mean of the two middle ones of an even number.
fn median(values: &mut [f32]) -> f64 {
    let (middle, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f32::total_cmp);
    let lower = below.iter().copied().max_by(f32::total_cmp).filter(|_| is_even);
    lower.map_or(f64::from(upper), |lower| 0.5 * (f64::from(lower) + f64::from(upper)))
}

/// What a batch contributes. Reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct BatchPeaks {
    peaks: Peaks,
    space: Vec<f32>,
}

impl Sketch for Peaks {
    type Prepared = BatchPeaks;

    fn empty(_: &SketchShape) -> Option<Peaks> {
        Some(Peaks::default())
    }

    fn emptied(&self) -> Peaks {
        Peaks::default()
    }

    fn prepare(prepared: &mut BatchPeaks, batch: &mut Preparation<'_>) -> Result<()> {
        prepared.peaks = Peaks::default();
        for &row in batch.batch.segments().counted() {
            // No component is larger than the norm.
            let components = match batch.batch.exceeds(row, f64::from(LARGE)) {
                true => massive_components(batch.batch.state(row), &mut prepared.space),
                false => 0,
            };
            let found = Counts { components, states: 1 };
            prepared.peaks.all.add(found);
            if !batch.batch.exceeds(row, batch.threshold()) {
                prepared.peaks.typical.add(found);
            }
        }
        Ok(())
    }

    fn update(&mut self, prepared: &BatchPeaks, _: &BatchRows<'_>) -> Result<()> {
        self.merge(&prepared.peaks)
    }

    fn bytes(_: &SketchShape) -> usize {
        size_of::<Peaks>()
    }
}

impl Mergeable for Peaks {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.all.add(other.all);
        self.typical.add(other.typical);
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("counts", &[4], vec![self.all.components, self.all.states, self.typical.components, self.typical.states]);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let counts = tensors.take_u64("counts", &[4])?;
        let of = |at: usize| Counts { components: counts[at], states: counts[at + 1] };
        Ok(Peaks { all: of(0), typical: of(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn massive_components_are_large_and_far_above_the_median() {
        let count = |state: &[f32]| massive_components(state, &mut Vec::new());
        assert_eq!(count(&[0.1, -0.1, 0.1, 101.0, -101.0]), 2);
        assert_eq!(count(&[0.001, 0.001, 0.001, 99.0]), 0, "not large");
        assert_eq!(count(&[1.0, 1.0, 1.0, 999.0]), 0, "not far above");
        // Median 0.55 of an even number: 500 is less than 1,000 times that, 551 is more.
        assert_eq!([500.0, 551.0].map(|peak| count(&[0.1, 1.0, -0.05, peak])), [0, 1]);
    }
}
