//! What can go wrong between a model's name and its hidden states.

use std::path::{Path, PathBuf};

use layerscope_compute::ErrorKind;

/// This crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused a file operation.
    #[error("{}: {source}", file.display())]
    Io {
        /// Where.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the checkpoint is malformed or absent.
    #[error("{}: {problem}", file.display())]
    File {
        /// Where.
        file: PathBuf,
        /// What and what to do.
        problem: String,
    },
    /// One tensor is missing, unexpected, wrongly shaped or not finite.
    #[error("{}: tensor `{tensor}`: {problem}", file.display())]
    Tensor {
        /// The file, or the folder when no file holds it.
        file: PathBuf,
        /// Its name in the checkpoint.
        tensor: String,
        /// What and what to do.
        problem: String,
    },
    /// config.json is missing keys, contradicts itself, or asks for something we do not compute.
    #[error("{}: {problem}", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// Everything wrong with it.
        problem: String,
    },
    /// Nobody wrote this family yet.
    #[error("{}: model_type `{model_type}` is not supported; `layerscope models` lists the families that are", file.display())]
    Unsupported {
        /// The file that named it.
        file: PathBuf,
        /// The name.
        model_type: String,
    },
    /// The hub could not deliver.
    #[error("{model}: {problem}")]
    Hub {
        /// The model id.
        model: String,
        /// What and what to do.
        problem: String,
    },
    /// What the hub has is no checkpoint.
    #[error("{model}: {problem}")]
    Incomplete {
        /// The model id.
        model: String,
        /// What it lacks.
        problem: String,
    },
    /// A batch the model cannot read.
    #[error("{0}")]
    Batch(String),
}

impl Error {
    /// What kind of trouble this is.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Model
    }

    /// A failed file operation.
    pub fn io(file: &Path, source: std::io::Error) -> Self {
        Error::Io { file: file.to_owned(), source }
    }

    /// A malformed or missing file.
    pub fn file(file: &Path, problem: impl Into<String>) -> Self {
        Error::File { file: file.to_owned(), problem: problem.into() }
    }

    /// A tensor that cannot be used.
    pub fn tensor(file: &Path, tensor: &str, problem: impl Into<String>) -> Self {
        Error::Tensor { file: file.to_owned(), tensor: tensor.to_owned(), problem: problem.into() }
    }

    /// A configuration that cannot be used.
    pub fn config(file: &Path, problem: impl Into<String>) -> Self {
        Error::Config { file: file.to_owned(), problem: problem.into() }
    }

    /// A revision of the hub that is no checkpoint.
    pub fn incomplete(model: &str, problem: impl Into<String>) -> Self {
        Error::Incomplete { model: model.to_owned(), problem: problem.into() }
    }

    /// A failed download or cache look-up.
    pub fn hub(model: &str, problem: impl Into<String>) -> Self {
        Error::Hub { model: model.to_owned(), problem: problem.into() }
    }
}
