//! Runs in object stores: a folder here that is worked in, and a copy of it at an address such as `s3://bucket/run`.
//!
//! A run is always written into a folder of this machine. What changed there is put at the address after every checkpoint and at the end, the
//! manifest last. So a worker on another machine goes on from the last checkpoint, and a store that cannot be reached loses nothing: the folder
//! here stays until all of it is there. The spool stays here: whoever goes on elsewhere reads the text again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use layerscope_error::{ErrorKind, line, setting};
use layerscope_remote::{Entry, Options, Remote, is_address};
use serde::{Deserialize, Serialize};

use super::folder::Folder;
use super::stored::{MANIFEST, STATE};
use super::work::WORK;
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::process::cancel::CancelToken;
use crate::process::temporary::{Located, TemporaryFolder};

/// What is known of the copy, beside the folder.
const RECORD: &str = "record.json";

/// Work that is done, and where its result can be read.
#[derive(Debug)]
pub struct Finished<T> {
    /// What came of the work.
    pub result: T,
    /// The folder where the run can be read. A temporary one disappears with this value.
    pub folder: Located,
}

/// Does `work` in the folder of a run, wherever the run belongs.
pub fn into<T>(
    out: &Path,
    cancel: &CancelToken,
    show: &mut Show<'_>,
    work: impl FnOnce(&Path, &mut Show<'_>) -> Result<T>,
) -> Result<Finished<T>> {
    let Some(mirror) = Mirror::of(out)? else { return Ok(Finished { result: work(out, show)?, folder: out.to_owned().into() }) };
    mirror.pull(cancel)?;
    let outcome = work(&mirror.folder, &mut |event| {
        if matches!(event, Event::Saved)
            && let Err(error) = mirror.push()
        {
            show(Event::Warning(line![error.line(), "; the checkpoint is kept here and uploaded later"]));
        }
        show(event);
    });
    let pushed = mirror.push();
    match (outcome, pushed) {
        (Ok(result), Ok(())) => Ok(Finished { result, folder: mirror.discarded() }),
        (Ok(_), Err(error)) => {
            let line =
                format!("the upload failed ({error}); the run is complete in {}, and the same command resumes", mirror.folder.display());
            Err(Error::io(out, std::io::Error::other(line)))
        }
        (Err(error), pushed) => {
            // What was refused leaves nothing here to resume.
            if pushed.is_ok() && matches!(error.kind(), ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Model) {
                drop(mirror.discarded());
            }
            Err(mirror.addressed(error))
        }
    }
}

/// A finished run or a part of one where it can be read: the folder itself, or a copy of what lies at an address.
pub fn fetch(run: &Path) -> Result<Located> {
    let Some(address) = address_of(run) else { return Ok(run.to_owned().into()) };
    let (remote, cancel) = (Remote::new(Options::from_env()), AtomicBool::new(false));
    let entries = entries(&remote, &address, &cancel)?;
    if entries.is_empty() {
        return Err(Error::refused(format!("{address}: no finished run here, nor anything else")));
    }
    if ![MANIFEST, STATE].iter().any(|name| entries.contains_key(*name)) {
        return Err(Error::refused(format!("{address}: no finished run here (manifest.json is written last); resume it first")));
    }
    let temporary = TemporaryFolder::create()?;
    let folder = temporary.path().join(file_name(&address));
    for (name, entry) in entries.iter().filter(|(name, _)| !name.starts_with(".work/")) {
        download(&remote, entry, &folder, name, &cancel)?;
    }
    Ok(Located::within(folder, temporary))
}

/// The same of several.
pub fn fetch_all(runs: &[PathBuf]) -> Result<Vec<Located>> {
    runs.iter().map(|run| fetch(run)).collect()
}

/// Removes everything in a folder or at an address; it is no error if there is nothing.
pub fn remove(run: &Path) -> Result<()> {
    let Some(address) = address_of(run) else {
        // Without a slash at its end, a symbolic link is removed and not followed.
        let run: PathBuf = run.components().collect();
        return match fs::remove_dir_all(&run) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&run, source)),
            _ => Ok(()),
        };
    };
    let remote = Remote::new(Options::from_env());
    entries(&remote, &address, &AtomicBool::new(false))?.values().try_for_each(|entry| Ok(remote.delete(&entry.address)?))
}

/// How a file looked: its size, and when it was last changed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    modified: u64,
}

impl Stamp {
    fn new(bytes: u64, modified: Option<SystemTime>) -> Stamp {
        let since = modified.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default();
        Stamp { bytes, modified: since.as_nanos() as u64 }
    }
}

/// A file that is the same here and there, as it looks at both places.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Twin {
    here: Stamp,
    there: Option<Stamp>,
}

/// A folder and its copy.
struct Mirror {
    address: String,
    folder: PathBuf,
    record: PathBuf,
    remote: Remote,
}

impl Mirror {
    /// None for a run that belongs on this machine.
    fn of(out: &Path) -> Result<Option<Mirror>> {
        let Some(address) = address_of(out) else { return Ok(None) };
        if address.starts_with("http") {
            return Err(Error::usage(line![
                setting("out").to(&address),
                ": Layerscope cannot write to web servers; give a folder, or s3://, gs:// or az://"
            ]));
        }
        let place = cache().join("runs").join(file_name(&address));
        let (folder, record) = (place.join("run"), place.join(RECORD));
        fs::create_dir_all(&folder).map_err(|source| Error::io(&folder, source))?;
        Ok(Some(Mirror { address, folder, record, remote: Remote::new(Options::from_env()) }))
    }

    /// Brings what others changed there since this folder was last the same; makes sure that the store takes files.
    fn pull(&self, cancel: &CancelToken) -> Result<()> {
        let asked = format!("{}/.work/asked", self.address);
        self.remote.put(&asked, &mut std::io::empty())?;
        self.remote.delete(&asked)?;
        let mut twins = self.twins();
        for (name, entry) in entries(&self.remote, &self.address, cancel.flag())? {
            let there = Some(Stamp::new(entry.bytes, entry.modified));
            // What is missing here was not removed on purpose: the copy may have been cleared away, by us or by others.
            if twins.get(&name).is_none_or(|twin| twin.there != there) || !self.folder.join(&name).exists() {
                download(&self.remote, &entry, &self.folder, &name, cancel.flag())?;
                twins.insert(name.clone(), Twin { here: stamp(&self.folder.join(&name))?, there });
            }
        }
        self.forget_end(&twins)?;
        self.remember(&twins)
    }

    /// A run that is complete here and not there is one whose upload failed: its end is done again, whatever command it is of.
    fn forget_end(&self, twins: &BTreeMap<String, Twin>) -> Result<()> {
        let manifest = self.folder.join(MANIFEST);
        if !manifest.exists() {
            return Ok(());
        }
        let here = stamp(&manifest)?;
        match twins.get(MANIFEST).is_some_and(|twin| twin.here == here) {
            true => Ok(()),
            false => Folder::create(&self.folder)?.remove(MANIFEST),
        }
    }

    /// Puts what changed here, and removes what is gone.
    fn push(&self) -> Result<()> {
        let mut twins = self.twins();
        let done = self.push_files(&mut twins);
        self.remember(&twins)?;
        done
    }

    fn push_files(&self, twins: &mut BTreeMap<String, Twin>) -> Result<()> {
        let here = self.files()?;
        let place = |name: &str| format!("{}/{name}", self.address);
        // A manifest or a state says that everything beside it is there: they go first and come last.
        let seals = |name: &String| [STATE, MANIFEST].iter().position(|seal| name == seal || name.ends_with(&format!("/{seal}")));
        let mut gone: Vec<String> = twins.keys().filter(|name| !here.contains_key(*name)).cloned().collect();
        gone.sort_by_key(|name| std::cmp::Reverse(seals(name)));
        let (first, last): (Vec<String>, Vec<String>) = gone.into_iter().partition(|name| seals(name).is_some());
        let mut changed: Vec<(String, Stamp)> =
            here.into_iter().filter(|(name, stamp)| twins.get(name).is_none_or(|twin| twin.here != *stamp)).collect();
        changed.sort_by_key(|(name, _)| (seals(name), std::cmp::Reverse(name.matches('/').count())));
        // A run that is replaced stays whole there until the new one can go on from there: its checkpoints come before anything else.
        let (work, results): (Vec<_>, Vec<_>) = changed.iter().partition(|(name, _)| name.split('/').any(|part| part == WORK));
        self.put_all(&work, twins)?;
        for name in first {
            self.remote.delete(&place(&name))?;
            twins.remove(&name);
        }
        self.put_all(&results, twins)?;
        for name in last {
            self.remote.delete(&place(&name))?;
            twins.remove(&name);
        }
        if !changed.is_empty() {
            for (name, entry) in entries(&self.remote, &self.address, &AtomicBool::new(false))? {
                if let Some(twin) = twins.get_mut(&name) {
                    twin.there = Some(Stamp::new(entry.bytes, entry.modified));
                }
            }
        }
        Ok(())
    }

    /// The files here, at one moment. A listing taken while one state takes the place of another may lack both: two that agree do not.
    fn files(&self) -> Result<BTreeMap<String, Stamp>> {
        let listed = || {
            let mut found = BTreeMap::new();
            list(&self.folder, "", &mut found).map(|()| found)
        };
        let mut here = listed()?;
        loop {
            let again = listed()?;
            if again.keys().eq(here.keys()) {
                return Ok(again);
            }
            here = again;
        }
    }

    fn put_all(&self, files: &[&(String, Stamp)], twins: &mut BTreeMap<String, Twin>) -> Result<()> {
        for (name, stamp) in files {
            let path = self.folder.join(name);
            let mut file = File::open(&path).map_err(|source| Error::io(&path, source))?;
            self.remote.put(&format!("{}/{name}", self.address), &mut file)?;
            twins.insert(name.clone(), Twin { here: *stamp, there: None });
        }
        Ok(())
    }

    /// What was the same when this was last looked at.
    fn twins(&self) -> BTreeMap<String, Twin> {
        fs::read(&self.record).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn remember(&self, twins: &BTreeMap<String, Twin>) -> Result<()> {
        let text = serde_json::to_vec(twins).map_err(|error| Error::io(&self.record, error.into()))?;
        let folder = self.record.parent().unwrap_or(&self.folder);
        Folder::create(folder)?.put_atomic(RECORD, |out| out.write_all(&text))
    }

    /// The folder, to be read once more.
    fn discarded(&self) -> Located {
        let place = self.record.parent().unwrap_or(&self.folder).to_owned();
        Located::within(self.folder.clone(), TemporaryFolder::of(place))
    }

    /// An error that speaks of the address, not of the folder.
    fn addressed(&self, error: Error) -> Error {
        let folder = self.folder.display().to_string();
        error.map_text(|text| text.replace(&folder, &self.address))
    }
}

/// The address that a path really is.
fn address_of(path: &Path) -> Option<String> {
    let name = path.to_str()?;
    is_address(name).then(|| name.trim_end_matches('/').to_owned())
}

/// An address as the name of a folder.
fn file_name(address: &str) -> String {
    let plain: String = address.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let start = plain.len().saturating_sub(80);
    format!("{}-{:08x}", &plain[start..], crc32fast::hash(address.as_bytes()))
}

/// The folder for what belongs elsewhere.
fn cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("LAYERSCOPE_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("layerscope")))
        .or_else(|| variable("HOME").or_else(|| variable("USERPROFILE")).map(|home| home.join(".cache/layerscope")))
        .unwrap_or_else(|| std::env::temp_dir().join("layerscope"))
}

/// Everything at an address, by its name there; nothing where nothing is.
fn entries(remote: &Remote, address: &str, cancel: &AtomicBool) -> Result<BTreeMap<String, Entry>> {
    let folder = format!("{address}/");
    match remote.list(&folder, cancel) {
        Ok(entries) => Ok(entries.into_iter().filter_map(|entry| Some((entry.address.strip_prefix(&folder)?.to_owned(), entry))).collect()),
        Err(error) if error.is_absent() => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

fn download(remote: &Remote, entry: &Entry, folder: &Path, name: &str, cancel: &AtomicBool) -> Result<()> {
    // A colon begins a path of its own on Windows, or names a stream beside the file.
    let leads_away = |part: &str| part.is_empty() || part == ".." || part.contains('\\') || cfg!(windows) && part.contains(':');
    if name.split('/').any(leads_away) {
        return Err(Error::refused(format!("{}: not the name of a file of a run", entry.address)));
    }
    let (parent, last) = name.rsplit_once('/').map_or((folder.to_owned(), name), |(parent, last)| (folder.join(parent), last));
    let mut content = remote.open(&entry.address, cancel)?;
    Folder::create(&parent)?.put_atomic(last, |out| std::io::copy(&mut content, out).map(drop))
}

fn stamp(path: &Path) -> Result<Stamp> {
    let metadata = fs::metadata(path).map_err(|source| Error::io(path, source))?;
    Ok(Stamp::new(metadata.len(), metadata.modified().ok()))
}

/// The files that belong at the address: not locks, spools and files that are being written.
fn list(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Stamp>) -> Result<()> {
    let failed = |source| Error::io(folder, source);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type().map_err(failed)?.is_dir() {
            list(&entry.path(), &format!("{prefix}{name}/"), found)?;
        } else if !(name == "lock" || name.contains(".partial") || name.starts_with("spool") || name == "whole-corpus") {
            match stamp(&entry.path()) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {} // it has just gone
                stamp => drop(found.insert(format!("{prefix}{name}"), stamp?)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_folders_of_their_own() {
        let (one, other) = (file_name("s3://bucket/a-b"), file_name("s3://bucket/a/b"));
        assert!(one.starts_with("s3---bucket-a-b-") && other.starts_with("s3---bucket-a-b-") && one != other, "{one} {other}");
        assert!(file_name(&format!("s3://bucket/{}", "x".repeat(500))).len() < 100);
        assert_eq!(address_of(Path::new("s3://bucket/run/")).as_deref(), Some("s3://bucket/run"));
        assert!(address_of(Path::new("runs/bert")).is_none());
        let error = Mirror::of(Path::new("https://example.org/run")).err().expect("refused");
        assert!(error.to_string().contains("cannot write to web servers"), "{error}");
    }

    #[test]
    fn what_is_only_of_use_here_stays_here() {
        let folder = TemporaryFolder::create().expect("a folder");
        fs::create_dir_all(folder.path().join(".work")).expect("a folder");
        for name in
            [".work/lock", ".work/spool", ".work/plan.json", "state.safetensors.partial", "keys.partial.safetensors", "layers.parquet"]
        {
            fs::write(folder.path().join(name), b"x").expect("written");
        }
        let mut found = BTreeMap::new();
        list(folder.path(), "", &mut found).expect("readable");
        assert_eq!(found.keys().collect::<Vec<_>>(), [".work/plan.json", "layers.parquet"]);
    }
}
