//! Folders that disappear when nobody needs them any more.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// A folder that disappears with this value.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// A new one.
    pub fn create() -> Result<TemporaryFolder> {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = CREATED.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("layerscope-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                // Left by a killed process that had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| TemporaryFolder::of(folder.clone())).map_err(|source| Error::io(&folder, source)),
            }
        }
    }

    /// A folder that exists already.
    pub fn of(folder: PathBuf) -> TemporaryFolder {
        known().push(folder.clone());
        TemporaryFolder(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.0.join(name);
        std::fs::write(&file, content).map_err(|source| Error::io(&file, source))?;
        Ok(file)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that stays, and it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
        known().retain(|folder| *folder != self.0);
    }
}

/// Removes all that there are, for a process that ends where it stands.
pub fn remove_all() {
    known().drain(..).for_each(|folder| drop(std::fs::remove_dir_all(folder)));
}

fn known() -> MutexGuard<'static, Vec<PathBuf>> {
    static KNOWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of a model or a run; a temporary one disappears with this value.
#[derive(Debug)]
pub struct Located {
    path: PathBuf,
    _temporary: Option<TemporaryFolder>,
}

impl Located {
    /// A place in a temporary folder.
    pub fn within(path: PathBuf, temporary: TemporaryFolder) -> Located {
        Located { path, _temporary: Some(temporary) }
    }
}

impl Deref for Located {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for Located {
    fn from(path: PathBuf) -> Located {
        Located { path, _temporary: None }
    }
}
