//! Layerscope: an instrument for looking inside Transformers. This crate is the program and the library behind it.
//!
//! ```
//! use layerscope::{Inspection, demo};
//!
//! // The embedded model: a folder in memory is written to a temporary place and opened like any other.
//! let folder = demo::unpack()?;
//! let inspection = Inspection::of(folder.path())?;
//! assert_eq!(inspection.layers, inspection.blocks.len());
//! println!("{inspection}");
//! # Ok::<(), layerscope::Error>(())
//! ```

pub mod cli;
pub mod collect;
pub mod demo;
mod diagram;
mod error;
mod inspect;
mod probe;
pub mod state;
pub mod store;
mod text;

pub use error::{Error, Result};
pub use inspect::Inspection;
pub use probe::{Probe, probe};
