//! Summaries of streams of states that can be merged and stored.
//!
//! Averages are kept as running means, not as sums: a mean of near-identical rows does not drift however many there are, while
//! a plain sum collects the same rounding error again and again.

mod blocks;
mod corpus;
mod covariance;
mod lenses;
mod moments;
mod pairs;
mod point;
mod sample;
mod scatter;
mod sequences;
mod shape;
mod sparse;
mod tensor;

pub use blocks::{BLOCKS, DocumentBlocks};
pub use corpus::CorpusMoments;
pub use covariance::{BatchCovariance, Covariance};
pub use lenses::{LensSpace, Lenses, SketchSet};
pub use moments::{Group, GroupMoments};
pub use pairs::Pairs;
pub use point::{PointSketch, StatesView};
pub use sample::{HashSample, Kept, SampleKey, TokenSamples, sample_hash};
pub use scatter::{CentredRows, Scatter};
pub use sequences::SequenceSimilarity;
pub use shape::SequenceShape;
pub use sparse::SparseGroupMoments;
pub use tensor::{Tensor, Tensors, Values};

use crate::error::{Error, Result};

/// What every sketch can do beside taking rows.
pub trait Sketch: Sized {
    /// Adds what another sketch of the same kind has seen.
    fn merge(&mut self, other: &Self) -> Result<()>;

    /// Everything it knows, as named tensors.
    fn tensors(&self) -> Tensors<'_>;

    /// The inverse of [`Sketch::tensors`], to the bit. Takes its tensors out of `tensors`.
    fn from_tensors(tensors: &mut Tensors<'_>) -> Result<Self>;
}

/// The mean of two means, of `n_a` and `n_b` things.
fn mean_of_means(a: f64, n_a: u64, b: f64, n_b: u64) -> f64 {
    if n_b == 0 { a } else { a + (b - a) * (n_b as f64 / (n_a + n_b) as f64) }
}

/// Decodes a part; an error names the tensor in full.
fn nested<S: Sketch>(prefix: &str, tensors: &mut Tensors<'_>) -> Result<S> {
    S::from_tensors(&mut tensors.take_nested(prefix)).map_err(|error| match error {
        Error::Tensor { tensor, problem } => Error::Tensor { tensor: format!("{prefix}.{tensor}"), problem },
        other => other,
    })
}
