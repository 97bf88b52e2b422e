//! A checkpoint, and what it says without any text.

mod diagram;
pub(crate) mod fingerprint;
pub(crate) mod inspect;
pub(crate) mod locate;
pub(crate) mod name;
mod probe;
pub(crate) mod tokenizer;
pub(crate) mod weights;

pub use inspect::{Inspection, inspect};
pub use probe::Probe;
pub use weights::{Weights, WeightsOf, weights};
