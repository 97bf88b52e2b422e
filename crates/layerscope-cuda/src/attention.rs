//! Softmax attention over packed sequences.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream as RawStream};
use layerscope_compute::{AttentionShape, Error, PositionBias, Result};

use crate::buffer::Buffer;
use crate::device::{Bound, Cuda};
use crate::launch::{Grid, Word, launch_with};
use crate::stream::{CudaStream, Work};

/// Queries that one block of threads handles; `kernels/attention.cuh` says the same.
const TILE: usize = 64;
const THREADS: usize = 128;

/// A wider head's sums do not fit in registers.
const WIDEST_HEAD: usize = 256;

/// The sequences of a batch, in tiles of queries.
pub struct CudaOffsets {
    _bound: Bound,
    /// Four numbers each: the sequence's first row, its length, the tile's first query, nothing.
    tiles: CudaSlice<u32>,
    count: usize,
    rows: usize,
}

impl CudaOffsets {
    /// Room for sequences of as many tokens together as there are offsets: a tile has a token at least.
    pub(crate) fn new(cuda: &Cuda, capacity: usize) -> Result<CudaOffsets> {
        Ok(CudaOffsets { _bound: cuda.bound(), tiles: cuda.zeros(4 * capacity)?, count: 0, rows: 0 })
    }

    pub(crate) fn write(&mut self, cuda: &Cuda, raw: &Arc<RawStream>, offsets: &[u32]) -> Result<()> {
        let tiles = tiles(offsets);
        if tiles.len() > self.tiles.len() {
            self.tiles = cuda.allocate(raw, tiles.len())?;
        }
        self.count = tiles.len() / 4;
        self.rows = offsets.last().copied().unwrap_or(0) as usize;
        raw.memcpy_htod(&tiles, &mut self.tiles).map_err(|error| cuda.error(error))
    }
}

/// The tiles of each sequence, in order.
fn tiles(offsets: &[u32]) -> Vec<u32> {
    let mut tiles = Vec::new();
    for bounds in offsets.windows(2) {
        let (start, length) = (bounds[0], bounds[1] - bounds[0]);
        for first in (0..length).step_by(TILE) {
            tiles.extend([start, length, first, 0]);
        }
    }
    tiles
}

/// The attention of a block.
pub struct CudaAttention {
    _bound: Bound,
    shape: AttentionShape,
    bias: Option<CudaSlice<f32>>,
    function: CudaFunction,
    /// Bytes of shared memory.
    memory: usize,
}

/// What `kernels/attention.cuh` calls Attention.
#[repr(C)]
struct Arguments {
    qkv: Word,
    tiles: Word,
    out: Word,
    operand: Word,
    bias: Word,
    heads: u32,
    kv_heads: u32,
    padded: u32,
    causal: u32,
    window: u32,
    reach: u32,
    stride: u32,
    bias_scale: f32,
    scale: f32,
}

impl CudaAttention {
    pub(crate) fn new(cuda: &Cuda, shape: AttentionShape) -> Result<CudaAttention> {
        if shape.head_dim > WIDEST_HEAD {
            let problem = format!("heads of {} dimensions are wider than {WIDEST_HEAD}: compute on the cpu", shape.head_dim);
            return Err(Error::Unavailable { device: cuda.name(), problem });
        }
        // Products of 16-bit numbers are the tensor cores'; all others are exact.
        let halves = cuda.operand().is_halves();
        let source = if halves { "attention_mma" } else { "attention_f32" };
        let definitions =
            [cuda.operand().definition(), format!("HEAD_DIM={}", shape.head_dim), format!("BIAS={}", code(shape.bias.as_ref()))];
        let function = cuda.kernels().function(source, &definitions, "attention")?;
        let memory = shared_memory(halves, shape.head_dim);
        let limit = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(limit, memory as i32).map_err(|error| cuda.error(error))?;
        let bias = match &shape.bias {
            None => None,
            Some(PositionBias::Alibi { slopes, .. }) => Some(cuda.upload(slopes)?),
            Some(PositionBias::Relative { values, .. }) => Some(cuda.upload(values)?),
        };
        Ok(CudaAttention { _bound: cuda.bound(), shape, bias, function, memory })
    }

    pub(crate) fn apply(&self, cuda: &Cuda, stream: &mut CudaStream, qkv: &Buffer, offsets: &CudaOffsets, out: &mut Buffer) {
        let (rows, width) = (offsets.rows, self.shape.qkv_width());
        let halves = cuda.operand().is_halves();
        if halves && qkv.operand(rows, width).is_none() {
            stream.run_with(Work::Activation, |raw, scratch| scratch.convert(cuda, raw, qkv, rows, width));
        }
        stream.run_with(Work::Attention, |raw, scratch| {
            let numbers = match halves {
                true => qkv.operand(rows, width).or(scratch.operand.as_ref()).into(),
                false => Word::from(qkv.current_floats(cuda, raw)?),
            };
            self.launch(cuda, raw, numbers, offsets, out)
        });
    }

    fn launch(&self, cuda: &Cuda, raw: &Arc<RawStream>, qkv: Word, offsets: &CudaOffsets, out: &mut Buffer) -> Result<()> {
        let shape = &self.shape;
        let width = shape.heads * shape.head_dim;
        let (floats, operand) = out.factor_to_write(cuda, raw, offsets.rows, width)?;
        let (reach, bias_scale) = match &shape.bias {
            None => (0, 0.0),
            Some(PositionBias::Alibi { scale, .. }) => (0, *scale),
            Some(PositionBias::Relative { reach, .. }) => (*reach, 0.0),
        };
        let stride = match cuda.operand().is_halves() {
            true => cuda.operand().padded(shape.qkv_width()),
            false => shape.qkv_width(),
        };
        let arguments = Arguments {
            qkv,
            tiles: Word::from(&offsets.tiles),
            out: floats,
            operand,
            bias: self.bias.as_ref().into(),
            heads: shape.heads as u32,
            kv_heads: shape.kv_heads as u32,
            padded: cuda.operand().padded(width) as u32,
            causal: shape.causal.into(),
            window: shape.window.unwrap_or(0) as u32,
            reach: reach as u32,
            stride: stride as u32,
            bias_scale,
            scale: shape.scale,
        };
        let grid = Grid::new(offsets.count, THREADS).by(shape.heads).shared(self.memory);
        launch_with(raw, &self.function, grid, &arguments).map_err(|error| cuda.error(error))
    }
}

/// The number of a bias in `kernels/attention.cuh`.
fn code(bias: Option<&PositionBias>) -> u32 {
    match bias {
        None => 0,
        Some(PositionBias::Alibi { rounded_to_bf16: false, .. }) => 1,
        Some(PositionBias::Alibi { rounded_to_bf16: true, .. }) => 2,
        Some(PositionBias::Relative { .. }) => 3,
    }
}

/// Bytes that a block of threads needs, as the kernels lay them out.
fn shared_memory(halves: bool, head_dim: usize) -> usize {
    if halves {
        let dim = head_dim.next_multiple_of(16);
        let keys = if dim <= 128 { 64 } else { 32 };
        return size_of::<u16>() * 2 * keys * (dim + 8);
    }
    let stride = head_dim.next_multiple_of(4) + 4;
    let keys = if head_dim <= 128 { 32 } else { 8 };
    size_of::<f32>() * ((TILE + 2 * keys) * stride + TILE * (keys + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sequences_have_several_tiles_and_empty_ones_none() {
        assert_eq!(tiles(&[0, 3, 3, 133]), [0, 3, 0, 0, 3, 130, 0, 0, 3, 130, 64, 0, 3, 130, 128, 0]);
    }

    #[test]
    fn shared_memory_fits_the_smallest_cards() {
        // Bytes that one block of threads may have on cards of compute capability 8.6 and 8.9.
        let smallest = 99 << 10;
        for halves in [false, true] {
            for head_dim in 1..=256 {
                assert!(shared_memory(halves, head_dim) <= smallest, "{halves} {head_dim}");
            }
        }
    }
}
