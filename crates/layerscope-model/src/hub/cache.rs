//! The standard cache of one model: `refs/REVISION`, `blobs/ETAG`, `snapshots/COMMIT/FILE -> ../../blobs/ETAG`.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use layerscope_files::{is_open_at, link};

use super::names;
use crate::error::{Error, Result};

/// The cached files of one model.
pub(super) struct Repository {
    id: String,
    root: PathBuf,
    shared: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// The folder of a model whose id was checked.
    pub(super) fn new(cache: &Path, id: &str) -> Self {
        let name = format!("models--{}", id.replace('/', "--"));
        Repository { id: id.to_owned(), root: cache.join(&name), shared: cache.join("blobs"), locks: cache.join(".locks").join(&name) }
    }

    /// The model's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The commit a checked revision is known to mean.
    pub(super) fn commit(&self, revision: &str) -> Result<Option<String>> {
        if names::is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        let file = self.root.join("refs").join(revision);
        match fs::read_to_string(&file) {
            Ok(content) if names::is_commit(content.trim()) => Ok(Some(content.trim().to_owned())),
            Ok(_) => Err(Error::file(&file, "not a commit hash; delete the file to have it fetched again")),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(Error::io(&file, error)),
        }
    }

    /// The revisions that the cache knows.
    pub(super) fn revisions(&self) -> Vec<String> {
        let names = fs::read_dir(self.root.join("refs")).into_iter().flatten().flatten().filter(|entry| entry.path().is_file());
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Removes a revision, its snapshot, and those of its blobs that no other snapshot links to.
    pub(super) fn evict(&self, revision: &str) -> Result<()> {
        let Some(commit) = self.commit(revision)? else { return Ok(()) };
        let snapshot = self.snapshot(&commit);
        let reference = self.root.join("refs").join(revision);
        let others = self.revisions().into_iter().filter(|other| other != revision);
        let is_shared = others.into_iter().any(|other| self.commit(&other).is_ok_and(|known| known.as_deref() == Some(commit.as_str())));
        let blobs = if is_shared { Vec::new() } else { linked_blobs(&snapshot) };
        remove(fs::remove_file(&reference), &reference)?;
        if is_shared {
            return Ok(());
        }
        remove(fs::remove_dir_all(&snapshot), &snapshot)?;
        let snapshots = fs::read_dir(self.root.join("snapshots")).into_iter().flatten().flatten();
        let needed: Vec<PathBuf> = snapshots.flat_map(|other| linked_blobs(&other.path())).collect();
        let own = self.root.join("blobs").canonicalize().unwrap_or_default();
        for blob in blobs.iter().filter(|blob| blob.parent() == Some(own.as_path()) && !needed.contains(blob)) {
            remove(fs::remove_file(blob), blob)?;
        }
        Ok(())
    }

    /// Points a checked revision to a commit.
    pub(super) fn set_commit(&self, revision: &str, commit: &str) -> Result<()> {
        if self.commit(revision).is_ok_and(|known| known.as_deref() == Some(commit)) {
            return Ok(());
        }
        let file = self.root.join("refs").join(revision);
        create_folder(file.parent().unwrap_or(&self.root))?;
        replace(&file, |temporary| fs::write(temporary, commit))
    }

    /// The folder of a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    /// The folder of a commit, made where it does not exist.
    pub(super) fn create_snapshot(&self, commit: &str) -> Result<PathBuf> {
        let snapshot = self.snapshot(commit);
        create_folder(&snapshot)?;
        self.check(&snapshot)?;
        Ok(snapshot)
    }

    /// Whether a commit's folder has a file; a link to a blob that is gone counts as none.
    pub(super) fn holds(&self, commit: &str, file: &str) -> Result<bool> {
        let path = self.snapshot(commit).join(file);
        self.check_entry(&path)?;
        Ok(path.is_file())
    }

    /// Where a blob lies.
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(etag)
    }

    /// Links a blob into a commit's folder.
    pub(super) fn link(&self, etag: &str, commit: &str, file: &str) -> Result<()> {
        let path = self.snapshot(commit).join(file);
        let target = Path::new("../../blobs").join(etag);
        replace(&path, |temporary| match link(&target, temporary) {
            // Not everybody may make links there: a second name for the blob, or a copy where the disk knows no second names.
            Err(_) if cfg!(windows) => {
                fs::hard_link(self.blob(etag), temporary).or_else(|_| fs::copy(self.blob(etag), temporary).map(drop))
            }
            linked => linked,
        })
    }

    /// Refuses a snapshot that is, or has an entry that is, a link out of this model's folder. Where several models have the
    /// same blob, the Python library keeps it in the cache's own `blobs` and links there: that is allowed.
    pub(super) fn check(&self, snapshot: &Path) -> Result<()> {
        self.check_entry(snapshot)?;
        let entries = match fs::read_dir(snapshot) {
            Ok(entries) => entries,
            Err(error) if absent(&error) => return Ok(()),
            Err(error) => return Err(Error::io(snapshot, error)),
        };
        for entry in entries {
            self.check_entry(&entry.map_err(|source| Error::io(snapshot, source))?.path())?;
        }
        Ok(())
    }

    fn check_entry(&self, path: &Path) -> Result<()> {
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) if absent(&error) => return Ok(()),
            Err(error) => return Err(Error::io(path, error)),
        };
        let inside = |folder: &Path| folder.canonicalize().is_ok_and(|folder| target.starts_with(folder));
        if inside(&self.root) || inside(&self.shared) {
            return Ok(());
        }
        let problem = format!("a link out of the hub cache, to {}; delete it to have the file fetched again", target.display());
        Err(Error::file(path, problem))
    }

    /// Waits until no other process, of this program or the Python library, downloads this blob; `None` where the file
    /// system has no locks. Where it only pretends to have them, [`super::download`] copes with company.
    pub(super) fn lock(&self, etag: &str) -> Result<Option<File>> {
        create_folder(&self.root.join("blobs"))?;
        create_folder(&self.locks)?;
        let path = self.locks.join(format!("{etag}.lock"));
        loop {
            // Nothing is written, but Windows locks no file that can only be appended to.
            let file = File::options().create(true).write(true).truncate(false).open(&path).map_err(|source| Error::io(&path, source))?;
            match file.lock() {
                Ok(()) if is_open_at(&file, &path).unwrap_or(false) => return Ok(Some(file)),
                Ok(()) => {} // its last holder deleted it: try again with the new file
                Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
                Err(error) => return Err(Error::io(&path, error)),
            }
        }
    }

    /// Where a blob lies until it is whole: known to all who may resume it, or our own.
    pub(super) fn part(&self, etag: &str, resumable: bool) -> PathBuf {
        if resumable { self.blob(&format!("{etag}.incomplete")) } else { unique(&self.blob(etag), "incomplete") }
    }
}

/// Where the links of a snapshot lead.
fn linked_blobs(snapshot: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(snapshot).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.path().canonicalize().ok()).filter(|target| !target.starts_with(snapshot)).collect()
}

/// Ignores files that are already gone.
fn remove(outcome: std::io::Result<()>, path: &Path) -> Result<()> {
    match outcome {
        Err(error) if !absent(&error) => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

fn absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))
}

/// Makes a file or link under another name and moves it into place, so that nobody sees half of it.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let temporary = unique(path, "tmp");
    make(&temporary).and_then(|()| fs::rename(&temporary, path)).map_err(|source| {
        let _ = fs::remove_file(&temporary);
        Error::io(path, source)
    })
}

/// A name beside `path` that nobody else uses, on this machine or another that shares the folder.
fn unique(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.{extension}", RandomState::new().build_hasher().finish()));
    PathBuf::from(name)
}
