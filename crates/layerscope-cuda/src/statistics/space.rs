//! A worker's memory: on the card for what the kernels compute, on the host for what is left to it.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream, DevicePtr, DeviceRepr};
use layerscope_compute::Result;
use layerscope_stats::sketch::BatchSpace;

use super::functions::Functions;
use super::layout::{Layout, TILE};
use super::massive::MassiveRing;
use super::peaks::COUNTS;
use super::scatter::ScatterSpace;
use super::shapes::ShapeSpace;
use crate::device::Cuda;
use crate::launch::Word;

/// Components of a block, and its warps, as in `moments.cu` and `sequences.cu`.
pub(super) const STRIP: usize = 128;
const STRIP_WARPS: usize = STRIP / 32;
/// Parts that are folded into one.
pub(super) const FAN: usize = 16;
/// Numbers and vectors of what waits between two kernels, as in the sources.
const WEIGHTS: usize = 9;
const PART_VECTORS: usize = 6;
const PART_NUMBERS: usize = 3;
const PIECE_VECTORS: usize = 3;
const SUMS: usize = 4;
/// Words that say what was seen at a point, and those that the host reads, as in `statistics.cuh`.
pub(super) const FLAGS: usize = 4;
pub(super) const BAD_ROWS: usize = 0;
pub(super) const FIRST_BAD: usize = 1;
pub(super) const FOUND_ROWS: usize = 3;
/// Points that a batch may pass.
pub(super) const POINTS: usize = 4096;

/// Strips of components.
pub(super) fn strips(dim: usize) -> usize {
    dim.div_ceil(STRIP)
}

/// Warps of components.
pub(super) fn warps(dim: usize) -> usize {
    strips(dim) * STRIP_WARPS
}

/// Memory of the card that grows to what batches need.
pub(super) struct Grown<T>(Option<CudaSlice<T>>);

impl<T> Default for Grown<T> {
    fn default() -> Grown<T> {
        Grown(None)
    }
}

impl<T: DeviceRepr> Grown<T> {
    /// Room for so many; what was there is lost if it was too little.
    pub fn reserve(&mut self, cuda: &Cuda, stream: &Arc<RawStream>, len: usize) -> Result<()> {
        if self.0.as_ref().is_none_or(|slice| slice.len() < len) {
            if self.0.is_some() {
                // It may be of an earlier stream, which would free it at once, while this one still works in it.
                stream.synchronize().map_err(|error| cuda.error(error))?;
            }
            self.0 = None;
            // SAFETY: kernels write what kernels read.
            self.0 = Some(unsafe { stream.alloc(len.max(1)) }.map_err(|error| cuda.error(error))?);
        }
        Ok(())
    }

    /// Where it begins.
    pub fn word(&self) -> Word {
        self.word_at(0)
    }

    /// Where one of its numbers lies.
    pub fn word_at(&self, place: usize) -> Word {
        self.0.as_ref().map_or(Word::NULL, |slice| Word::pointer(slice.device_ptr(slice.stream()).0 + (place * size_of::<T>()) as u64))
    }

    /// The memory, if there is some.
    pub fn slice(&self) -> Option<&CudaSlice<T>> {
        self.0.as_ref()
    }

    /// The same, to be written.
    pub fn slice_mut(&mut self) -> Option<&mut CudaSlice<T>> {
        self.0.as_mut()
    }
}

/// What waits between two kernels.
#[derive(Default)]
pub(super) struct Waiting {
    /// Items of several rows.
    pub items: Grown<f32>,
    /// ||x||^2, ||x|| and 1 / ||x|| of every row.
    pub squares: Grown<f64>,
    pub norms: Grown<f64>,
    pub inverses: Grown<f64>,
    /// Kinds of this point and of the one before, in turn.
    pub kinds: [Grown<u8>; 2],
    /// What was seen at every point of the batch; nothing before the first.
    pub flags: Grown<u32>,
    pub weights: Grown<f64>,
    pub growth: Grown<f64>,
    pub piece_vectors: Grown<f64>,
    pub piece_numbers: Grown<f64>,
    /// Parts of all rows, and what they are folded into.
    pub parts: [Grown<f64>; 2],
    pub part_numbers: [Grown<f64>; 2],
    pub piece_sums: Grown<f64>,
    pub dots: Grown<f64>,
    pub similarities: Grown<f64>,
    /// Of components that stand out.
    pub peaks: Grown<u32>,
}

impl Waiting {
    /// Room for what the kernels that only look at rows write.
    pub fn reserve_rows(
        &mut self,
        cuda: &Cuda,
        stream: &Arc<RawStream>,
        layout: &Layout,
        (point, rows, dim): (usize, usize, usize),
    ) -> Result<()> {
        let items = if layout.pooled.is_empty() { 0 } else { rows * dim };
        self.items.reserve(cuda, stream, items)?;
        for numbers in [&mut self.squares, &mut self.norms, &mut self.inverses] {
            numbers.reserve(cuda, stream, rows)?;
        }
        self.kinds[point % 2].reserve(cuda, stream, rows)?;
        self.peaks.reserve(cuda, stream, COUNTS)?;
        self.flags.reserve(cuda, stream, FLAGS * (POINTS + 1))
    }

    /// Room for the moments.
    pub fn reserve_moments(&mut self, cuda: &Cuda, stream: &Arc<RawStream>, layout: &Layout, dim: usize) -> Result<()> {
        let (tiles, groups, sequences) = (layout.tiles(), layout.groups(), layout.counted_sequences());
        self.weights.reserve(cuda, stream, groups * WEIGHTS)?;
        self.growth.reserve(cuda, stream, groups * warps(dim))?;
        self.piece_vectors.reserve(cuda, stream, 2 * tiles * PIECE_VECTORS * dim)?;
        self.piece_numbers.reserve(cuda, stream, 4 * tiles)?;
        for (at, count) in [tiles, tiles.div_ceil(FAN)].into_iter().enumerate() {
            self.parts[at].reserve(cuda, stream, count * PART_VECTORS * dim)?;
            self.part_numbers[at].reserve(cuda, stream, count * PART_NUMBERS)?;
        }
        self.piece_sums.reserve(cuda, stream, layout.sums * SUMS * dim)?;
        self.dots.reserve(cuda, stream, sequences * warps(dim) * SUMS)?;
        self.similarities.reserve(cuda, stream, sequences * SUMS)
    }

    /// What all of it grows to with batches of `rows` rows, each a group of its own and no sequence longer than a few rows.
    pub fn bytes(rows: usize, dim: usize) -> usize {
        let (tiles, numbers) = (rows.div_ceil(TILE), size_of::<f64>());
        let of_rows = rows * (3 * numbers + 2) + FLAGS * (POINTS + 1) * size_of::<u32>();
        let of_groups = rows * (WEIGHTS + warps(dim)) * numbers;
        let of_tiles = tiles * (2 * PIECE_VECTORS + PART_VECTORS + 1) * dim * numbers;
        of_rows + of_groups + of_tiles + rows / 2 * (warps(dim) + 1) * SUMS * numbers
    }
}

/// A worker's memory on the card.
pub(super) struct DeviceSpace {
    pub functions: Functions,
    pub waiting: Waiting,
    pub massive: MassiveRing,
    pub scatter: ScatterSpace,
    pub shapes: ShapeSpace,
    /// Of every point that the batch has passed: whether a state that is not finite is an error there.
    pub is_strict: Vec<bool>,
}

/// A worker's memory on the host, for sketches that the card does not compute.
#[derive(Default)]
pub(super) struct HostMemory {
    pub states: Vec<f32>,
    /// Means of rows, where several rows make one item.
    pub pooled: Vec<f32>,
    pub batch: BatchSpace,
}

/// A worker's memory.
pub struct CudaSpace {
    pub(super) device: DeviceSpace,
    pub(super) host: HostMemory,
}

impl CudaSpace {
    pub(super) fn new(cuda: &Cuda) -> Result<CudaSpace> {
        let device = DeviceSpace {
            functions: Functions::load(cuda.kernels())?,
            waiting: Waiting::default(),
            massive: MassiveRing::new(cuda)?,
            scatter: ScatterSpace::default(),
            shapes: ShapeSpace::default(),
            is_strict: Vec::new(),
        };
        Ok(CudaSpace { device, host: HostMemory::default() })
    }
}
