//! Measuring, merging, following a training, and reading runs back.

use std::path::{Path, PathBuf};

use layerscope::cancel::CancelToken;
use layerscope::cli::download;
use layerscope::cli::progress::Mode;
use layerscope::cli::weights::{Asked, read};
use layerscope::embedded::Located;
use layerscope::plan::Plan;
use layerscope::settings::{Given, Options};
use layerscope::track::Journey;
use layerscope::{Error, Result, cli, mirror};
use layerscope_report::Run;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::error::{raised, usage};
use crate::figures::open;
use crate::table::NativeTable;
use crate::work::{long, patient};

/// How progress is shown: `quiet`, `bar`, `lines` or `json`.
fn mode(name: &str) -> Mode {
    match name {
        "bar" => Mode::Bar,
        "lines" => Mode::Lines,
        "json" => Mode::Json,
        _ => Mode::Quiet,
    }
}

/// Settings as the flags of `measure` would have them.
fn options(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut named = Vec::new();
    for (name, value) in settings.iter() {
        let name: String = name.extract()?;
        let given = if let Ok(truth) = value.cast::<PyBool>() {
            Given::Truth(truth.is_true())
        } else if let Ok(values) = value.extract::<Vec<String>>() {
            Given::Words(values)
        } else if let Ok(text) = value.extract::<String>() {
            Given::Words(vec![text])
        } else {
            return Err(usage(py, format!("{name} is {}; give text, a number, a list or a truth", value.get_type().name()?)));
        };
        named.push((name, given));
    }
    raised(py, || Options::from_named(&named))
}

/// Measures a corpus through a model into the folder `out` of the settings.
#[pyfunction]
pub fn measure(py: Python<'_>, settings: &Bound<'_, PyDict>, call: Vec<String>, progress: &str, say: &Bound<'_, PyAny>) -> PyResult<()> {
    let options = options(py, settings)?;
    long(py, call, mode(progress), say, move |cancel, show| {
        let plan = Plan::new(&options)?;
        let folder = download::locate(&plan.model, plan.revision.as_deref())?;
        let out = plan.out.clone();
        let measured = mirror::into(&out, cancel, show, |here, show| {
            layerscope::run::measure(Plan { out: here.to_owned(), ..plan }, &folder, cancel, show)
        });
        measured.map(drop)
    })
}

/// The same through all checkpoints of a training.
#[pyfunction]
pub fn track(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    revisions: String,
    evict: bool,
    call: Vec<String>,
    progress: &str,
    say: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let options = options(py, settings)?;
    long(py, call, mode(progress), say, move |cancel, show| {
        if options.revision.is_some() {
            return Err(Error::Usage("--revision is for one checkpoint; track takes --revisions".to_owned()));
        }
        let plan = Plan::new(&options)?;
        let source = download::checkpoints(&plan.model)?;
        let out = plan.out.clone();
        let tracked = mirror::into(&out, cancel, show, |here, show| {
            let plan = Plan { out: here.to_owned(), ..plan };
            layerscope::track::track(Journey { plan, source, revisions, evict }, cancel, show)
        });
        tracked.map(drop)
    })
}

/// Puts the runs of some steps together as a trajectory.
#[pyfunction]
pub fn join_steps(py: Python<'_>, out: PathBuf, names: Vec<String>) -> PyResult<()> {
    raised(py, || layerscope::track::join_steps(&out, &names).map(drop))
}

/// Short work in the folder of a run.
pub fn into<T>(out: &Path, work: impl FnOnce(&Path) -> Result<T>) -> Result<()> {
    mirror::into(out, &CancelToken::default(), &mut |_| {}, |here, _| work(here)).map(drop)
}

fn paths(runs: &[Located]) -> Vec<PathBuf> {
    runs.iter().map(|run| run.to_path_buf()).collect()
}

/// A finished run that lies at an address, as a folder for as long as this object lives.
#[pyclass(module = "layerscope._layerscope", frozen)]
pub struct NativeFolder(Located);

#[pymethods]
impl NativeFolder {
    /// Where it is.
    fn path(&self) -> PathBuf {
        self.0.to_path_buf()
    }
}

/// A copy of the run at an address.
#[pyfunction]
pub fn fetch(py: Python<'_>, address: PathBuf) -> PyResult<NativeFolder> {
    patient(py, Vec::new(), move || mirror::fetch(&address)).map(NativeFolder)
}

/// Removes a folder, or everything at an address.
#[pyfunction]
pub fn remove(py: Python<'_>, run: PathBuf) -> PyResult<()> {
    patient(py, Vec::new(), move || mirror::remove(&run))
}

/// Runs side by side: their names, what else differs, an overview, and the table.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    measures: Vec<String>,
    frequency: Option<String>,
) -> PyResult<(Vec<String>, Vec<String>, String, NativeTable)> {
    raised(py, || {
        let (runs, _here) = open(&folders)?;
        let comparison = cli::compare::compare(&runs, frequency.as_deref(), &measures)?;
        let overview = comparison.overview(!measures.is_empty());
        let table = comparison.tidy()?;
        Ok((comparison.labels, comparison.notes, overview, NativeTable(table)))
    })
}

/// Joins shards into one run.
#[pyfunction]
pub fn merge(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf, overwrite: bool, call: Vec<String>) -> PyResult<()> {
    patient(py, call, move || {
        let shards = mirror::fetch_all(&folders)?;
        let merge = |here: &Path| layerscope::merge::merge(&paths(&shards), here, overwrite, &mut |_| {});
        into(&out, merge)
    })
}

/// Joins some shards into a part of the run.
#[pyfunction]
pub fn merge_part(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf, call: Vec<String>) -> PyResult<()> {
    patient(py, call, move || {
        let shards = mirror::fetch_all(&folders)?;
        into(&out, |here| layerscope::merge::merge_part(&paths(&shards), here))
    })
}

/// Measures the embedding matrices and norms of a checkpoint, or of several.
#[pyfunction]
pub fn weights(
    py: Python<'_>,
    model: String,
    revision: Option<String>,
    revisions: Option<String>,
    out: PathBuf,
    call: Vec<String>,
) -> PyResult<Vec<String>> {
    patient(py, call, move || Ok(read(&Asked { model, revision, revisions, out: Some(out) })?.sources))
}

/// The manifest of a finished run as JSON, and its tables by name.
#[pyfunction]
pub fn read_run<'py>(py: Python<'py>, folder: PathBuf) -> PyResult<(String, Bound<'py, PyDict>)> {
    let run = raised(py, || Ok(Run::open(&folder)?))?;
    let tables = PyDict::new(py);
    let optional =
        [("groups", run.groups), ("components", run.components), ("spectra", run.spectra), ("tokens", run.tokens), ("norms", run.norms)];
    for (name, table) in [("layers", Some(run.layers))].into_iter().chain(optional) {
        if let Some(table) = table {
            tables.set_item(name, NativeTable(table))?;
        }
    }
    Ok((run.manifest.to_string(), tables))
}

/// What was measured, in a few lines, and the summary of all layers.
#[pyfunction]
pub fn overview(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    raised(py, || cli::show::overview(&folder))
}

/// The table of measures.
#[pyfunction]
pub fn measures(py: Python<'_>) -> PyResult<NativeTable> {
    raised(py, || Ok(NativeTable(cli::measures::table()?)))
}

/// The table of supported families, as text.
#[pyfunction]
pub fn models() -> String {
    cli::models::table()
}
