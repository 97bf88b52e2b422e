//! What can go wrong between a table and its file.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use layerscope_error::{ErrorKind, Line, line, not_understood};

use crate::text::shortened;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what went wrong, where, and what to do. `Display` shows settings as flags; see [`Error::line`].
#[derive(Debug)]
pub enum Error {
    /// Columns that cannot form a table.
    Table(Line),
    /// A setting with a value that cannot be used.
    Setting(Line),
    /// A stored table that is missing, damaged or of another kind.
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// The table cannot be written; the source tells a closed pipe from a full disk.
    Write(io::Error),
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Table(_) => ErrorKind::Internal,
            Error::Setting(_) => ErrorKind::Usage,
            Error::File { .. } | Error::Write(_) => ErrorKind::Io,
        }
    }

    /// The message, with settings as data.
    pub fn line(&self) -> Line {
        match self {
            Error::Table(problem) | Error::Setting(problem) => problem.clone(),
            Error::File { file, problem } => line![format!("{}: ", file.display()), problem.clone()],
            Error::Write(source) => format!("cannot write the table: {source}").into(),
        }
    }

    /// Columns that cannot form a table.
    pub(crate) fn table(problem: impl Into<Line>) -> Self {
        Error::Table(problem.into())
    }

    /// A setting that does not take what was given. `words` are those that it takes among others, `example` is what to give.
    pub(crate) fn setting(name: &'static str, given: &str, words: &[&str], example: &str) -> Self {
        Error::Setting(not_understood(name, &shortened(given), words, example))
    }

    /// A stored table that cannot be used.
    pub(crate) fn file(file: &Path, problem: impl Into<Line>) -> Self {
        Error::File { file: file.to_owned(), problem: problem.into() }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error::Write(source)
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
            Error::Write(source) => Some(source),
            _ => None,
        }
    }
}
