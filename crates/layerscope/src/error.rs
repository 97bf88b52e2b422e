//! The program's errors, and the exit status each kind of them has.

use std::path::{Path, PathBuf};

use layerscope_compute::ErrorKind;
use layerscope_corpus::DocumentId;
use layerscope_model::Point;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that ends a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model could not be used.
    #[error(transparent)]
    Model(#[from] layerscope_model::Error),
    /// The text could not be used.
    #[error(transparent)]
    Corpus(#[from] layerscope_corpus::Error),
    /// A table could not be written or read.
    #[error(transparent)]
    Report(#[from] layerscope_report::Error),
    /// An object store did not do what it was asked.
    #[error(transparent)]
    Remote(#[from] layerscope_remote::Error),
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A run that was not begun, or not continued.
    #[error("{0}")]
    Refused(String),
    /// The text is not what it was.
    #[error("{0}")]
    Changed(String),
    /// A run that was stopped and can be resumed.
    #[error("{0}")]
    Interrupted(String),
    /// A hidden state with a component that is not a number, or infinite.
    #[error("document {document}, token {position}: the states are not finite at {at}; leave such states out with --on-error skip")]
    NotFinite {
        /// Where in the network.
        at: Point,
        /// The document.
        document: DocumentId,
        /// The token's place in it.
        position: u32,
    },
    /// Sketches could not be updated, merged or restored.
    #[error(transparent)]
    Stats(#[from] layerscope_stats::Error),
    /// A file of a run is damaged, or of another version.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What, and what to do.
        problem: String,
    },
    /// Two things that do not belong together.
    #[error("{0}")]
    Mismatch(String),
    /// The program is wrong.
    #[error("a defect of Layerscope: {0}; please report it with the command")]
    Defect(String),
    /// Another worker failed first.
    #[error("stopped")]
    Stopped,
    /// The system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Model(error) => error.kind(),
            Error::Corpus(error) => error.kind(),
            Error::Stats(error) => error.kind(),
            Error::Report(error) => error.kind(),
            Error::Usage(_) => ErrorKind::Usage,
            Error::Changed(_) | Error::NotFinite { .. } => ErrorKind::Corpus,
            Error::Mismatch(_) | Error::Refused(_) => ErrorKind::Refused,
            Error::Stopped | Error::Interrupted(_) => ErrorKind::Interrupted,
            Error::Remote(_) | Error::Damaged { .. } | Error::Io { .. } => ErrorKind::Io,
            Error::Defect(_) => ErrorKind::Internal,
        }
    }

    /// The program's exit status for this error.
    pub fn exit_status(&self) -> u8 {
        match self.kind() {
            ErrorKind::Usage => 2,
            ErrorKind::Model => 3,
            ErrorKind::Corpus => 4,
            ErrorKind::Refused => 5,
            ErrorKind::Interrupted => 6,
            ErrorKind::Io | ErrorKind::Internal => 1,
        }
    }

    /// A damaged file.
    pub fn damaged(path: &Path, problem: impl Into<String>) -> Error {
        Error::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// A failed file operation.
    pub fn io(path: &Path, source: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), source }
    }
}
