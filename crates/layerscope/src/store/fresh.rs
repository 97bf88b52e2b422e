//! A run whose files are not there yet: its tables are made of the states in memory, or of those of its legs, while the files are written.
//!
//! A state file holds these states to the bit, so tables made of it later are the same.

use std::borrow::Cow;

use layerscope_model::Point;
use layerscope_stats::PointState;
use layerscope_stats::sketch::{SketchKind, Sketches};

use super::facts::{Facts, PointFacts};
use super::folder::Folder;
use super::kept_samples::KeptSamples;
use super::point_name::PointName;
use super::state::{Fingerprint, StateFile, packing_bytes};
use super::stored::memory_for_tables;
use super::write::{LegStates, WrittenStates, write_states};
use crate::error::{Error, Result};
use crate::measure::estimate::while_computed;
use crate::measure::kept::Kept;
use crate::process::system;
use crate::tables::make::{PointSource, Resources, Tables, long_tables, tables};
use crate::tables::points::fitting;

/// The states of all points of a run, and everything else that belongs to it.
pub struct FreshRun {
    /// Everything but the states.
    pub facts: Facts,
    fingerprint: Fingerprint,
    kept: KeptSamples,
    legs: LegStates,
    /// Bytes that this process may occupy, as was said before it began.
    announced: u64,
}

impl FreshRun {
    /// Of states as the legs leave them.
    pub fn new(facts: Facts, fingerprint: Fingerprint, kept: Kept, legs: LegStates, announced: u64) -> FreshRun {
        let kept = KeptSamples::new(kept, &facts);
        FreshRun { facts, fingerprint, kept, legs, announced }
    }

    /// Writes the two files of the run.
    pub fn write(&self, store: &Folder, threads: usize) -> Result<WrittenStates> {
        write_states(store, &self.fingerprint, &self.facts, self.kept.keys(), &self.legs, threads)
    }

    /// All tables.
    pub fn tables(&self, resources: &Resources, show: &mut dyn FnMut(usize, usize)) -> Result<Tables> {
        tables(&self.facts, self, &self.announced(resources), show)
    }

    /// With all memory that was announced.
    fn announced(&self, resources: &Resources) -> Resources {
        Resources { memory: resources.memory.max(self.announced), ..resources.clone() }
    }

    /// Whether tables fit beside the writing of the files; and those of as many points at once beside states in memory, of so many bytes
    /// each, as would fit without them.
    pub fn fits(&self, resources: &Resources, states: &[usize]) -> bool {
        let taken = system::resident().unwrap_or(0) + (long_tables(&self.facts, &self.kept) + packing_bytes(resources.threads)) as u64;
        let free = self.announced(resources).memory.saturating_sub(taken);
        let each = self.facts.points.iter().map(|point| self.memory(point)).max().unwrap_or(0);
        let LegStates::InMemory(_) = self.legs else { return fitting(each, free) > 0 };
        let (all, largest) = (states.iter().sum::<usize>() as u64, states.iter().max().copied().unwrap_or(0) as u64);
        let most = resources.threads.min(self.facts.points.len());
        let without = fitting(each + 2 * largest, free + all).clamp(1, most.max(1));
        fitting(each, free) >= without
    }

    /// The file of a leg that has the states of a point, and what they are called there.
    fn file<'a>(&self, files: &'a [StateFile], point: &PointFacts) -> Result<(&'a StateFile, String)> {
        let at = point.at.stored();
        let found = files.iter().find(|file| file.bytes(&at) > 0);
        found.map(|file| (file, at)).ok_or_else(|| Error::refused(format!("no states of {}", point.at)))
    }

    fn in_memory<'a>(&self, states: &'a [(Point, PointState)], point: &PointFacts) -> Result<&'a PointState> {
        let is = |at: Point| PointName::of(at, self.facts.model.layers) == point.at;
        let found = states.iter().find(|(at, _)| is(*at)).map(|(_, state)| state);
        found.ok_or_else(|| Error::refused(format!("no states of {}", point.at)))
    }
}

impl PointSource for FreshRun {
    fn memory(&self, point: &PointFacts) -> u64 {
        match &self.legs {
            LegStates::InMemory(states) => {
                let dim = self.facts.width_of(point);
                let has_covariance = states.iter().any(|(_, state)| state.sketches.kinds().contains(SketchKind::Covariance));
                while_computed(dim, self.kept.sample_len(), has_covariance, !self.facts.clusters.is_empty()) as u64
            }
            LegStates::OnDisk(files) => {
                self.file(files, point).map_or(0, |(file, _)| memory_for_tables(file, point, &self.facts, &self.kept))
            }
        }
    }

    fn state(&self, point: &PointFacts) -> Result<Cow<'_, PointState>> {
        match &self.legs {
            LegStates::InMemory(states) => self.in_memory(states, point).map(Cow::Borrowed),
            LegStates::OnDisk(files) => {
                let (file, at) = self.file(files, point)?;
                Ok(Cow::Owned(PointState::decode(&mut file.read(&at)?)?))
            }
        }
    }

    fn sketches(&self, point: &PointFacts) -> Result<Cow<'_, Sketches>> {
        match &self.legs {
            LegStates::InMemory(states) => self.in_memory(states, point).map(|state| Cow::Borrowed(&state.sketches)),
            LegStates::OnDisk(files) => {
                let (file, at) = self.file(files, point)?;
                Sketches::decode_from(|prefix| file.read(&format!("{at}.{prefix}"))).map(Cow::Owned)
            }
        }
    }

    fn samples(&self) -> &KeptSamples {
        &self.kept
    }

    fn kept_states<'s>(&self, point: &PointFacts, state: &'s PointState) -> Result<Cow<'s, [f32]>> {
        match state.kept.len() == self.kept.keys().states() * self.facts.width_of(point) {
            true => Ok(Cow::Borrowed(&state.kept)),
            false => Err(Error::refused(format!("not as many kept states of {} as keys", point.at))),
        }
    }
}
