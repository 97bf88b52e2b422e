//! What is collected at one point.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::thread::ThreadId;

use layerscope_corpus::DocumentId;
use layerscope_stats::sketch::{BatchSpace, HashSample, Mergeable, SampleKey, SketchKind, SketchSet, sample_hash};
use layerscope_stats::{BatchRows, PointShape, PointState};

use super::groups::GroupKey;
use super::lock;
use super::rows::{Piece, StateRows};
use super::settings::CollectorSettings;
use crate::error::Result;
use crate::store::point_name::PointName;

/// The state of one point, and samples of the states it keeps.
#[derive(Clone, Debug)]
pub(super) struct CollectedPoint {
    /// Moments and sketches; kept states are numbered only at the end.
    pub state: PointState,
    /// Class 0 is the sample, class `c + 1` the chosen group `c`.
    pub samples: Vec<HashSample<'static>>,
    /// Documents that begin here, sequences and rows, counted or not.
    pub counts: Counts,
    /// The point whose states came just before, where the same rows were given.
    pub previous: Option<PointName>,
}

/// How much came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub documents: u64,
    pub sequences: u64,
    pub rows: u64,
}

/// The document that a number stands for.
pub(super) fn document(number: u64) -> DocumentId {
    DocumentId { file: 0, record: number, chunk: 0 }
}

impl CollectedPoint {
    pub fn new(at: PointName, settings: &CollectorSettings, sketches: SketchSet) -> CollectedPoint {
        let dim = settings.dim;
        let sample = if sketches.contains(SketchKind::Sample) { settings.sample_states } else { 0 };
        let chosen = settings.tokens.iter().map(|_| HashSample::new(settings.token_states, dim));
        // Nobody knows yet which point will be the first one, so all have room for products with an earlier one.
        let shape = PointShape { groups: 0, dim, previous: Some(dim), kept: 0, chosen: 0, sketches };
        CollectedPoint {
            state: PointState::new(&shape, settings.massive_at(at)),
            samples: [HashSample::new(sample, dim)].into_iter().chain(chosen).collect(),
            counts: Counts::default(),
            previous: None,
        }
    }

    /// Makes room for more groups.
    pub fn grow(&mut self, groups: usize) {
        self.state.moments.grow(groups);
    }

    /// Adds a piece of an update that `space` was prepared with.
    pub fn enter(
        &mut self,
        batch: &BatchRows<'_>,
        space: &BatchSpace,
        previous: Option<PointName>,
        all: &StateRows<'_>,
        piece: &Piece,
        settings: &CollectorSettings,
    ) -> Result<()> {
        self.state.commit(batch, space.contribution())?;
        if previous.is_some() {
            self.previous = previous;
        }
        let range = piece.rows.clone();
        let positions = all.positions.map(|positions| &positions[range.clone()]);
        let begins = |start: &&u32| positions.is_none_or(|positions| positions[**start as usize] == 0);
        let starts = &piece.offsets[..piece.offsets.len().saturating_sub(1)];
        self.counts.rows += range.len() as u64;
        self.counts.sequences += starts.len() as u64;
        self.counts.documents += starts.iter().filter(begins).count() as u64;
        let (Some(numbers), Some(documents), Some(positions)) = (batch.documents(), all.documents, positions) else { return Ok(()) };
        if self.samples.iter().all(|sample| sample.capacity() == 0) {
            return Ok(());
        }
        for &row in batch.segments().counted() {
            let at = row as usize;
            let key = all.groups.key(range.start + at);
            let token = key.as_ref().map_or(0, GroupKey::token);
            let hash = sample_hash(settings.seed, numbers[at], positions[at]);
            // The document's own number: what was kept must say who it is.
            let id = SampleKey { document: documents[range.start + at], position: positions[at], token };
            self.samples[0].offer(hash, id, batch.state(row))?;
            if let Some(chosen) = key.filter(|_| !settings.tokens.is_empty()).and_then(|key| settings.chosen(&key.text())) {
                self.samples[chosen + 1].offer(hash, id, batch.state(row))?;
            }
        }
        Ok(())
    }

    /// Adds what another point has, whose group `g` is our `names[g]`.
    pub fn merge(&mut self, other: &CollectedPoint, names: &[u32]) -> Result<()> {
        self.state.merge_renamed(&other.state, &names[..other.state.moments.group_count()])?;
        self.samples.iter_mut().zip(&other.samples).try_for_each(|(ours, theirs)| ours.merge(theirs))?;
        self.counts.documents += other.counts.documents;
        self.counts.sequences += other.counts.sequences;
        self.counts.rows += other.counts.rows;
        self.previous = self.previous.or(other.previous);
        Ok(())
    }
}

impl CollectorSettings {
    /// The place of a group among those whose states are kept.
    pub(super) fn chosen(&self, group: &str) -> Option<usize> {
        self.tokens.iter().position(|token| token == group)
    }
}

/// The memory of threads that enter states, and what each gave last: the same rows at the next point make pairs.
#[derive(Default)]
pub(super) struct Lanes {
    busy: Mutex<HashMap<ThreadId, Lane>>,
    idle: Mutex<Vec<Lane>>,
}

/// More threads than this at once are long gone.
const REMEMBERED: usize = 64;

/// One thread's memory.
#[derive(Default)]
pub(super) struct Lane {
    spaces: BTreeMap<usize, BatchSpace>,
    /// The rows before, and those now, where rows have names.
    last: Option<(PointName, u128)>,
    now: Option<(PointName, u128)>,
    paired: bool,
}

impl Lanes {
    /// The calling thread's own; `rows` says where and who they are, if that is known and wanted.
    pub fn take(&self, rows: Option<(PointName, u128)>) -> Lane {
        let known = rows.and_then(|_| lock(&self.busy).remove(&std::thread::current().id()));
        let mut lane = known.or_else(|| lock(&self.idle).pop()).unwrap_or_default();
        lane.now = rows;
        lane
    }

    /// After the update.
    pub fn give_back(&self, mut lane: Lane) {
        lane.last = lane.now.take();
        if lane.last.is_none() {
            lock(&self.idle).push(lane);
            return;
        }
        let mut busy = lock(&self.busy);
        if busy.len() >= REMEMBERED {
            busy.clear();
        }
        busy.insert(std::thread::current().id(), lane);
    }
}

impl Lane {
    /// The point that the same rows were given at just before, if they can be paired.
    pub fn previous(&mut self, complete: bool) -> Option<PointName> {
        let previous = match (self.last, self.now) {
            (Some((before, theirs)), Some((at, ours))) if complete && theirs == ours && before < at => Some(before),
            _ => None,
        };
        if !complete {
            self.now = None; // the next point has other rows
        }
        self.paired = previous.is_some();
        previous
    }

    /// Memory for a piece of the rows, with those of the point before still in it if they are paired.
    pub fn space(&mut self, piece: usize) -> &mut BatchSpace {
        // Only pairs need a piece's own memory.
        let piece = if self.now.is_some() { piece } else { 0 };
        let space = self.spaces.entry(piece).or_default();
        if !self.paired {
            space.start_batch();
        }
        space
    }
}
