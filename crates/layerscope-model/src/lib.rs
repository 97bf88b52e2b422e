//! Checkpoints in, hidden states at every layer out. Knows no corpus and no statistics.

mod attention;
mod batch;
mod block;
pub mod checkpoint;
pub mod config;
mod embedding;
mod error;
pub mod families;
mod feed_forward;
pub mod hub;
mod model;
pub mod names;
mod pickle;
mod point;
mod position;
mod requirements;
pub mod safetensors;
pub mod spec;
mod torch_file;
mod transformer;
mod weights;
mod workers;

pub use batch::Batch;
pub use error::{Error, Result};
pub use model::Model;
pub use point::{Blind, Observer, Point};
pub use requirements::{Part, Place, TensorPlan};
pub use transformer::{Transformer, Workspace, workspace_bytes};
pub use workers::forward_all;
