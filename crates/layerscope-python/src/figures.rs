//! Figures and the page.

use std::path::PathBuf;

use layerscope::{Error, Look, load, load_with_parts};
use layerscope_report::figure::{self, Settings};
use pyo3::prelude::*;

use crate::error::raised;
use crate::work::patient;

/// Files, and figures that were not drawn with the reason.
type Drawn = (Vec<PathBuf>, Vec<(String, String)>);

/// Draws figures of some runs; the files written, and what could not be drawn with the reason.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn figures(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    out: PathBuf,
    only: Vec<String>,
    layers: Vec<i64>,
    tokens: Vec<String>,
    frequency: Option<String>,
    states: Option<String>,
    depth: Option<String>,
    theme: String,
    width_mm: Option<String>,
    title: Option<String>,
) -> PyResult<Drawn> {
    patient(py, Vec::new(), move || {
        let look = Look { only, layers, tokens, states, depth, theme: Some(theme), width_mm, title };
        let drawing = layerscope::figures(&load_with_parts(&folders)?, &look, frequency.as_deref(), &out)?;
        let files = drawing.written.iter().flat_map(|written| written.files.clone()).collect();
        Ok((files, drawing.skipped.into_iter().map(|skipped| (skipped.figure.to_owned(), skipped.reason.keywords())).collect()))
    })
}

/// The first of some figures that can be drawn, as SVG.
#[pyfunction]
pub fn svg(py: Python<'_>, folder: PathBuf, wanted: Vec<String>, scratch: PathBuf) -> PyResult<Option<String>> {
    raised(py, || {
        let runs = load(&[folder])?;
        for name in wanted {
            let settings = Settings { only: vec![name], ..Settings::default() };
            let drawing = figure::draw(&runs, &settings, &scratch, &mut |_| {})?;
            let files = drawing.written.iter().flat_map(|written| &written.files);
            if let Some(file) = files.into_iter().find(|file| file.extension().is_some_and(|end| end == "svg")) {
                return std::fs::read_to_string(file).map(Some).map_err(|source| Error::Io { path: file.clone(), source });
            }
        }
        Ok(None)
    })
}

/// Writes the page of some runs; its size in bytes.
#[pyfunction]
pub fn report(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    out: PathBuf,
    only: Vec<String>,
    frequency: Option<String>,
    title: Option<String>,
) -> PyResult<usize> {
    patient(py, Vec::new(), move || layerscope::report(&load_with_parts(&folders)?, frequency.as_deref(), title, &only, &out))
}
