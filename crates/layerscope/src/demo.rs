//! The embedded checkpoint, and what can be shown with nothing else installed.

use std::path::Path;
use std::sync::Mutex;

use layerscope_compute::{Backend, Cpu, States};
use layerscope_model::{Batch, Model, Observer, Point};

use crate::error::{Error, Result};

const CONFIG: &[u8] = include_bytes!("../assets/tiny/config.json");
const WEIGHTS: &[u8] = include_bytes!("../assets/tiny/model.safetensors");

/// A folder that disappears with this value.
pub struct TemporaryFolder(std::path::PathBuf);

impl TemporaryFolder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays, and it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
