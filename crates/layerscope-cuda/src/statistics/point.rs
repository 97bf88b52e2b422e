//! The kernels of one batch at one point: before the turn those that look at its rows, in turn those that touch the state.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream as RawStream};
use layerscope_compute::Result;

use super::info::CudaInfo;
use super::massive::SlotWords;
use super::resident::CudaResident;
use super::scatter::Before;
use super::space::{DeviceSpace, FAN, FLAGS, STRIP, strips, warps};
use crate::device::Cuda;
use crate::launch::{Grid, Word, launch};

/// Threads of a block where a warp or a thread has a thing of its own.
pub(super) const THREADS: usize = 256;
pub(super) const WARP: usize = 32;

/// Threads that look for massive rows.
const SEEKERS: usize = 1024;

/// Blocks that copy massive rows.
const COPIERS: usize = 1024;

/// The items of a batch at one point, on the card.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub cuda: &'a Cuda,
    pub info: &'a CudaInfo,
    pub device: &'a DeviceSpace,
    /// Row-major states of the items.
    pub states: Word,
    pub dim: usize,
    /// How many points of the batch came before.
    pub point: usize,
}

impl Rows<'_> {
    pub fn launch(&self, stream: &Arc<RawStream>, function: &CudaFunction, grid: Grid, words: &[Word]) -> Result<()> {
        launch(stream, function, grid, words).map_err(|error| self.cuda.error(error))
    }

    /// The words that say what was seen at this point.
    pub fn flag_word(&self) -> Word {
        self.device.waiting.flags.word_at((self.point + 1) * FLAGS)
    }

    /// The same of the point before.
    pub fn flag_word_before(&self) -> Word {
        self.device.waiting.flags.word_at(self.point * FLAGS)
    }

    /// The kinds of the rows.
    pub fn kinds(&self) -> Word {
        self.device.waiting.kinds[self.point % 2].word()
    }

    /// The same at the point before.
    pub fn kinds_before(&self) -> Word {
        self.device.waiting.kinds[(self.point + 1) % 2].word()
    }

    /// Items of several rows from the model's rows.
    pub fn pool(&self, stream: &Arc<RawStream>, rows: Word) -> Result<()> {
        let items = self.info.layout.pooled.len() / 2;
        let words = [rows, self.dim.into(), self.info.list(&self.info.layout.pooled), self.states];
        self.launch(stream, &self.device.functions.pool_items, Grid::new(items, THREADS), &words)
    }

    /// Norms and kinds of the counted rows.
    pub fn measure(&self, stream: &Arc<RawStream>, massive: Option<f64>) -> Result<()> {
        let (layout, waiting) = (&self.info.layout, &self.device.waiting);
        let words = [
            self.states,
            self.dim.into(),
            self.info.list(&layout.counted),
            layout.rows().into(),
            massive.unwrap_or(f64::INFINITY).into(),
            waiting.squares.word(),
            waiting.norms.word(),
            waiting.inverses.word(),
            self.kinds(),
            self.flag_word(),
        ];
        self.launch(stream, &self.device.functions.row_norms, Grid::over(layout.rows() * WARP, THREADS), &words)
    }

    /// Finds the rows that are massive here or at the point before, and copies their states at both.
    pub fn copy_massive(&self, stream: &Arc<RawStream>, slot: SlotWords, before: Option<Before>) -> Result<()> {
        let (layout, functions) = (&self.info.layout, &self.device.functions);
        let kinds_before = before.map_or(Word::NULL, |_| self.kinds_before());
        let words = [
            self.info.list(&layout.counted),
            layout.rows().into(),
            self.kinds(),
            kinds_before,
            self.flag_word_before(),
            self.flag_word(),
            slot.found,
        ];
        self.launch(stream, &functions.massive_rows, Grid::new(1, SEEKERS), &words)?;
        let copiers = Grid::new(COPIERS.min(layout.rows()), THREADS);
        let words = [self.states, self.dim.into(), slot.found, self.flag_word(), slot.copies];
        self.launch(stream, &functions.copy_found, copiers, &words)?;
        let Some(before) = before else { return Ok(()) };
        let words = [self.device.scatter.previous.word(), before.dim.into(), slot.found, self.flag_word(), slot.before];
        self.launch(stream, &functions.copy_found, copiers, &words)
    }

    /// The similarity of every sequence.
    pub fn compare_sequences(&self, stream: &Arc<RawStream>) -> Result<()> {
        let (info, layout, functions, waiting) = (self.info, &self.info.layout, &self.device.functions, &self.device.waiting);
        let by_strip = |blocks: usize| Grid::new(blocks, STRIP).by(strips(self.dim));
        let words = [
            self.states,
            self.dim.into(),
            info.list(&layout.counted),
            info.list(&layout.sequence_pieces),
            waiting.inverses.word(),
            self.kinds(),
            waiting.piece_sums.word(),
            waiting.dots.word(),
        ];
        self.launch(stream, &functions.sequence_pieces, by_strip(layout.sequence_pieces.len() / 4), &words)?;
        let words = [self.dim.into(), info.list(&layout.joins), waiting.piece_sums.word(), waiting.dots.word()];
        self.launch(stream, &functions.sequence_joins, by_strip(layout.joins.len() / 4), &words)?;
        let words = [
            info.list(&layout.counted),
            info.list(&layout.sequences),
            layout.counted_sequences().into(),
            waiting.inverses.word(),
            self.kinds(),
            waiting.dots.word(),
            warps(self.dim).into(),
            waiting.similarities.word(),
        ];
        self.launch(stream, &functions.sequence_similarities, Grid::over(layout.counted_sequences() * WARP, THREADS), &words)
    }

    /// Values of the sequences, as many as there are means, enter these.
    pub fn enter_means(&self, stream: &Arc<RawStream>, values: Word, n: &CudaSlice<u64>, means: &CudaSlice<f64>) -> Result<()> {
        let words = [values, self.info.layout.counted_sequences().into(), means.len().into(), n.into(), means.into()];
        self.launch(stream, &self.device.functions.sequence_means, Grid::new(1, SEEKERS), &words)
    }

    /// Everything enters the resident state.
    pub fn enter(&self, stream: &Arc<RawStream>, resident: &CudaResident) -> Result<()> {
        let (info, layout, functions, waiting) = (self.info, &self.info.layout, &self.device.functions, &self.device.waiting);
        if layout.rows() > 0 {
            self.enter_groups(stream, resident)?;
            self.enter_corpus(stream, resident)?;
        }
        if resident.group_unit.is_some() && layout.counted_sequences() > 0 {
            self.enter_means(stream, waiting.similarities.word(), &resident.sequence_n, &resident.sequence_mean)?;
        }
        let words = [self.states, self.dim.into(), info.list(&layout.slots), (&resident.kept).into()];
        self.launch(stream, &functions.keep_rows, Grid::new(layout.slots.len() / 2, THREADS), &words)
    }

    fn enter_groups(&self, stream: &Arc<RawStream>, resident: &CudaResident) -> Result<()> {
        let (info, layout, functions, waiting) = (self.info, &self.info.layout, &self.device.functions, &self.device.waiting);
        let (order, segments, groups) = (info.list(&layout.order), info.list(&layout.segments), layout.groups());
        let of_chosen = resident.chosen.as_ref();
        let [places, chosen_n, chosen] =
            of_chosen.map_or([Word::NULL; 3], |own| [(&own.places).into(), (&own.n).into(), (&own.vectors).into()]);
        let words = [
            order,
            segments,
            groups.into(),
            waiting.squares.word(),
            waiting.norms.word(),
            waiting.inverses.word(),
            self.kinds(),
            resident.group_unit.is_some().into(),
            (&resident.group_n).into(),
            (&resident.group_nonzero).into(),
            (&resident.group_square).into(),
            (&resident.group_norm).into(),
            waiting.weights.word(),
        ];
        self.launch(stream, &functions.group_numbers, Grid::over(groups * WARP, THREADS), &words)?;
        let words = [
            self.states,
            self.dim.into(),
            order,
            layout.rows().into(),
            info.list(&layout.tile_pieces),
            info.list(&layout.pieces),
            segments,
            waiting.norms.word(),
            waiting.inverses.word(),
            self.kinds(),
            waiting.weights.word(),
            (&resident.group_mean).into(),
            resident.group_unit.as_ref().into(),
            waiting.growth.word(),
            waiting.piece_vectors.word(),
            waiting.piece_numbers.word(),
            waiting.parts[0].word(),
            waiting.part_numbers[0].word(),
            places,
            chosen_n,
            chosen,
        ];
        self.launch(stream, &functions.group_tiles, Grid::new(layout.tiles(), STRIP).by(strips(self.dim)), &words)?;
        let words = [
            info.list(&layout.crossings),
            self.dim.into(),
            segments,
            waiting.weights.word(),
            waiting.piece_vectors.word(),
            waiting.piece_numbers.word(),
            (&resident.group_mean).into(),
            resident.group_unit.as_ref().into(),
            waiting.growth.word(),
            waiting.parts[0].word(),
            places,
            chosen_n,
            chosen,
        ];
        self.launch(stream, &functions.group_crossings, Grid::new(layout.crossings.len() / 4, STRIP).by(strips(self.dim)), &words)
    }

    fn enter_corpus(&self, stream: &Arc<RawStream>, resident: &CudaResident) -> Result<()> {
        let (info, layout, functions, waiting) = (self.info, &self.info.layout, &self.device.functions, &self.device.waiting);
        let keeps_units: Word = resident.group_unit.is_some().into();
        let of_chosen = resident.chosen.as_ref();
        let [places, chosen_n, chosen_norm] =
            of_chosen.map_or([Word::NULL; 3], |own| [(&own.places).into(), (&own.n).into(), (&own.norm).into()]);
        let (mut parts, mut from) = (layout.tiles(), 0);
        while parts > FAN {
            let (vectors, numbers, into) = (&waiting.parts, &waiting.part_numbers, 1 - from);
            let words =
                [self.dim.into(), vectors[from].word(), numbers[from].word(), parts.into(), vectors[into].word(), numbers[into].word()];
            parts = parts.div_ceil(FAN);
            self.launch(stream, &functions.fold_parts, Grid::new(parts, STRIP).by(strips(self.dim)), &words)?;
            from = into;
        }
        let (vectors, numbers) = (waiting.parts[from].word(), waiting.part_numbers[from].word());
        let words = [self.dim.into(), vectors, numbers, parts.into(), keeps_units, (&resident.corpus_n).into(), (&resident.corpus).into()];
        self.launch(stream, &functions.corpus_vectors, Grid::new(strips(self.dim), STRIP), &words)?;
        let words = [
            info.list(&layout.segments),
            layout.groups().into(),
            waiting.growth.word(),
            warps(self.dim).into(),
            (&resident.group_m2).into(),
            numbers,
            parts.into(),
            keeps_units,
            self.flag_word(),
            (&resident.corpus_n).into(),
            (&resident.corpus_norm).into(),
            waiting.weights.word(),
            places,
            chosen_n,
            chosen_norm,
        ];
        self.launch(stream, &functions.finish_numbers, Grid::over(layout.groups(), THREADS), &words)
    }
}
