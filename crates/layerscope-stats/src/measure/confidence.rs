//! Standard errors of values over all states, from blocks of documents.

use super::cosine::mean_cosine;
use super::fit::jackknife;
use super::layer_rows::LayerRow;
use super::selection::{Selection, square_norm};
use crate::error::Result;
use crate::sketch::{CorpusMoments, DocumentBlocks, Mergeable};

/// Standard errors of q, m and mean_cosine over all states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockErrors {
    /// Of Q(X).
    pub q: Option<f64>,
    /// Of M(X).
    pub m: Option<f64>,
    /// Of the mean cosine.
    pub mean_cosine: Option<f64>,
}

impl BlockErrors {
    /// Delete-one-block jackknife over the blocks that have states; None with fewer than two.
    pub fn new(blocks: &DocumentBlocks) -> Result<BlockErrors> {
        let used: Vec<&CorpusMoments> = blocks.blocks().iter().filter(|block| block.n() > 0).collect();
        let replicates = Replicates::new(&used)?;
        Ok(BlockErrors::of(|value| replicates.of(value)))
    }

    /// Of the difference between two measurements of the same documents: a block is deleted from both at once, so that what a
    /// document does to both cancels.
    pub fn of_difference(one: &DocumentBlocks, other: &DocumentBlocks) -> Result<BlockErrors> {
        let pairs = one.blocks().iter().zip(other.blocks()).filter(|(one, other)| one.n() > 0 || other.n() > 0);
        let (ones, others): (Vec<&CorpusMoments>, Vec<&CorpusMoments>) = pairs.unzip();
        let (ones, others) = (Replicates::new(&ones)?, Replicates::new(&others)?);
        let difference = |value: Value| Some(ones.of(value)?.iter().zip(others.of(value)?).map(|(one, other)| other - one).collect());
        Ok(BlockErrors::of(difference))
    }

    /// Fills in the standard errors of the rows of all states that it knows: plug-in values.
    pub(super) fn apply(&self, rows: &mut [LayerRow]) {
        for row in rows.iter_mut().filter(|row| row.selection == Selection::All && row.variant.is_none() && row.value.is_some()) {
            let known = match row.measure {
                "q" => self.q,
                "m" => self.m,
                "mean_cosine" => self.mean_cosine,
                _ => continue,
            };
            row.se = known.filter(|error| error.is_finite());
        }
    }

    fn of(replicates: impl Fn(Value) -> Option<Vec<f64>>) -> BlockErrors {
        let error = |value: Value| replicates(value).filter(|replicates| replicates.len() >= 2).map(|replicates| jackknife(&replicates));
        BlockErrors {
            q: error(|rest| Some(rest.square().iter().sum())),
            m: error(|rest| Some(square_norm(rest.mean()))),
            mean_cosine: error(|rest| mean_cosine(rest.unit(), rest.nonzero())),
        }
    }
}

/// A value of some states.
type Value = fn(&CorpusMoments) -> Option<f64>;

/// The moments without each block.
struct Replicates(Vec<CorpusMoments>);

impl Replicates {
    fn new(blocks: &[&CorpusMoments]) -> Result<Replicates> {
        let mut without = Vec::new();
        for deleted in 0..blocks.len() {
            let mut rest = CorpusMoments::new(blocks[0].dim());
            blocks.iter().enumerate().filter(|(at, _)| *at != deleted).try_for_each(|(_, block)| rest.merge(block))?;
            without.push(rest);
        }
        Ok(Replicates(without))
    }

    fn of(&self, value: Value) -> Option<Vec<f64>> {
        self.0.iter().map(value).collect()
    }
}
