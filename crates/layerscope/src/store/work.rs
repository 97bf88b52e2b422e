//! The folder `.work` of an unfinished run: its lock, its plan, its spool; `work/states.rs` has its checkpoints.

mod states;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use layerscope_corpus::{BatchPlan, BatchSize};
use layerscope_error::{line, setting};
use layerscope_report::manifest::Timings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::measure::route::Route;
use crate::measure::timings::Stopwatch;
use crate::store::folder::{Folder, Tentative};
use crate::store::lock::{LOCK, try_lock};
use crate::store::replaced;
use crate::store::sealed::{read_sealed, write_sealed};
use crate::store::stamp::InputStamp;
use crate::store::state::{Fingerprint, differences};
use crate::store::stored::{MANIFEST, STATE};

pub use states::{all_tensors, massive_of, read_points};
use states::{checkpoint_name, leg_name};

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
    lock: Option<File>,
    /// Goes again with a command that fails before it has done anything.
    _tentative: Tentative,
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

impl Work {
    /// Opens the folder of a run and makes sure that nobody else works in it.
    pub fn open(out: &Path) -> Result<Work> {
        let (begun, tentative) = (Instant::now(), Tentative::new(out));
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
            lock: Some(lock),
            _tentative: tentative,
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

    /// Whether the run that was here can still come back.
    pub fn is_replacing(&self) -> bool {
        self.replacing
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

    /// A command that was refused before there was a plan leaves nothing behind.
    pub fn abandon(&self) {
        if !self.replacing && !self.store.path(PLAN).exists() {
            let _ = replaced::empty(&self.out.join(WORK));
        }
    }

    /// Removes the whole folder. The run is complete: what cannot be removed, by a fault of the disk or because somebody waits for the
    /// lock, is left.
    pub fn remove(mut self) {
        self.replacing = false;
        let folder = self.out.join(WORK);
        let _ = replaced::empty(&folder);
        self.remove_lock(&folder);
    }

    /// The lock goes, and the folder with it if nothing else is there. Some disks forget a name only when nobody has its file open.
    fn remove_lock(&mut self, folder: &Path) {
        let _ = fs::remove_file(folder.join(LOCK));
        drop(self.lock.take());
        let _ = fs::remove_dir(folder);
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
        // A working folder without any work goes too.
        let is_lock = |entry: std::io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == LOCK);
        if self.lock.is_some() && fs::read_dir(&folder).is_ok_and(|mut entries| entries.all(is_lock)) {
            self.remove_lock(&folder);
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
