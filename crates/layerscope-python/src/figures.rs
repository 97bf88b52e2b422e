//! Figures and the page.

use std::path::PathBuf;

use layerscope::embedded::Located;
use layerscope::plan::parse_frequency;
use layerscope::store::Store;
use layerscope::{Error, mirror};
use layerscope_report::figure::{self, LIST, Settings};
use layerscope_report::{Run, page};
use pyo3::prelude::*;

use crate::error::raised;
use crate::work::patient;

/// Opens runs; those that lie at addresses are there for as long as the second value is.
pub fn open(folders: &[PathBuf]) -> layerscope::Result<(Vec<Run>, Vec<Located>)> {
    let here = mirror::fetch_all(folders)?;
    Ok((here.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?, here))
}

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
    theme: String,
    width_mm: Option<String>,
    title: Option<String>,
) -> PyResult<Drawn> {
    patient(py, Vec::new(), move || {
        if let Some(unknown) = only.iter().find(|name| !LIST.iter().any(|figure| figure.is_called(name))) {
            let known: Vec<&str> = LIST.iter().map(|figure| figure.id).collect();
            return Err(Error::Usage(format!("--only `{unknown}` is not understood; give some of {}", known.join(", "))));
        }
        let frequency = frequency.as_deref().map(parse_frequency).transpose()?;
        let settings = Settings {
            only,
            layers,
            tokens,
            frequency: frequency.map(|range| (*range.start() as i64, *range.end() as i64)),
            theme: theme.parse()?,
            width_mm: width_mm.as_deref().map(figure::width_mm).transpose()?,
            title,
        };
        std::fs::create_dir_all(&out).map_err(|source| Error::io(&out, source))?;
        let (runs, _here) = open(&folders)?;
        let drawing = figure::draw(&runs, &settings, &out, &mut |_| {})?;
        let files = drawing.written.iter().flat_map(|written| written.files.clone()).collect();
        Ok((files, drawing.skipped.into_iter().map(|skipped| (skipped.figure.to_owned(), skipped.reason)).collect()))
    })
}

/// The first of some figures that can be drawn, as SVG.
#[pyfunction]
pub fn svg(py: Python<'_>, folder: PathBuf, wanted: Vec<String>, scratch: PathBuf) -> PyResult<Option<String>> {
    raised(py, || {
        let (runs, _here) = open(&[folder])?;
        for name in wanted {
            let settings = Settings { only: vec![name], ..Settings::default() };
            let drawing = figure::draw(&runs, &settings, &scratch, &mut |_| {})?;
            let files = drawing.written.iter().flat_map(|written| &written.files);
            if let Some(file) = files.into_iter().find(|file| file.extension().is_some_and(|end| end == "svg")) {
                return std::fs::read_to_string(file).map(Some).map_err(|source| Error::io(file, source));
            }
        }
        Ok(None)
    })
}

/// Writes the page of some runs; its size in bytes.
#[pyfunction]
pub fn report(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf, frequency: Option<String>, title: Option<String>) -> PyResult<usize> {
    patient(py, Vec::new(), move || {
        let frequency = frequency.as_deref().map(parse_frequency).transpose()?;
        let mut bytes = Vec::new();
        let (runs, _here) = open(&folders)?;
        page::write(&runs, &page::Settings { frequency, title }, &mut bytes)?;
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
        let name = out.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::Usage(format!("{} is no file name", out.display())))?;
        Store::create(folder)?.put_atomic(name, |file| file.write_all(&bytes))?;
        Ok(bytes.len())
    })
}
