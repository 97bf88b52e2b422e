//! What can go wrong between a table and its file.

use std::io;
use std::path::{Path, PathBuf};

use layerscope_compute::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Columns that make no table.
    #[error("{0}")]
    Table(String),
    /// A format that does not exist.
    #[error("unknown format `{0}`; use md, csv, json, jsonl or latex")]
    Format(String),
    /// A setting of figures that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// A stored table that is missing, damaged or of another kind.
    #[error("{}: {problem}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What and what to do.
        problem: String,
    },
    /// The table cannot be written; the source tells a closed pipe from a full disk.
    #[error("cannot write the table: {0}")]
    Write(#[from] io::Error),
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Table(_) => ErrorKind::Internal,
            Error::Format(_) | Error::Setting(_) => ErrorKind::Usage,
            Error::File { .. } | Error::Write(_) => ErrorKind::Io,
        }
    }

    /// A stored table that cannot be used.
    pub(crate) fn file(file: &Path, problem: impl Into<String>) -> Self {
        Error::File { file: file.to_owned(), problem: problem.into() }
    }
}
