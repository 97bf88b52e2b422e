//! Everything that is accumulated at one point of the network.

use std::borrow::Cow;

use layerscope_stats::sketch::{LensSpace, Lenses, PointSketch, Sketch, SketchSet, Tensor, Tensors, Values};
use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};

use crate::error::{Error, Result};
use crate::items::Items;

/// The sketches of one point and its kept states.
#[derive(Clone, Debug, PartialEq)]
pub struct PointState {
    /// Moments of groups and of all states.
    pub moments: PointSketch,
    /// What other measures need.
    pub lenses: Lenses,
    /// The kept states, row after row as [`crate::kept::Kept`] numbers them; not a number where a state was not finite.
    pub kept: Vec<f32>,
    /// States that were left out because they were not finite.
    pub excluded: u64,
}

/// What decides the shape of a [`PointState`].
#[derive(Clone, Copy, Debug)]
pub struct StateShape {
    /// Groups.
    pub groups: usize,
    /// Components.
    pub dim: usize,
    /// Kept states.
    pub kept: usize,
    /// Sketches beside the moments.
    pub sketches: SketchSet,
}

impl StateShape {
    /// Memory of the state of one point; the first has no products with an earlier one.
    pub fn bytes(&self, first: bool) -> usize {
        let previous = (!first).then_some(self.dim);
        PointSketch::bytes(self.groups, self.dim, self.sketches.units)
            + Lenses::bytes(self.sketches, self.dim, previous)
            + self.kept * self.dim * size_of::<f32>()
    }
}

/// Counted items whose states are not finite.
pub(crate) fn not_finite(rows: &BatchRows<'_>) -> Vec<u32> {
    rows.segments().counted().iter().copied().filter(|&item| !rows.norms()[item as usize].is_finite()).collect()
}

/// The segments of a batch without some of its items.
pub(crate) fn without(items: &Items, excluded: &[u32]) -> Segments {
    let mut groups = items.groups.clone();
    excluded.iter().for_each(|&item| groups[item as usize] = NOT_COUNTED);
    Segments::new(&groups)
}

impl PointState {
    /// Empty; `first` is the first of the measured points.
    pub fn new(shape: &StateShape, first: bool, massive: Option<f64>) -> PointState {
        let StateShape { groups, dim, kept, sketches } = *shape;
        PointState {
            moments: PointSketch::of(groups, dim, massive, sketches.units),
            lenses: Lenses::new(sketches, dim, (!first).then_some(dim), massive),
            kept: vec![0.0; kept * dim],
            excluded: 0,
        }
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.moments.dim()
    }

    /// Adds one batch that `space` was prepared with; `slots` says which items are kept, and where.
    pub(crate) fn update(
        &mut self,
        rows: &BatchRows<'_>,
        space: &LensSpace,
        slots: &[(u32, u32)],
        documents: Option<&[u64]>,
    ) -> Result<()> {
        self.moments.update(rows)?;
        self.lenses.absorb(space, rows, documents)?;
        let dim = self.dim();
        for &(item, slot) in slots {
            self.kept[slot as usize * dim..][..dim].copy_from_slice(rows.state(item));
        }
        Ok(())
    }

    /// As tensors; the kept states under `kept`, everything else under other names.
    pub fn tensors(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.nest("moments", self.moments.tensors());
        tensors.nest("lenses", self.lenses.tensors());
        let dim = self.dim();
        let kept = Tensor { shape: vec![self.kept.len() / dim, dim], values: Values::F32(Cow::Borrowed(&self.kept)) };
        tensors.0.insert("kept".to_owned(), kept);
        let excluded = Tensor { shape: vec![1], values: Values::U64(Cow::Owned(vec![self.excluded])) };
        tensors.0.insert("excluded".to_owned(), excluded);
        tensors
    }

    /// Back from tensors. Those of a file without kept states make a state without them.
    pub fn from_tensors(tensors: &mut Tensors<'_>) -> Result<PointState> {
        let moments: PointSketch = Sketch::from_tensors(&mut tensors.take_nested("moments"))?;
        let lenses: Lenses = Sketch::from_tensors(&mut tensors.take_nested("lenses"))?;
        let kept = match tensors.0.remove("kept").map(|tensor| tensor.values) {
            Some(Values::F32(values)) if values.len().is_multiple_of(moments.dim()) => values.into_owned(),
            None => Vec::new(),
            Some(_) => return Err(Error::Mismatch("tensor `kept` is not made of states".to_owned())),
        };
        let excluded = match tensors.0.remove("excluded").map(|tensor| tensor.values) {
            Some(Values::U64(values)) if values.len() == 1 => values[0],
            _ => return Err(Error::Mismatch("tensor `excluded` is not one count".to_owned())),
        };
        Ok(PointState { moments, lenses, kept, excluded })
    }
}
