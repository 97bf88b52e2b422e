//! The operations of Layerscope's forward pass, and nothing else.
//!
//! A [`Backend`] owns buffers and runs a small closed set of operations over *packed* batches: rows of all
//! sequences one after another, no padding. [`Reference`] is the plain implementation that every other one is
//! tested against; [`Cpu`] is the fast one.
//!
//! ```
//! use layerscope_compute::{Activation, Backend, Cpu, Reference};
//!
//! // One linear layer, two rows: y = relu(x W^T + b), W stored as [out, in].
//! fn run<B: Backend>(backend: B) -> Vec<f32> {
//!     let layer = backend.linear(vec![1.0, 0.0, 0.0, -1.0], 2, 2, Some(vec![0.5, 0.0]));
//!     let mut x = backend.buffer(4);
//!     backend.write(&mut x, &[1.0, 2.0, 3.0, -4.0]);
//!     let mut y = backend.buffer(4);
//!     backend.apply_linear(&mut backend.scratch(), &x, 2, &layer, Some(Activation::Relu), &mut y);
//!     backend.read(&y, 4)
//! }
//! assert_eq!(run(Reference), vec![1.5, 0.0, 3.5, 4.0]);
//! assert_eq!(run(Cpu::new()), run(Reference));
//! ```

mod backend;
pub mod cpu;
mod operations;
mod reference;

pub use backend::{Backend, States};
pub use cpu::Cpu;
pub use operations::{Activation, AttentionShape, Gather, HeadSegments, NormKind, PositionBias, RotaryPairs, RotaryRows};
pub use reference::Reference;

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
