//! The sketches that are kept at one point.

use std::any::Any;

use super::erased::AnySketch;
use super::{Contribution, Mergeable, SKETCHES, Sketch, SketchKind, SketchRow, SketchSet, SketchShape, Tensors};
use crate::error::{Error, Result};
use crate::rows::BatchRows;

/// How many there can be.
pub(super) const COUNT: usize = SKETCHES.len();

/// Those rows of [`SKETCHES`] that are kept at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketches {
    /// In the order of the table.
    kept: [Option<Box<dyn AnySketch>>; COUNT],
}

impl Sketches {
    /// The sketches of a set, empty.
    pub fn new(set: SketchSet, shape: &SketchShape) -> Sketches {
        Sketches {
            kept: std::array::from_fn(|at| Some(&SKETCHES[at]).filter(|row| set.contains(row.kind)).and_then(|row| (row.empty)(shape))),
        }
    }

    /// Memory of the sketches of a set; a covariance takes twice as much where there are massive states.
    pub fn bytes(set: SketchSet, shape: &SketchShape) -> usize {
        SKETCHES.iter().filter(|row| set.contains(row.kind)).map(|row| (row.bytes)(shape)).sum()
    }

    /// The one of a type, if it is kept.
    pub fn get<S: Sketch>(&self) -> Option<&S> {
        self.kept.iter().flatten().find_map(|sketch| (&**sketch as &dyn Any).downcast_ref())
    }

    /// The same, to be changed.
    pub fn get_mut<S: Sketch>(&mut self) -> Option<&mut S> {
        self.kept.iter_mut().flatten().find_map(|sketch| (&mut **sketch as &mut dyn Any).downcast_mut())
    }

    /// Which are kept.
    pub fn kinds(&self) -> SketchSet {
        let mut kinds = SketchSet::default();
        self.rows().for_each(|(row, _)| kinds.set(row.kind, true));
        kinds
    }

    /// Drops a sketch, if it is kept.
    pub fn forget(&mut self, kind: SketchKind) {
        self.kept.iter_mut().zip(SKETCHES).filter(|(_, row)| row.kind == kind).for_each(|(sketch, _)| *sketch = None);
    }

    /// The same sketches, empty.
    pub fn emptied(&self) -> Sketches {
        Sketches { kept: self.kept.each_ref().map(|sketch| sketch.as_ref().map(|sketch| sketch.emptied())) }
    }

    /// Adds what was [prepared](super::BatchSpace::prepare) from the same batch at this point: little work, to be done in turn.
    pub fn update(&mut self, contribution: &Contribution, batch: &BatchRows<'_>) -> Result<()> {
        for ((sketch, row), prepared) in self.kept.iter_mut().zip(SKETCHES).zip(contribution.prepared()) {
            match (sketch, prepared) {
                (Some(sketch), Some(prepared)) => prepared.enter(&mut **sketch, batch)?,
                (Some(_), None) => return Err(Error::Rows(format!("the batch was not prepared for {}", row.what))),
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// Decodes the sketches whose tensors `read` finds under the prefix of each, which their names lack then.
    pub fn decode_from<'a, E: From<Error>>(mut read: impl FnMut(&'static str) -> Result<Tensors<'a>, E>) -> Result<Sketches, E> {
        let mut sketches = Sketches::default();
        for (kept, row) in sketches.kept.iter_mut().zip(SKETCHES) {
            let mut tensors = read(row.prefix)?;
            if !tensors.0.is_empty() {
                *kept = Some((row.decode)(&mut tensors).map_err(|error| error.under(row.prefix))?);
            }
        }
        Ok(sketches)
    }

    fn rows(&self) -> impl Iterator<Item = (&'static SketchRow, &dyn AnySketch)> {
        SKETCHES.iter().zip(&self.kept).filter_map(|(row, sketch)| Some((row, sketch.as_deref()?)))
    }
}

impl Mergeable for Sketches {
    fn merge(&mut self, other: &Self) -> Result<()> {
        for ((ours, theirs), row) in self.kept.iter_mut().zip(&other.kept).zip(SKETCHES) {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => ours.merge(&**theirs)?,
                (None, None) => {}
                _ => return Err(Error::Mismatch(format!("only one of two has kept {}", row.what))),
            }
        }
        Ok(())
    }

    /// The names begin with the prefix of each sketch.
    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        self.rows().for_each(|(row, sketch)| tensors.nest(row.prefix, sketch.encode()));
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        Sketches::decode_from(|prefix| Ok(tensors.take_nested(prefix)))
    }
}
