//! The folder `.work` of an unfinished run: its lock, its plan, its spool and its checkpoints.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use layerscope_model::Point;
use layerscope_stats::sketch::Tensors;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::facts::point_kind;
use crate::point_state::PointState;
use crate::state::{About, Fingerprint, StateFile, differences, write_state};
use crate::store::Store;

/// Saving may take this fraction of the time.
const SAVING_SHARE: f64 = 0.05;

/// What a resumed run must find unchanged, and what it need not compute again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPlan {
    /// Of model, corpus and settings.
    pub fingerprint: Fingerprint,
    /// The inputs as they were.
    pub inputs: Vec<InputStamp>,
    /// Norms beyond which states are massive, point by point.
    pub massive: Vec<Option<f64>>,
    /// Points of each pass, counted among the measured ones.
    pub passes: Vec<usize>,
}

/// A plan as it lies on disk: one wrong digit of a threshold must not go unnoticed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checksum: u32,
    plan: Value,
}

/// CRC-32 of a value as JSON.
fn checksum(value: &Value) -> u32 {
    crc32fast::hash(value.to_string().as_bytes())
}

/// How a file looked when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputStamp {
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in nanoseconds.
    pub modified: u64,
}

impl InputStamp {
    /// Of an input that is a file; others have none.
    pub fn of(path: &str) -> Option<InputStamp> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(InputStamp { path: path.to_owned(), bytes: metadata.len(), modified: modified.as_nanos() as u64 })
    }
}

/// The folder, held by this process alone.
pub struct Work {
    store: Store,
    _lock: File,
    /// Which of the two checkpoint files is written next.
    turn: usize,
    saved: Instant,
    saving: Duration,
    begun: Instant,
    /// Seconds that earlier processes spent on what they saved.
    before: f64,
}

/// A checkpoint that was found.
pub struct Restored {
    /// The batch that comes next.
    pub next: usize,
    /// The states before it.
    pub states: Vec<(Point, PointState)>,
}

impl Work {
    /// Opens the folder of a run and makes sure that nobody else works in it.
    pub fn open(out: &Path) -> Result<Work> {
        let store = Store::create(&out.join(".work"))?;
        let path = store.path("lock");
        let lock = File::create(&path).map_err(|source| Error::io(&path, source))?;
        match lock.try_lock() {
            Ok(()) => {
                Ok(Work { store, _lock: lock, turn: 0, saved: Instant::now(), saving: Duration::ZERO, begun: Instant::now(), before: 0.0 })
            }
            Err(TryLockError::WouldBlock) => Err(Error::Refused(format!(
                "{}: another process measures into this folder; wait for it, or choose another --out",
                out.display()
            ))),
            Err(TryLockError::Error(source)) => Err(Error::io(&path, source)),
        }
    }

    /// Removes everything an earlier run left.
    pub fn clear(&self) -> Result<()> {
        let folder = self.store.path("");
        for entry in fs::read_dir(&folder).map_err(|source| Error::io(&folder, source))? {
            let path = entry.map_err(|source| Error::io(&folder, source))?.path();
            if path.file_name().is_some_and(|name| name != "lock") {
                fs::remove_file(&path).map_err(|source| Error::io(&path, source))?;
            }
        }
        Ok(())
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.store.path(name)
    }

    /// The plan of an earlier run, if it got so far.
    pub fn saved_plan(&self) -> Result<Option<SavedPlan>> {
        let path = self.store.path("plan.json");
        match fs::read(&path) {
            Ok(bytes) => {
                let sealed: Option<Sealed> = serde_json::from_slice(&bytes).ok();
                let plan = sealed.filter(|sealed| sealed.checksum == checksum(&sealed.plan)).map(|sealed| sealed.plan);
                let plan = plan.and_then(|plan| serde_json::from_value(plan).ok());
                plan.map(Some).ok_or_else(|| Error::damaged(&path, "damaged plan; start again with --overwrite"))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Saves the plan; from then on the run can be resumed.
    pub fn save_plan(&self, plan: &SavedPlan) -> Result<()> {
        let failed = |error: serde_json::Error| Error::io(&self.store.path("plan.json"), error.into());
        let plan = serde_json::to_value(plan).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&Sealed { checksum: checksum(&plan), plan }).map_err(failed)?;
        self.store.put_atomic("plan.json", |out| out.write_all(&text))
    }

    /// Time spent so far, over all interruptions.
    pub fn seconds(&self) -> f64 {
        self.before + self.begun.elapsed().as_secs_f64()
    }

    /// Whether it is time to save again: every `interval`, stretched so that saving stays a small part of the time.
    pub fn is_due(&self, interval: Duration) -> bool {
        self.saved.elapsed() >= interval.max(self.saving.div_f64(SAVING_SHARE))
    }

    /// Saves the states of a pass as they are before batch `next`.
    pub fn save(
        &mut self,
        fingerprint: &Fingerprint,
        blocks: usize,
        pass: usize,
        next: usize,
        states: &[(Point, &PointState)],
    ) -> Result<()> {
        let start = Instant::now();
        let about = About { fingerprint: fingerprint.clone(), details: json!({ "pass": pass, "next": next, "seconds": self.seconds() }) };
        write_state(&self.store, &checkpoint_name(self.turn), &about, &all_tensors(blocks, states))?;
        self.turn = 1 - self.turn;
        (self.saved, self.saving) = (Instant::now(), start.elapsed());
        Ok(())
    }

    /// The latest whole checkpoint of a pass. `warn` hears of damaged ones.
    pub fn restore(
        &mut self,
        fingerprint: &Fingerprint,
        blocks: usize,
        pass: usize,
        points: &[Point],
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<Restored>> {
        self.saved = Instant::now();
        let mut found: Vec<(usize, usize, StateFile)> = Vec::new();
        for turn in 0..2 {
            let path = self.store.path(&checkpoint_name(turn));
            if !path.exists() {
                continue;
            }
            match StateFile::open(&path) {
                Ok(file) => {
                    let number = |key: &str| file.about().details[key].as_u64().map(|number| number as usize);
                    if let (Some(of), Some(next)) = (number("pass"), number("next"))
                        && of == pass
                    {
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
                    self.before = self.before.max(seconds(&file));
                    self.turn = 1 - turn;
                    return Ok(Some(Restored { next, states }));
                }
                Err(error) => warn(format!("{error}; using the one before it")),
            }
        }
        Ok(None)
    }

    /// Saves the finished states of a pass.
    pub fn finish_pass(&self, fingerprint: &Fingerprint, blocks: usize, pass: usize, states: &[(Point, &PointState)]) -> Result<()> {
        let about = About { fingerprint: fingerprint.clone(), details: json!({ "pass": pass, "seconds": self.seconds() }) };
        write_state(&self.store, &pass_name(pass), &about, &all_tensors(blocks, states))?;
        for turn in 0..2 {
            let _ = fs::remove_file(self.store.path(&checkpoint_name(turn)));
        }
        Ok(())
    }

    /// The finished states of a pass, if there are any and they are whole. `warn` hears of damaged ones.
    pub fn finished_pass(&mut self, fingerprint: &Fingerprint, pass: usize, warn: &mut dyn FnMut(String)) -> Result<Option<StateFile>> {
        if !self.store.path(&pass_name(pass)).exists() {
            return Ok(None);
        }
        match self.open_pass(pass).and_then(|file| file.verify().map(|()| file)) {
            Ok(file) => {
                file.expect(fingerprint)?;
                self.before = self.before.max(seconds(&file));
                Ok(Some(file))
            }
            Err(error @ Error::Damaged { .. }) => {
                warn(format!("{error}; measuring its layers again"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The states of a pass that was finished.
    pub fn open_pass(&self, pass: usize) -> Result<StateFile> {
        StateFile::open(&self.store.path(&pass_name(pass)))
    }

    /// Removes the whole folder.
    pub fn remove(self) -> Result<()> {
        let folder = self.store.path("");
        fs::remove_dir_all(&folder).map_err(|source| Error::io(&folder, source))
    }
}

/// Refuses to continue a run of another model, corpus or setting, and says what differs.
pub fn expect_same(out: &Path, there: &Fingerprint, here: &Fingerprint) -> Result<()> {
    let differences = differences(there, here);
    if differences.is_empty() {
        return Ok(());
    }
    let advice = "give the same flags, choose another --out, or start again with --overwrite";
    Err(Error::Mismatch(format!("{} holds another run: {differences}; {advice}", out.display())))
}

/// Time that was spent until a file was written.
fn seconds(file: &StateFile) -> f64 {
    file.about().details["seconds"].as_f64().unwrap_or(0.0)
}

fn checkpoint_name(turn: usize) -> String {
    format!("checkpoint-{turn}.safetensors")
}

fn pass_name(pass: usize) -> String {
    format!("pass-{pass}.safetensors")
}

/// The name under which a point's tensors are stored.
pub fn point_name(at: Point, blocks: usize) -> String {
    format!("layer{}.{}", at.layer(blocks), point_kind(at))
}

fn all_tensors<'a>(blocks: usize, states: &[(Point, &'a PointState)]) -> Tensors<'a> {
    let mut tensors = Tensors::default();
    states.iter().for_each(|(at, state)| tensors.nest(&point_name(*at, blocks), state.tensors()));
    tensors
}

fn read_points(file: &StateFile, blocks: usize, points: &[Point]) -> Result<Vec<(Point, PointState)>> {
    points.iter().map(|&at| Ok((at, PointState::from_tensors(&mut file.read(&point_name(at, blocks))?)?))).collect()
}
