//! One process in a working folder at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use layerscope_files::{is_open_at, open_no_link};

use super::folder::Folder;
use super::work::WORK;
use crate::error::{Error, Result};

/// The file that is held.
pub const LOCK: &str = "lock";

/// The folder and its lock, unless somebody else has it.
pub fn try_lock(out: &Path) -> Result<Option<(Folder, File)>> {
    let store = Folder::create_own(&out.join(WORK))?;
    let path = store.path(LOCK);
    let lock = match open_no_link(&path, OpenOptions::new().write(true).create(true).truncate(false)) {
        // Whoever held the folder has just removed it.
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        lock => lock.map_err(|source| Error::io(&path, source))?,
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(source)) => return Err(Error::io(&path, source)),
    }
    // A lock on a file that is gone guards nothing.
    let is_there = is_open_at(&lock, &path).map_err(|source| Error::io(&path, source))?;
    Ok(is_there.then_some((store, lock)))
}
