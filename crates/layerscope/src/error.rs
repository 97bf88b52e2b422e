//! The errors of the library, and the exit status of each kind.

use std::path::{Path, PathBuf};

use layerscope_corpus::DocumentId;
use layerscope_error::{Line, line, setting};
use layerscope_model::Point;

pub use layerscope_error::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that ends a command: one line that says what, where and what to do.
#[derive(Debug)]
pub enum Error {
    /// The model cannot be used.
    Model(layerscope_model::Error),
    /// The text cannot be used.
    Corpus(layerscope_corpus::Error),
    /// A table cannot be written or read.
    Report(layerscope_report::Error),
    /// An object store did not do what it was asked.
    Remote(layerscope_remote::Error),
    /// Sketches cannot be updated, merged or restored.
    Stats(layerscope_stats::Error),
    /// The request itself is wrong.
    Usage(Line),
    /// A run was not begun, or not continued.
    Refused(Line),
    /// The text is not what it was.
    Changed(Line),
    /// A run was stopped and can be resumed.
    Interrupted(Line),
    /// Two things do not belong together.
    Mismatch(Line),
    /// A hidden state has a component that is not a number, or infinite.
    NotFinite {
        /// Where in the network.
        at: Point,
        /// The document.
        document: DocumentId,
        /// The token's place in it.
        position: u32,
    },
    /// A file of a run is damaged, or of another version.
    Damaged {
        /// Where.
        path: PathBuf,
        /// What, and what to do.
        problem: Line,
    },
    /// The program is wrong.
    Defect(String),
    /// Another worker failed first.
    Stopped,
    /// The system refused a file operation.
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

    /// Whether a device had no memory for what it was to do.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        use layerscope_compute::Error::OutOfMemory;
        matches!(
            self,
            Error::Model(layerscope_model::Error::Device(OutOfMemory { .. }))
                | Error::Stats(layerscope_stats::Error::Device(OutOfMemory { .. }))
        )
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

    /// What, where and what to do; settings in it are data.
    pub fn line(&self) -> Line {
        match self {
            Error::Model(error) => error.line(),
            Error::Corpus(error) => error.line(),
            Error::Report(error) => error.line(),
            Error::Remote(error) => error.to_string().into(),
            Error::Stats(error) => error.to_string().into(),
            Error::Usage(line) | Error::Refused(line) | Error::Changed(line) | Error::Interrupted(line) | Error::Mismatch(line) => {
                line.clone()
            }
            Error::NotFinite { at, document, position } => line![
                format!("document {document}, token {position}: the states are not finite at {at}; skip such states with "),
                setting("on-error").to("skip")
            ],
            Error::Damaged { path, problem } => line![format!("{}: ", path.display()), problem.clone()],
            Error::Defect(what) => format!("internal error: {what}; please report it with the command").into(),
            Error::Stopped => "stopped".into(),
            Error::Io { path, source } => format!("{}: {source}", path.display()).into(),
        }
    }

    /// The same error with the texts of its line changed.
    pub(crate) fn map_text(self, change: impl Fn(String) -> String) -> Error {
        match self {
            Error::Usage(line) => Error::Usage(line.map_text(change)),
            Error::Refused(line) => Error::Refused(line.map_text(change)),
            Error::Changed(line) => Error::Changed(line.map_text(change)),
            Error::Mismatch(line) => Error::Mismatch(line.map_text(change)),
            Error::Interrupted(line) => Error::Interrupted(line.map_text(change)),
            other => other,
        }
    }

    /// A request that is wrong.
    pub(crate) fn usage(line: impl Into<Line>) -> Error {
        Error::Usage(line.into())
    }

    /// Work that is not begun, or not continued.
    pub(crate) fn refused(line: impl Into<Line>) -> Error {
        Error::Refused(line.into())
    }

    /// Text that is not what it was.
    pub(crate) fn changed(line: impl Into<Line>) -> Error {
        Error::Changed(line.into())
    }

    /// Things that do not belong together.
    pub(crate) fn mismatch(line: impl Into<Line>) -> Error {
        Error::Mismatch(line.into())
    }

    /// A damaged file.
    pub(crate) fn damaged(path: &Path, problem: impl Into<Line>) -> Error {
        Error::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    /// A failed file operation.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Error {
        Error::Io { path: path.to_owned(), source }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.line().fmt(out)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Model(error) => error.source(),
            Error::Corpus(error) => error.source(),
            Error::Report(error) => error.source(),
            Error::Remote(error) => error.source(),
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

macro_rules! error_from {
    ($($variant:ident($source:ty)),+ $(,)?) => { $(impl From<$source> for Error {
        fn from(error: $source) -> Error {
            Error::$variant(error)
        }
    })+ };
}
impl From<layerscope_compute::Error> for Error {
    fn from(error: layerscope_compute::Error) -> Error {
        Error::Model(error.into())
    }
}
error_from!(
    Model(layerscope_model::Error),
    Corpus(layerscope_corpus::Error),
    Report(layerscope_report::Error),
    Remote(layerscope_remote::Error),
    Stats(layerscope_stats::Error),
);
