//! Where the states of a leg come from and go to.

use layerscope_compute::States;
use layerscope_model::Point;
use layerscope_stats::Accumulate;

use super::ahead::{Ahead, AtPoints};
use super::stretch::Stretch;
use crate::error::Result;

/// Where the states of a leg come from and go to: the model computes those of a whole one from token ids, and they go nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passage<'a> {
    /// What the leg before left.
    pub entering: Option<&'a Stretch>,
    /// The point whose states the next leg needs, and where they wait.
    pub leaving: Option<(Point, &'a Stretch)>,
    /// What the pilot has computed already.
    pub ahead: Option<&'a Ahead>,
}

impl Passage<'_> {
    /// The states of a batch at all points, where they are known.
    pub fn known(&self, batch: usize) -> Option<AtPoints> {
        self.ahead?.take(batch)
    }

    /// The states with which a batch begins.
    pub fn entering(&self, batch: usize) -> Result<Option<Vec<f32>>> {
        self.entering.map(|stretch| stretch.read(batch)).transpose()
    }

    /// Puts the states of a batch down where the next leg needs them.
    pub fn leave<D: Accumulate>(&self, batch: usize, at: Point, states: &mut States<D>) -> Result<()> {
        match self.leaving {
            Some((last, stretch)) if last == at => stretch.write(batch, &states.to_vec().map_err(layerscope_model::Error::from)?),
            _ => Ok(()),
        }
    }
}
