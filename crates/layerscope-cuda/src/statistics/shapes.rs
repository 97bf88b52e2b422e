//! What sequences look like: memory for it, its kernel, and its means where the card keeps them.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::Result as ComputeResult;
use layerscope_stats::Result;
use layerscope_stats::sketch::{Mergeable, SequenceShape, Tensors};

use super::layout::Layout;
use super::point::Rows;
use super::reader::Reader;
use super::space::Grown;
use super::tensors::{f64s, put, u64s};
use crate::device::Cuda;
use crate::launch::Grid;

/// The side of a matrix that lies in shared memory, the threads of a block, and the numbers of a state and of a sequence, as in `shapes.cu`.
const SMALL: usize = 64;
const THREADS: usize = 128;
const OF_STATE: usize = 6;
const OF_SEQUENCE: usize = 8;

/// Bytes that blocks may work in, if one needs no more.
const BUDGET: usize = 256 << 20;

/// Measures of a sequence: entropy and curvature, of all states and of the typical ones.
const MEASURES: usize = 4;

/// The stored names, of all states and of the typical ones.
const PREFIXES: [&str; 2] = ["", "typical."];

/// A worker's memory for shapes.
#[derive(Default)]
pub(super) struct ShapeSpace {
    memory: Grown<f64>,
    shapes: Grown<f64>,
    blocks: usize,
}

/// Numbers that a block works in, with sequences of up to so many states.
fn of_block(longest: usize, dim: usize) -> usize {
    let side = longest.min(dim);
    dim + OF_STATE * longest + if side > SMALL { side * side } else { 0 }
}

impl ShapeSpace {
    /// Room for the sequences of a batch, and how many blocks take turns with them.
    pub fn reserve(&mut self, cuda: &Cuda, stream: &Arc<RawStream>, layout: &Layout, dim: usize) -> ComputeResult<()> {
        let of_block = of_block(layout.longest, dim);
        let at_once = (BUDGET / (of_block * size_of::<f64>())).max(1);
        self.blocks = layout.counted_sequences().min(at_once);
        self.memory.reserve(cuda, stream, self.blocks * of_block)?;
        self.shapes.reserve(cuda, stream, layout.counted_sequences() * OF_SEQUENCE)
    }

    /// What it grows to with batches of `rows` rows.
    pub fn bytes(rows: usize, dim: usize) -> usize {
        // Sequences of so many states have matrices of at most so many numbers a state.
        let of_rows = rows * (2 * dim + OF_STATE);
        let numbers = of_rows.min(of_block(rows, dim).max(BUDGET / size_of::<f64>()));
        (numbers + rows / 2 * OF_SEQUENCE) * size_of::<f64>()
    }
}

/// Means over sequences, and how many have them.
pub(super) struct ResidentShapes {
    n: CudaSlice<u64>,
    mean: CudaSlice<f64>,
    /// An older program did not keep them.
    has_typical: bool,
}

impl ResidentShapes {
    /// Puts them on the card.
    pub fn load(cuda: &Cuda, shapes: &SequenceShape) -> Result<ResidentShapes> {
        let tensors = shapes.encode();
        let (mut n, mut mean) = (Vec::new(), Vec::new());
        let has_typical = shapes.typical().is_some();
        for prefix in &PREFIXES[..=usize::from(has_typical)] {
            n.extend_from_slice(u64s(&tensors, &format!("{prefix}sequences"))?);
            mean.extend_from_slice(f64s(&tensors, &format!("{prefix}shape"))?);
        }
        n.resize(MEASURES, 0);
        mean.resize(MEASURES, 0.0);
        Ok(ResidentShapes { n: cuda.upload(&n)?, mean: cuda.upload(&mean)?, has_typical })
    }

    /// As they are now.
    pub fn fetch(&self, reader: &mut Reader<'_>) -> Result<Tensors<'static>> {
        let (n, mean) = (reader.read(&self.n, MEASURES)?, reader.read(&self.mean, MEASURES)?);
        let mut tensors = Tensors::default();
        for ((prefix, n), mean) in PREFIXES[..=usize::from(self.has_typical)].iter().zip(n.chunks(2)).zip(mean.chunks(2)) {
            put(&mut tensors, &format!("{prefix}sequences"), &[2], n.to_vec());
            put(&mut tensors, &format!("{prefix}shape"), &[2], mean.to_vec());
        }
        Ok(tensors)
    }
}

impl Rows<'_> {
    /// The shape of every sequence, before the turn.
    pub fn shape_sequences(&self, stream: &Arc<RawStream>) -> ComputeResult<()> {
        let (info, layout, space) = (self.info, &self.info.layout, &self.device.shapes);
        let words = [
            self.states,
            self.dim.into(),
            info.list(&layout.counted),
            info.list(&layout.sequences),
            layout.counted_sequences().into(),
            self.kinds(),
            self.device.waiting.norms.word(),
            layout.longest.into(),
            space.memory.word(),
            of_block(layout.longest, self.dim).into(),
            space.shapes.word(),
        ];
        self.launch(stream, &self.device.functions.sequence_shapes, Grid::new(space.blocks, THREADS), &words)
    }

    /// They enter the means.
    pub fn enter_shapes(&self, stream: &Arc<RawStream>, resident: &ResidentShapes) -> ComputeResult<()> {
        match self.info.layout.counted_sequences() {
            0 => Ok(()),
            _ => self.enter_means(stream, self.device.shapes.shapes.word(), &resident.n, &resident.mean),
        }
    }
}
