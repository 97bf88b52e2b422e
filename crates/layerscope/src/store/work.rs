//! The folder `.work` of an unfinished run: its lock, its plan, its spool and its checkpoints.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use layerscope_corpus::{BatchPlan, BatchSize};
use layerscope_error::{line, setting};
use layerscope_model::Point;
use layerscope_report::manifest::Timings;
use layerscope_stats::PointState;
use layerscope_stats::sketch::Tensors;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::measure::route::Route;
use crate::measure::timings::{Phase, Stopwatch};
use crate::store::folder::Folder;
use crate::store::lock::try_lock;
use crate::store::point_name::PointName;
use crate::store::replaced;
use crate::store::sealed::{read_sealed, write_sealed};
use crate::store::stamp::InputStamp;
use crate::store::state::{About, Fingerprint, StateFile, differences, write_state};
use crate::store::stored::{MANIFEST, STATE};

/// Saving may take this fraction of the time.
const SAVING_SHARE: f64 = 0.05;

/// How long to wait for the lock of a process that may just be ending.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
/// The folder of an unfinished run.
pub const WORK: &str = ".work";
/// Its plan: with it a run can be resumed.
pub const PLAN: &str = "plan.json";

/// What a resumed run must find unchanged, and what it need not compute again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPlan {
    /// Of model, corpus and settings.
    pub fingerprint: Fingerprint,
    /// The inputs as they were.
    pub inputs: Vec<InputStamp>,
    /// The way through model and text.
    pub route: Route,
    /// Rows of the batches: fewer from where the device had no memory for more.
    pub sizes: Vec<BatchSize>,
}

/// The folder, held by this process alone.
pub struct Work {
    /// The folder of the run.
    out: PathBuf,
    store: Folder,
    _lock: File,
    /// Whether the run that was here is being replaced and can still come back.
    replacing: bool,
    /// The way through the model and the text: states of another way are not this run's.
    route: Mutex<Option<Value>>,
    /// Which of the two checkpoint files is written next.
    turn: usize,
    /// The batch that comes after the last checkpoint.
    reached: usize,
    /// The first sequence of every batch, and the end: states of other batches are not this run's either.
    sequences: Vec<u64>,
    saved: Instant,
    saving: Duration,
    begun: Instant,
    /// Seconds that earlier processes spent on what they saved.
    before: f64,
    timings: Arc<Stopwatch>,
}

/// A checkpoint that was found.
pub struct Restored {
    /// The batch that comes next.
    pub next: usize,
    /// The states before it.
    pub states: Vec<(Point, PointState)>,
}

/// Writes the states of a finished leg while the next one goes on.
pub struct LegWriter {
    out: PathBuf,
    store: Folder,
    about: About,
    blocks: usize,
    leg: usize,
}

impl LegWriter {
    /// Writes them; the leg's checkpoints are of no use any more.
    pub fn write(&self, states: &[(Point, PointState)]) -> Result<()> {
        let states: Vec<(Point, &PointState)> = states.iter().map(|(at, state)| (*at, state)).collect();
        let mut about = self.about.clone();
        about.details["massive"] = states.iter().map(|(_, state)| state.moments.massive_threshold().map(f64::to_bits)).collect();
        write_state(&self.store, &leg_name(self.leg), &about, &all_tensors(self.blocks, &states))?.settle()?;
        retire(&self.out)?;
        (0..2).try_for_each(|turn| self.store.remove(&checkpoint_name(self.leg, turn)))
    }
}

impl Work {
    /// Opens the folder of a run and makes sure that nobody else works in it.
    pub fn open(out: &Path) -> Result<Work> {
        let begun = Instant::now();
        let (store, lock) = loop {
            if let Some(held) = try_lock(out)? {
                break held;
            }
            // The lock of a process that was killed a moment ago is free only when the process is gone.
            if begun.elapsed() >= PATIENCE {
                let line = format!("{}: another process works in this folder; wait for it, or choose another ", out.display());
                return Err(Error::refused(line![line, setting("out")]));
            }
            std::thread::sleep(PAUSE);
        };
        replaced::recover(&out.join(WORK))?;
        let (saved, begun) = (Instant::now(), Instant::now());
        Ok(Work {
            out: out.to_owned(),
            store,
            _lock: lock,
            replacing: false,
            route: Mutex::default(),
            turn: 0,
            reached: 0,
            sequences: Vec::new(),
            saved,
            saving: Duration::ZERO,
            begun,
            before: 0.0,
            timings: Arc::default(),
        })
    }

    /// Makes room for a new run. The run that was here, finished or not, comes back unless the new one gets as far as [`Work::retire`].
    pub fn replace(&mut self) -> Result<()> {
        let folder = self.out.join(WORK);
        match self.store.path(PLAN).exists() {
            true => replaced::put_aside(&folder)?,
            false => replaced::empty(&folder)?,
        }
        self.replacing = true;
        Ok(())
    }

    /// The batch that comes after the last checkpoint; 0 without one.
    pub fn reached(&self) -> usize {
        self.reached
    }

    /// Removes the plan, and with it whatever was computed.
    pub fn forget_progress(&mut self, legs: usize) -> Result<()> {
        self.store.remove(PLAN)?;
        let files = |leg: usize| [leg_name(leg), checkpoint_name(leg, 0), checkpoint_name(leg, 1)];
        (0..legs).flat_map(files).try_for_each(|name| self.store.remove(&name))?;
        self.reached = 0;
        Ok(())
    }

    /// The new run has states on disk: the run that was here goes.
    pub fn retire(&mut self) -> Result<()> {
        self.replacing = false;
        retire(&self.out)
    }

    /// Looks whether the plan can be read. A damaged one is set aside: the way is planned anew, and states of the same way are used.
    pub fn mend(&self, warn: &mut dyn FnMut(String)) -> Result<()> {
        match self.saved_plan() {
            Err(error @ Error::Damaged { .. }) => {
                warn(format!("{error}; planned anew"));
                self.set_aside(PLAN)
            }
            found => found.map(drop),
        }
    }

    /// Gives a damaged file another name, so that it is neither used nor lost.
    pub fn set_aside(&self, name: &str) -> Result<()> {
        let path = self.store.path(name);
        fs::rename(&path, self.store.path(&format!("{name}.damaged"))).map_err(|source| Error::io(&path, source))
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.store.path(name)
    }

    /// The plan of an earlier run, if it got so far.
    pub fn saved_plan(&self) -> Result<Option<SavedPlan>> {
        let plan: Option<SavedPlan> = self.read_json(PLAN)?;
        if let Some(plan) = &plan {
            *self.route() = Some(way(&plan.route));
        }
        Ok(plan)
    }

    /// Saves the plan; from then on the run can be resumed.
    pub fn save_plan(&self, plan: &SavedPlan) -> Result<()> {
        *self.route() = Some(way(&plan.route));
        self.write_json(PLAN, plan)
    }

    /// A file of the folder as a value, if it is there.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        read_sealed(&self.store.path(name))
    }

    /// Writes a value as a file of the folder.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        write_sealed(&self.store, name, value)
    }

    /// Writes a file of the folder.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        self.store.put_atomic(name, |out| out.write_all(content))
    }

    /// What a file of states says of its place in the run.
    fn details(&self, next: usize) -> Value {
        let sequence = self.sequences.get(next);
        let (seconds, timings, route) = (self.seconds(), self.timings.timings(), self.route().clone());
        json!({ "next": next, "sequence": sequence, "seconds": seconds, "timings": timings, "route": route })
    }

    /// Whether a file of states is of the way that this run goes. Older programs did not say.
    fn is_of_route(&self, file: &StateFile) -> bool {
        let details = &file.about().details;
        let is_at = |next: usize| details["sequence"].as_u64() == self.sequences.get(next).copied();
        let is_same = self.route().as_ref().is_none_or(|route| *route == details["route"]) && next(file).is_none_or(is_at);
        details["route"].is_null() || is_same
    }

    fn route(&self) -> MutexGuard<'_, Option<Value>> {
        self.route.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, the batches of this plan are counted.
    pub fn count(&mut self, batches: &BatchPlan) {
        self.sequences = (0..=batches.len()).map(|batch| batches.first_sequence(batch)).collect();
    }

    /// Time spent so far, over all interruptions.
    pub fn seconds(&self) -> f64 {
        self.before + self.begun.elapsed().as_secs_f64()
    }

    /// Where the time goes; any thread may add to it.
    pub fn timings(&self) -> Arc<Stopwatch> {
        Arc::clone(&self.timings)
    }

    /// Time spent so far and where it went, over all interruptions.
    pub fn spent(&self) -> (f64, Timings) {
        (self.seconds(), self.timings.timings())
    }

    /// Counts the time that was spent until a file was written, unless a later file was found before.
    fn resume_time(&mut self, file: &StateFile) {
        let details = &file.about().details;
        let seconds = details["seconds"].as_f64().unwrap_or(0.0);
        if seconds > self.before {
            self.before = seconds;
            self.timings.resume(serde_json::from_value(details["timings"].clone()).unwrap_or_default());
        }
    }

    /// Whether it is time to save again: every `interval`, stretched so that saving stays a small part of the time.
    pub fn is_due(&self, interval: Duration) -> bool {
        self.saved.elapsed() >= interval.max(self.saving.div_f64(SAVING_SHARE))
    }

    /// Saves the states of a leg as they are before batch `next`.
    pub fn save(
        &mut self,
        fingerprint: &Fingerprint,
        blocks: usize,
        leg: usize,
        next: usize,
        states: &[(Point, &PointState)],
    ) -> Result<()> {
        let start = Instant::now();
        let about = About { fingerprint: fingerprint.clone(), details: self.details(next) };
        write_state(&self.store, &checkpoint_name(leg, self.turn), &about, &all_tensors(blocks, states))?.settle()?;
        self.retire()?;
        (self.turn, self.reached) = (1 - self.turn, next);
        (self.saved, self.saving) = (Instant::now(), start.elapsed());
        self.timings.add(Phase::Write, start.elapsed().as_secs_f64());
        Ok(())
    }

    /// The latest whole checkpoint of a leg behind batch `first`. `warn` hears of damaged ones.
    pub fn restore(
        &mut self,
        fingerprint: &Fingerprint,
        blocks: usize,
        leg: usize,
        first: usize,
        points: &[Point],
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<Restored>> {
        self.saved = Instant::now();
        let mut found: Vec<(usize, usize, StateFile)> = Vec::new();
        for turn in 0..2 {
            let path = self.store.path(&checkpoint_name(leg, turn));
            if !path.exists() {
                continue;
            }
            match StateFile::open(&path) {
                Ok(file) => {
                    if let Some(next) = next(&file).filter(|next| *next > first && self.is_of_route(&file)) {
                        file.expect(fingerprint)?;
                        found.push((next, turn, file));
                    }
                }
                Err(error) => warn(format!("{error}; using the one before it")),
            }
        }
        found.sort_by_key(|(next, turn, _)| (*next, *turn));
        while let Some((next, turn, file)) = found.pop() {
            match read_points(&file, blocks, points) {
                Ok(states) => {
                    self.resume_time(&file);
                    (self.turn, self.reached) = (1 - turn, next);
                    return Ok(Some(Restored { next, states }));
                }
                Err(error) => warn(format!("{error}; using the one before it")),
            }
        }
        Ok(None)
    }

    /// What writes the states of a leg that is finished; on any thread.
    pub fn leg_writer(&self, fingerprint: &Fingerprint, blocks: usize, leg: usize, next: usize) -> LegWriter {
        let about = About { fingerprint: fingerprint.clone(), details: self.details(next) };
        LegWriter { out: self.out.clone(), store: self.store.clone(), about, blocks, leg }
    }

    /// The states of a leg after the stretches that it has finished, if there are any and they are whole, with the batch that comes next.
    /// `warn` hears of damaged ones.
    pub fn finished_leg(
        &mut self,
        fingerprint: &Fingerprint,
        leg: usize,
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<(usize, StateFile)>> {
        if !self.store.path(&leg_name(leg)).exists() {
            return Ok(None);
        }
        match self.open_leg(leg).and_then(|file| file.verify().map(|()| file)) {
            Ok(file) => {
                file.expect(fingerprint)?;
                if !self.is_of_route(&file) {
                    return Ok(None);
                }
                self.resume_time(&file);
                Ok(next(&file).map(|next| (next, file)))
            }
            Err(error @ Error::Damaged { .. }) => {
                warn(format!("{error}; measuring its layers again"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The states of a leg that was finished.
    pub fn open_leg(&self, leg: usize) -> Result<StateFile> {
        StateFile::open(&self.store.path(&leg_name(leg)))
    }

    /// Removes the whole folder. The run is complete: what cannot be removed, by a fault of the disk or because somebody waits for the
    /// lock, is left.
    pub fn remove(mut self) {
        self.replacing = false;
        let folder = self.out.join(WORK);
        let _ = replaced::empty(&folder);
        let _ = fs::remove_file(folder.join("lock"));
        let _ = fs::remove_dir(&folder);
    }
}

impl Drop for Work {
    /// The new run came to nothing: what was here before is here again.
    fn drop(&mut self) {
        let folder = self.out.join(WORK);
        if self.replacing && replaced::is_aside(&folder) {
            // The next process ends what cannot be done now.
            let _ = replaced::bring_back(&folder);
        } else if self.replacing && [STATE, MANIFEST].iter().any(|name| self.out.join(name).exists()) {
            let _ = replaced::empty(&folder);
        }
    }
}

/// Removes the run that was here. The state goes first: a manifest without a state stands for nothing that could be resumed.
fn retire(out: &Path) -> Result<()> {
    let store = Folder::create(out)?;
    [STATE, MANIFEST].into_iter().try_for_each(|name| store.remove(name))?;
    replaced::forget(&out.join(WORK))
}

/// Refuses to continue a run of another model, corpus or setting, and says what differs.
pub fn expect_same(out: &Path, there: &Fingerprint, here: &Fingerprint) -> Result<()> {
    let differences = differences(there, here);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::mismatch(line![
        format!("{} holds another run: {differences}; give the same settings, choose another ", out.display()),
        setting("out"),
        ", or start again with ",
        setting("overwrite")
    ]))
}

/// A route as files of states state it. A run of one leg may change the size of its batches on the way.
fn way(route: &Route) -> Value {
    if route.legs.len() > 1 { json!(route) } else { json!({ "legs": route.legs }) }
}

/// The batch that comes after those in a file.
fn next(file: &StateFile) -> Option<usize> {
    file.about().details["next"].as_u64().and_then(|next| usize::try_from(next).ok())
}

/// The norms beyond which states are massive at the points of a finished leg, which were written bit by bit.
pub fn massive_of(file: &StateFile) -> Vec<Option<f64>> {
    let stored = file.about().details["massive"].as_array();
    stored.into_iter().flatten().map(|bits| bits.as_u64().map(f64::from_bits)).collect()
}

fn checkpoint_name(leg: usize, turn: usize) -> String {
    format!("checkpoint-{leg}-{turn}.safetensors")
}

fn leg_name(leg: usize) -> String {
    format!("leg-{leg}.safetensors")
}

/// The states of points as tensors.
pub fn all_tensors<'a>(blocks: usize, states: &[(Point, &'a PointState)]) -> Tensors<'a> {
    let mut tensors = Tensors::default();
    states.iter().for_each(|(at, state)| tensors.nest(&PointName::of(*at, blocks).stored(), state.encode()));
    tensors
}

/// The states of some points in a file.
pub fn read_points(file: &StateFile, blocks: usize, points: &[Point]) -> Result<Vec<(Point, PointState)>> {
    points.iter().map(|&at| Ok((at, PointState::decode(&mut file.read(&PointName::of(at, blocks).stored())?)?))).collect()
}
