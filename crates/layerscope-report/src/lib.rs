//! Tables in; files for people and programs out.
//!
//! A [`Table`] has named columns of text, integers or reals; undefined cells are null, never NaN. [`export::write()`] prints it as
//! Markdown, CSV, JSON, JSON lines or LaTeX, and [`export::parquet`] stores and reads it. Text can come
//! from anywhere (tokens, file names), so every format makes it harmless in its own way: see [`export`].
//!
//! ```
//! use layerscope_report::export::{self, Format};
//! use layerscope_report::{Column, Table};
//!
//! let table = Table::new([
//!     ("group", Column::text(vec![Some("=1+1"), None])),
//!     ("q", Column::Real(vec![Some(0.1), None])),
//! ])?;
//! let mut csv = Vec::new();
//! export::write(&table, "csv".parse()?, &mut csv)?;
//! assert_eq!(csv, b"group,q\n'=1+1,0.1\n,\n");
//! # assert_eq!("csv".parse::<Format>()?, Format::Csv);
//! # Ok::<(), layerscope_report::Error>(())
//! ```

mod assets;
mod error;
pub mod export;
pub mod figure;
pub mod lead;
pub mod manifest;
pub mod page;
mod run;
pub mod states;
mod table;
pub mod text;
mod together;

pub use error::{Error, Result};
pub use manifest::Manifest;
pub use run::{Run, Step, run_parts, run_steps, stored_table, verify_tables};
pub use states::States;
pub use table::{Cell, Column, Table};
pub use together::{FEW_GROUPS, differences};
