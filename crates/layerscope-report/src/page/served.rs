//! The page over runs on disk: what every view needs at once, the blocks of single points when they are asked for.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Settings, block, write_shell};
use crate::error::{Error, Result};
use crate::export::parquet;
use crate::run::Run;
use crate::table::Table;

/// The tables that grow with layers times groups, components or states.
const LARGE: [&str; 4] = ["spectra", "components", "tokens", "groups"];

/// Tables that are kept in memory: those that were looked at last.
const KEPT: usize = 4;

/// So many bytes of a page hold its policy.
const HEAD: usize = 4096;

/// How often a run that is just being replaced is looked at again.
const TRIES: usize = 3;

/// Runs as they were when they were opened: their files are held open, so that one may be replaced while it is looked at.
pub struct Served {
    folders: Vec<PathBuf>,
    version: String,
    page: Vec<u8>,
    policy: String,
    /// Without their large tables.
    runs: Vec<Run>,
    large: Vec<Large>,
    /// Which of the large tables, and the runs with that one table; the last one used comes last.
    kept: Mutex<Vec<(usize, Arc<Vec<Run>>)>>,
}

/// A large table of a run, on disk.
struct Large {
    run: usize,
    kind: &'static str,
    path: PathBuf,
    /// Locked while it is read: every reader of an open file moves the same cursor.
    file: Mutex<File>,
}

impl Served {
    /// Opens finished runs. A table outside its run's folder, behind a symbolic link, is refused.
    pub fn open(folders: &[PathBuf], settings: &Settings) -> Result<Served> {
        for _ in 0..TRIES {
            let before = version(folders);
            folders.iter().try_for_each(|folder| expect_inside(folder))?;
            let large = open_large(folders)?;
            let mut runs = folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>>>()?;
            let mut page = Vec::new();
            write_shell(&runs, settings, &mut page)?;
            if let Some(version) = before.filter(|before| version(folders).as_ref() == Some(before)) {
                runs.iter_mut().for_each(|run| LARGE.into_iter().for_each(|kind| *table(run, kind) = None));
                let policy = policy(&page);
                return Ok(Served { folders: folders.to_vec(), version, page, policy, runs, large, kept: Mutex::default() });
            }
        }
        let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(Error::Setting(format!("{}: still being written; try again when it is finished", names.join(", "))))
    }

    /// A name for what was opened: another one once a run is replaced.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether the folders still hold what was opened; None where one of them holds no finished run.
    pub fn is_current(&self) -> Option<bool> {
        version(&self.folders).map(|version| version == self.version)
    }

    /// The page without the blocks of single points, which it asks of its own server as `block/NAME`.
    pub fn page(&self) -> &[u8] {
        &self.page
    }

    /// The page's Content-Security-Policy, for a header.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The bytes of the block that the page asks for; None where there is none of that name.
    pub fn block(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let of = |large: &Large| name.starts_with(&format!("run{}.{}.", large.run, large.kind));
        match self.large.iter().position(of) {
            Some(at) => block(&self.with(at)?, name),
            None => block(&self.runs, name),
        }
    }

    /// The runs with one of their large tables.
    fn with(&self, at: usize) -> Result<Arc<Vec<Run>>> {
        let large = &self.large[at];
        // Who asks for the same table meanwhile waits for it here instead of reading it too.
        let file = large.file.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = kept().iter().find(|(own, _)| *own == at).map(|(_, runs)| Arc::clone(runs));
        if found.is_none() {
            let handle = file.try_clone().map_err(|error| Error::file(&large.path, error.to_string()))?;
            let mut runs = self.runs.clone();
            *table(&mut runs[large.run], large.kind) = Some(parquet::read_open(handle, &large.path)?);
            found = Some(Arc::new(runs));
        }
        let runs = found.expect("found or read");
        let mut kept = kept();
        kept.retain(|(own, _)| *own != at);
        kept.push((at, Arc::clone(&runs)));
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
        Ok(runs)
    }
}

/// What the first of the page's elements with a content says.
fn policy(page: &[u8]) -> String {
    let head = String::from_utf8_lossy(&page[..page.len().min(HEAD)]);
    head.split("content=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("default-src 'none'").to_owned()
}

/// The place of a large table in a run.
fn table<'a>(run: &'a mut Run, kind: &str) -> &'a mut Option<Table> {
    match kind {
        "spectra" => &mut run.spectra,
        "components" => &mut run.components,
        "tokens" => &mut run.tokens,
        _ => &mut run.groups,
    }
}

fn open_large(folders: &[PathBuf]) -> Result<Vec<Large>> {
    let mut opened = Vec::new();
    for (run, folder) in folders.iter().enumerate() {
        for (kind, path) in LARGE.into_iter().map(|kind| (kind, folder.join(format!("{kind}.parquet")))) {
            match File::open(&path) {
                Ok(file) => opened.push(Large { run, kind, path, file: Mutex::new(file) }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::file(&path, error.to_string())),
            }
        }
    }
    Ok(opened)
}

/// The files that make up a run.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let tables = ["layers", "norms"].into_iter().chain(LARGE).map(|name| format!("{name}.parquet"));
    std::iter::once("manifest.json".to_owned()).chain(tables).map(|name| folder.join(name))
}

/// A hash of the manifests, and of length and time of every file; None where there is no manifest.
fn version(folders: &[PathBuf]) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    for folder in folders {
        std::fs::read(folder.join("manifest.json")).ok()?.hash(&mut hasher);
        let facts = |path: PathBuf| std::fs::metadata(path).ok().map(|facts| (facts.len(), facts.modified().ok()));
        files(folder).map(facts).for_each(|facts| facts.hash(&mut hasher));
    }
    Some(format!("{:016x}", hasher.finish()))
}

/// Refuses a run whose files, or whose steps' files, lie elsewhere.
fn expect_inside(folder: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().map_err(|error| Error::file(path, error.to_string()));
    let steps = std::fs::read_dir(folder.join("steps")).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = files(folder).chain(steps.flat_map(|step| files(&step).collect::<Vec<_>>()));
    for path in own.filter(|path| path.symlink_metadata().is_ok()) {
        if !real(&path)?.starts_with(real(folder)?) {
            return Err(Error::file(&path, "a symbolic link that leads out of the run's folder; put the file itself there"));
        }
    }
    Ok(())
}
