//! What is gathered at one point.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::thread::ThreadId;

use layerscope_corpus::DocumentId;
use layerscope_stats::BatchRows;
use layerscope_stats::sketch::{HashSample, LensSpace, Lenses, PointSketch, SampleKey, Sketch, SketchSet, sample_hash};

use super::groups::GroupKey;
use super::lock;
use super::place::Place;
use super::rows::{GroupsOf, Piece, StateRows};
use super::settings::GatherSettings;
use crate::error::Result;
use crate::items::document_number;

/// The sketches of one point, and the states it keeps.
#[derive(Clone, Debug)]
pub(super) struct GatheredPoint {
    pub moments: PointSketch,
    pub lenses: Lenses,
    /// Class 0 is the sample, class `c + 1` the chosen group `c`.
    pub kept: Vec<HashSample>,
    /// Rows that were not finite.
    pub excluded: u64,
    /// Documents that begin here, sequences and rows, counted or not.
    pub counts: Counts,
    /// The point whose states came just before, where the same rows were given.
    pub previous: Option<Place>,
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

impl GatheredPoint {
    pub fn new(settings: &GatherSettings, sketches: SketchSet) -> GatheredPoint {
        let dim = settings.dim;
        let sample = if sketches.sample { settings.sample_states } else { 0 };
        let chosen = settings.tokens.iter().map(|_| HashSample::new(settings.token_states, dim));
        GatheredPoint {
            moments: PointSketch::of(0, dim, settings.massive_norm, sketches.units),
            // Nobody knows yet which point will be the first one, so all have room for products with an earlier one.
            lenses: Lenses::new(sketches, dim, Some(dim), settings.massive_norm),
            kept: [HashSample::new(sample, dim)].into_iter().chain(chosen).collect(),
            excluded: 0,
            counts: Counts::default(),
            previous: None,
        }
    }

    /// States counted.
    pub fn states(&self) -> u64 {
        self.moments.typical().corpus().n() + self.moments.massive_states()
    }

    /// Makes room for more groups.
    pub fn grow(&mut self, groups: usize) {
        self.moments.grow(groups);
    }

    /// Adds a piece of an update that `space` was prepared with.
    pub fn enter(
        &mut self,
        batch: &BatchRows<'_>,
        space: &LensSpace,
        previous: Option<Place>,
        all: &StateRows<'_>,
        piece: &Piece,
        settings: &GatherSettings,
    ) -> Result<()> {
        let range = piece.rows.clone();
        let documents =
            all.documents.map(|documents| documents[range.clone()].iter().map(|&d| document_number(document(d))).collect::<Vec<_>>());
        self.moments.update(batch)?;
        self.lenses.absorb(space, batch, documents.as_deref())?;
        if previous.is_some() {
            self.previous = previous;
        }
        let positions = all.positions.map(|positions| &positions[range.clone()]);
        let begins = |start: &&u32| positions.is_none_or(|positions| positions[**start as usize] == 0);
        let starts = &piece.offsets[..piece.offsets.len().saturating_sub(1)];
        self.counts.rows += range.len() as u64;
        self.counts.sequences += starts.len() as u64;
        self.counts.documents += starts.iter().filter(begins).count() as u64;
        let (Some(numbers), Some(positions)) = (&documents, positions) else { return Ok(()) };
        if self.kept.iter().all(|sample| sample.capacity() == 0) {
            return Ok(());
        }
        for &row in batch.segments().counted() {
            let (at, number) = (row as usize, numbers[row as usize]);
            let key = match all.groups {
                GroupsOf::None => None,
                GroupsOf::Ids(ids) => Some(GroupKey::Id(ids[range.start + at])),
                GroupsOf::Names(names) => Some(GroupKey::Name(names[range.start + at].clone())),
            };
            let token = key.as_ref().map_or(0, GroupKey::token);
            // The document's own number: what was kept must say who it is.
            let document = all.documents.map_or(0, |documents| documents[range.start + at]);
            let (hash, id) = (sample_hash(settings.seed, number, positions[at]), SampleKey { document, position: positions[at], token });
            self.kept[0].offer(hash, id, batch.state(row))?;
            if let Some(chosen) = key.filter(|_| !settings.tokens.is_empty()).and_then(|key| settings.chosen(&key.text())) {
                self.kept[chosen + 1].offer(hash, id, batch.state(row))?;
            }
        }
        Ok(())
    }

    /// Adds what another point has, whose group `g` is our `names[g]`.
    pub fn merge(&mut self, other: &GatheredPoint, names: &[u32]) -> Result<()> {
        self.moments.merge_renamed(&other.moments, &names[..other.moments.group_count()])?;
        self.lenses.merge(&other.lenses)?;
        self.kept.iter_mut().zip(&other.kept).try_for_each(|(ours, theirs)| ours.merge(theirs))?;
        self.excluded += other.excluded;
        self.counts.documents += other.counts.documents;
        self.counts.sequences += other.counts.sequences;
        self.counts.rows += other.counts.rows;
        self.previous = self.previous.or(other.previous);
        Ok(())
    }
}

impl GatherSettings {
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
    spaces: BTreeMap<usize, LensSpace>,
    /// The rows before, and those now, where rows have names.
    last: Option<(Place, u128)>,
    now: Option<(Place, u128)>,
    paired: bool,
}

impl Lanes {
    /// The calling thread's own; `rows` says where and who they are, if that is known and wanted.
    pub fn take(&self, rows: Option<(Place, u128)>) -> Lane {
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
    pub fn previous(&mut self, complete: bool) -> Option<Place> {
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
    pub fn space(&mut self, piece: usize) -> &mut LensSpace {
        // Only pairs need a piece's own memory.
        let piece = if self.now.is_some() { piece } else { 0 };
        let space = self.spaces.entry(piece).or_default();
        if !self.paired {
            space.start_batch();
        }
        space
    }
}
