//! Files of states.

use std::collections::HashMap;
use std::path::PathBuf;

use layerscope::Error;
use layerscope::gather::GatherSettings;
use layerscope::import::{ImportOptions, import};
use pyo3::prelude::*;

use crate::collector::settings_from;
use crate::runs::into;
use crate::work::patient;

/// Reads files of states into a run. `columns` are the names of states, groups, documents and positions, and the axes.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn import_states(
    py: Python<'_>,
    files: Vec<PathBuf>,
    columns: [Option<String>; 5],
    layer: Option<u32>,
    settings: String,
    names: HashMap<String, String>,
    out: PathBuf,
    overwrite: bool,
    call: Vec<String>,
) -> PyResult<()> {
    patient(py, call, move || {
        if out.join(layerscope::finish::STATE).exists() && !overwrite {
            return Err(Error::Refused(format!("{} holds a run already; choose another --out, or give --overwrite", out.display())));
        }
        let [states, groups, documents, positions, axes] = columns;
        let options = ImportOptions { states, groups, documents, positions, layer, axes };
        // A number of components that fits everything, to refuse bad settings before any file is read.
        let checked = settings_from(1, &settings)?;
        let of = |dim: usize| GatherSettings { dim, ..checked.clone() };
        let gatherer = import(&files, &options, of, &mut |_| {})?;
        into(&out, |here| gatherer.finish(here, &names, overwrite))
    })
}
