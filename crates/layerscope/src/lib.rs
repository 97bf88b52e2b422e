//! Layerscope: an instrument for looking inside Transformers. This crate is the program and the library behind it.
//!
//! The command line and the Python package are both thin callers of the functions below. [`Settings`] are the flags of
//! `layerscope measure` by name.
//!
//! ```
//! use layerscope::{CancelToken, Event, Settings, measure};
//!
//! # let folder = std::env::temp_dir().join(format!("layerscope-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let text = folder.join("text.txt");
//! # std::fs::write(&text, "the cat sat on the mat\nthe dog sat on the cat\n").unwrap();
//! # let (text, out) = (text.display().to_string(), folder.join("run").display().to_string());
//! // An embedded model on a text of two lines; norms and cosines of every token at every layer.
//! let settings = Settings::new("pocket-gpt", [text], &out).set("measures", "norm,cosine")?.set("frequency", "2:100")?;
//! let finished = measure(&settings, &CancelToken::default(), &mut |event| {
//!     if let Event::Warning(line) = event {
//!         eprintln!("{line}");
//!     }
//! })?;
//! assert_eq!(finished.result.corpus.documents, Some(2));
//! println!("{}", layerscope::overview(&finished.folder)?);
//!
//! let runs = layerscope::load(&[out.into()])?;
//! assert_eq!(runs[0].layers.text("measure", 0), Some("q"));
//! # std::fs::remove_dir_all(folder).unwrap();
//! # Ok::<(), layerscope::Error>(())
//! ```

mod bench;
mod checkpoint;
pub mod cli;
mod collector;
mod demo;
mod error;
mod fuzzing;
mod measure;
mod pictures;
mod process;
mod serve;
mod settings;
mod store;
mod tables;
mod text;
mod training;

pub use bench::{Bench, BenchSettings, Peak, Recommended, Speed, Statistics, bench};
pub use checkpoint::{Inspection, Probe, Weights, WeightsOf, inspect, weights};
pub use cli::progress::{Display, Mode};
pub use collector::import::{ImportOptions, import};
pub use collector::{Collector, CollectorSettings, GroupsOf, ModelNote, StateRows, document_of};
pub use error::{Error, ErrorKind, Result};
pub use measure::event::{Event, Show};
pub use measure::measure;
pub use measure::outlook::Outlook;
pub use pictures::{Look, figures, report};
pub use process::cancel::CancelToken;
pub use process::temporary::Located;
pub use settings::{Given, Settings};
pub use store::kept_as::KeptAs;
pub use store::load::{Runs, load, load_compared, load_with_parts};
pub use store::merge::{MergeSettings, merge, merge_part};
pub use store::mirror::{Finished, fetch, remove};
pub use store::point_name::PointName;
pub use store::prune::{Keep, Pruned, prune};
pub use tables::ask::{Answer, Question, ask, ask_curve};
pub use tables::compare::{Comparison, compare};
pub use tables::lists::{measures, models};
pub use tables::overview::{overview, overview_of};
pub use training::{join_steps, track};

/// What benchmarks and tests of this repository reach for. Not part of the library.
#[doc(hidden)]
pub mod internals {
    /// For `fuzz/`.
    pub mod fuzzing {
        pub use crate::fuzzing::{Site, respond, tables_of};
    }

    pub use crate::checkpoint::name::model_name;
    pub use crate::demo::embedded;
    pub use crate::demo::findings::{Verdict, findings};
    pub use crate::measure::items::{Items, document_number};
    pub use crate::measure::kept::{KeepSettings, Kept};
    pub use crate::measure::workers::{WorkSettings, Workers};
    pub use crate::process::command::remember as remember_command;
    pub use crate::process::panics::caught;
    pub use crate::settings::reference::{docstring, table as settings_table};
    pub use crate::settings::told::in_keywords;
    pub use crate::store::state::StateFile;
    pub use crate::store::write::refuse_run;
}

/// The examples of docs/rust.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
pub struct RustPage;
