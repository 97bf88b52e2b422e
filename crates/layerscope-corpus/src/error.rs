//! What can go wrong between a file name and a batch of tokens.

use std::fmt;
use std::path::{Path, PathBuf};

use layerscope_error::{ErrorKind, Line, line, setting};

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what went wrong, where, and what to do. `Display` shows settings as flags; see [`Error::line`].
#[derive(Debug)]
pub enum Error {
    /// A setting has a value that cannot be used.
    Usage(Line),
    /// An input cannot be found, opened or read to its end.
    Input {
        /// The input as the user named it, or as the pattern found it.
        input: String,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// One record of an input cannot be used; `OnError::Skip` goes on without it.
    Record {
        /// The input.
        input: String,
        /// `line 3`, `row 17`, counted from 1.
        place: String,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// No document is left to measure.
    Nothing(Line),
    /// The model's tokenizer cannot be used.
    Tokenizer {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// The spool on disk cannot be read.
    Spool {
        /// The spool.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// The system refused to read or write a file of our own.
    Io {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The caller asked to stop.
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

    /// The message, with settings as data.
    pub fn line(&self) -> Line {
        match self {
            Error::Usage(problem) | Error::Nothing(problem) => problem.clone(),
            Error::Input { input, problem } => line![format!("{input}: "), problem.clone()],
            Error::Record { input, place, problem } => line![format!("{input}: {place}: "), problem.clone()],
            Error::Tokenizer { file, problem } | Error::Spool { file, problem } => line![format!("{}: ", file.display()), problem.clone()],
            Error::Io { file, source } => format!("{}: {source}", file.display()).into(),
            Error::Interrupted => "interrupted while reading the corpus: the same command reads it again".into(),
        }
    }

    /// A setting with a value that cannot be used.
    pub fn usage(problem: impl Into<Line>) -> Self {
        Error::Usage(problem.into())
    }

    /// An input that cannot be used.
    pub fn input(input: &str, problem: impl Into<Line>) -> Self {
        Error::Input { input: input.to_owned(), problem: problem.into() }
    }

    /// A record that cannot be used.
    pub fn record(input: &str, place: impl Into<String>, problem: impl Into<Line>) -> Self {
        Error::Record { input: input.to_owned(), place: place.into(), problem: problem.into() }
    }

    /// A tokenizer that cannot be used.
    pub fn tokenizer(file: &Path, problem: impl Into<Line>) -> Self {
        Error::Tokenizer { file: file.to_owned(), problem: problem.into() }
    }

    /// A spool that cannot be used.
    pub fn spool(file: &Path, problem: impl Into<Line>) -> Self {
        Error::Spool { file: file.to_owned(), problem: problem.into() }
    }

    /// A spool that only a new run can replace.
    pub(crate) fn damaged_spool(file: &Path, problem: impl Into<Line>) -> Self {
        Error::spool(file, line![problem.into(), "; start again with ", setting("overwrite")])
    }

    /// A failed file operation of our own.
    pub fn io(file: &Path, source: std::io::Error) -> Self {
        Error::Io { file: file.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(out)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The way on past a bad record.
pub(crate) fn or_skip() -> Line {
    line!["or use ", setting("on-error").to("skip")]
}
