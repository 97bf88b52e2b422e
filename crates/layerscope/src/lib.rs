//! Layerscope: an instrument for looking inside Transformers. This crate is the program and the library behind it.
//!
//! ```
//! use layerscope::{Inspection, embedded};
//!
//! // An embedded model: it is written to a temporary folder and opened like any other.
//! let folder = embedded::unpack("pocket-gpt")?.expect("one of the embedded models");
//! let inspection = Inspection::of(&folder)?;
//! assert_eq!(inspection.layers, inspection.blocks.len());
//! println!("{inspection}");
//! # Ok::<(), layerscope::Error>(())
//! ```

pub mod cancel;
mod choose;
pub mod cli;
pub mod collect;
pub mod command;
pub mod compare;
pub mod demo;
mod diagram;
pub mod embedded;
mod error;
mod estimate;
pub mod facts;
pub mod findings;
pub mod finish;
pub mod gather;
pub mod import;
mod inspect;
pub mod items;
pub mod kept;
mod massive;
pub mod merge;
pub mod mirror;
pub mod panics;
pub mod plan;
pub mod point_state;
mod probe;
pub mod revisions;
pub mod run;
pub mod serve;
pub mod settings;
pub mod site;
pub mod state;
pub mod store;
pub mod summary;
mod system;
pub mod tables;
mod text;
pub mod track;
pub mod trajectory;
pub mod weights;
mod work;

pub use error::{Error, Result};
pub use inspect::Inspection;
pub use probe::{Probe, probe};
