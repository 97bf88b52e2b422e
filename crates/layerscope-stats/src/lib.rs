//! x
mod error;
mod kernels;
mod rows;
pub mod sketch;
pub use error::{Error, Result};
pub use rows::{BatchRows, NOT_COUNTED, Segment, Segments};
