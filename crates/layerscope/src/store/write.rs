//! The end of a run: from its states to the files a user sees. The manifest comes last.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use layerscope_compute::parallel::in_order;
use layerscope_error::{line, setting};
use layerscope_model::Point;
use layerscope_report::manifest::{FileDigest, Timings};
use layerscope_report::{Manifest, Table, export};
use layerscope_stats::PointState;
use layerscope_stats::sketch::Tensors;
use serde_json::Value;

use super::facts::Facts;
use super::folder::{Folder, Unsettled};
use super::fresh::FreshRun;
use super::manifest::of_run;
use super::state::{About, Draft, Fingerprint, StateFile, differences, write_state};
use super::stored::{MANIFEST, SAMPLE, SAMPLE_DIGEST, STATE, StoredRun, key_tensors};
use super::work::{PLAN, WORK, Work, all_tensors};
use crate::checkpoint::weights::norms_table;
use crate::error::{Error, Result};
use crate::measure::kept::Kept;
use crate::measure::timings::shared_among;
use crate::process::cancel::{CancelToken, Saving};
use crate::process::system;
use crate::process::threads::joined;
use crate::tables::make::{Resources, Tables};

/// The files of a run that its manifest names, each as it was written.
pub type Files = BTreeMap<String, FileDigest>;

/// Refuses a folder that holds a run, finished or to be resumed, unless it may be overwritten.
pub fn refuse_run(out: &Path, overwrite: bool) -> Result<()> {
    match !overwrite && (out.join(MANIFEST).exists() || out.join(WORK).join(PLAN).exists()) {
        true => Err(holds_run(out)),
        false => Ok(()),
    }
}

/// The same where states of this fingerprint are about to be written: a command that was killed on its way to the manifest goes on.
fn refuse_other_run(out: &Path, overwrite: bool, fingerprint: &Fingerprint) -> Result<()> {
    refuse_run(out, overwrite)?;
    let state = out.join(STATE);
    let is_own = |state: StateFile| differences(&state.about().fingerprint, fingerprint).is_empty();
    match overwrite || !state.exists() || StateFile::open(&state).is_ok_and(is_own) {
        true => Ok(()),
        false => Err(holds_run(out)),
    }
}

fn holds_run(out: &Path) -> Error {
    Error::refused(line![
        format!("{} holds a run already; choose another ", out.display()),
        setting("out"),
        ", or give ",
        setting("overwrite")
    ])
}

/// A run folder for new states of this fingerprint, and its working folder. The run that it holds stays until [`Work::retire`].
pub fn open_replacing(out: &Path, overwrite: bool, fingerprint: &Fingerprint) -> Result<(Folder, Work)> {
    refuse_other_run(out, overwrite, fingerprint)?;
    let mut work = Work::open(out)?;
    work.replace()?;
    Ok((Folder::create(out)?, work))
}

/// Where the states of all legs are.
pub enum LegStates {
    /// Of a single one, as it ended.
    InMemory(Vec<(Point, PointState)>),
    /// In a file each.
    OnDisk(Vec<StateFile>),
}

/// What a measurement leaves for the tables.
pub enum Ended {
    /// States that are not in the files of the run yet; the process is not ended before they are.
    Fresh(Box<FreshRun>, Saving),
    /// States on their way there.
    Written(WrittenStates),
}

impl Ended {
    /// The states alone, on the disk.
    pub fn settle(self, store: &Folder, threads: usize) -> Result<()> {
        match self {
            Ended::Fresh(fresh, _saving) => fresh.write(store, threads)?.settle(),
            Ended::Written(written) => written.settle(),
        }
    }
}

/// The two files of a run, on their way to the disk.
#[must_use]
pub struct WrittenStates {
    sample: Unsettled,
    state: Unsettled,
    /// Of the state.
    digest: String,
    /// Held until they are there.
    _saving: Option<Saving>,
}

impl WrittenStates {
    /// The process is not ended before they are there.
    pub fn held(self, saving: Saving) -> WrittenStates {
        WrittenStates { _saving: Some(saving), ..self }
    }

    /// Gives them their names once they are on the disk. The sample goes first: a folder with a state has everything that belongs to it.
    pub fn settle(self) -> Result<()> {
        self.sample.settle()?;
        self.state.settle()
    }

    /// Opens the run, settled or not.
    fn open(&self) -> Result<StoredRun> {
        StoredRun::of_files(self.state.path(), self.sample.path())
    }
}

/// Writes the states of all legs into the two files of the run, on so many threads.
pub fn write_states(
    store: &Folder,
    fingerprint: &Fingerprint,
    facts: &Facts,
    kept: &Kept,
    legs: &LegStates,
    threads: usize,
) -> Result<WrittenStates> {
    let is_kept = |name: &str| name.ends_with(".kept");
    let mut details = serde_json::to_value(facts).map_err(|error| Error::io(&store.path(STATE), error.into()))?;
    let mut about = |sample: &Draft<'_>| {
        details[SAMPLE_DIGEST] = sample.digest()?.into();
        Ok::<_, Error>(About { fingerprint: fingerprint.clone(), details: details.take() })
    };
    let keys = About { fingerprint: fingerprint.clone(), details: Value::Null };
    let mut key_tensors = key_tensors(kept);
    match legs {
        LegStates::InMemory(states) => {
            let states: Vec<(Point, &PointState)> = states.iter().map(|(at, state)| (*at, state)).collect();
            let (kept, sketches) = all_tensors(facts.model.layers, &states).0.into_iter().partition(|(name, _)| is_kept(name));
            key_tensors.0.extend::<BTreeMap<_, _>>(kept);
            let (sample, sketches) = (Draft::of(SAMPLE, &keys, &key_tensors, threads)?, Tensors(sketches));
            let about = about(&sample)?;
            std::thread::scope(|scope| {
                let sample = scope.spawn(|| sample.write(store));
                let state = Draft::of(STATE, &about, &sketches, threads)
                    .and_then(|state| Ok((state.write_packed(store, threads)?, state.digest()?)));
                let (sample, (state, digest)) = (joined(sample)?, state?);
                Ok(WrittenStates { sample, state, digest, _saving: None })
            })
        }
        LegStates::OnDisk(files) => {
            write_state(store, "keys.partial.safetensors", &keys, &key_tensors)?.settle()?;
            let key_file = StateFile::open(&store.path("keys.partial.safetensors"))?;
            let parts: Vec<&StateFile> = files.iter().chain([&key_file]).collect();
            let sample = Draft::joined(SAMPLE, &keys, &parts, |name| is_kept(name) || name.starts_with("keys."))?;
            let about = about(&sample)?;
            let sample = sample.write(store)?;
            store.remove("keys.partial.safetensors")?;
            let state = Draft::joined(STATE, &about, &files.iter().collect::<Vec<_>>(), |name| !is_kept(name))?;
            let (digest, state) = (state.digest()?, state.write_packed(store, threads)?);
            Ok(WrittenStates { sample, state, digest, _saving: None })
        }
    }
}

/// Bytes of the two files that are on their way.
pub fn being_written(store: &Folder) -> u64 {
    let size = |name: &str| std::fs::metadata(store.path(&format!("{name}.partial"))).map_or(0, |file| file.len());
    size(SAMPLE) + size(STATE)
}

/// What the manifest says of the way a run ended.
pub struct Ending {
    /// Threads and memory for what is computed at the end.
    pub resources: Resources,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Where the time went until now; None: as far as the states tell.
    pub timings: Option<Timings>,
}

impl Default for Ending {
    fn default() -> Ending {
        let resources = Resources { threads: system::processors(), memory: system::at_hand().unwrap_or(0), cancel: CancelToken::default() };
        Ending { resources, warnings: Vec::new(), timings: None }
    }
}

/// Makes the tables of the state in a folder, or of those that were just measured, and the manifest. Can be done again at any time.
///
/// New states go to the disk meanwhile, and get their names whatever becomes of the tables.
pub fn write_run(store: &Folder, ended: Option<Ended>, ending: &Ending, show: &mut dyn FnMut(usize, usize)) -> Result<Manifest> {
    let (start, resources) = (Instant::now(), &ending.resources);
    let cancel = &resources.cancel;
    cancel.during("interrupted while the tables were made: the states are saved; the same command makes the tables");
    let of_stored = |run: StoredRun, show: &mut dyn FnMut(usize, usize)| -> Result<_> {
        let MadeTables { facts, encoded } = MadeTables::of_stored(run, resources, show)?;
        Ok((facts, encoded.staged(store, resources.threads)?))
    };
    let ((facts, staged), digest, computing) = match ended {
        None => {
            let run = StoredRun::open(&store.path(""))?;
            let digest = run.state.digest().to_owned();
            (of_stored(run, show)?, digest, start.elapsed().as_secs_f64())
        }
        Some(Ended::Written(written)) => {
            let (digest, run) = (written.digest.clone(), written.open());
            let (made, computing) = while_saving(|| written.settle(), || run.and_then(|run| of_stored(run, show)))?;
            (made, digest, computing)
        }
        Some(Ended::Fresh(fresh, saving)) => {
            let mut digest = String::new();
            let save = || {
                // Nobody reads them soon.
                let written = fresh.write(&store.uncached(), resources.threads)?;
                digest.clone_from(&written.digest);
                written.held(saving).settle()
            };
            let make = || Encoded::of(&fresh.facts, fresh.tables(resources, show)?, resources)?.staged(store, resources.threads);
            let (staged, computing) = while_saving(save, make)?;
            ((fresh.facts, staged), digest, computing)
        }
    };
    let StagedTables { tables, staged } = staged;
    let mut files = Files::new();
    for (name, file) in staged {
        cancel.check()?;
        match file {
            Some((file, digest)) => {
                file.settle()?;
                files.insert(name, digest);
            }
            None => store.remove(&name)?,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut timings = ending.timings.clone().unwrap_or_else(|| facts.timings.clone());
    timings.add(&Timings { tables: shared_among(computing, &tables.timings), write: seconds - computing, ..Timings::default() });
    let manifest = of_run(&facts, &tables, (facts.seconds + seconds, timings), &ending.warnings);
    let manifest = put_manifest(store, Manifest { files: Some(files), state: Some(digest), ..manifest })?;
    cancel.during("interrupted, but the run is complete: nothing is lost");
    Ok(manifest)
}

/// Makes something while states are saved; returns it and the seconds until it was made. A failure to save comes first.
fn while_saving<T>(save: impl FnOnce() -> Result<()> + Send, make: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let saving = scope.spawn(save);
        let made = make();
        let seconds = start.elapsed().as_secs_f64();
        joined(saving)?;
        Ok((made?, seconds))
    })
}

/// The tables of a run, and their files as they will be.
pub(crate) struct MadeTables {
    pub facts: Facts,
    pub encoded: Encoded,
}

impl MadeTables {
    pub fn of_stored(run: StoredRun, resources: &Resources, show: &mut dyn FnMut(usize, usize)) -> Result<MadeTables> {
        let encoded = run.tables(resources, show).and_then(|tables| Encoded::of(&run.facts, tables, resources))?;
        Ok(MadeTables { facts: run.facts, encoded })
    }
}

/// Tables with their files; None for those that the run does not have.
pub(crate) struct Encoded {
    pub tables: Tables,
    contents: Vec<(String, Option<Vec<u8>>)>,
}

impl Encoded {
    fn of(facts: &Facts, tables: Tables, resources: &Resources) -> Result<Encoded> {
        let norms = norms_table(&facts.norms)?;
        let all: [(&str, Option<&Table>); 8] = [
            ("layers", Some(&tables.layers)),
            ("groups", Some(&tables.groups)),
            ("components", Some(&tables.components)),
            ("norms", Some(&norms)),
            ("spectra", tables.spectra.as_ref()),
            ("tokens", tables.tokens.as_ref()),
            ("token_components", tables.token_components.as_ref()),
            ("massive", tables.massive.as_ref()),
        ];
        let contents = in_order(resources.threads, all.len(), |at| all[at].1.map(encoded).transpose());
        let file = |((name, _), content): (&(&str, _), Result<Option<Vec<u8>>>)| Ok((format!("{name}.parquet"), content?));
        let contents = all.iter().zip(contents).map(file).collect::<Result<_>>()?;
        Ok(Encoded { tables, contents })
    }

    /// Writes the files, which get their names later.
    fn staged(self, store: &Folder, threads: usize) -> Result<StagedTables> {
        let Encoded { tables, contents } = self;
        let stage = |at: usize| {
            let (name, content) = &contents[at];
            let staged = match content {
                Some(content) => Some((store.put_unsettled(name, |out| out.write_all(content))?, FileDigest::of(content))),
                None => None,
            };
            Ok((name.clone(), staged))
        };
        let staged = in_order(threads, contents.len(), stage).into_iter().collect::<Result<_>>()?;
        Ok(StagedTables { tables, staged })
    }
}

/// Tables with their files on the way to the disk; None for those that the run does not have.
struct StagedTables {
    tables: Tables,
    staged: Vec<(String, Option<(Unsettled, FileDigest)>)>,
}

fn encoded(table: &Table) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    export::parquet::write(table, &mut bytes)?;
    Ok(bytes)
}

/// Seals a manifest and writes it.
pub fn put_manifest(store: &Folder, manifest: Manifest) -> Result<Manifest> {
    let failed = |error: serde_json::Error| Error::io(&store.path(MANIFEST), error.into());
    let manifest = manifest.sealed().map_err(failed)?;
    let text = serde_json::to_vec_pretty(&manifest).map_err(failed)?;
    store.put_atomic(MANIFEST, |out| out.write_all(&text))?;
    Ok(manifest)
}

/// Writes a table as Parquet, and notes it for the manifest.
pub fn put_table(store: &Folder, name: &str, table: &Table, files: &mut Files) -> Result<()> {
    put_file(store, name, &encoded(table)?, files)
}

fn put_file(store: &Folder, name: &str, content: &[u8], files: &mut Files) -> Result<()> {
    store.put_atomic(name, |out| out.write_all(content))?;
    files.insert(name.to_owned(), FileDigest::of(content));
    Ok(())
}
