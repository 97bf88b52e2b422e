//! The operations of Layerscope's forward pass, and nothing else.
//!
//! A [`Backend`] owns buffers and runs a small closed set of operations over *packed* batches: rows of all
//! sequences one after another, no padding. `Reference` is the plain implementation that every other one is
//! tested against; `Cpu` is the fast one.

mod backend;
mod operations;

pub use backend::{Backend, States};
pub use operations::{Activation, AttentionShape, Gather, HeadSegments, NormKind, PositionBias, RotaryPairs, RotaryRows};

/// What kind of trouble an error is: the program's exit status and Python's exception class follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong.
    Usage,
    /// The checkpoint cannot be used.
    Model,
    /// The text cannot be used.
    Corpus,
    /// The work was refused before it began (memory, a mismatch).
    Refused,
    /// The work was interrupted and can be resumed.
    Interrupted,
    /// The system failed us.
    Io,
    /// A defect of the program.
    Internal,
}
