//! Rows of the residual stream: gathered, added, normed, rotated.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream as RawStream};
use layerscope_compute::{Error, Gather, HeadSegments, NormKind, Result, RotaryPairs, RotaryRows};

use crate::buffer::Buffer;
use crate::device::Cuda;
use crate::kernels::Kernels;
use crate::launch::{Grid, Word, launch, launch_with};
use crate::operand::OperandKind;
use crate::weights::{CudaIndices, CudaNorm, CudaTable};

/// The widest rows that a warp holds in its registers, and a block.
const WIDEST_OF_A_WARP: usize = 1024;
const WIDEST_OF_A_BLOCK: usize = 8192;

/// The kernels of `kernels/rows.cu`.
pub(crate) struct Rows {
    gather: CudaFunction,
    add: CudaFunction,
    norm_by_warps: CudaFunction,
    norm_by_blocks: CudaFunction,
    norm_any: CudaFunction,
    norm_halves: CudaFunction,
    rotate: CudaFunction,
    rotate_halves: CudaFunction,
}

/// What `kernels/rows.cu` calls Norm.
#[repr(C)]
struct NormArguments {
    x: Word,
    y: Word,
    gamma: Word,
    beta: Word,
    out: Word,
    operand: Word,
    slices: u32,
    count: u32,
    row_width: u32,
    start: u32,
    width: u32,
    padded: u32,
    epsilon: f32,
    centred: u32,
    keep_sum: u32,
}

/// What `kernels/rows.cu` calls Rotation.
#[repr(C)]
struct RotationArguments {
    x: Word,
    cosines: Word,
    sines: Word,
    rows: u32,
    count: u32,
    row_width: u32,
    start: u32,
    width: u32,
    half: u32,
    interleaved: u32,
}

/// What is normed: a row, or a row and what is added to it first.
pub(crate) enum Normed<'a> {
    Row(&'a Buffer),
    /// The row keeps the sum.
    Sum(&'a mut Buffer, &'a Buffer),
    /// The row is not used again.
    LastSum(&'a mut Buffer, &'a Buffer),
}

impl Rows {
    pub fn load(kernels: &Kernels, kind: OperandKind) -> Result<Rows> {
        let function = |name: &str| kernels.function("rows", &[kind.definition()], name);
        Ok(Rows {
            gather: function("gather")?,
            add: function("add")?,
            norm_by_warps: function("norm_by_warps")?,
            norm_by_blocks: function("norm_by_blocks")?,
            norm_any: function("norm_any")?,
            norm_halves: function("norm_halves")?,
            rotate: function("rotate")?,
            rotate_halves: function("rotate_halves")?,
        })
    }

    pub fn gather(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        sources: &[Gather<CudaTable, CudaIndices>],
        rows: usize,
        scale: f32,
        out: &mut Buffer,
    ) -> Result<()> {
        let Some(first) = sources.first().filter(|_| sources.len() <= 3) else {
            return Err(cuda.error(Error::Failed { device: cuda.name(), problem: "rows are gathered from one to three tables".into() }));
        };
        let width = first.table.width;
        let mut words = vec![out.floats_to_write(cuda, raw)?, rows.into(), width.into(), scale.into(), sources.len().into()];
        for place in 0..3 {
            match sources.get(place) {
                Some(source) => words.extend([
                    source.table.stored.word(),
                    source.table.stored.code().into(),
                    source.indices.map(|indices| &indices.numbers).into(),
                ]),
                None => words.extend([Word::NULL; 3]),
            }
        }
        launch(raw, &self.gather, Grid::over(rows, 4).of_threads(128), &words).map_err(|error| cuda.error(error))
    }

    pub fn add(&self, cuda: &Cuda, raw: &Arc<RawStream>, x: &mut Buffer, y: &Buffer, len: usize) -> Result<()> {
        let y = Word::from(y.current_floats(cuda, raw)?);
        x.current_floats(cuda, raw)?;
        let words = [x.floats_to_write(cuda, raw)?, y, len.into()];
        let blocks = len.div_ceil(4 * 256).clamp(1, 16 * cuda.card().processors);
        launch(raw, &self.add, Grid::new(blocks, 256), &words).map_err(|error| cuda.error(error))
    }

    /// `out = norm(x)`, or of a sum: as floats and as an operand.
    pub fn norm(&self, cuda: &Cuda, raw: &Arc<RawStream>, x: Normed, rows: usize, norm: &CudaNorm, out: &mut Buffer) -> Result<()> {
        let keep_sum = matches!(x, Normed::Sum(..));
        let (x, y) = match x {
            Normed::Row(x) => (Word::from(x.current_floats(cuda, raw)?), Word::NULL),
            Normed::Sum(x, y) | Normed::LastSum(x, y) => {
                x.current_floats(cuda, raw)?;
                (x.floats_to_write(cuda, raw)?, Word::from(y.current_floats(cuda, raw)?))
            }
        };
        let (floats, operand) = out.both_to_write(cuda, raw, rows, norm.width)?;
        let whole = HeadSegments { row_width: norm.width, start: 0, width: norm.width, count: 1 };
        let arguments = NormArguments { keep_sum: keep_sum.into(), ..arguments(cuda, [x, y, floats, operand], rows, whole, norm) };
        self.launch_norm(cuda, raw, whole, &arguments)
    }

    /// Each slice of each row in place.
    pub fn norm_segments(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        x: &mut Buffer,
        rows: usize,
        segments: HeadSegments,
        norm: &CudaNorm,
    ) -> Result<()> {
        let x = x.numbers_to_change(cuda, raw, rows, segments.row_width)?;
        if x.are_halves {
            let arguments = arguments(cuda, [Word::NULL, Word::NULL, Word::NULL, x.word], rows, segments, norm);
            let grid = Grid::over(rows * segments.count, 4).of_threads(128);
            return launch_with(raw, &self.norm_halves, grid, &arguments).map_err(|error| cuda.error(error));
        }
        let arguments = arguments(cuda, [x.word, Word::NULL, x.word, Word::NULL], rows, segments, norm);
        self.launch_norm(cuda, raw, segments, &arguments)
    }

    fn launch_norm(&self, cuda: &Cuda, raw: &Arc<RawStream>, segments: HeadSegments, arguments: &NormArguments) -> Result<()> {
        let HeadSegments { row_width, start, width, .. } = segments;
        let slices = arguments.slices as usize;
        let in_fours = [row_width, start, width].iter().all(|number| number % 4 == 0);
        let (function, grid) = match width {
            _ if in_fours && width <= WIDEST_OF_A_WARP => (&self.norm_by_warps, Grid::over(slices, 4).of_threads(128)),
            _ if in_fours && width <= WIDEST_OF_A_BLOCK => (&self.norm_by_blocks, Grid::new(slices, 256)),
            _ => (&self.norm_any, Grid::new(slices, 256)),
        };
        launch_with(raw, function, grid, arguments).map_err(|error| cuda.error(error))
    }

    pub fn rotate(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        x: &mut Buffer,
        rows: usize,
        segments: HeadSegments,
        angles: &RotaryRows<Buffer>,
    ) -> Result<()> {
        let HeadSegments { row_width, start, width, count } = segments;
        let x = x.numbers_to_change(cuda, raw, rows, row_width)?;
        let half = angles.dim / 2;
        let arguments = RotationArguments {
            x: x.word,
            cosines: angles.cos.floats().into(),
            sines: angles.sin.floats().into(),
            rows: rows as u32,
            count: count as u32,
            row_width: row_width as u32,
            start: start as u32,
            width: width as u32,
            half: half as u32,
            interleaved: (angles.pairs == RotaryPairs::Interleaved).into(),
        };
        let function = if x.are_halves { &self.rotate_halves } else { &self.rotate };
        launch_with(raw, function, Grid::over(rows * count * half, 256), &arguments).map_err(|error| cuda.error(error))
    }
}

/// Where the rows are, and what to do with their slices.
fn arguments(cuda: &Cuda, [x, y, out, operand]: [Word; 4], rows: usize, segments: HeadSegments, norm: &CudaNorm) -> NormArguments {
    let HeadSegments { row_width, start, width, count } = segments;
    NormArguments {
        x,
        y,
        gamma: Word::from(&norm.gamma),
        beta: norm.beta.as_ref().into(),
        out,
        operand,
        slices: (rows * count) as u32,
        count: count as u32,
        row_width: row_width as u32,
        start: start as u32,
        width: width as u32,
        padded: cuda.operand().padded(width) as u32,
        epsilon: norm.epsilon,
        centred: (norm.kind == NormKind::Layer).into(),
        keep_sum: 0,
    }
}
