//! Checkpoints in, hidden states at every layer out. Knows no corpus and no statistics.

pub mod checkpoint;
pub mod config;
mod error;
pub mod families;
pub mod hub;
pub mod names;
pub mod spec;

pub use error::{Error, Result};
