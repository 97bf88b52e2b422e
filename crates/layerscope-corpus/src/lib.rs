//! Text in, a spool of tokens and its batches out. Knows no model and no statistics.

pub mod counters;
mod document;
mod error;
pub mod filter;
pub mod group;
pub mod hash;
mod pipeline;
mod prepare;
mod settings;
pub mod source;
pub mod spool;
mod tokenize;
pub mod window;

pub use counters::Counters;
pub use document::{Document, DocumentId, Record};
pub use error::{Error, Result};
pub use filter::{Filters, Shard};
pub use group::{CONTINUES, Group, Grouping, UNCOUNTED};
pub use pipeline::{Progress, write_spool};
pub use settings::{OnError, Settings, Specials};
pub use spool::{BatchPlan, Sequence, Spool, SpoolBatch};
pub use tokenize::{Tokenizer, Wrap, surface};
pub use window::{Context, Windows};
