//! The moments that every point has.

use std::borrow::Cow;

use layerscope_compute::cpu::Isa;

use super::by_states::WithTypical;
use super::chosen::ChosenComponents;
use super::massive::{MassiveGroup, MassiveStates};
use super::moments::with_next;
use super::{CorpusMoments, GroupMoments, Mergeable, SequenceSimilarity, SparseGroupMoments, StatesView, Tensors, nested};
use crate::error::{Error, Result, must_match};
use crate::kernels::{self, CorpusVectors, GroupVectors, PlainSums, Weights};
use crate::rows::{BatchRows, CHUNK, Chunk, Scalars};
use crate::segments::Segments;

/// A group with at least this many rows in a batch shares its sums with the corpus.
const MANY: usize = 8;

/// Rows per merge where every row is read once and need not stay in the cache.
const PLAIN_CHUNK: usize = 2 * CHUNK;

/// How many rows ahead memory is fetched.
const FETCHED: usize = 4;

/// Cuts rows into as few parts of equal length as possible.
fn evenly(rows: &[u32], longest: usize) -> impl Iterator<Item = &[u32]> {
    rows.chunks(rows.len().div_ceil(rows.len().div_ceil(longest)))
}

/// Group and corpus moments of the typical states and, apart from them, of the massive ones; and the similarity within sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct PointMoments {
    threshold: f64,
    groups: GroupMoments,
    corpus: CorpusMoments,
    massive_groups: SparseGroupMoments,
    massive_corpus: CorpusMoments,
    massive_states: MassiveStates,
    chosen: ChosenComponents,
    sequences: WithTypical<SequenceSimilarity>,
}

impl PointMoments {
    /// For groups `0..groups` of states with `dim` components; states whose norm exceeds `massive` are massive.
    pub fn new(groups: usize, dim: usize, massive: Option<f64>) -> PointMoments {
        PointMoments::of(groups, dim, massive, true)
    }

    /// The same, with or without the unit vectors and sequences that cosines need.
    pub fn of(groups: usize, dim: usize, massive: Option<f64>, units: bool) -> PointMoments {
        PointMoments {
            threshold: massive.unwrap_or(f64::INFINITY),
            groups: GroupMoments::of(groups, dim, units),
            corpus: CorpusMoments::of(dim, units),
            massive_groups: SparseGroupMoments::of(dim, units),
            massive_corpus: CorpusMoments::of(dim, units),
            massive_states: MassiveStates::default(),
            chosen: ChosenComponents::default(),
            sequences: WithTypical::new(),
        }
    }

    /// An empty one of the same kind, for groups `0..groups`.
    pub fn emptied(&self, groups: usize) -> PointMoments {
        PointMoments::of(groups, self.dim(), self.massive_threshold(), self.groups.keeps_units())
    }

    /// Memory of one. Every group with massive states takes the memory of a group again.
    pub fn bytes(groups: usize, dim: usize, units: bool) -> usize {
        let of_group = if units { 2 } else { 1 };
        let vectors = 2 * (1 + if units { 5 } else { 3 }); // of the groups and of the corpus, and both again for massive states
        groups * (of_group * dim + 5) * size_of::<f64>() + vectors * dim * size_of::<f64>()
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.corpus.dim()
    }

    /// The norm beyond which a state is massive, if there is one.
    pub fn massive_threshold(&self) -> Option<f64> {
        (self.threshold < f64::INFINITY).then_some(self.threshold)
    }

    /// States that come later are massive beyond this norm.
    pub fn set_massive_threshold(&mut self, massive: Option<f64>) {
        self.threshold = massive.unwrap_or(f64::INFINITY);
    }

    /// Number of states, massive ones included.
    pub fn states(&self) -> u64 {
        self.corpus.n() + self.massive_corpus.n()
    }

    /// Number of massive states.
    pub fn massive_states(&self) -> u64 {
        self.massive_corpus.n()
    }

    /// Who the massive states are, by group and position.
    pub fn massive_groups(&self) -> impl Iterator<Item = MassiveGroup> {
        self.massive_states.iter()
    }

    /// The part of the sum of ||x||^2 that massive states carry; None where all states are zero.
    pub fn massive_share(&self) -> Option<f64> {
        let sum = |corpus: &CorpusMoments| corpus.square().iter().sum::<f64>() * corpus.n() as f64;
        let (typical, massive) = (sum(&self.corpus), sum(&self.massive_corpus));
        (typical + massive > 0.0).then(|| massive / (typical + massive))
    }

    /// Similarity within sequences, of all states.
    pub fn sequences(&self) -> &SequenceSimilarity {
        &self.sequences.all
    }

    /// Similarity within sequences, of the typical states; None where an older program did not keep it.
    pub fn typical_sequences(&self) -> Option<&SequenceSimilarity> {
        self.sequences.typical.as_ref()
    }

    /// Keeps moments per component of a group, from now on.
    pub fn choose(&mut self, group: u32) {
        self.chosen.choose(group, self.corpus.dim());
    }

    /// Memory of a chosen group.
    pub fn chosen_bytes(dim: usize) -> usize {
        ChosenComponents::bytes(dim)
    }

    /// Moments per component of the typical states of the chosen groups.
    pub fn chosen_typical(&self) -> impl Iterator<Item = (u32, &CorpusMoments)> {
        self.chosen.typical()
    }

    /// Moments per component of all states of the chosen groups.
    pub fn chosen_all(&self) -> Result<Vec<(u32, CorpusMoments)>> {
        self.chosen.all()
    }

    /// Forgets all states and makes room for groups `0..groups` in the same memory.
    pub fn restart(&mut self, groups: usize) {
        let empty = self.emptied(0);
        self.groups = std::mem::replace(self, empty).groups;
        self.groups.restart(groups);
    }

    /// Makes room for more groups.
    pub fn grow(&mut self, groups: usize) {
        self.groups.grow(groups);
    }

    /// Number of groups, those without states included.
    pub fn group_count(&self) -> usize {
        self.groups.groups()
    }

    /// Whether nothing depends on a row's norm: neither unit vectors nor massive states are kept.
    pub fn is_plain(&self) -> bool {
        !self.groups.keeps_units() && self.threshold == f64::INFINITY
    }

    /// Copies everything that rows of the groups in `names` can change in plain moments to `into`.
    pub fn excerpt(&self, names: &[u32], into: &mut PointMoments) {
        self.groups.excerpt(names, &mut into.groups);
        into.corpus.clone_from(&self.corpus);
    }

    /// Returns to what an [excerpt](PointMoments::excerpt) with the same names says.
    pub fn restore(&mut self, excerpt: &PointMoments, names: &[u32]) {
        self.groups.restore(&excerpt.groups, names);
        self.corpus.clone_from(&excerpt.corpus);
    }

    /// Adds the counted rows of a batch. A refused batch leaves the sketch as it was.
    pub fn update(&mut self, batch: &BatchRows) -> Result<()> {
        self.groups.check(batch)?;
        let (threshold, segments) = (self.threshold, batch.segments());
        if segments.counted().iter().any(|&row| batch.exceeds(row, threshold)) {
            let (massive, typical) = segments.partition(|row| batch.exceeds(row, threshold));
            self.update_typical(batch, &typical);
            self.update_massive(batch, &massive);
            self.chosen.update(batch, &typical, Some(&massive));
        } else {
            self.update_typical(batch, segments);
            self.chosen.update(batch, segments, None);
        }
        if self.groups.keeps_units() {
            let similarity = |rows: &[u32]| SequenceSimilarity::of_sequence(batch, rows);
            self.sequences.update(batch, threshold, similarity, SequenceSimilarity::add_sequence);
        }
        Ok(())
    }

    /// The same for many rows of few groups, which are no sequences and have no norms yet: every row is read from memory once. Gives the
    /// first row that is not finite; the moments are useless then.
    pub fn update_once(&mut self, states: &[f32], segments: &Segments) -> Result<Option<u32>> {
        let mut batch = BatchRows::unmeasured(states, self.dim(), segments, &[], Isa::detect())?;
        self.groups.check(&batch)?;
        if self.is_plain() {
            return Ok(self.update_plain(&batch));
        }
        let (mut massive, mut done) = (Vec::new(), 0);
        for (group, rows, next) in with_next(segments, self.groups.groups()) {
            for rows in evenly(rows, CHUNK) {
                batch.measure(rows);
                if let Some(&row) = rows.iter().find(|&&row| !batch.norms()[row as usize].is_finite()) {
                    return Ok(Some(row));
                }
                let apart = |row: &&u32| batch.norms()[**row as usize] > self.threshold;
                massive.extend(rows.iter().filter(apart).map(|&row| (group as u32, row)));
                let typical: Vec<u32> = rows.iter().filter(|row| !apart(row)).copied().collect();
                done += rows.len();
                if !typical.is_empty() {
                    self.absorb_chunk(&batch, batch.chunk(&typical, &segments.order()[done..]), group, next);
                }
            }
        }
        massive.sort_unstable_by_key(|&(_, row)| row);
        self.update_massive(&batch, &Segments::of(massive.into_iter()));
        Ok(None)
    }

    /// The same where nothing depends on a row's norm: norms and sums are taken in a single pass.
    fn update_plain(&mut self, batch: &BatchRows) -> Option<u32> {
        let (dim, isa, segments) = (self.dim(), batch.isa(), batch.segments());
        let (mut sums, mut squares, mut done) = (PlainSums::new(dim), [0.0; PLAIN_CHUNK], 0);
        for (group, rows, next) in with_next(segments, self.groups.groups()) {
            for rows in evenly(rows, PLAIN_CHUNK) {
                let (squares, ahead) = (&mut squares[..rows.len()], segments.order().get(done + FETCHED..).unwrap_or_default());
                kernels::add_plain(isa, batch.chunk(rows, ahead), &mut sums, squares);
                if let Some(place) = squares.iter().position(|square| !square.is_finite()) {
                    return Some(rows[place]);
                }
                self.absorb_both(&Scalars::of_squares(squares), group, next, |weights, group, m2, corpus| {
                    kernels::absorb_plain(isa, dim, &sums, weights, group, m2, corpus);
                });
                done += rows.len();
            }
        }
        None
    }

    fn absorb_chunk(&mut self, batch: &BatchRows, chunk: Chunk, group: usize, next: usize) {
        self.absorb_both(&batch.scalars(chunk.rows), group, next, |weights, group, m2, corpus| {
            kernels::absorb_both(batch.isa(), chunk, weights, group, m2, corpus);
        });
    }

    /// Rows of one group enter it and the corpus; `vectors` does so with their components.
    fn absorb_both(
        &mut self,
        new: &Scalars,
        group: usize,
        next: usize,
        vectors: impl FnOnce([Weights; 2], GroupVectors, &mut f64, CorpusVectors),
    ) {
        let PointMoments { groups, corpus, .. } = self;
        groups.absorb(group, new, next, |own, group, m2| corpus.absorb(new, |all, corpus| vectors([own, all], group, m2, corpus)));
    }

    /// A group with many rows enters its own moments and those of the corpus in one pass. The rows of small groups enter the corpus
    /// together, in chunks as large as possible.
    fn update_typical(&mut self, batch: &BatchRows, segments: &Segments) {
        let mut scattered = Vec::new();
        for (group, rows, next) in with_next(segments, self.groups.groups()) {
            if rows.len() < MANY {
                self.groups.absorb_rows(group, batch, rows, next);
                scattered.extend_from_slice(rows);
                continue;
            }
            for chunk in batch.chunks(rows) {
                self.absorb_chunk(batch, chunk, group, next);
            }
        }
        scattered.sort_unstable();
        self.corpus.update_rows(batch, &scattered);
    }

    fn update_massive(&mut self, batch: &BatchRows, massive: &Segments) {
        self.massive_groups.update_segments(batch, massive);
        self.massive_corpus.update_rows(batch, massive.counted());
        self.massive_states.update(batch, massive);
    }

    /// Adds rows of which a device found that all are massive.
    pub fn update_with_massive(&mut self, batch: &BatchRows) {
        self.update_massive(batch, batch.segments());
        self.chosen.update(batch, &Segments::default(), Some(batch.segments()));
    }

    /// Forgets the groups, and keeps what it knows of massive ones: a device keeps the others.
    pub fn drop_groups(&mut self) {
        self.groups = GroupMoments::of(0, self.dim(), self.groups.keeps_units());
    }

    /// Merges a sketch whose group `g` is our `names[g]` (shards number their groups by themselves).
    pub fn merge_renamed(&mut self, other: &PointMoments, names: &[u32]) -> Result<()> {
        must_match("the massive threshold", self.threshold, other.threshold)?;
        self.groups.merge_renamed(&other.groups, names)?;
        self.corpus.merge(&other.corpus)?;
        self.massive_groups.merge_renamed(&other.massive_groups, |group| names[group as usize])?;
        self.massive_corpus.merge(&other.massive_corpus)?;
        self.massive_states.merge_renamed(&other.massive_states, |group| names[group as usize]);
        self.chosen.merge_renamed(&other.chosen, |group| names[group as usize])?;
        self.sequences.merge(&other.sequences)
    }

    /// The typical states alone.
    pub fn typical(&self) -> StatesView<'_> {
        StatesView {
            groups: &self.groups,
            overlay: SparseGroupMoments::of(self.dim(), self.groups.keeps_units()),
            within: Cow::Borrowed(self.groups.within()),
            corpus: Cow::Borrowed(&self.corpus),
        }
    }

    /// All states: the merge of typical and massive ones.
    pub fn all(&self) -> Result<StatesView<'_>> {
        let mut overlay = self.massive_groups.clone();
        for group in self.massive_groups.groups() {
            overlay.absorb_group(group, self.groups.group(group));
        }
        let within = self.groups.within().iter().zip(overlay.within()).map(|(typical, others)| typical + others).collect();
        let mut corpus = self.corpus.clone();
        corpus.merge(&self.massive_corpus)?;
        Ok(StatesView { groups: &self.groups, overlay, within: Cow::Owned(within), corpus: Cow::Owned(corpus) })
    }
}

impl Mergeable for PointMoments {
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of groups", self.groups.groups(), other.groups.groups())?;
        let names: Vec<u32> = (0..other.groups.groups() as u32).collect();
        self.merge_renamed(other, &names)
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_numbers("massive_threshold", &[self.threshold]);
        tensors.nest("groups", self.groups.encode());
        tensors.nest("corpus", self.corpus.encode());
        tensors.nest("massive_groups", self.massive_groups.encode());
        tensors.nest("massive_corpus", self.massive_corpus.encode());
        tensors.nest("massive_states", self.massive_states.encode());
        tensors.nest("chosen", self.chosen.encode());
        tensors.nest("sequences", self.sequences.encode());
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let sketch = PointMoments {
            threshold: tensors.take_f64("massive_threshold", &[1])?[0],
            groups: nested("groups", tensors)?,
            corpus: nested("corpus", tensors)?,
            massive_groups: nested("massive_groups", tensors)?,
            massive_corpus: nested("massive_corpus", tensors)?,
            // An older program kept neither of these.
            massive_states: if tensors.has_nested("massive_states") {
                nested("massive_states", tensors)?
            } else {
                MassiveStates::default()
            },
            chosen: nested("chosen", tensors)?,
            sequences: nested("sequences", tensors)?,
        };
        let dims = [sketch.groups.dim(), sketch.massive_groups.within().len(), sketch.massive_corpus.dim()];
        if dims.iter().any(|dim| *dim != sketch.dim()) {
            return Err(Error::tensor("corpus.mean", format!("has {} components, but the other moments have {dims:?}", sketch.dim())));
        }
        let units = sketch.groups.keeps_units();
        if [sketch.corpus.keeps_units(), sketch.massive_groups.keeps_units(), sketch.massive_corpus.keeps_units()] != [units; 3] {
            return Err(Error::tensor("unit", "is stored for only some of groups, corpus and massive states"));
        }
        let groups = sketch.groups.groups();
        for (name, last) in [
            ("massive_groups.group", sketch.massive_groups.groups().last()),
            ("massive_states.group", sketch.massive_states.last_group()),
            ("chosen", sketch.chosen.groups().last()),
        ] {
            if last.is_some_and(|last| last as usize >= groups) {
                return Err(Error::tensor(name, format!("names a group beyond the {groups} that are stored")));
            }
        }
        if sketch.chosen.typical().any(|(_, own)| own.dim() != sketch.dim()) {
            return Err(Error::tensor("chosen", format!("does not have the {} components of the other moments", sketch.dim())));
        }
        Ok(sketch)
    }
}
