//! Standard errors of values over all states, from blocks of documents.

use super::cosine::mean_cosine;
use super::fit::jackknife;
use super::selection::square_norm;
use crate::error::Result;
use crate::sketch::{CorpusMoments, DocumentBlocks, Sketch};

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
        let mut without = Vec::new();
        for deleted in 0..used.len() {
            let mut rest = CorpusMoments::new(used[0].dim());
            used.iter().enumerate().filter(|(at, _)| *at != deleted).try_for_each(|(_, block)| rest.merge(block))?;
            without.push(rest);
        }
        let error = |value: &dyn Fn(&CorpusMoments) -> Option<f64>| {
            let replicates: Option<Vec<f64>> = without.iter().map(value).collect();
            replicates.filter(|replicates| replicates.len() >= 2).map(|replicates| jackknife(&replicates))
        };
        Ok(BlockErrors {
            q: error(&|rest| Some(rest.square().iter().sum())),
            m: error(&|rest| Some(square_norm(rest.mean()))),
            mean_cosine: error(&|rest| mean_cosine(rest.unit(), rest.nonzero())),
        })
    }
}
