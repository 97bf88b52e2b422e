//! Layerscope's operations and statistics on one NVIDIA GPU.
//!
//! Nothing of CUDA is needed to build this crate, or to run it on a machine without a GPU: the driver, cuBLASLt and NVRTC are
//! [found](libraries) at run time, and the kernels (CUDA C++, one file a subject, in `kernels/`) are [compiled](compile) for the card
//! at first use and kept in the user's cache folder.
//!
//! [`Cuda`] is the handle of a card. The residual stream, and what is added to it, is f32; products are computed in the chosen
//! [`ComputeDtype`](layerscope_compute::ComputeDtype), and where that has 16 bits, so has what lies between two of them. A state's bits do not depend on its batch: one algorithm for each shape of
//! weights, whatever the number of rows, and attention that sees nothing but its own sequence.

mod activations;
mod attention;
mod backend;
mod buffer;
pub mod compile;
mod device;
mod error;
mod kernels;
mod landing;
mod launch;
pub mod libraries;
mod linear;
mod operand;
mod product_times;
mod products;
mod rows;
mod same_bits;
mod statistics;
mod stream;
mod weights;

pub use attention::{CudaAttention, CudaOffsets};
pub use buffer::Buffer;
pub use device::{Card, Cuda, cards};
pub use error::CudaError;
pub use kernels::{Kernels, SOURCES, Source};
pub use launch::{Grid, Word, launch, launch_with};
pub use linear::CudaLinear;
pub use stream::{CudaStream, Work};
pub use weights::{CudaIndices, CudaNorm, CudaTable};
