//! Errors of the library as Python exceptions: one class a kind.

use layerscope::{Error, Result};
use layerscope_compute::ErrorKind;
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
    exception_of(py, error.kind(), &error.to_string())
}

/// An exception of some kind.
pub fn exception_of(py: Python<'_>, kind: ErrorKind, line: &str) -> PyErr {
    let made = py.import("layerscope._errors").and_then(|module| module.getattr(class(kind))?.call1((in_python(line),)));
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
    py.detach(|| layerscope::panics::caught(work)).map_err(|error| exception(py, &error))
}

/// Flags as Python calls them: `--max-words` is `max_words`.
fn in_python(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("--") {
        let flag = &rest[at + 2..];
        let starts = rest[..at].chars().next_back().is_none_or(|before| before == ' ' || before == '`' || before == '(');
        let length = flag.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(flag.len());
        if starts && length > 0 {
            text.push_str(&rest[..at]);
            text.push_str(&flag[..length].replace('-', "_"));
            rest = &flag[length..];
        } else {
            text.push_str(&rest[..at + 2]);
            rest = flag;
        }
    }
    text + rest
}
