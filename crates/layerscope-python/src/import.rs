//! Files of states.

use std::collections::HashMap;
use std::path::PathBuf;

use layerscope::internals::refuse_run;
use layerscope::{ImportOptions, import};
use pyo3::prelude::*;

use crate::collector::settings_from;
use crate::work::patient;

/// Reads files of states into a run. `columns` are the names of states, groups, documents and positions, the axes, the memory to use,
/// and where layers are from.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn import_states(
    py: Python<'_>,
    files: Vec<PathBuf>,
    columns: [Option<String>; 7],
    layer: Option<u32>,
    settings: String,
    names: HashMap<String, String>,
    out: PathBuf,
    overwrite: bool,
    call: Vec<String>,
) -> PyResult<()> {
    patient(py, call, move || {
        refuse_run(&out, overwrite)?;
        let [states, groups, documents, positions, axes, max_memory, layers_from] = columns;
        let options = ImportOptions { states, groups, documents, positions, layer, layers_from, axes, max_memory };
        let collector = import(&files, &options, &settings_from(1, &settings)?, &mut |_| {})?;
        collector.finish(&out, &names, overwrite).map(drop)
    })
}
