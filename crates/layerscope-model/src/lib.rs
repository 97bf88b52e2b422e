//! Checkpoints in, hidden states at every layer out. Knows no corpus and no statistics.

pub mod checkpoint;
pub mod config;
mod error;
pub mod families;
pub mod hub;
pub mod names;
mod pickle;
mod safetensors;
pub mod spec;
mod torch_file;

pub use error::{Error, Result};
