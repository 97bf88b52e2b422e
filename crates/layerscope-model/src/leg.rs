//! A part of the way through a model.

use std::ops::Range;

use crate::point::Point;
use crate::spec::ModelSpec;

/// What a model computes between two points. A model too large for the memory is run leg by leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The point whose states enter: the embedding or a block's output. None begins with token ids.
    pub from: Option<Point>,
    /// The last point.
    pub to: Point,
}

impl Leg {
    /// From token ids to this point.
    pub fn up_to(to: Point) -> Leg {
        Leg { from: None, to }
    }

    /// The blocks in between, counted from 0.
    pub fn blocks(&self, spec: &ModelSpec) -> Range<usize> {
        let after = |at: Point| match at {
            Point::Embedding => 0,
            Point::Block(block) => block,
            Point::FinalNorm | Point::Projected => spec.blocks.len(),
        };
        self.from.map_or(0, after)..after(self.to)
    }

    /// Whether the model's way may be cut after this point: what follows needs its states and nothing else.
    pub fn may_end_at(at: Point) -> bool {
        matches!(at, Point::Embedding | Point::Block(_))
    }
}
