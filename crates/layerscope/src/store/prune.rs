//! Runs that give back disk space: their tables stay, and what else is kept is for the user to say.
//!
//! The numbers of a state go, and what it says of the run stays in its place, so that the run is known to be finished. Every step leaves a
//! valid run: a state without numbers names the one it was, which the manifest may still name too.

use std::path::{Path, PathBuf};

use layerscope_error::{line, not_one_of, setting};
use layerscope_report::{Manifest, run_parts, run_steps};
use layerscope_stats::sketch::Tensors;

use super::folder::Folder;
use super::kept_as::{KeptAs, store_as};
use super::mirror;
use super::state::{About, Draft};
use super::stored::{PRUNED, SAMPLE, SAMPLE_DIGEST, STATE, StoredRun, read_manifest};
use super::work::{WORK, Work};
use super::write::put_manifest;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::text::bytes;

/// What stays of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Its tables.
    Tables,
    /// And its states: it can be merged, and its tables made again.
    Merge,
    /// And the working folder, if it was kept: the text as tokens, and checkpoints.
    All,
}

impl std::str::FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Keep> {
        match text {
            "tables" => Ok(Keep::Tables),
            "merge" => Ok(Keep::Merge),
            "all" => Ok(Keep::All),
            other => Err(Error::usage(not_one_of("keep", other, &["tables", "merge", "all"]))),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Bytes that are free again.
    pub freed: u64,
    /// The runs that were pruned: one, or the steps of a training.
    pub runs: usize,
    /// Bytes that states take which were packed before.
    pub grown: u64,
    /// What is gone, in the words of a user.
    pub gone: Vec<&'static str>,
    /// How kept states are stored now, where that changed.
    pub stored: Option<KeptAs>,
}

impl Pruned {
    /// One line: what was freed, and what is no longer possible.
    pub fn line(&self) -> String {
        let of = if self.runs > 1 { format!(" of {} runs", self.runs) } else { String::new() };
        let states = self.stored.map(|stored| match stored {
            KeptAs::Plain => format!("kept states take {} more and open with any safetensors reader", bytes(self.grown as usize)),
            KeptAs::Packed => "kept states are packed now, without loss".to_owned(),
            KeptAs::F16 => "kept states are rounded to f16 now; the tables stay as they were".to_owned(),
        });
        let gone = self.gone.iter().map(|gone| (*gone).to_owned()).chain(states).collect::<Vec<_>>();
        match (gone.is_empty(), self.freed) {
            (true, _) => "nothing to free".to_owned(),
            (false, 0) => format!("{}{of}", gone.join(", ")),
            (false, freed) => {
                let lost =
                    if self.gone.contains(&STATES) { "; merge, --frequency and --table identities need them: measure again" } else { "" };
                format!("freed {}: {}{of}{lost}", bytes(freed as usize), gone.join(", "))
            }
        }
    }
}

const STATES: &str = "states";
const WORKING: &str = "the working folder";
const UNFINISHED: &str = "unfinished files";

/// Drops what is not to be kept of the run in a folder or at an address, of the steps of a training, and of the parts of a split run.
/// Kept states that stay are stored as `states` says.
pub fn prune(run: &Path, keep: Keep, states: Option<KeptAs>) -> Result<Pruned> {
    if states.is_some() && keep == Keep::Tables {
        return Err(Error::usage(line![setting("states"), " says how states are kept, and ", setting("keep"), " tables keeps none"]));
    }
    Ok(mirror::into(run, &CancelToken::default(), &mut |_| {}, |here, _| prune_folder(here, keep, states))?.result)
}

fn prune_folder(folder: &Path, keep: Keep, states: Option<KeptAs>) -> Result<Pruned> {
    let Some(manifest) = read_manifest(folder)? else {
        return Err(Error::refused(format!("{}: no finished run here, nothing is pruned", folder.display())));
    };
    let mut pruned = Pruned::default();
    let steps = run_steps(folder, &manifest).into_iter().map(|step| step.folder);
    for inner in steps.chain(run_parts(folder, &manifest)) {
        pruned.add(prune_folder(&inner, keep, states)?);
    }
    let had_work = folder.join(WORK).exists();
    let work = Work::open(folder)?;
    let outcome = prune_run(folder, manifest, (keep, states), &work);
    if !had_work || outcome.as_ref().is_ok_and(|(_, drops_work)| *drops_work) {
        work.remove();
    }
    pruned.add(outcome?.0);
    Ok(pruned)
}

/// Prunes one run; and whether its working folder goes.
fn prune_run(folder: &Path, manifest: Manifest, (keep, states): (Keep, Option<KeptAs>), work: &Work) -> Result<(Pruned, bool)> {
    let store = Folder::create(folder)?;
    let mut pruned = Pruned { runs: 1, ..Pruned::default() };
    pruned.drop_files(unfinished(folder)?, UNFINISHED)?;
    let has_states = folder.join(STATE).exists();
    let run = if has_states { Some(StoredRun::open(folder)?) } else { None };
    // Of this run, and not of another one that was begun in its place.
    let is_own = match (work.saved_plan()?, &run) {
        (Some(plan), Some(run)) => run.state.about().fingerprint.iter().all(|(key, value)| plan.fingerprint.get(key) == Some(value)),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let drops_work = keep < Keep::All && is_own;
    if drops_work {
        let freed = size_of_folder(&folder.join(WORK));
        if freed > 0 {
            pruned.freed += freed;
            pruned.gone.push(WORKING);
        }
    }
    match (run, states) {
        (Some(run), _) if keep == Keep::Tables => drop_states(&store, manifest, run, &mut pruned)?,
        (Some(run), Some(kept_as)) => {
            let before = size(&store.path(SAMPLE));
            if store_as(&store, manifest, &run, kept_as)? {
                let after = size(&store.path(SAMPLE));
                pruned.freed += before.saturating_sub(after);
                pruned.grown += after.saturating_sub(before);
                pruned.stored = Some(kept_as);
            }
        }
        _ => {}
    }
    Ok((pruned, drops_work))
}

/// Replaces the state by one without numbers, says so in the manifest, and removes the kept states.
fn drop_states(store: &Folder, manifest: Manifest, run: StoredRun, pruned: &mut Pruned) -> Result<()> {
    let (state, sample) = (store.path(STATE), store.path(SAMPLE));
    let before = size(&state) + size(&sample);
    let digest = match run.pruned_of() {
        Some(_) => run.state.digest().to_owned(),
        None => {
            let About { fingerprint, mut details } = run.state.about().clone();
            details[PRUNED] = run.state.digest().into();
            if let Some(details) = details.as_object_mut() {
                details.remove(SAMPLE_DIGEST);
            }
            let nothing = Tensors::default();
            let about = About { fingerprint, details };
            let draft = Draft::of(STATE, &about, &nothing, 1)?;
            draft.write(store)?.settle()?;
            draft.digest()?
        }
    };
    if manifest.state.as_deref() != Some(&digest) {
        put_manifest(store, Manifest { state: Some(digest), pruned: Some("tables".to_owned()), ..manifest })?;
    }
    store.remove(SAMPLE)?;
    let freed = before.saturating_sub(size(&state));
    if freed > 0 {
        pruned.freed += freed;
        pruned.gone.push(STATES);
    }
    Ok(())
}

impl Pruned {
    fn add(&mut self, other: Pruned) {
        self.freed += other.freed;
        self.grown += other.grown;
        self.stored = self.stored.or(other.stored);
        self.runs += usize::from(!other.gone.is_empty() || other.stored.is_some()) * other.runs;
        let new: Vec<&str> = other.gone.into_iter().filter(|gone| !self.gone.contains(gone)).collect();
        self.gone.extend(new);
    }

    fn drop_files(&mut self, files: Vec<PathBuf>, what: &'static str) -> Result<()> {
        if !files.is_empty() {
            self.gone.push(what);
        }
        files.into_iter().try_for_each(|path| {
            self.freed += size(&path);
            std::fs::remove_file(&path).map_err(|source| Error::io(&path, source))
        })
    }
}

/// Files of the folder that were never finished.
fn unfinished(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    let is_unfinished = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (name.ends_with(".partial") || name == "keys.partial.safetensors") && !path.is_dir()
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_unfinished).collect())
}

fn size(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).map_or(0, |found| if found.is_file() { found.len() } else { 0 })
}

fn size_of_folder(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.map(|path| if path.is_dir() && !path.is_symlink() { size_of_folder(&path) } else { size(&path) }).sum()
}
