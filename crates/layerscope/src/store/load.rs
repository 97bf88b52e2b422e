//! Finished runs, wherever they are.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use layerscope_report::Run;

use super::mirror;
use crate::error::Result;
use crate::process::temporary::Located;

/// Finished runs, read back: their manifests and tables.
#[derive(Debug)]
pub struct Runs {
    runs: Vec<Run>,
    folders: Vec<Located>,
}

impl Runs {
    /// The folders where the runs can be read. The copy of a run that lies at an address disappears with this value.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| &**folder)
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
    let folders = mirror::fetch_all(runs)?;
    let runs = folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?;
    Ok(Runs { runs, folders })
}
