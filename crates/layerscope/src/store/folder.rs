//! Writing files so that a crash at any moment leaves either the old file or the new one, whole.
//!
//! A symbolic link in a folder of ours is somebody else's: nothing is written or deleted through it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use layerscope_files::{Positioned, sync_folder};

use super::uncached::Uncached;
use crate::error::{Error, Result};

/// A folder that a run writes into.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether large files are written past the system's memory.
    is_uncached: bool,
}

impl Folder {
    /// Opens the folder, creating it where it is missing.
    pub fn create(path: &Path) -> Result<Folder> {
        fs::create_dir_all(path).map_err(|source| Error::io(path, source))?;
        Ok(Folder { path: path.to_owned(), is_uncached: false })
    }

    /// The same for large files that nobody reads soon.
    pub fn uncached(&self) -> Folder {
        Folder { is_uncached: true, ..self.clone() }
    }

    /// Opens a folder within one of ours: a symbolic link in its place is refused.
    pub fn create_own(path: &Path) -> Result<Folder> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {
                Err(Error::refused(format!("{}: a symbolic link, through which nothing is written or deleted; remove it", path.display())))
            }
            _ => Folder::create(path),
        }
    }

    /// Writes one file wherever it belongs, as [`Folder::put_atomic`] does.
    pub fn put_file(path: &Path, content: &[u8]) -> Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::usage(format!("{} is not the name of a file", path.display())))?;
        Folder::create(folder)?.put_atomic(name, |out| out.write_all(content))
    }

    /// The place of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file under a temporary name, makes sure that it is on the disk, and only then gives it its name.
    ///
    /// After an error the file of that name is what it was before, and the temporary one is gone.
    pub fn put_atomic(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
        self.put_unsettled(name, write)?.settle()
    }

    /// The first half of [`Folder::put_atomic`]: the file can be read under its temporary name.
    pub fn put_unsettled(&self, name: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<Unsettled> {
        let (temporary, finished) = (self.path(&format!("{name}.partial")), self.path(name));
        match write_file(&temporary, self.is_uncached, write) {
            Ok(file) => Ok(Unsettled { folder: self.clone(), temporary, finished, file, is_settled: false }),
            Err(source) => {
                discard(&temporary);
                Err(Error::io(&finished, source))
            }
        }
    }

    /// Removes a file; one that is not there is no error.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&self.path(name), source)),
            _ => Ok(()),
        }
    }
}

/// A folder that work may need and that need not be there. If it is empty in the end it goes again, with those above it that were made for it.
#[derive(Debug)]
pub struct Tentative {
    path: PathBuf,
    /// The topmost that was not there.
    topmost: Option<PathBuf>,
}

impl Tentative {
    /// Before it is made.
    pub fn new(path: &Path) -> Tentative {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err();
        let topmost = path.ancestors().take_while(missing).last().map(Path::to_path_buf);
        Tentative { path: path.to_owned(), topmost }
    }
}

impl Drop for Tentative {
    fn drop(&mut self) {
        let Some(topmost) = &self.topmost else { return };
        for folder in self.path.ancestors() {
            // One that is not empty is of use to somebody; one that is gone was made for nothing by another shard, too.
            let is_of_use = fs::remove_dir(folder).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound);
            if is_of_use || folder == topmost {
                return;
            }
        }
    }
}

/// A file that is written, but perhaps not yet on the disk. It is not there before it is [settled](Unsettled::settle), and gone if it never is.
#[derive(Debug)]
#[must_use]
pub struct Unsettled {
    folder: Folder,
    temporary: PathBuf,
    finished: PathBuf,
    file: File,
    is_settled: bool,
}

impl Unsettled {
    /// Where it can be read until it is settled.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Overwrites bytes of the file.
    pub fn amended(self, start: u64, bytes: &[u8]) -> Result<Unsettled> {
        match self.file.write_all_at(bytes, start) {
            Ok(()) => Ok(self),
            Err(source) => Err(Error::io(&self.finished, source)),
        }
    }

    /// Makes sure that the file is on the disk, and gives it its name.
    pub fn settle(mut self) -> Result<()> {
        let renamed = self.file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.finished));
        self.is_settled = renamed.is_ok();
        renamed.and_then(|()| sync_folder(&self.folder.path)).map_err(|source| Error::io(&self.finished, source))
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if !self.is_settled {
            discard(&self.temporary);
        }
    }
}

/// Removes everything in a folder but `spared`, and follows no links.
pub fn clear(folder: &Path, spared: &str) -> Result<()> {
    let failed = |path: &Path, source| Error::io(path, source);
    for entry in fs::read_dir(folder).map_err(|source| failed(folder, source))? {
        let entry = entry.map_err(|source| failed(folder, source))?;
        if entry.file_name() == spared {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        removed.map_err(|source| failed(&entry.path(), source))?;
    }
    Ok(())
}

fn write_file(path: &Path, is_uncached: bool, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<File> {
    // A file that nobody else made: what a link of this name leads to is not ours.
    discard(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    if is_uncached {
        let mut file = Uncached::new(file);
        write(&mut file)?;
        return file.finish();
    }
    let mut file = BufWriter::with_capacity(1 << 20, file);
    write(&mut file)?;
    file.into_inner().map_err(|error| error.into_error())
}

/// The space is needed more than the remains of a file that was never finished.
fn discard(temporary: &Path) {
    let _ = fs::remove_file(temporary);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("layerscope-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Folder::create(&folder).expect("a folder")
    }

    #[test]
    fn what_was_made_for_nothing_goes_again() {
        let root = folder("tentative").path;
        let (there, made) = (root.join("there"), root.join("there/a/b"));
        fs::create_dir_all(&there).expect("a folder");
        for (is_used, left) in [(false, false), (true, true)] {
            let tentative = Tentative::new(&made);
            fs::create_dir_all(&made).expect("a folder");
            if is_used {
                fs::write(made.join("file"), "of use").expect("written");
            }
            drop(tentative);
            assert_eq!((made.exists(), there.join("a").exists(), there.exists()), (left, left, true));
        }
        drop(Tentative::new(&there));
        assert!(there.exists(), "it was there before");
        // Two at the same time: what the other one removed is no reason to leave the rest.
        fs::remove_dir_all(&made).expect("removable");
        fs::remove_dir(there.join("a")).expect("removable");
        let (outer, inner) = (Tentative::new(&made), there.join("a"));
        fs::create_dir(&inner).expect("a folder");
        drop(Tentative::new(&made));
        drop(outer);
        assert_eq!((inner.exists(), there.exists()), (false, true));
        fs::remove_dir_all(root).expect("removable");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let opened = folder("full-disk");
        opened.put_atomic("state", |out| out.write_all(b"old")).expect("written");
        let full = |out: &mut dyn Write| {
            out.write_all(&[0; 100_000])?;
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        };
        let error = opened.put_atomic("state", full).expect_err("the disk is full");
        assert!(error.to_string().contains("state"), "{error}");
        assert_eq!(fs::read(opened.path("state")).expect("still there"), b"old");
        assert_eq!(fs::read_dir(&opened.path).expect("readable").count(), 1);
        opened.put_atomic("state", |out| out.write_all(b"new")).expect("room was made");
        assert_eq!(fs::read(opened.path("state")).expect("there"), b"new");
        fs::remove_dir_all(&opened.path).expect("removable");
    }
}
