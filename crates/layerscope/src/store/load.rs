//! Finished runs, wherever they are.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use layerscope_error::{line, setting};
use layerscope_report::{Manifest, Run, run_parts};

use super::mirror;
use crate::error::{Error, Result};
use crate::process::temporary::Located;

/// Finished runs, read back: their manifests and tables.
#[derive(Debug)]
pub struct Runs {
    runs: Vec<Run>,
    /// Copies of runs that lie at addresses.
    _held: Vec<Located>,
}

impl Runs {
    /// The folders where the runs can be read. The copy of a run that lies at an address disappears with this value.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.runs.iter().map(|run| run.folder.as_path())
    }
}

impl Deref for Runs {
    type Target = [Run];

    fn deref(&self) -> &[Run] {
        &self.runs
    }
}

/// Reads finished runs from their folders or addresses.
pub fn load(runs: &[PathBuf]) -> Result<Runs> {
    read(runs, <[PathBuf]>::to_vec)
}

/// Reads what is shown of the given runs: of a single one that was measured with `--split`, its parts too.
pub fn load_with_parts(runs: &[PathBuf]) -> Result<Runs> {
    read(runs, with_parts)
}

/// Reads what is compared: the given runs, or the parts of a single one that was measured with `--split`.
pub fn load_compared(runs: &[PathBuf]) -> Result<Runs> {
    let mut loaded = load_with_parts(runs)?;
    if runs.len() == 1 && loaded.len() > 1 {
        loaded.runs.remove(0);
    }
    match loaded.len() {
        0 | 1 => {
            Err(Error::usage(line!["there is only one run; give another to compare it with, or one measured with ", setting("split")]))
        }
        _ => Ok(loaded),
    }
}

/// Folders of runs; after a single one that was measured with `--split` those of its parts.
pub fn with_parts(folders: &[PathBuf]) -> Vec<PathBuf> {
    let parts = match folders {
        // Whoever opens the run says what is wrong with a manifest that cannot be read.
        [run] => Manifest::read(run).map(|manifest| run_parts(run, &manifest)).unwrap_or_default(),
        _ => Vec::new(),
    };
    folders.iter().cloned().chain(parts).collect()
}

fn read(runs: &[PathBuf], shown: impl FnOnce(&[PathBuf]) -> Vec<PathBuf>) -> Result<Runs> {
    let held = mirror::fetch_all(runs)?;
    let folders: Vec<PathBuf> = held.iter().map(|folder| folder.to_path_buf()).collect();
    let runs = shown(&folders).iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?;
    Ok(Runs { runs, _held: held })
}
