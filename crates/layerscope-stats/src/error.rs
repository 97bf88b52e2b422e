//! What can go wrong between rows and tables.

use layerscope_error::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what, where and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Rows that do not fit together or do not fit the sketch.
    #[error("{0}")]
    Rows(String),
    /// A row that counts has a component that is not a number, or infinite.
    #[error("row {row} is not finite")]
    NotFinite {
        /// The row.
        row: u32,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] layerscope_compute::Error),
    /// Two sketches that do not belong together.
    #[error("cannot merge: {0}")]
    Mismatch(String),
    /// A stored sketch that is damaged or of another kind.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor {
        /// Its name in the stored state.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Rows(_) | Error::NotFinite { .. } => ErrorKind::Usage,
            Error::Device(error) => error.kind(),
            Error::Mismatch(_) => ErrorKind::Refused,
            Error::Tensor { .. } => ErrorKind::Io,
        }
    }

    /// The same about a tensor whose name lacks a prefix so far.
    pub(crate) fn under(self, prefix: &str) -> Self {
        match self {
            Error::Tensor { tensor, problem } => Error::Tensor { tensor: format!("{prefix}.{tensor}"), problem },
            other => other,
        }
    }

    /// A tensor that cannot be used.
    pub(crate) fn tensor(tensor: &str, problem: impl Into<String>) -> Self {
        Error::Tensor { tensor: tensor.to_owned(), problem: problem.into() }
    }
}

/// Refuses two numbers that must be equal before a merge.
pub(crate) fn must_match<T: PartialEq + std::fmt::Display>(what: &str, ours: T, theirs: T) -> Result<()> {
    if ours == theirs { Ok(()) } else { Err(Error::Mismatch(format!("{what} differs: {ours} and {theirs}"))) }
}
