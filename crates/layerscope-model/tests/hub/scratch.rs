//! A folder for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that goes away with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("layerscope-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
