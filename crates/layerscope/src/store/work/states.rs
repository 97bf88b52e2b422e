//! States of an unfinished run: checkpoints of the leg under way, and the states of legs that are finished.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use layerscope_model::Point;
use layerscope_stats::PointState;
use layerscope_stats::sketch::Tensors;
use serde_json::{Value, json};

use super::{Work, retire};
use crate::error::{Error, Result};
use crate::measure::timings::Phase;
use crate::store::folder::Folder;
use crate::store::point_name::PointName;
use crate::store::state::{About, Fingerprint, StateFile, write_state};

/// Saving may take this fraction of the time.
const SAVING_SHARE: f64 = 0.05;

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

    /// Counts the time that was spent until a file was written, unless a later file was found before.
    fn resume_time(&mut self, file: &StateFile) {
        let details = &file.about().details;
        let seconds = details["seconds"].as_f64().unwrap_or(0.0);
        if seconds > self.before {
            self.before = seconds;
            self.timings.resume(serde_json::from_value(details["timings"].clone()).unwrap_or_default());
        }
    }

    /// How long until it is time to save again: every `interval`, stretched so that saving stays a small part of the time.
    pub fn until_due(&self, interval: Duration) -> Duration {
        interval.max(self.saving.div_f64(SAVING_SHARE)).saturating_sub(self.saved.elapsed())
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

pub(super) fn checkpoint_name(leg: usize, turn: usize) -> String {
    format!("checkpoint-{leg}-{turn}.safetensors")
}

pub(super) fn leg_name(leg: usize) -> String {
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
