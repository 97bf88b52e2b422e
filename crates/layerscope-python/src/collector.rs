//! The collector: arrays of any library into the sketches.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use layerscope::{Collector, CollectorSettings, Error, GroupsOf, PointName, StateRows, document_of};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value};

use crate::array::Array;
use crate::error::{raised, usage};
use crate::work::patient;

/// States from anywhere, in sketches.
#[pyclass(module = "layerscope._layerscope", frozen)]
pub struct NativeCollector(Arc<Collector>);

impl NativeCollector {
    fn of(collector: Collector) -> NativeCollector {
        NativeCollector(Arc::new(collector))
    }
}

#[pymethods]
impl NativeCollector {
    /// With settings as JSON; those that are missing have the defaults.
    #[new]
    fn new(py: Python<'_>, dim: usize, settings: &str) -> PyResult<NativeCollector> {
        raised(py, || Collector::new(settings_from(dim, settings)?)).map(NativeCollector::of)
    }

    /// Adds states at a layer.
    #[allow(clippy::too_many_arguments)]
    fn update(
        &self,
        py: Python<'_>,
        layer: u32,
        point: Option<&str>,
        states: &Bound<'_, PyAny>,
        groups: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        positions: Option<&Bound<'_, PyAny>>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let at = match point {
            Some(point) => raised(py, || PointName::new(layer, point))?,
            None => PointName::of_layer(layer),
        };
        let dim = self.0.settings().dim;
        let found = || states.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        let array = Array::of(states)?
            .ok_or_else(|| usage(py, format!("states are of type {}; give an array (numpy, torch, jax, a buffer, __array__)", found())))?;
        array.check_rows(py, dim)?;
        let groups = groups.map(|groups| names("groups", groups)).transpose()?;
        let documents = documents.map(|documents| numbers("documents", documents)).transpose()?;
        let positions = positions.map(|positions| narrow(positions)).transpose()?;
        let mask = mask.map(|mask| truths(mask)).transpose()?;
        raised(py, || {
            let states = array.floats();
            let rows = StateRows {
                states: &states,
                groups: match &groups {
                    None => GroupsOf::None,
                    Some(Names::Ids(ids)) => GroupsOf::Ids(ids),
                    Some(Names::Texts(texts)) => GroupsOf::Names(texts),
                },
                documents: documents.as_deref(),
                positions: positions.as_deref(),
                mask: mask.as_deref(),
            };
            self.0.update(at, &rows)
        })
    }

    /// Adds what another one has collected.
    fn merge(&self, py: Python<'_>, other: &NativeCollector) -> PyResult<()> {
        if std::ptr::eq(self, other) {
            return Err(usage(py, "a collector cannot be merged with itself"));
        }
        raised(py, || self.0.merge(&other.0))
    }

    /// As bytes.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &raised(py, || self.0.encode())?))
    }

    /// Back from bytes.
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: Vec<u8>) -> PyResult<NativeCollector> {
        raised(py, || Collector::decode(bytes, "a pickled collector")).map(NativeCollector::of)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        raised(py, || self.0.save(&path))
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<NativeCollector> {
        raised(py, || Collector::load(&path)).map(NativeCollector::of)
    }

    /// Writes the run of everything so far.
    fn finish(&self, py: Python<'_>, out: PathBuf, names: HashMap<String, String>, overwrite: bool, call: Vec<String>) -> PyResult<()> {
        let collector = Arc::clone(&self.0);
        patient(py, call, move || collector.finish(&out, &names, overwrite).map(drop))
    }

    /// Layer, point and states of every point so far.
    fn places(&self, py: Python<'_>) -> Vec<(u32, &'static str, u64)> {
        py.detach(|| self.0.places().into_iter().map(|at| (at.layer, at.point(), self.0.states(at))).collect())
    }

    /// The settings as JSON.
    fn settings(&self) -> String {
        serde_json::to_string(self.0.settings()).unwrap_or_default()
    }
}

/// Settings as JSON; those that are missing have the defaults.
pub fn settings_from(dim: usize, given: &str) -> layerscope::Result<CollectorSettings> {
    let problem = |error: serde_json::Error| Error::Usage(format!("settings: {error}").into());
    let mut whole = serde_json::to_value(CollectorSettings::new(dim)).map_err(problem)?;
    let given: Map<String, Value> = serde_json::from_str(given).map_err(problem)?;
    for (name, value) in given {
        match (&mut whole[&name], value) {
            (Value::Object(old), Value::Object(new)) => old.extend(new),
            (old, value) => *old = value,
        }
    }
    serde_json::from_value(whole).map_err(problem)
}

/// Ids or texts.
enum Names {
    Ids(Vec<u64>),
    Texts(Vec<String>),
}

fn names(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Names> {
    let py = object.py();
    let refused = |row: usize, value: i64| {
        usage(py, format!("{what}, row {row}: {value} is no id; ids are whole numbers from 0 on, and rows are left out with a mask"))
    };
    if let Some(array) = Array::of(object)? {
        match array.ids() {
            Some(ids) => return ids.map(Names::Ids).map_err(|(row, value)| refused(row, value)),
            None if array.axes() > 0 && array.len() > 0 => {
                return Err(usage(py, format!("{what} are {}; give whole numbers or texts", array.description())));
            }
            None => {}
        }
    }
    let list = if object.hasattr("tolist")? { object.call_method0("tolist")? } else { object.clone() };
    if let Ok(ids) = list.extract::<Vec<i64>>() {
        return match ids.iter().position(|id| *id < 0) {
            Some(row) => Err(refused(row, ids[row])),
            None => Ok(Names::Ids(ids.into_iter().map(|id| id as u64).collect())),
        };
    }
    list.extract().map(Names::Texts).map_err(|_| usage(py, format!("{what} are neither whole numbers nor texts")))
}

/// Numbers; texts stand for a hash of theirs.
fn numbers(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    Ok(match names(what, object)? {
        Names::Ids(ids) => ids,
        Names::Texts(texts) => texts.iter().map(|text| document_of(text)).collect(),
    })
}

fn narrow(object: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let py = object.py();
    match names("positions", object)? {
        Names::Ids(ids) => {
            let narrowed: Result<Vec<u32>, _> = ids.into_iter().map(u32::try_from).collect();
            narrowed.map_err(|_| usage(py, "positions must be below 2^32"))
        }
        Names::Texts(_) => Err(usage(py, "positions are texts; give whole numbers")),
    }
}

fn truths(object: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    let py = object.py();
    if let Some(array) = Array::of(object)? {
        return array.truths().ok_or_else(|| usage(py, format!("the mask is {}; give truths", array.description())));
    }
    object.extract().map_err(|_| usage(py, "the mask is no array or list of truths"))
}
