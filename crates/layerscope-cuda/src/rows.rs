//! Rows of the residual stream: gathered, added, normed, rotated.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream as RawStream};
use layerscope_compute::{Error, Gather, HeadSegments, NormKind, Result, RotaryPairs, RotaryRows};

use crate::buffer::Buffer;
use crate::device::Cuda;
use crate::kernels::Kernels;
use crate::launch::{Grid, Word, launch, launch_with};
use crate::operand::OperandKind;
use crate::weights::{CudaNorm, CudaTable};

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
    rotate: CudaFunction,
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
            rotate: function("rotate")?,
        })
    }

    pub fn gather(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        sources: &[Gather<CudaTable, CudaSlice<u32>>],
        rows: usize,
        scale: f32,
        out: &mut Buffer,
    ) -> Result<()> {
        let Some(first) = sources.first().filter(|_| sources.len() <= 3) else {
            return Err(cuda.error(Error::Failed { device: cuda.name(), problem: "rows are gathered from one to three tables".into() }));
        };
        let width = first.table.width;
        let mut words = vec![Word::from(out.floats_to_write()), rows.into(), width.into(), scale.into(), sources.len().into()];
        for place in 0..3 {
            match sources.get(place) {
                Some(source) => words.extend([source.table.stored.word(), source.table.stored.code().into(), source.indices.into()]),
                None => words.extend([Word::NULL; 3]),
            }
        }
        launch(raw, &self.gather, Grid::over(rows, 4).of_threads(128), &words).map_err(|error| cuda.error(error))
    }

    pub fn add(&self, cuda: &Cuda, raw: &Arc<RawStream>, x: &mut Buffer, y: &Buffer, len: usize) -> Result<()> {
        let y = Word::from(y.current_floats(cuda, raw)?);
        x.current_floats(cuda, raw)?;
        let words = [Word::from(x.floats_to_write()), y, len.into()];
        let blocks = len.div_ceil(4 * 256).clamp(1, 16 * cuda.card().processors);
        launch(raw, &self.add, Grid::new(blocks, 256), &words).map_err(|error| cuda.error(error))
    }

    /// `x += y` where there is a `y`, then `out = norm(x)`: as floats and as an operand.
    pub fn norm(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        (x, y): (&CudaSlice<f32>, Option<&Buffer>),
        rows: usize,
        norm: &CudaNorm,
        out: &mut Buffer,
    ) -> Result<()> {
        let y = match y {
            Some(y) => Word::from(y.current_floats(cuda, raw)?),
            None => Word::NULL,
        };
        let (floats, operand) = out.both_to_write(cuda, raw, rows, norm.width)?;
        let whole = HeadSegments { row_width: norm.width, start: 0, width: norm.width, count: 1 };
        self.launch_norm(cuda, raw, [x.into(), y, floats, operand], rows, whole, norm)
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
        x.current_floats(cuda, raw)?;
        let x = Word::from(x.floats_to_write());
        self.launch_norm(cuda, raw, [x, Word::NULL, x, Word::NULL], rows, segments, norm)
    }

    fn launch_norm(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        [x, y, out, operand]: [Word; 4],
        rows: usize,
        segments: HeadSegments,
        norm: &CudaNorm,
    ) -> Result<()> {
        let HeadSegments { row_width, start, width, count } = segments;
        let slices = rows * count;
        let arguments = NormArguments {
            x,
            y,
            gamma: Word::from(&norm.gamma),
            beta: norm.beta.as_ref().into(),
            out,
            operand,
            slices: slices as u32,
            count: count as u32,
            row_width: row_width as u32,
            start: start as u32,
            width: width as u32,
            padded: cuda.operand().padded(width) as u32,
            epsilon: norm.epsilon,
            centred: (norm.kind == NormKind::Layer).into(),
        };
        let in_fours = [row_width, start, width].iter().all(|number| number % 4 == 0);
        let (function, grid) = match width {
            _ if in_fours && width <= WIDEST_OF_A_WARP => (&self.norm_by_warps, Grid::over(slices, 4).of_threads(128)),
            _ if in_fours && width <= WIDEST_OF_A_BLOCK => (&self.norm_by_blocks, Grid::new(slices, 256)),
            _ => (&self.norm_any, Grid::new(slices, 256)),
        };
        launch_with(raw, function, grid, &arguments).map_err(|error| cuda.error(error))
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
        x.current_floats(cuda, raw)?;
        let HeadSegments { row_width, start, width, count } = segments;
        let half = angles.dim / 2;
        let words = [
            Word::from(x.floats_to_write()),
            angles.cos.floats().into(),
            angles.sin.floats().into(),
            rows.into(),
            count.into(),
            row_width.into(),
            start.into(),
            width.into(),
            half.into(),
            (angles.pairs == RotaryPairs::Interleaved).into(),
        ];
        launch(raw, &self.rotate, Grid::over(rows * count * half, 256), &words).map_err(|error| cuda.error(error))
    }
}
