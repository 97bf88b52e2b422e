//! Summaries of streams of states that can be merged and stored.
//!
//! Every point has [`PointMoments`]. Everything else is kept only if a measure asks for it: such a [`Sketch`] is one file and one row
//! of [`SKETCHES`], and [`Sketches`], [`BatchSpace`] and the stored tensors follow from that table.
//!
//! Averages are kept as running means, not as sums: a mean of near-identical rows does not drift however many there are, while
//! a plain sum collects the same rounding error again and again.

mod blocks;
mod by_states;
mod chosen;
mod corpus;
mod covariance;
mod cross;
mod erased;
mod massive;
mod moments;
mod pairs;
mod peaks;
mod point_moments;
mod sample;
mod scatter;
mod sequences;
mod set;
mod shape;
mod sketches;
mod space;
mod sparse;
mod states_view;
mod tensor;

pub use blocks::{BLOCKS, DocumentBlocks};
pub use corpus::CorpusMoments;
pub use covariance::{BatchCovariance, Covariance};
pub use cross::CrossScatter;
pub use erased::SketchRow;
pub use massive::{LARGEST, MassiveGroup, POSITIONS};
pub use moments::{Group, GroupMoments};
pub use pairs::{BatchPairs, Pairs};
pub use peaks::{BatchPeaks, Counts, Peaks};
pub use point_moments::PointMoments;
pub use sample::{HashSample, Kept, SampleKey, TokenSamples, sample_hash};
pub(crate) use scatter::mean_of;
pub use scatter::{CentredRows, Scatter};
pub use sequences::SequenceSimilarity;
pub use set::SketchSet;
pub use shape::{BatchShapes, SequenceShape, ShapeMeans};
pub use sketches::Sketches;
pub use space::{BatchSpace, Contribution, PointRows, Preparation};
pub use sparse::SparseGroupMoments;
pub use states_view::StatesView;
pub use tensor::{Tensor, Tensors, Values};

use crate::error::Result;
use crate::rows::BatchRows;
use space::CentredPoints;

/// What a measure may be computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SketchKind {
    /// Moments of every group; always kept.
    Groups,
    /// Moments of all states; always kept.
    Corpus,
    /// Unit vectors in the moments of groups and corpus.
    Units,
    /// The similarity within sequences; kept with the unit vectors.
    Similarity,
    /// The covariance of all states.
    Covariance,
    /// Products with the previous measured point.
    Pairs,
    /// The shape of sequences.
    Shapes,
    /// Moments of blocks of documents.
    Blocks,
    /// Components that stand out of their states.
    Peaks,
    /// The hash sample of states, which its owner keeps.
    Sample,
    /// The kept states of chosen tokens, which their owner keeps.
    Tokens,
    /// Weights of the model, which its owner reads.
    Weights,
}

/// The sketches that are kept at a point only if they are wanted.
pub const SKETCHES: &[SketchRow] = &[
    SketchRow::of::<Covariance>(SketchKind::Covariance, "lenses.covariance", "a covariance"),
    SketchRow::of::<Pairs>(SketchKind::Pairs, "lenses.pairs", "products with the previous point"),
    SketchRow::of::<SequenceShape>(SketchKind::Shapes, "lenses.sequences", "the shape of sequences"),
    SketchRow::of::<DocumentBlocks>(SketchKind::Blocks, "lenses.blocks", "blocks of documents"),
    SketchRow::of::<Peaks>(SketchKind::Peaks, "lenses.peaks", "massive components"),
];

impl SketchKind {
    /// All of them.
    pub const ALL: [SketchKind; 12] = {
        use SketchKind::*;
        [Groups, Corpus, Units, Similarity, Covariance, Pairs, Shapes, Blocks, Peaks, Sample, Tokens, Weights]
    };

    /// Its name in the list of measures.
    pub const fn name(self) -> &'static str {
        match self {
            SketchKind::Groups => "groups",
            SketchKind::Corpus => "corpus",
            SketchKind::Units => "unit vectors",
            SketchKind::Similarity | SketchKind::Shapes => "sequences",
            SketchKind::Covariance => "covariance",
            SketchKind::Pairs => "pairs",
            SketchKind::Blocks => "blocks",
            SketchKind::Peaks => "peaks",
            SketchKind::Sample => "sample",
            SketchKind::Tokens => "token states",
            SketchKind::Weights => "weights",
        }
    }

    /// Its row in [`SKETCHES`], if it has one.
    pub fn row(self) -> Option<&'static SketchRow> {
        SKETCHES.iter().find(|row| row.kind == self)
    }

    /// Whether it is kept only if it is wanted. What is always there and what the owner brings is not.
    pub fn is_optional(self) -> bool {
        matches!(self, SketchKind::Units | SketchKind::Sample) || self.row().is_some()
    }
}

/// What can be merged and stored.
pub trait Mergeable: Sized {
    /// Adds what another one of the same kind has seen.
    fn merge(&mut self, other: &Self) -> Result<()>;

    /// Everything it knows, as named tensors.
    fn encode(&self) -> Tensors<'_>;

    /// The inverse of [`Mergeable::encode`], to the bit. Takes its tensors out of `tensors`.
    fn decode(tensors: &mut Tensors<'_>) -> Result<Self>;
}

/// What decides the shape of a [`Sketch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SketchShape {
    /// Components of the states at this point.
    pub dim: usize,
    /// Components at the previous measured point, if there is one.
    pub previous: Option<usize>,
    /// The norm beyond which a state is massive, if there is one.
    pub massive: Option<f64>,
}

/// What is kept at a point only if it is wanted: a row of [`SKETCHES`].
///
/// Workers [prepare](Sketch::prepare) batches at the same time, each in memory of its own; batches [enter](Sketch::update) one after
/// another. The more is done before the turn, the less others wait.
pub trait Sketch: Mergeable + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static {
    /// What a batch contributes, computed before its turn. Its memory is used again for the next batch.
    type Prepared: Default + Send + 'static;

    /// An empty one; None where there is nothing to keep at such a point.
    fn empty(shape: &SketchShape) -> Option<Self>;

    /// An empty one of the same shape.
    fn emptied(&self) -> Self;

    /// Computes what a batch contributes at one point.
    fn prepare(prepared: &mut Self::Prepared, batch: &mut Preparation<'_>) -> Result<()>;

    /// Adds what was prepared from the same batch: little work, to be done in turn.
    fn update(&mut self, prepared: &Self::Prepared, batch: &BatchRows<'_>) -> Result<()>;

    /// Memory of one.
    fn bytes(shape: &SketchShape) -> usize;

    /// Memory of a worker that prepares batches of `rows` rows.
    fn prepared_bytes(_rows: usize, _dim: usize) -> usize {
        0
    }

    /// [`Sketch::prepare`] and [`Sketch::update`] in one, where there is no turn to wait for.
    fn add(&mut self, batch: &BatchRows<'_>, massive: Option<f64>) -> Result<()> {
        let (mut prepared, mut centred) = (Self::Prepared::default(), CentredPoints::default());
        Self::prepare(&mut prepared, &mut Preparation::new(batch, massive, &mut centred))?;
        self.update(&prepared, batch)
    }
}

/// The mean of two means, of `n_a` and `n_b` things.
fn mean_of_means(a: f64, n_a: u64, b: f64, n_b: u64) -> f64 {
    if n_b == 0 { a } else { a + (b - a) * (n_b as f64 / (n_a + n_b) as f64) }
}

/// Decodes a part; an error names the tensor in full.
pub(crate) fn nested<S: Mergeable>(prefix: &str, tensors: &mut Tensors<'_>) -> Result<S> {
    S::decode(&mut tensors.take_nested(prefix)).map_err(|error| error.under(prefix))
}
