//! What can go wrong between a model's name and its hidden states.

use std::fmt;
use std::path::{Path, PathBuf};

use layerscope_error::{ErrorKind, Line, line};

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to do with a model of an unknown kind.
pub(crate) const TRACE_MEASURES_IT: &str = "in Python, ls.trace measures any Transformer that torch runs";

/// One line that says what is wrong, where, and what to do.
#[derive(Debug)]
pub enum Error {
    /// The system refused a file operation.
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of the checkpoint is malformed or absent.
    File {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// One tensor is missing, unexpected, wrongly shaped or not finite.
    Tensor {
        /// The file, or the folder when no file holds it.
        file: PathBuf,
        /// Its name in the checkpoint.
        tensor: String,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// config.json is missing keys, contradicts itself, or asks for something that Layerscope does not compute.
    Config {
        /// The file.
        file: PathBuf,
        /// Everything wrong with it.
        problem: Line,
    },
    /// No family knows this architecture.
    Unsupported {
        /// The file that names it.
        file: PathBuf,
        /// The name.
        model_type: String,
    },
    /// The hub could not deliver.
    Hub {
        /// The model id.
        model: String,
        /// What is wrong and what to do.
        problem: Line,
    },
    /// A revision of the hub is not a checkpoint.
    Incomplete {
        /// The model id.
        model: String,
        /// What it lacks.
        problem: Line,
    },
    /// A batch the model cannot read.
    Batch(String),
    /// The device failed.
    Device(layerscope_compute::Error),
    /// Somebody asked to stop while the weights were read.
    Stopped,
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { .. } => ErrorKind::Io,
            Error::Device(error) => error.kind(),
            Error::Stopped => ErrorKind::Interrupted,
            _ => ErrorKind::Model,
        }
    }

    /// The line to show, with the settings it names as data.
    pub fn line(&self) -> Line {
        match self {
            Error::Io { file, source } => line![format!("{}: {source}", file.display())],
            Error::File { file, problem } | Error::Config { file, problem } => line![format!("{}: ", file.display()), problem.clone()],
            Error::Tensor { file, tensor, problem } => line![format!("{}: tensor `{tensor}`: ", file.display()), problem.clone()],
            Error::Unsupported { file, model_type } => {
                let problem = format!("model_type `{model_type}` is not supported; `layerscope models` lists the families that are");
                line![format!("{}: {problem}; {TRACE_MEASURES_IT}", file.display())]
            }
            Error::Hub { model, problem } | Error::Incomplete { model, problem } => line![format!("{model}: "), problem.clone()],
            Error::Batch(problem) => line![problem.clone()],
            Error::Device(error) => line![error.to_string()],
            Error::Stopped => line!["stopped while the weights were read"],
        }
    }

    /// A failed file operation.
    pub fn io(file: &Path, source: std::io::Error) -> Self {
        Error::Io { file: file.to_owned(), source }
    }

    /// A malformed or missing file.
    pub fn file(file: &Path, problem: impl Into<Line>) -> Self {
        Error::File { file: file.to_owned(), problem: problem.into() }
    }

    /// A tensor that cannot be used.
    pub fn tensor(file: &Path, tensor: &str, problem: impl Into<Line>) -> Self {
        Error::Tensor { file: file.to_owned(), tensor: tensor.to_owned(), problem: problem.into() }
    }

    /// A configuration that cannot be used.
    pub fn config(file: &Path, problem: impl Into<Line>) -> Self {
        Error::Config { file: file.to_owned(), problem: problem.into() }
    }

    /// A revision of the hub that is not a checkpoint.
    pub fn incomplete(model: &str, problem: impl Into<Line>) -> Self {
        Error::Incomplete { model: model.to_owned(), problem: problem.into() }
    }

    /// A failed download or cache look-up.
    pub fn hub(model: &str, problem: impl Into<Line>) -> Self {
        Error::Hub { model: model.to_owned(), problem: problem.into() }
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
            Error::Device(error) => Some(error),
            _ => None,
        }
    }
}

impl From<layerscope_compute::Error> for Error {
    fn from(error: layerscope_compute::Error) -> Self {
        Error::Device(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use layerscope_error::{line, setting};

    use super::*;

    #[test]
    fn the_kind_says_whose_fault_it_is() {
        let path = Path::new("model.safetensors");
        let io = Error::io(path, std::io::ErrorKind::PermissionDenied.into());
        assert_eq!((io.kind(), io.source().is_some()), (ErrorKind::Io, true));
        assert_eq!(Error::file(path, "truncated").kind(), ErrorKind::Model);
        let memory = Error::from(layerscope_compute::Error::OutOfMemory { device: "cpu".into(), bytes: 64 });
        assert_eq!((memory.kind(), memory.source().is_some()), (ErrorKind::Refused, true));
        assert_eq!(memory.to_string(), "cpu: not enough memory for 64 bytes more");
        let unknown = Error::Unsupported { file: path.to_owned(), model_type: "mamba".to_owned() };
        assert!(unknown.to_string().ends_with("; in Python, ls.trace measures any Transformer that torch runs"));
    }

    #[test]
    fn settings_are_data() {
        let error = Error::hub("org/name", line!["no revision `x`; check ", setting("revision")]);
        assert_eq!(error.to_string(), "org/name: no revision `x`; check --revision");
        assert_eq!(error.line().keywords(), "org/name: no revision `x`; check revision");
    }
}
