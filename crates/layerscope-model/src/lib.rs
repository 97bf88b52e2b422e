//! Checkpoints in, hidden states at every layer out. Knows no corpus and no statistics.
//!
//! ```
//! use layerscope_compute::{Cpu, States};
//! use layerscope_model::{Batch, Model, Observer, Point};
//!
//! /// Checks that every point shows one state a token.
//! struct Count;
//!
//! impl Observer<Cpu> for Count {
//!     type Error = layerscope_model::Error;
//!
//!     fn observe(&mut self, batch: &Batch, at: Point, states: &mut States<Cpu>) -> Result<(), Self::Error> {
//!         assert_eq!((states.rows, states.as_slice().len()), (batch.tokens(), 7 * states.width), "{at}");
//!         Ok(())
//!     }
//! }
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/bert/base");
//! let model = Model::open(folder.as_ref())?.load(Cpu::new())?;
//! let batch = Batch::pack([vec![2, 7, 9, 3], vec![2, 5, 3]]);
//! model.forward(&batch, &mut model.workspace(batch.tokens())?, &mut Count)?;
//! # Ok::<(), layerscope_model::Error>(())
//! ```

mod ablation;
mod attention;
mod batch;
mod block;
pub mod checkpoint;
pub mod config;
mod embedding;
mod embedding_matrix;
mod error;
pub mod families;
mod feed_forward;
mod flops;
mod foreign;
pub mod gguf;
pub mod hub;
mod leg;
mod load_watch;
mod model;
pub mod names;
mod norms;
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
mod workspace;

pub use ablation::Ablation;
pub use batch::Batch;
pub use embedding_matrix::EmbeddingMatrix;
pub use error::{Error, Result};
pub use leg::Leg;
pub use load_watch::LoadWatch;
pub use model::Model;
pub use norms::NormParameters;
pub use point::{Blind, Observer, Point};
pub use requirements::{Part, Place, TensorPlan};
pub use transformer::Transformer;
pub use workers::forward_all;
pub use workspace::{Workspace, activation_memory, leg_memory, stream_memory, weight_memory, workspace_memory};
