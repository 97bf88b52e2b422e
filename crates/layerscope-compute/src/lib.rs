//! The operations of Layerscope's forward pass, and nothing else.
//!
//! A [`Backend`] owns buffers and runs a small closed set of operations over *packed* batches: rows of all
//! sequences one after another, no padding. [`Reference`] is the plain implementation that every other one is
//! tested against; [`Cpu`] is the fast one.
//!
//! ```
//! use layerscope_compute::{Activation, Backend, Cpu, HostTensor, Reference, Result};
//!
//! // One linear layer, two rows: y = relu(x W^T + b), W stored as [out, in].
//! fn run<B: Backend>(backend: B) -> Result<Vec<f32>> {
//!     let weight = HostTensor::from_f32(vec![1.0, 0.0, 0.0, -1.0], 2, 2);
//!     let layer = backend.linear(weight, Some(vec![0.5, 0.0]))?;
//!     let mut stream = backend.stream()?;
//!     let (mut x, mut y) = (backend.buffer(4)?, backend.buffer(4)?);
//!     backend.write(&mut stream, &mut x, &[1.0, 2.0, 3.0, -4.0]);
//!     backend.apply_linear(&mut stream, &x, 2, &layer, Some(Activation::Relu), &mut y);
//!     backend.read(&mut stream, &y, 4)
//! }
//! assert_eq!(run(Reference)?, vec![1.5, 0.0, 3.5, 4.0]);
//! assert_eq!(run(Cpu::new()), run(Reference));
//! # Ok::<(), layerscope_compute::Error>(())
//! ```

mod backend;
pub mod cpu;
mod dtype;
mod error;
mod host_tensor;
mod memory;
mod operations;
pub mod parallel;
mod reference;

pub use backend::{Backend, HostBackend, States};
pub use cpu::Cpu;
pub use dtype::ComputeDtype;
pub use error::{Error, Latch, Result};
pub use host_tensor::{HostTensor, HostValues, NumberKind};
pub use memory::Memory;
pub use operations::{Activation, AttentionShape, Gather, HeadSegments, NormKind, PositionBias, RotaryPairs, RotaryRows};
pub use reference::Reference;
