//! Errors of the library as Python exceptions: one class a kind.

use layerscope::internals::caught;
use layerscope::{Error, ErrorKind, Result};
use pyo3::prelude::*;

/// The class of an error, in `layerscope._errors`.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Usage => "UsageError",
        ErrorKind::Model => "ModelError",
        ErrorKind::Corpus => "CorpusError",
        ErrorKind::Refused => "RefusedError",
        ErrorKind::Interrupted => "Interrupted",
        ErrorKind::Io => "FileError",
        ErrorKind::Internal => "DefectError",
    }
}

/// The exception of an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    exception_of(py, error.kind(), &error.line().keywords())
}

/// An exception of some kind.
pub fn exception_of(py: Python<'_>, kind: ErrorKind, line: &str) -> PyErr {
    let made = py.import("layerscope._errors").and_then(|module| module.getattr(class(kind))?.call1((line,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A request that makes no sense.
pub fn usage(py: Python<'_>, line: impl AsRef<str>) -> PyErr {
    exception_of(py, ErrorKind::Usage, line.as_ref())
}

/// The result of the library as one of Python; a panic is an error too.
pub fn raised<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| caught(work)).map_err(|error| exception(py, &error))
}
