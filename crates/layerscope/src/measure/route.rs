//! The way through model and text: batch after batch through all blocks, or block after block with all batches.
//!
//! Block order needs one pass of the model whatever the memory: while a stretch of text is at a leg of the way, only the weights and the
//! sketches of that leg are in memory. A point meets the same batches in the same order either way, so the tables are the same bits.

use std::ops::Range;

use layerscope_corpus::BatchPlan;
use layerscope_model::{Leg, Point};
use layerscope_stats::sketch::SketchKind;
use serde::{Deserialize, Serialize};

use super::plan::BoundPlan;

/// The order that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Batch order where the memory allows it, else block order with as few legs as possible.
    Auto,
    /// Every batch goes through the whole model at once.
    Batch,
    /// All batches go through one block, then through the next.
    Block,
}

/// Where the way is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Segments of the way in each leg.
    pub legs: Vec<usize>,
    /// Batches of each stretch.
    pub stretches: Vec<usize>,
}

impl Route {
    /// The batches of each stretch.
    pub fn stretches(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        consecutive(&self.stretches)
    }
}

/// A part of the way that is never cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it computes.
    pub leg: Leg,
    /// The measured points in it, as numbers among the measured ones.
    pub points: Range<usize>,
}

/// The way from token ids to the last measured point, in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// One or more.
    pub segments: Vec<Segment>,
}

impl Way {
    /// Through a model.
    pub fn new(bound: &BoundPlan) -> Way {
        Way::of(&bound.model.spec.points(), &bound.points, bound.plan.sketches.contains(SketchKind::Pairs))
    }

    /// Through `all` points. Where a point is paired with the measured one before it, a leg begins with that one's states.
    fn of(all: &[Point], measured: &[Point], paired: bool) -> Way {
        let (Some(&first), Some(&last)) = (measured.first(), measured.last()) else { return Way { segments: Vec::new() } };
        let may_cut = |at: Point| Leg::may_end_at(at) && (!paired || at < first || measured.contains(&at));
        let mut segments: Vec<Segment> = Vec::new();
        let (mut from, mut points) = (None, 0..0);
        for &at in all.iter().take_while(|at| **at <= last) {
            points.end += usize::from(measured.contains(&at));
            if may_cut(at) || at == last {
                segments.push(Segment { leg: Leg { from, to: at }, points: points.clone() });
                (from, points) = (Some(at), points.end..points.end);
            }
        }
        Way { segments }
    }

    /// In so many legs of nearly equal numbers of segments.
    pub fn even_legs(&self, legs: usize) -> Vec<usize> {
        let (each, more) = (self.segments.len() / legs, self.segments.len() % legs);
        (0..legs).map(|leg| each + usize::from(leg < more)).collect()
    }

    /// Each leg as one segment.
    pub fn joined(&self, legs: &[usize]) -> Vec<Segment> {
        let join = |range: Range<usize>| {
            let (first, last) = (&self.segments[range.start], &self.segments[range.end - 1]);
            Segment { leg: Leg { from: first.leg.from, to: last.leg.to }, points: first.points.start..last.points.end }
        };
        consecutive(legs).map(join).collect()
    }
}

/// Ranges of these lengths, one after the other.
fn consecutive(lengths: &[usize]) -> impl Iterator<Item = Range<usize>> + '_ {
    lengths.iter().scan(0, |start, length| {
        let range = *start..*start + length;
        *start = range.end;
        Some(range)
    })
}

/// Stretches of batches whose rows take at most so many bytes, each of at least one batch.
pub fn stretches(batches: &BatchPlan, bytes_per_row: u64, limit: u64) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut start = 0;
    for batch in 0..batches.len() {
        let rows = batches.rows(start..batch + 1);
        if batch > start && (rows.end - rows.start).saturating_mul(bytes_per_row) > limit {
            lengths.push(batch - start);
            start = batch;
        }
    }
    lengths.push(batches.len() - start);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use Point::{Block, Embedding, FinalNorm, Projected};

    const ALL: [Point; 6] = [Embedding, Block(1), Block(2), Block(3), FinalNorm, Projected];

    fn ends(way: &Way) -> Vec<(Point, usize)> {
        way.segments.iter().map(|segment| (segment.leg.to, segment.points.len())).collect()
    }

    #[test]
    fn the_way_is_cut_after_blocks_and_ends_with_the_last_measured_point() {
        assert_eq!(ends(&Way::of(&ALL, &ALL, true)), [(Embedding, 1), (Block(1), 1), (Block(2), 1), (Block(3), 1), (Projected, 2)]);
        assert_eq!(ends(&Way::of(&ALL, &[Block(2)], false)), [(Embedding, 0), (Block(1), 0), (Block(2), 1)]);
    }

    #[test]
    fn a_pair_of_points_is_never_torn_apart() {
        let way = Way::of(&ALL, &[Block(1), Block(3), FinalNorm], true);
        assert_eq!(ends(&way), [(Embedding, 0), (Block(1), 1), (Block(3), 1), (FinalNorm, 1)]);
        assert_eq!(way.segments[2].leg.from, Some(Block(1)));
    }

    #[test]
    fn legs_are_even_and_joined() {
        let way = Way::of(&ALL, &ALL, false);
        assert_eq!((way.even_legs(1), way.even_legs(2), way.even_legs(5)), (vec![5], vec![3, 2], vec![1; 5]));
        let legs = way.joined(&[3, 2]);
        assert_eq!(legs[0], Segment { leg: Leg { from: None, to: Block(2) }, points: 0..3 });
        assert_eq!(legs[1], Segment { leg: Leg { from: Some(Block(2)), to: Projected }, points: 3..6 });
    }
}
