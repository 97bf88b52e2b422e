//! Text in, a spool of tokens and its batches out. Knows no model and no statistics.
//!
//! [`write_spool`] reads the text once: records are numbered, sampled and filtered ([`filter`]), tokenized ([`Tokenizer`]), cut into
//! windows ([`window`]), assigned to groups ([`group`]) and written in order ([`spool`]). The text is never read again: all counts are
//! known before the model runs.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use layerscope_corpus::{Settings, Tokenizer, Wrap, write_spool};
//!
//! # fn main() -> layerscope_corpus::Result<()> {
//! let tokenizer = Tokenizer::load("tests/data/wordpiece".as_ref(), Wrap::Model)?;
//! let mut settings = Settings::new(["tests/data/sentences.txt"], 128);
//! settings.filters.lowercase = true;
//! settings.filters.limit = Some(20);
//! # let path = std::env::temp_dir().join(format!("layerscope-example-{}", std::process::id()));
//! let spool = write_spool(&settings, &tokenizer, &path, &mut |_| {}, &AtomicBool::new(false))?;
//! assert_eq!(spool.counters().documents, 20);
//! for batch in spool.batches(256)? {
//!     let batch = batch?;
//!     assert!(batch.tokens() <= 256 && batch.groups.len() == batch.tokens());
//! }
//! # std::fs::remove_file(&path).unwrap();
//! # Ok(())
//! # }
//! ```

mod check;
mod clean;
pub mod counters;
mod document;
mod error;
pub mod filter;
pub mod group;
pub mod hash;
mod parts;
mod pipeline;
mod prepare;
mod settings;
pub mod source;
pub mod spool;
mod tokenize;
pub mod window;

pub use check::{KnownText, check_text};
pub use clean::Clean;
pub use counters::Counters;
pub use document::{Document, DocumentId, Record};
pub use error::{Error, Result};
pub use filter::{Filters, Shard};
pub use group::{CONTINUES, Group, Grouping, UNCOUNTED};
pub use layerscope_remote::Options as StoreOptions;
pub use parts::{MOST_PARTS, split_values};
pub use pipeline::{Progress, write_spool};
pub use settings::{OnError, Settings, Specials};
pub use spool::{BatchPlan, BatchSize, Sequence, Spool, SpoolBatch};
pub use tokenize::{Tokenizer, Wrap};
pub use window::{Context, Windows};
