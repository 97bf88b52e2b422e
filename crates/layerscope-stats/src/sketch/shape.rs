//! What a sequence of states looks like: its matrix entropy and its curvature.

use super::by_states::WithTypical;
use super::scatter::mean_of;
use super::{Mergeable, Preparation, Sketch, SketchShape, Tensors, mean_of_means};
use crate::eigen::{eigenvalues, significant};
use crate::error::Result;
use crate::rows::BatchRows;
use crate::vectors::{Step, row_products, square_distance_f32, unit_deviation, unit_steps};

/// States that a sequence must have.
const MIN_STATES: usize = 3;

/// Deviations from the mean below this share of the largest norm are rounding, and count as zero.
const ROUNDING: f64 = 1e-12;

/// Mean over sequences of the matrix entropy and of the curvature, each with the number of sequences that have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeMeans {
    entropies: u64,
    entropy: f64,
    curvatures: u64,
    curvature: f64,
}

impl ShapeMeans {
    /// The mean matrix entropy, and over how many sequences.
    pub fn matrix_entropy(&self) -> (Option<f64>, u64) {
        ((self.entropies > 0).then_some(self.entropy), self.entropies)
    }

    /// The mean curvature in radians, and over how many sequences.
    pub fn curvature(&self) -> (Option<f64>, u64) {
        ((self.curvatures > 0).then_some(self.curvature), self.curvatures)
    }

    /// Adds a sequence: its matrix entropy and its curvature, where it has them.
    fn add_sequence(&mut self, (entropy, curvature): &(Option<f64>, Option<f64>)) {
        entropy.iter().for_each(|entropy| self.add_entropy(*entropy, 1));
        curvature.iter().for_each(|curvature| self.add_curvature(*curvature, 1));
    }

    fn add_entropy(&mut self, mean: f64, sequences: u64) {
        self.entropy = mean_of_means(self.entropy, self.entropies, mean, sequences);
        self.entropies += sequences;
    }

    fn add_curvature(&mut self, mean: f64, sequences: u64) {
        self.curvature = mean_of_means(self.curvature, self.curvatures, mean, sequences);
        self.curvatures += sequences;
    }
}

impl Mergeable for ShapeMeans {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.add_entropy(other.entropy, other.entropies);
        self.add_curvature(other.curvature, other.curvatures);
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("sequences", &[2], vec![self.entropies, self.curvatures]);
        tensors.put_numbers("shape", &[self.entropy, self.curvature]);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let (counts, means) = (tensors.take_u64("sequences", &[2])?, tensors.take_f64("shape", &[2])?);
        Ok(ShapeMeans { entropies: counts[0], entropy: means[0], curvatures: counts[1], curvature: means[1] })
    }
}

/// The shape of sequences, of all states and of the typical ones: massive rows are dropped before a sequence is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceShape(WithTypical<ShapeMeans>);

impl SequenceShape {
    /// Of all states.
    pub fn all(&self) -> &ShapeMeans {
        &self.0.all
    }

    /// Of the typical ones; None where an older program did not keep it.
    pub fn typical(&self) -> Option<&ShapeMeans> {
        self.0.typical.as_ref()
    }
}

/// What a batch contributes to a [`SequenceShape`]: all of the work. Reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct BatchShapes {
    shape: WithTypical<ShapeMeans>,
    space: SequenceSpace,
}

impl Sketch for SequenceShape {
    type Prepared = BatchShapes;

    fn empty(_: &SketchShape) -> Option<SequenceShape> {
        Some(SequenceShape(WithTypical::new()))
    }

    fn emptied(&self) -> SequenceShape {
        SequenceShape(WithTypical::new())
    }

    fn prepare(prepared: &mut BatchShapes, batch: &mut Preparation<'_>) -> Result<()> {
        prepared.shape = WithTypical::new();
        let (BatchShapes { shape, space }, rows) = (prepared, batch.batch);
        shape.update(rows, batch.threshold(), |sequence| space.measure(rows, sequence), ShapeMeans::add_sequence);
        Ok(())
    }

    fn update(&mut self, prepared: &BatchShapes, _: &BatchRows<'_>) -> Result<()> {
        self.0.merge(&prepared.shape)
    }

    fn bytes(_: &SketchShape) -> usize {
        2 * size_of::<ShapeMeans>()
    }
}

impl Mergeable for SequenceShape {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.0.merge(&other.0)
    }

    fn encode(&self) -> Tensors<'_> {
        self.0.encode()
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        WithTypical::decode(tensors).map(SequenceShape)
    }
}

/// Memory for one sequence at a time.
#[derive(Clone, Debug, Default)]
struct SequenceSpace {
    mean: Vec<f64>,
    units: Vec<f64>,
    gram: Vec<f64>,
}

impl SequenceSpace {
    /// Matrix entropy and curvature of a sequence with these counted rows of a batch, where they are defined.
    fn measure(&mut self, batch: &BatchRows, rows: &[u32]) -> (Option<f64>, Option<f64>) {
        match rows.len() < MIN_STATES {
            true => (None, None),
            false => (self.entropy(batch, rows), curvature(batch, rows)),
        }
    }

    /// Von Neumann entropy of the Gram matrix of centred unit rows, divided by its trace, over ln min(N, d) (Skean et al. 2025).
    ///
    /// None where all rows are equal, or with one component.
    fn entropy(&mut self, batch: &BatchRows, rows: &[u32]) -> Option<f64> {
        let (states, dim) = (rows.len(), batch.dim());
        self.centre(batch, rows);
        let kept = self.units.len() / dim;
        if kept == 0 || dim == 1 {
            return None;
        }
        // The Gram matrix of rows and that of components have the same non-zero eigenvalues.
        let side = kept.min(dim);
        self.gram.clear();
        self.gram.resize(side * side, 0.0);
        if kept <= dim {
            row_products(batch.isa(), &self.units, dim, &mut self.gram);
        } else {
            row_products(batch.isa(), &transposed(&self.units, dim), kept, &mut self.gram);
        }
        let trace = kept as f64; // of unit rows
        let shares = significant(eigenvalues(&self.gram, side)?, side);
        let entropy: f64 = shares.iter().filter(|value| **value > 0.0).map(|value| -value / trace * (value / trace).ln()).sum();
        Some(entropy / (states.min(dim) as f64).ln())
    }

    /// Fills `units` with the rows minus their mean, divided by their norms; zero rows are dropped.
    fn centre(&mut self, batch: &BatchRows, rows: &[u32]) {
        let (dim, isa) = (batch.dim(), batch.isa());
        self.mean.resize(dim, 0.0);
        mean_of(isa, batch.states(), rows, &mut self.mean);
        let largest = rows.iter().map(|&row| batch.norms()[row as usize]).fold(0.0, f64::max);
        self.units.resize(rows.len() * dim, 0.0);
        let mut kept = 0;
        for &row in rows {
            let unit = &mut self.units[kept * dim..][..dim];
            kept += usize::from(unit_deviation(isa, batch.state(row), &self.mean, unit) > ROUNDING * largest);
        }
        self.units.truncate(kept * dim);
    }
}

/// Mean angle between successive steps (Hosseini & Fedorenko 2023), steps of length zero left out; None with fewer than two steps.
///
/// With unit steps a and b the angle is 2 atan2(|a - b|, |a + b|): good to the last digit even where the cosine is near 1 (Kahan).
fn curvature(batch: &BatchRows, rows: &[u32]) -> Option<f64> {
    let isa = batch.isa();
    let mut last: Option<Step> = None;
    let (mut sum, mut angles) = (0.0, 0u64);
    for pair in rows.windows(2) {
        let (from, to) = (batch.state(pair[0]), batch.state(pair[1]));
        let length = square_distance_f32(isa, from, to).sqrt();
        if length == 0.0 {
            continue;
        }
        let step = Step { from, to, inverse: 1.0 / length };
        if let Some(last) = last.replace(step) {
            let [apart, together] = unit_steps(isa, last, step);
            sum += 2.0 * apart.sqrt().atan2(together.sqrt());
            angles += 1;
        }
    }
    (angles > 0).then(|| sum / angles as f64)
}

fn transposed(rows: &[f64], dim: usize) -> Vec<f64> {
    (0..dim).flat_map(|i| rows.iter().skip(i).step_by(dim).copied()).collect()
}
