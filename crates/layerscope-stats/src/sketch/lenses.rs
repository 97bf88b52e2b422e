//! Everything that is accumulated at one point beside [`PointSketch`](super::PointSketch), as far as it is wanted.

use super::shape::ShapeSpace;
use super::{BatchCovariance, CentredRows, Covariance, DocumentBlocks, Pairs, SequenceShape, Sketch, Tensors, nested};
use crate::error::{Error, Result};
use crate::rows::BatchRows;

/// Which sketches are kept beside the moments of groups and corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SketchSet {
    /// Unit vectors of groups and corpus, and the similarity within sequences.
    pub units: bool,
    /// The covariance of all states.
    pub covariance: bool,
    /// Products with the previous measured point.
    pub pairs: bool,
    /// The shape of sequences.
    pub sequences: bool,
    /// The hash sample of states, which its owner keeps.
    pub sample: bool,
    /// Moments of blocks of documents.
    pub blocks: bool,
}

/// The sketches of a [`SketchSet`] at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lenses {
    /// The covariance of all states.
    pub covariance: Option<Covariance>,
    /// Products of the *previous* measured point's states with this one's; none at the first.
    pub pairs: Option<Pairs>,
    /// The shape of sequences.
    pub sequences: Option<SequenceShape>,
    /// Moments of blocks of documents.
    pub blocks: Option<DocumentBlocks>,
}

impl Lenses {
    /// For states with `dim` components, and `previous` ones at the previous measured point; states whose norm exceeds `massive` are
    /// massive.
    pub fn new(set: SketchSet, dim: usize, previous: Option<usize>, massive: Option<f64>) -> Lenses {
        Lenses {
            covariance: set.covariance.then(|| Covariance::new(dim, massive)),
            pairs: previous.filter(|_| set.pairs).map(|previous| Pairs::new(previous, dim)),
            sequences: set.sequences.then(SequenceShape::new),
            blocks: set.blocks.then(|| DocumentBlocks::new(dim)),
        }
    }

    /// Memory that one takes; a covariance takes as much again where there are massive states.
    pub fn bytes(set: SketchSet, dim: usize, previous: Option<usize>) -> usize {
        let part = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        part(set.covariance, Covariance::bytes(dim))
            + previous.map_or(0, |previous| part(set.pairs, Pairs::bytes(previous, dim)))
            + part(set.sequences, SequenceShape::bytes())
            + part(set.blocks, DocumentBlocks::bytes(dim))
    }

    /// One of the same shape without any states.
    pub fn emptied(&self) -> Lenses {
        Lenses {
            covariance: self.covariance.as_ref().map(|covariance| Covariance::new(covariance.dim(), covariance.massive_threshold())),
            pairs: self.pairs.as_ref().map(|pairs| Pairs::new(pairs.dims().0, pairs.dims().1)),
            sequences: self.sequences.as_ref().map(|_| SequenceShape::new()),
            blocks: self.blocks.as_ref().map(|blocks| DocumentBlocks::new(blocks.blocks()[0].dim())),
        }
    }

    /// Adds what `space` was [prepared](LensSpace::prepare) with from the same batch at this point: little work, to be done in turn.
    ///
    /// `documents` has the document of every row; only blocks need it.
    pub fn absorb(&mut self, space: &LensSpace, batch: &BatchRows, documents: Option<&[u64]>) -> Result<()> {
        if let Some(covariance) = &mut self.covariance {
            covariance.absorb(&space.covariance)?;
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.merge(&space.pairs)?;
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.merge(&space.sequences)?;
        }
        match (&mut self.blocks, documents) {
            (Some(blocks), Some(documents)) => blocks.update(batch, documents),
            (Some(_), None) => Err(Error::Rows("blocks of documents need the document of every row".to_owned())),
            (None, _) => Ok(()),
        }
    }
}

impl Sketch for Lenses {
    fn merge(&mut self, other: &Self) -> Result<()> {
        fn part<S: Sketch>(what: &str, ours: &mut Option<S>, theirs: &Option<S>) -> Result<()> {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => ours.merge(theirs),
                (None, None) => Ok(()),
                _ => Err(Error::Mismatch(format!("only one of two has kept {what}"))),
            }
        }
        part("a covariance", &mut self.covariance, &other.covariance)?;
        part("products with the previous point", &mut self.pairs, &other.pairs)?;
        part("the shape of sequences", &mut self.sequences, &other.sequences)?;
        part("blocks of documents", &mut self.blocks, &other.blocks)
    }

    fn tensors(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        let parts = [
            ("covariance", self.covariance.as_ref().map(Sketch::tensors)),
            ("pairs", self.pairs.as_ref().map(Sketch::tensors)),
            ("sequences", self.sequences.as_ref().map(Sketch::tensors)),
            ("blocks", self.blocks.as_ref().map(Sketch::tensors)),
        ];
        parts.into_iter().for_each(|(name, part)| tensors.nest(name, part.unwrap_or_default()));
        tensors
    }

    fn from_tensors(tensors: &mut Tensors<'_>) -> Result<Self> {
        fn part<S: Sketch>(prefix: &str, tensors: &mut Tensors<'_>) -> Result<Option<S>> {
            let start = format!("{prefix}.");
            let there = tensors.0.keys().any(|name| name.starts_with(&start));
            if there { nested(prefix, tensors).map(Some) } else { Ok(None) }
        }
        Ok(Lenses {
            covariance: part("covariance", tensors)?,
            pairs: part("pairs", tensors)?,
            sequences: part("sequences", tensors)?,
            blocks: part("blocks", tensors)?,
        })
    }
}

/// A worker's memory for what a batch contributes at one point after another; nearly all work happens here, before the turn.
#[derive(Clone, Debug, Default)]
pub struct LensSpace {
    rows: CentredRows,
    previous: CentredRows,
    points: usize,
    covariance: BatchCovariance,
    pairs: Pairs,
    sequences: SequenceShape,
    sequence: ShapeSpace,
}

impl LensSpace {
    /// Empty.
    pub fn new() -> LensSpace {
        LensSpace::default()
    }

    /// Memory for batches of `rows` rows.
    pub fn bytes(set: SketchSet, rows: usize, dim: usize) -> usize {
        let centred = CentredRows::bytes(rows, dim);
        let part = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        part(set.covariance, BatchCovariance::bytes(rows, dim) + centred) + part(set.pairs, Pairs::bytes(dim, dim) + centred)
    }

    /// Forgets the previous point: to be called before the first point of every batch.
    pub fn start_batch(&mut self) {
        self.points = 0;
    }

    /// Computes what a batch contributes at its next measured point, where states whose norm exceeds `massive` are massive.
    pub fn prepare(&mut self, set: SketchSet, massive: Option<f64>, batch: &BatchRows) -> Result<()> {
        std::mem::swap(&mut self.rows, &mut self.previous);
        if set.covariance || set.pairs {
            self.rows.fill(batch);
        }
        if set.covariance {
            self.covariance.fill(massive, batch, &self.rows);
        }
        if set.pairs {
            match self.points {
                0 => self.pairs = Pairs::new(batch.dim(), batch.dim()),
                _ => self.pairs.fill(batch, &self.previous, &self.rows)?,
            }
        }
        if set.sequences {
            self.sequences = SequenceShape::new();
            self.sequences.update_in(batch, &mut self.sequence);
        }
        self.points += 1;
        Ok(())
    }
}
