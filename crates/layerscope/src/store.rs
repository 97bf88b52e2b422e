//! Writing files so that a crash at any moment leaves either the old file or the new one, whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A folder that a run writes into.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder, creating it where it is missing.
    pub fn create(folder: &Path) -> Result<Store> {
        fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))?;
        Ok(Store { folder: folder.to_owned() })
    }

    /// The place of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file under a temporary name, makes sure that it is on the disk, and only then gives it its name.
    ///
    /// After an error the file of that name is what it was before, and the temporary one is gone.
    pub fn put_atomic(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        let temporary = self.path(&format!("{name}.partial"));
        let finished = self.path(name);
        let written = write_durably(&temporary, write).and_then(|()| fs::rename(&temporary, &finished)).and_then(|()| self.sync_folder());
        written.map_err(|source| {
            // The space is needed more than the remains of a file that was never finished.
            let _ = fs::remove_file(&temporary);
            Error::io(&finished, source)
        })
    }

    /// Removes a file; one that is not there is no error.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&self.path(name), source)),
            _ => Ok(()),
        }
    }

    /// Renaming is durable only once the folder is.
    fn sync_folder(&self) -> std::io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

fn write_durably(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    write(&mut file)?;
    file.into_inner().map_err(|error| error.into_error())?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(name: &str) -> Store {
        let folder = std::env::temp_dir().join(format!("layerscope-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Store::create(&folder).expect("a folder")
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let store = store("full-disk");
        store.put_atomic("state", |out| out.write_all(b"old")).expect("written");
        let full = |out: &mut dyn Write| {
            out.write_all(&[0; 100_000])?;
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        };
        let error = store.put_atomic("state", full).expect_err("the disk is full");
        assert!(error.to_string().contains("state"), "{error}");
        assert_eq!(fs::read(store.path("state")).expect("still there"), b"old");
        assert_eq!(fs::read_dir(&store.folder).expect("readable").count(), 1);
        store.put_atomic("state", |out| out.write_all(b"new")).expect("room was made");
        assert_eq!(fs::read(store.path("state")).expect("there"), b"new");
        fs::remove_dir_all(&store.folder).expect("removable");
    }
}
