//! Where in the network hidden states are looked at.

use std::fmt;

use layerscope_compute::{Backend, States};

use crate::batch::Batch;
use crate::error::Error;

/// A place in the network.
///
/// The reference library's `hidden_states` have one entry fewer than a pre-norm model has points: its last entry is the
/// final norm's output, and the last block's own output is not among them. [`Point::hidden_state`] is the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// The input of the first block.
    Embedding,
    /// The output of block `i`, counted from 1.
    Block(usize),
    /// The output of the normalization after the last block.
    FinalNorm,
}

impl Point {
    /// All points of a model in the order they are computed.
    pub fn all(blocks: usize, final_norm: bool) -> Vec<Point> {
        let mut points = vec![Point::Embedding];
        points.extend((1..=blocks).map(Point::Block));
        points.extend(final_norm.then_some(Point::FinalNorm));
        points
    }

    /// The layer this point belongs to: 0 for the embedding, `i` for block `i`, the last for the final norm.
    pub fn layer(self, blocks: usize) -> usize {
        match self {
            Point::Embedding => 0,
            Point::Block(block) => block,
            Point::FinalNorm => blocks,
        }
    }

    /// The index into the reference library's `hidden_states`, if it has this point.
    pub fn hidden_state(self, blocks: usize, final_norm: bool) -> Option<usize> {
        let hidden = final_norm && self == Point::Block(blocks);
        (!hidden).then(|| self.layer(blocks))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Embedding => out.write_str("embedding"),
            Point::Block(block) => write!(out, "block {block}"),
            Point::FinalNorm => out.write_str("final norm"),
        }
    }
}

/// Looks at hidden states while they pass. The buffer is reused right afterwards.
pub trait Observer<B: Backend> {
    /// What can go wrong while looking.
    type Error: From<Error>;

    /// Looks at all rows of one batch at one point; points come in order.
    ///
    /// The numbers are those of the device, which may still be computing them: [`States::to_vec`] waits. If an operation
    /// failed, `to_vec` or else the forward pass itself returns the failure.
    fn observe(&mut self, batch: &Batch, at: Point, states: &mut States<B>) -> Result<(), Self::Error>;
}

/// An observer that keeps nothing: the bare forward pass.
pub struct Blind;

impl<B: Backend> Observer<B> for Blind {
    type Error = Error;

    fn observe(&mut self, _: &Batch, _: Point, _: &mut States<B>) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_map_to_the_reference_librarys_hidden_states() {
        let mapping = |final_norm| Point::all(2, final_norm).into_iter().map(|point| point.hidden_state(2, final_norm)).collect::<Vec<_>>();
        assert_eq!(mapping(false), [Some(0), Some(1), Some(2)]);
        assert_eq!(mapping(true), [Some(0), Some(1), None, Some(2)]);
    }
}
