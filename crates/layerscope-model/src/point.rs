//! Where in the network hidden states are looked at.

use std::fmt;

use layerscope_compute::{Backend, States};

use crate::batch::Batch;
use crate::error::Error;
use crate::spec::ModelSpec;

/// A place in the network.
///
/// The reference library's `hidden_states` have one entry per layer: where a final norm or a projection follows the last
/// block, its last entry is what leaves the last of them. [`ModelSpec::hidden_state`] is the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// The input of the first block.
    Embedding,
    /// The output of block `i`, counted from 1.
    Block(usize),
    /// The output of the normalization after the last block.
    FinalNorm,
    /// The output of the projection after everything else; its states have a width of their own.
    Projected,
}

impl Point {
    /// The layer this point belongs to: 0 for the embedding, `i` for block `i`, the last for what follows the blocks.
    pub fn layer(self, blocks: usize) -> usize {
        match self {
            Point::Embedding => 0,
            Point::Block(block) => block,
            Point::FinalNorm | Point::Projected => blocks,
        }
    }
}

impl ModelSpec {
    /// All points in the order they are computed.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::Embedding];
        points.extend((1..=self.blocks.len()).map(Point::Block));
        points.extend(self.final_norm.map(|_| Point::FinalNorm));
        points.extend(self.output_projection.map(|_| Point::Projected));
        points
    }

    /// Width of the states at a point.
    pub fn width_at(&self, at: Point) -> usize {
        self.output_projection.filter(|_| at == Point::Projected).unwrap_or(self.width)
    }

    /// The index of a point into the reference library's `hidden_states`, if it is there: the last point of every layer is.
    pub fn hidden_state(&self, at: Point) -> Option<usize> {
        let layer = |point: Point| point.layer(self.blocks.len());
        let last = self.points().into_iter().rfind(|point| layer(*point) == layer(at));
        (last == Some(at)).then(|| layer(at))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Embedding => out.write_str("embedding"),
            Point::Block(block) => write!(out, "block {block}"),
            Point::FinalNorm => out.write_str("final norm"),
            Point::Projected => out.write_str("projected"),
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
    use layerscope_compute::Activation;

    use super::*;
    use crate::spec::{AttentionSpec, BlockNorms, BlockSpec, EmbeddingSpec, FeedForwardSpec, NormSpec, Residual};

    #[test]
    fn points_map_to_the_reference_librarys_hidden_states() {
        let norm = NormSpec::layer(1e-5);
        let block = BlockSpec {
            weights: 0,
            residual: Residual::Sequential,
            norms: BlockNorms::pre(norm),
            attention: AttentionSpec::multi_head(4, 16),
            feed_forward: FeedForwardSpec::plain(256, Activation::Relu),
        };
        let mapping = |final_norm: bool, output_projection| {
            let spec = ModelSpec {
                vocabulary: 100,
                width: 64,
                max_positions: None,
                embedding: EmbeddingSpec::tokens(64),
                blocks: block.clone().repeat(2),
                final_norm: final_norm.then_some(norm),
                output_projection,
            };
            let of_point = |at| (spec.hidden_state(at), spec.width_at(at));
            spec.points().into_iter().map(of_point).collect::<Vec<_>>()
        };
        let [first, second, third, none] = [(Some(0), 64), (Some(1), 64), (Some(2), 64), (None, 64)];
        assert_eq!(mapping(false, None), [first, second, third]);
        assert_eq!(mapping(true, None), [first, second, none, third]);
        assert_eq!(mapping(false, Some(32)), [first, second, none, (Some(2), 32)]);
        assert_eq!(mapping(true, Some(32)), [first, second, none, none, (Some(2), 32)]);
    }
}
