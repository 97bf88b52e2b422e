//! The Python module: thin shells around the library, no logic. What people import is `python/layerscope`.

mod array;
mod arrow;
mod collector;
mod error;
mod figures;
mod import;
mod runs;
mod table;
mod work;

use pyo3::prelude::*;

/// The compiled part of the package `layerscope`.
#[pymodule]
mod _layerscope {
    #[pymodule_export]
    use crate::collector::NativeCollector;
    #[pymodule_export]
    use crate::figures::{figures, report, svg};
    #[pymodule_export]
    use crate::import::import_states;
    #[pymodule_export]
    use crate::runs::{
        NativeFolder, compare, fetch, join_steps, measure, measures, merge, merge_part, models, overview, prune, read_run, remove,
        settings_doc, track, weights, with_keywords,
    };
    #[pymodule_export]
    use crate::table::NativeTable;

    use pyo3::prelude::*;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Runs the command line program on these words, the first of which is its name; returns its exit status.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
        py.detach(|| layerscope::cli::run(words))
    }

    /// Fails on purpose, at once or in long work, so that tests see what becomes of a panic.
    #[pyfunction]
    fn defect(py: Python<'_>, long: bool) -> PyResult<()> {
        match long {
            true => crate::work::patient(py, Vec::new(), || panic!("on purpose")),
            false => crate::error::raised(py, || panic!("on purpose")),
        }
    }
}
