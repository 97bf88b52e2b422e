//! Inputs: from what the user named to a sorted list of files, and from a file to its records.
//!
//! | name ends in | format |
//! |---|---|
//! | `.txt`, no ending at all, an ending we do not know, `-` (standard input) | a line is a record |
//! | `.jsonl`, `.ndjson`, `-` with an explicit text column | a line is a JSON object |
//! | `.parquet` | a row is a record |
//!
//! Each name may also end in `.gz` or `.zst`. Inputs can be on disk, in an object store (`s3://`, `gs://`, `az://`) or on a web server.
//! Lines end in `\n` or `\r\n`; a byte order mark at the start is dropped.

mod jsonl;
mod lines;
mod list;
mod pages;
mod rows;
mod stream;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use layerscope_error::{line, setting};
use layerscope_remote::Remote;

use crate::clean::Clean;
use crate::document::Record;
use crate::error::{Error, Result};

pub use list::{Compression, Format, Source, is_assumed, sources};

/// The longest record that is held in memory; a longer one is an error.
pub const MAX_RECORD_BYTES: u64 = 256 * 1024 * 1024;

/// The name of standard input among inputs.
pub const STANDARD_INPUT: &str = "-";

/// The columns of JSON lines and Parquet rows that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The text.
    pub text: String,
    /// The column that groups documents, if any.
    pub group: Option<String>,
    /// The column that splits the corpus, if any.
    pub split: Option<String>,
}

/// The value of the column that splits the corpus; a blank one is none.
fn split_value(value: String) -> Option<String> {
    Some(value).filter(|value| !value.trim().is_empty())
}

/// The records of one input, in order. They end after any error other than [`Error::Record`].
pub trait Records {
    /// The next record, or `None` at the end. A bad record is an error in its place.
    fn next_record(&mut self) -> Option<Result<Record>>;
}

/// What reading shares with the rest of the program: bytes read so far, and whether to stop.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    /// Compressed bytes read, over all inputs.
    pub bytes: &'a Arc<AtomicU64>,
    /// Set when the caller wants to stop.
    pub cancel: &'a AtomicBool,
    /// Reads inputs that are addresses.
    pub remote: &'a Remote,
    /// Bytes of the longest record that memory allows.
    pub longest: u64,
}

impl Source {
    /// Starts reading. With `clean`, a text file that is an XML dump is read page by page. `scratch` is a folder for inputs that must be
    /// unpacked before they can be read.
    pub fn open<'a>(
        &'a self,
        columns: &'a Columns,
        clean: Option<Clean>,
        scratch: &Path,
        watch: Watch<'a>,
    ) -> Result<Box<dyn Records + 'a>> {
        let named = [("group", &columns.group), ("split", &columns.split)].into_iter().find(|(_, column)| column.is_some());
        if let (Some((name, _)), Format::Text) = (named, self.format) {
            let problem = line!["lines of text have no columns; ", setting(name).to("column:NAME"), " needs .jsonl or .parquet"];
            return Err(Error::input(&self.name, problem));
        }
        Ok(match self.format {
            Format::Text if clean.is_some() => Box::new(pages::PageRecords::new(lines::Lines::open(self, watch)?)),
            Format::Text => Box::new(lines::TextRecords(lines::Lines::open(self, watch)?)),
            Format::Jsonl => Box::new(jsonl::JsonRecords::new(lines::Lines::open(self, watch)?, columns)),
            Format::Parquet => Box::new(rows::RowRecords::open(self, columns, scratch, watch)?),
        })
    }
}
