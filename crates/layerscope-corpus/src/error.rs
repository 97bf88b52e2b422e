//! What can go wrong between a file name and a batch of tokens.

use std::path::{Path, PathBuf};

use layerscope_compute::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// An input cannot be found, opened or read to its end.
    #[error("{input}: {problem}")]
    Input {
        /// The input as the user named it, or as the pattern found it.
        input: String,
        /// What and what to do.
        problem: String,
    },
    /// One record of an input cannot be used; `OnError::Skip` goes on without it.
    #[error("{input}: {place}: {problem}")]
    Record {
        /// The input.
        input: String,
        /// `line 3`, `row 17`, counted from 1.
        place: String,
        /// What and what to do.
        problem: String,
    },
    /// No document is left to measure.
    #[error("{0}")]
    Nothing(String),
    /// The model's tokenizer cannot be used.
    #[error("{}: {problem}", file.display())]
    Tokenizer {
        /// The file or folder.
        file: PathBuf,
        /// What and what to do.
        problem: String,
    },
    /// The spool on disk is not one we can read.
    #[error("{}: {problem}", file.display())]
    Spool {
        /// The spool.
        file: PathBuf,
        /// What and what to do.
        problem: String,
    },
    /// The system refused a file operation of our own.
    #[error("{}: {source}", file.display())]
    Io {
        /// Where.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted while the corpus was read; the next run reads it again")]
    Interrupted,
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Usage(_) => ErrorKind::Usage,
            Error::Input { .. } | Error::Record { .. } | Error::Nothing(_) => ErrorKind::Corpus,
            Error::Tokenizer { .. } => ErrorKind::Model,
            Error::Spool { .. } | Error::Io { .. } => ErrorKind::Io,
            Error::Interrupted => ErrorKind::Interrupted,
        }
    }

    /// An input that cannot be used.
    pub fn input(input: &str, problem: impl Into<String>) -> Self {
        Error::Input { input: input.to_owned(), problem: problem.into() }
    }

    /// A record that cannot be used.
    pub fn record(input: &str, place: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Record { input: input.to_owned(), place: place.into(), problem: problem.into() }
    }

    /// A tokenizer that cannot be used.
    pub fn tokenizer(file: &Path, problem: impl Into<String>) -> Self {
        Error::Tokenizer { file: file.to_owned(), problem: problem.into() }
    }

    /// A spool that cannot be used.
    pub fn spool(file: &Path, problem: impl Into<String>) -> Self {
        Error::Spool { file: file.to_owned(), problem: problem.into() }
    }

    /// A failed file operation of our own.
    pub fn io(file: &Path, source: std::io::Error) -> Self {
        Error::Io { file: file.to_owned(), source }
    }
}
