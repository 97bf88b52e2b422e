//! What can go wrong between rows and tables.

use layerscope_compute::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what, where and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Rows that do not fit together or do not fit the sketch.
    #[error("{0}")]
    Rows(String),
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
            Error::Rows(_) => ErrorKind::Usage,
            Error::Mismatch(_) => ErrorKind::Refused,
            Error::Tensor { .. } => ErrorKind::Io,
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
