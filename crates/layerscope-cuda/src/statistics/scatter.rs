//! Covariances, and products with the point before: a worker's memory for them, and their kernels.

use std::sync::Arc;

use cudarc::driver::{CudaStream as RawStream, CudaView};
use layerscope_compute::Result;
use layerscope_stats::Wanted;
use layerscope_stats::sketch::SketchKind;

use super::doubles::{Deviations, Doubles, WORKSPACE};
use super::matrices::{ResidentCross, ResidentGram};
use super::point::{Rows, THREADS};
use super::space::{Grown, STRIP, strips};
use crate::device::Cuda;
use crate::launch::{Grid, Word};

/// Rows of a partial sum of a column, as in `scatter.cu`.
const CHUNK: usize = 256;

/// Marks of massive rows, as in `statistics.cuh`.
const MASSIVE_HERE: u32 = 1 << 31;
const MASSIVE_BEFORE: u32 = 1 << 30;

/// Threads of a block that does a thing alone.
const ALONE: usize = 1024;

/// Bytes of deviations that are multiplied at once.
const DEVIATIONS: usize = 64 << 20;

/// Which products are wanted of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedProducts {
    pub covariance: bool,
    /// With the point before, if there is one; its states must be kept for the next in any case.
    pub pairs: bool,
}

impl WantedProducts {
    pub fn new(wanted: &Wanted) -> WantedProducts {
        WantedProducts { covariance: wanted.sketches.contains(SketchKind::Covariance), pairs: wanted.sketches.contains(SketchKind::Pairs) }
    }

    /// Whether there are some.
    pub fn any(self) -> bool {
        self.covariance || self.pairs
    }
}

/// The point before, whose states were kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Before {
    pub dim: usize,
    /// The norm beyond which its states are massive.
    pub massive: Option<f64>,
}

/// A worker's memory for products.
#[derive(Default)]
pub(super) struct ScatterSpace {
    doubles: Option<Doubles>,
    sums: Grown<f64>,
    /// Of this point and of the one before, in turn.
    means: [Grown<f64>; 2],
    /// States of the point before.
    pub previous: Grown<f32>,
    /// Here, and at the point before.
    deviations: [Grown<f64>; 2],
    gram: Grown<f64>,
    cross: Grown<f64>,
    /// Means of pairs and how far they are off, of the point before and of this one.
    pair_means: Grown<f64>,
    shifts: Grown<f64>,
    workspace: Grown<u8>,
    pub before: Option<Before>,
}

/// Rows that are multiplied at once.
fn rows_at_once(rows: usize, dim: usize) -> usize {
    (DEVIATIONS / (size_of::<f64>() * dim)).clamp(1, rows.max(1))
}

impl ScatterSpace {
    /// Room for a batch of so many counted rows. Means and states of the point before stay where they are.
    pub fn reserve(
        &mut self,
        cuda: &Cuda,
        stream: &Arc<RawStream>,
        wanted: WantedProducts,
        (point, counted, dim): (usize, usize, usize),
    ) -> Result<()> {
        if self.doubles.is_none() {
            self.doubles = Some(Doubles::new().map_err(|error| cuda.error(error))?);
        }
        self.workspace.reserve(cuda, stream, WORKSPACE)?;
        self.sums.reserve(cuda, stream, counted.div_ceil(CHUNK) * dim)?;
        self.means[point % 2].reserve(cuda, stream, dim)?;
        let at_once = rows_at_once(counted, dim);
        let before = self.before.map_or(0, |before| before.dim);
        for (memory, width) in self.deviations.iter_mut().zip([dim, before]) {
            memory.reserve(cuda, stream, at_once * width)?;
        }
        if wanted.covariance {
            self.gram.reserve(cuda, stream, dim * dim)?;
        }
        if wanted.pairs {
            self.cross.reserve(cuda, stream, before * dim)?;
            self.pair_means.reserve(cuda, stream, before + dim)?;
            self.shifts.reserve(cuda, stream, before + dim)?;
        }
        Ok(())
    }

    /// Keeps the states of this point for the next.
    pub fn keep(&mut self, cuda: &Cuda, stream: &Arc<RawStream>, states: &CudaView<f32>) -> Result<()> {
        self.previous.reserve(cuda, stream, states.len())?;
        let copied = self.previous.slice_mut().map_or(Ok(()), |previous| stream.memcpy_dtod(states, previous));
        copied.map_err(|error| cuda.error(error))
    }

    /// What it grows to.
    pub fn bytes(wanted: WantedProducts, rows: usize, dim: usize) -> usize {
        let numbers = size_of::<f64>();
        let matrices = usize::from(wanted.covariance) + usize::from(wanted.pairs);
        let deviations = (1 + usize::from(wanted.pairs)) * DEVIATIONS.min(rows * dim * numbers);
        let kept = if wanted.pairs { rows * dim * size_of::<f32>() } else { 0 };
        if wanted.any() { WORKSPACE + deviations + matrices * dim * dim * numbers + kept + rows.div_ceil(CHUNK) * dim * numbers } else { 0 }
    }
}

impl Rows<'_> {
    /// Means of this point's typical rows and of the one before.
    fn mean(&self, is_before: bool) -> Word {
        self.device.scatter.means[(self.point + usize::from(is_before)) % 2].word()
    }

    /// All products of a batch, before the turn.
    pub fn multiply(&self, stream: &Arc<RawStream>, wanted: WantedProducts, found: Option<Word>) -> Result<()> {
        let (info, layout, functions, scatter) = (self.info, &self.info.layout, &self.device.functions, &self.device.scatter);
        let Some(doubles) = scatter.doubles.as_ref().filter(|_| layout.rows() > 0) else { return Ok(()) };
        let (counted, rows) = (info.list(&layout.counted), layout.rows());
        let words = [self.states, self.dim.into(), counted, rows.into(), self.kinds(), scatter.sums.word()];
        let chunks = rows.div_ceil(CHUNK);
        self.launch(stream, &functions.column_sums, Grid::new(chunks, STRIP).by(strips(self.dim)), &words)?;
        let words = [self.dim.into(), scatter.sums.word(), chunks.into(), rows.into(), self.flag_word(), self.mean(false)];
        self.launch(stream, &functions.column_means, Grid::new(strips(self.dim), STRIP), &words)?;
        let before = scatter.before.filter(|_| wanted.pairs);
        let at_once = rows_at_once(rows, self.dim);
        for first in (0..rows).step_by(at_once) {
            let (count, is_sum) = (at_once.min(rows - first), first > 0);
            let here = Deviations { numbers: scatter.deviations[0].word(), width: self.dim };
            let words = [self.states, self.dim.into(), counted, first.into(), self.kinds(), Word::NULL, self.mean(false), here.numbers];
            self.launch(stream, &functions.widen_rows, Grid::new(count, THREADS), &words)?;
            let workspace = scatter.workspace.word();
            if wanted.covariance {
                doubles.multiply(self.cuda, stream, (here, here, count), is_sum, scatter.gram.word(), workspace)?;
            }
            if let Some(before) = before {
                let there = Deviations { numbers: scatter.deviations[1].word(), width: before.dim };
                let (states, kinds) = (scatter.previous.word(), self.kinds_before());
                let words = [states, before.dim.into(), counted, first.into(), kinds, self.kinds(), self.mean(true), there.numbers];
                self.launch(stream, &functions.widen_rows, Grid::new(count, THREADS), &words)?;
                doubles.multiply(self.cuda, stream, (there, here, count), is_sum, scatter.cross.word(), workspace)?;
            }
        }
        if let Some(before) = before {
            // Where nothing can be massive, nothing was looked for, and the flags say that nothing was found.
            let found = found.unwrap_or(Word::NULL);
            for (states, dim, mark, is_before) in
                [(scatter.previous.word(), before.dim, MASSIVE_BEFORE, true), (self.states, self.dim, MASSIVE_HERE, false)]
            {
                let place = if is_before { 0 } else { before.dim };
                let (pair_mean, shift) = (scatter.pair_means.word_at(place), scatter.shifts.word_at(place));
                let words = [states, dim.into(), found, self.flag_word(), mark.into(), rows.into(), self.mean(is_before), pair_mean, shift];
                self.launch(stream, &functions.pair_means, Grid::new(strips(dim), STRIP), &words)?;
            }
        }
        Ok(())
    }

    /// The covariance of a batch enters.
    pub fn enter_gram(&self, stream: &Arc<RawStream>, resident: &ResidentGram) -> Result<()> {
        let (functions, scatter, rows) = (&self.device.functions, &self.device.scatter, self.info.layout.rows());
        let panels = self.dim.div_ceil(resident.panel);
        let words = [
            self.dim.into(),
            resident.panel.into(),
            scatter.gram.word(),
            self.mean(false),
            rows.into(),
            self.flag_word(),
            (&resident.n).into(),
            (&resident.mean).into(),
            (&resident.blocks).into(),
        ];
        self.launch(stream, &functions.merge_gram, Grid::new(panels, THREADS).by(panels), &words)?;
        let words = [self.dim.into(), self.mean(false), rows.into(), self.flag_word(), (&resident.n).into(), (&resident.mean).into()];
        self.launch(stream, &functions.finish_gram, Grid::new(1, ALONE), &words)
    }

    /// The products with the point before enter.
    pub fn enter_cross(&self, stream: &Arc<RawStream>, before: Before, resident: &ResidentCross) -> Result<()> {
        let (functions, scatter, rows) = (&self.device.functions, &self.device.scatter, self.info.layout.rows());
        let words = [
            before.dim.into(),
            self.dim.into(),
            resident.panel.into(),
            scatter.cross.word(),
            scatter.pair_means.word(),
            scatter.shifts.word(),
            rows.into(),
            self.flag_word_before(),
            self.flag_word(),
            (&resident.n).into(),
            (&resident.means).into(),
            (&resident.blocks).into(),
        ];
        let panels = |dim: usize| dim.div_ceil(resident.panel);
        self.launch(stream, &functions.merge_cross, Grid::new(panels(before.dim), THREADS).by(panels(self.dim)), &words)?;
        let words = [
            (before.dim + self.dim).into(),
            scatter.pair_means.word(),
            rows.into(),
            self.flag_word_before(),
            self.flag_word(),
            (&resident.n).into(),
            (&resident.means).into(),
        ];
        self.launch(stream, &functions.finish_cross, Grid::new(1, ALONE), &words)
    }
}
