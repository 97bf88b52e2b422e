//! Rows of the table of sketches: a [`Sketch`] whose type only its row knows.

use std::any::Any;
use std::fmt::Debug;

use super::{Mergeable, Preparation, Sketch, SketchKind, SketchShape, Tensors};
use crate::error::{Error, Result};
use crate::rows::BatchRows;

/// A row of [`SKETCHES`](super::SKETCHES).
pub struct SketchRow {
    /// Its kind.
    pub kind: SketchKind,
    /// What the names of its tensors begin with among those of a point. Old runs open by it: it never changes.
    pub prefix: &'static str,
    /// What it is, in a message.
    pub what: &'static str,
    pub(super) empty: fn(&SketchShape) -> Option<Box<dyn AnySketch>>,
    pub(super) decode: fn(&mut Tensors<'_>) -> Result<Box<dyn AnySketch>>,
    pub(super) bytes: fn(&SketchShape) -> usize,
    pub(super) prepared: fn() -> Box<dyn AnyPrepared>,
    pub(super) prepared_bytes: fn(usize, usize) -> usize,
}

impl SketchRow {
    /// The row of a sketch.
    pub const fn of<S: Sketch>(kind: SketchKind, prefix: &'static str, what: &'static str) -> SketchRow {
        SketchRow {
            kind,
            prefix,
            what,
            empty: |shape| S::empty(shape).map(|sketch| Box::new(sketch) as Box<dyn AnySketch>),
            decode: |tensors| Ok(Box::new(S::decode(tensors)?)),
            bytes: S::bytes,
            prepared: || Box::new(PreparedFor::<S>(S::Prepared::default())),
            prepared_bytes: S::prepared_bytes,
        }
    }
}

/// A [`Sketch`] of any type.
pub(super) trait AnySketch: Any + Debug + Send + Sync {
    fn cloned(&self) -> Box<dyn AnySketch>;
    fn equals(&self, other: &dyn AnySketch) -> bool;
    fn emptied(&self) -> Box<dyn AnySketch>;
    fn merge(&mut self, other: &dyn AnySketch) -> Result<()>;
    fn encode(&self) -> Tensors<'_>;
}

impl<S: Sketch> AnySketch for S {
    fn cloned(&self) -> Box<dyn AnySketch> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn AnySketch) -> bool {
        (other as &dyn Any).downcast_ref::<S>().is_some_and(|other| self == other)
    }

    fn emptied(&self) -> Box<dyn AnySketch> {
        Box::new(Sketch::emptied(self))
    }

    fn merge(&mut self, other: &dyn AnySketch) -> Result<()> {
        match (other as &dyn Any).downcast_ref::<S>() {
            Some(other) => Mergeable::merge(self, other),
            None => Err(Error::Mismatch(format!("{other:?} is a sketch of another kind"))),
        }
    }

    fn encode(&self) -> Tensors<'_> {
        Mergeable::encode(self)
    }
}

impl Clone for Box<dyn AnySketch> {
    fn clone(&self) -> Self {
        (**self).cloned()
    }
}

impl PartialEq for dyn AnySketch {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// A worker's [`Sketch::Prepared`] of any type.
pub(super) trait AnyPrepared: Send {
    fn prepare(&mut self, batch: &mut Preparation<'_>) -> Result<()>;
    fn enter(&self, sketch: &mut dyn AnySketch, batch: &BatchRows<'_>) -> Result<()>;
}

struct PreparedFor<S: Sketch>(S::Prepared);

impl<S: Sketch> AnyPrepared for PreparedFor<S> {
    fn prepare(&mut self, batch: &mut Preparation<'_>) -> Result<()> {
        S::prepare(&mut self.0, batch)
    }

    fn enter(&self, sketch: &mut dyn AnySketch, batch: &BatchRows<'_>) -> Result<()> {
        match (sketch as &mut dyn Any).downcast_mut::<S>() {
            Some(sketch) => sketch.update(&self.0, batch),
            None => Err(Error::Rows("a batch was prepared for a sketch of another kind".to_owned())),
        }
    }
}
