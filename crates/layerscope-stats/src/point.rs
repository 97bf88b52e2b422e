//! Everything that is accumulated at one point, wherever the states come from.
//!
//! A worker makes [`BatchRows`] of its batch at the point, decides what happens to rows that are not finite, and
//! [prepares](crate::sketch::BatchSpace::prepare) its own memory. When its turn comes it [commits](PointState::commit) the batch. Only the second half
//! touches what is shared.
//!
//! ```
//! use layerscope_stats::sketch::{BatchSpace, SketchKind, SketchSet};
//! use layerscope_stats::{BatchInfo, BatchRows, PointShape, PointState};
//!
//! let sketches = SketchSet::of(&[SketchKind::Units, SketchKind::Covariance]);
//! let mut state = PointState::new(&PointShape { groups: 2, dim: 1, previous: None, kept: 1, chosen: 0, sketches }, None);
//! let mut space = BatchSpace::new();
//!
//! // Three states of groups 0, 1 and 0; the last is kept whole.
//! let info = BatchInfo::new(vec![0, 1, 0], vec![0, 3]).with_slots(vec![(2, 0)]);
//! space.start_batch();
//! let rows = BatchRows::of(&[1.0, f32::NAN, 3.0], 1, &info)?;
//! let bad = rows.not_finite();
//! let rows = rows.without(&bad);
//! space.prepare(sketches, None, &rows)?;
//! state.commit(&rows, space.contribution())?;
//!
//! assert_eq!((state.states(), state.excluded, state.kept.as_slice()), (2, 1, &[3.0][..]));
//! # Ok::<(), layerscope_stats::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::rows::BatchRows;
use crate::sketch::{Contribution, Covariance, Mergeable, PointMoments, SketchKind, SketchSet, SketchShape, Sketches, Tensors, nested};

/// What decides the shape of a [`PointState`].
#[derive(Clone, Copy, Debug)]
pub struct PointShape {
    /// Groups.
    pub groups: usize,
    /// Components.
    pub dim: usize,
    /// Components at the measured point before it; None for the first.
    pub previous: Option<usize>,
    /// Kept states.
    pub kept: usize,
    /// Groups whose components are measured one by one.
    pub chosen: usize,
    /// What is kept beside the moments.
    pub sketches: SketchSet,
}

impl PointShape {
    /// Memory of the state of one point; the first has no products with an earlier one.
    pub fn bytes(&self) -> usize {
        PointMoments::bytes(self.groups, self.dim, self.sketches.contains(SketchKind::Units))
            + Sketches::bytes(self.sketches, &self.of_sketches(None))
            + self.kept * self.dim * size_of::<f32>()
            + self.chosen * PointMoments::chosen_bytes(self.dim)
    }

    /// What more it takes where states are massive: matrices and the groups that have some, here one in twenty, are kept of them apart.
    pub fn massive_bytes(&self) -> usize {
        let matrices = [SketchKind::Covariance, SketchKind::Pairs].into_iter().filter(|kind| self.sketches.contains(*kind));
        matrices.map(|kind| Sketches::bytes(SketchSet::of(&[kind]), &self.of_sketches(None))).sum::<usize>()
            + PointMoments::bytes(self.groups / 20, self.dim, self.sketches.contains(SketchKind::Units))
    }

    fn of_sketches(&self, massive: Option<f64>) -> SketchShape {
        SketchShape { dim: self.dim, previous: self.previous, massive }
    }
}

/// The sketches of one point and its kept states.
#[derive(Clone, Debug, PartialEq)]
pub struct PointState {
    /// Moments of groups and of all states.
    pub moments: PointMoments,
    /// What other measures need.
    pub sketches: Sketches,
    /// The kept states, slot after slot; not a number where a state was not finite.
    pub kept: Vec<f32>,
    /// States that were left out because they were not finite.
    pub excluded: u64,
}

impl PointState {
    /// Empty; states whose norm exceeds `massive` are massive.
    pub fn new(shape: &PointShape, massive: Option<f64>) -> PointState {
        PointState {
            moments: PointMoments::of(shape.groups, shape.dim, massive, shape.sketches.contains(SketchKind::Units)),
            sketches: Sketches::new(shape.sketches, &shape.of_sketches(massive)),
            kept: vec![0.0; shape.kept * shape.dim],
            excluded: 0,
        }
    }

    /// An empty one of the same kind, for groups `0..groups` and `kept` kept states.
    pub fn emptied(&self, groups: usize, kept: usize) -> PointState {
        PointState {
            moments: self.moments.emptied(groups),
            sketches: self.sketches.emptied(),
            kept: vec![0.0; kept * self.dim()],
            excluded: 0,
        }
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.moments.dim()
    }

    /// States counted.
    pub fn states(&self) -> u64 {
        self.moments.states()
    }

    /// Adds a batch of which `contribution` was [prepared](crate::sketch::BatchSpace::prepare): little work, to be done in turn.
    pub fn commit(&mut self, rows: &BatchRows<'_>, contribution: &Contribution) -> Result<()> {
        self.moments.update(rows)?;
        self.sketches.update(contribution, rows)?;
        let dim = self.dim();
        for &(row, slot) in rows.slots() {
            let kept = self.kept.chunks_exact_mut(dim).nth(slot as usize);
            let kept = kept.ok_or_else(|| Error::Rows(format!("slot {slot} lies beyond the states that are kept")))?;
            kept.copy_from_slice(rows.state(row));
        }
        self.excluded += rows.excluded();
        Ok(())
    }

    /// States that come later are massive beyond this norm; so two devices agree that found nearly the same.
    pub fn set_massive_threshold(&mut self, massive: Option<f64>) {
        self.moments.set_massive_threshold(massive);
        if let Some(covariance) = self.sketches.get_mut::<Covariance>() {
            covariance.set_massive_threshold(massive);
        }
    }

    /// Adds what another state has, whose group `g` is our `names[g]`. Kept states are left alone: their owner knows their slots.
    pub fn merge_renamed(&mut self, other: &PointState, names: &[u32]) -> Result<()> {
        self.moments.merge_renamed(&other.moments, names)?;
        self.sketches.merge(&other.sketches)?;
        self.excluded += other.excluded;
        Ok(())
    }

    /// As tensors; the kept states under `kept`, everything else under other names.
    pub fn encode(&self) -> Tensors<'_> {
        let mut tensors = self.sketches.encode();
        tensors.nest("moments", self.moments.encode());
        tensors.put_f32("kept", &[self.kept.len() / self.dim(), self.dim()], &self.kept);
        tensors.put_u64("excluded", &[1], vec![self.excluded]);
        tensors
    }

    /// The inverse of [`PointState::encode`]. Tensors without kept states make a state without them.
    pub fn decode(tensors: &mut Tensors<'_>) -> Result<PointState> {
        let moments: PointMoments = nested("moments", tensors)?;
        let sketches = Sketches::decode(tensors)?;
        let kept = match tensors.has("kept") {
            true => tensors.take_states("kept", moments.dim())?,
            false => Vec::new(),
        };
        Ok(PointState { moments, sketches, kept, excluded: tensors.take_u64("excluded", &[1])?[0] })
    }
}
