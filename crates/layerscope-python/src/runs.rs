//! Measuring, merging, following a training, and reading runs back.

use std::path::PathBuf;

use layerscope::internals::in_keywords;
use layerscope::{CancelToken, Given, Located, MergeSettings, Mode, Settings, WeightsOf, load_compared};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::error::{raised, usage};
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

/// Settings by name.
fn settings_from(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut settings = Settings::default();
    for (name, value) in given.iter() {
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
        settings = raised(py, || settings.set(&name, given))?;
    }
    Ok(settings)
}

/// Measures a corpus through a model into the folder `out` of the settings.
#[pyfunction]
pub fn measure(py: Python<'_>, settings: &Bound<'_, PyDict>, call: Vec<String>, progress: &str, say: &Bound<'_, PyAny>) -> PyResult<()> {
    let settings = settings_from(py, settings)?;
    long(py, call, mode(progress), say, move |cancel, show| layerscope::measure(&settings, cancel, show).map(drop))
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
    let settings = settings_from(py, settings)?;
    long(py, call, mode(progress), say, move |cancel, show| layerscope::track(&settings, &revisions, evict, cancel, show).map(drop))
}

/// The settings of `measure` as its docstring lists them.
#[pyfunction]
pub fn settings_doc() -> String {
    layerscope::internals::docstring()
}

/// Puts the runs of some steps together as a trajectory.
#[pyfunction]
pub fn join_steps(py: Python<'_>, out: PathBuf, names: Vec<String>) -> PyResult<()> {
    raised(py, || layerscope::join_steps(&out, &names).map(drop))
}

/// Drops what is not to be kept of a finished run; returns what was freed, in words.
#[pyfunction]
pub fn prune(py: Python<'_>, run: PathBuf, keep: String, states: Option<String>) -> PyResult<String> {
    let parsed = move || Ok((keep.parse()?, states.as_deref().map(str::parse).transpose()?));
    patient(py, Vec::new(), move || parsed().and_then(|(keep, states)| Ok(layerscope::prune(&run, keep, states)?.line())))
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
    patient(py, Vec::new(), move || layerscope::fetch(&address)).map(NativeFolder)
}

/// Removes a folder, or everything at an address.
#[pyfunction]
pub fn remove(py: Python<'_>, run: PathBuf) -> PyResult<()> {
    patient(py, Vec::new(), move || layerscope::remove(&run))
}

/// Runs side by side: their names, what else differs, an overview, and the table.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    measures: Vec<String>,
    frequency: Option<String>,
    states: Option<String>,
) -> PyResult<(Vec<String>, Vec<String>, String, NativeTable)> {
    raised(py, || {
        let comparison = layerscope::compare(&load_compared(&folders)?, frequency.as_deref(), states.as_deref(), &measures)?;
        let overview = comparison.overview(!measures.is_empty());
        let table = comparison.tidy()?;
        let notes = comparison.notes.iter().map(|note| in_keywords(note)).collect();
        Ok((comparison.labels, notes, in_keywords(&overview), NativeTable(table)))
    })
}

/// Joins shards into one run.
#[pyfunction]
pub fn merge(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf, overwrite: bool, allow_devices: bool, call: Vec<String>) -> PyResult<()> {
    let settings = MergeSettings { overwrite, allow_devices };
    patient(py, call, move || layerscope::merge(&folders, &out, settings, &CancelToken::default(), &mut |_| {}).map(drop))
}

/// Joins some shards into a part of the run.
#[pyfunction]
pub fn merge_part(py: Python<'_>, folders: Vec<PathBuf>, out: PathBuf, call: Vec<String>) -> PyResult<()> {
    patient(py, call, move || layerscope::merge_part(&folders, &out))
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
    patient(py, call, move || Ok(layerscope::weights(&WeightsOf { model, revision, revisions, out: Some(out) })?.sources))
}

/// The manifest of a finished run as JSON, its tables by name, and the states that its summary leads with.
#[pyfunction]
pub fn read_run<'py>(py: Python<'py>, folder: PathBuf) -> PyResult<(String, Bound<'py, PyDict>, &'static str)> {
    let run = raised(py, || Ok(layerscope_report::Run::open(&folder)?))?;
    let lead = layerscope_report::States::lead(&[&run]).name();
    let tables = PyDict::new(py);
    let more = |name: &str| raised(py, || Ok(run.read_table(name)?));
    let (massive, token_components) = (more("massive")?, more("token_components")?);
    let optional = [
        ("groups", run.groups),
        ("components", run.components),
        ("spectra", run.spectra),
        ("tokens", run.tokens),
        ("norms", run.norms),
        ("massive", massive),
        ("token_components", token_components),
    ];
    for (name, table) in [("layers", Some(run.layers))].into_iter().chain(optional) {
        if let Some(table) = table {
            tables.set_item(name, NativeTable(table))?;
        }
    }
    Ok((serde_json::to_string(&run.manifest).map_err(|error| usage(py, error.to_string()))?, tables, lead))
}

/// What was measured, in a few lines, and the summary of all layers.
#[pyfunction]
pub fn overview(py: Python<'_>, folder: PathBuf, states: Option<String>) -> PyResult<String> {
    raised(py, || Ok(in_keywords(&layerscope::overview_of(&folder, states.as_deref())?)))
}

/// A text with its settings as keywords.
#[pyfunction]
pub fn with_keywords(text: &str) -> String {
    in_keywords(text)
}

/// The table of measures.
#[pyfunction]
pub fn measures(py: Python<'_>) -> PyResult<NativeTable> {
    raised(py, || Ok(NativeTable(layerscope::measures()?)))
}

/// The table of supported families, as text.
#[pyfunction]
pub fn models() -> String {
    layerscope::models()
}
