//! The checkpoints of a training.

pub(crate) mod alike;
pub(crate) mod join;
pub(crate) mod revisions;
mod track;

pub use join::join_steps;
pub use track::track;
