//! The CPU backend: one thread per batch, single-threaded products over weights packed once, fused row operations.

mod attention;
mod bytes;
mod floats;
mod gemm;
mod isa;
mod kernels;
mod lanes;
mod math;
mod panels;
mod rows;

pub use bytes::ByteRows;
pub use floats::Floats;
pub use gemm::{Epilogue, Part, Rows, multiply};
pub use isa::Isa;
pub use panels::Panels;

use crate::{Activation, AttentionShape, Backend, Gather, HeadSegments, NormKind, RotaryRows, States};

/// The fast backend for processors.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    isa: Isa,
}

impl Cpu {
    /// With the best instruction set of this machine.
    pub fn new() -> Cpu {
        Cpu { isa: Isa::detect() }
    }

    /// With a chosen one of [`Isa::available`].
    pub fn with_isa(isa: Isa) -> Cpu {
        assert!(Isa::available().contains(&isa), "{isa:?} is not available on this machine");
        Cpu { isa }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu::new()
    }
}

impl<'a> States<'a, Cpu> {
    /// The states themselves, row-major.
    pub fn as_slice(&self) -> &'a [f32] {
        &self.buffer[..self.rows * self.width]
    }
}

/// Rows to gather from.
pub struct CpuTable {
    values: Vec<f32>,
    width: usize,
}

/// A linear layer, packed.
pub struct CpuLinear {
    weight: Panels,
    bias: Option<Vec<f32>>,
}

/// A normalization, with its defaults filled in.
pub struct CpuNorm {
    kind: NormKind,
    epsilon: f32,
    width: usize,
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

/// Working memory of one worker.
#[derive(Default)]
pub struct CpuScratch {
    packed: Floats,
    attention: attention::AttentionScratch,
}

impl Backend for Cpu {
    type Buffer = Floats;
    type Indices = Vec<u32>;
    type Table = CpuTable;
    type Linear = CpuLinear;
    type Norm = CpuNorm;
    type Scratch = CpuScratch;

    fn buffer(&self, len: usize) -> Floats {
        Floats::zeros(len)
    }

    fn write(&self, buffer: &mut Floats, values: &[f32]) {
        buffer[..values.len()].copy_from_slice(values);
    }

    fn read(&self, buffer: &Floats, len: usize) -> Vec<f32> {
        buffer[..len].to_vec()
    }

    fn indices(&self, capacity: usize) -> Vec<u32> {
        Vec::with_capacity(capacity)
    }

    fn write_indices(&self, indices: &mut Vec<u32>, values: &[u32]) {
        indices.clear();
        indices.extend_from_slice(values);
    }

    fn table(&self, values: Vec<f32>, width: usize) -> CpuTable {
        CpuTable { values, width }
    }

    fn linear(&self, weight: Vec<f32>, outputs: usize, inputs: usize, bias: Option<Vec<f32>>) -> CpuLinear {
        CpuLinear { weight: Panels::from_rows(&weight, outputs, inputs), bias }
    }

    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> CpuNorm {
        let gamma = gamma.unwrap_or_else(|| vec![1.0; width]);
        let beta = beta.unwrap_or_else(|| vec![0.0; width]);
        CpuNorm { kind, epsilon, width, gamma, beta }
    }

    fn scratch(&self) -> CpuScratch {
        CpuScratch::default()
    }

    fn gather_add(&self, sources: &[Gather<CpuTable, Vec<u32>>], rows: usize, scale: f32, out: &mut Floats) {
        let width = sources[0].table.width;
        for (r, out) in out.chunks_exact_mut(width).take(rows).enumerate() {
            for (place, source) in sources.iter().enumerate() {
                let row = source.indices.map_or(0, |indices| indices[r] as usize);
                let row = &source.table.values[row * width..][..width];
                match place {
                    0 => out.iter_mut().zip(row).for_each(|(out, x)| *out = scale * x),
                    _ => out.iter_mut().zip(row).for_each(|(out, x)| *out += x),
                }
            }
        }
    }

    fn add(&self, x: &mut Floats, y: &Floats, len: usize) {
        rows::add(self.isa, &mut x[..len], &y[..len]);
    }

    fn apply_norm(&self, x: &Floats, rows: usize, norm: &CpuNorm, out: &mut Floats) {
        let len = rows * norm.width;
        rows::norm(self.isa, &x[..len], norm, &mut out[..len]);
    }

    fn add_norm(&self, x: &mut Floats, y: &Floats, rows: usize, norm: &CpuNorm, out: &mut Floats) {
        let len = rows * norm.width;
        rows::add_norm(self.isa, &mut x[..len], &y[..len], norm, &mut out[..len]);
    }

    fn norm_segments(&self, x: &mut Floats, rows: usize, segments: HeadSegments, norm: &CpuNorm) {
        rows::norm_segments(self.isa, &mut x[..rows * segments.row_width], segments, norm);
    }

    fn apply_linear(
        &self,
        scratch: &mut CpuScratch,
        x: &Floats,
        rows: usize,
        layer: &CpuLinear,
        activation: Option<Activation>,
        out: &mut Floats,
    ) {
        let (inputs, outputs) = (layer.weight.k, layer.weight.n);
        let a = Rows { data: &x[..rows * inputs], stride: inputs, count: rows };
        let epilogue = Epilogue { bias: layer.bias.as_deref(), activation };
        multiply(self.isa, a, &layer.weight, &Part::all(&layer.weight), &mut out[..rows * outputs], outputs, epilogue, &mut scratch.packed);
    }

    fn gate(&self, x: &Floats, rows: usize, width: usize, activation: Activation, out: &mut Floats) {
        rows::gate(self.isa, &x[..rows * 2 * width], width, activation, &mut out[..rows * width]);
    }

    fn rotate(&self, x: &mut Floats, rows: usize, segments: HeadSegments, angles: &RotaryRows<Floats>) {
        let angles = rows::Angles { cos: angles.cos, sin: angles.sin, dim: angles.dim, pairs: angles.pairs };
        rows::rotate(self.isa, &mut x[..rows * segments.row_width], segments, angles);
    }

    fn attention(&self, scratch: &mut CpuScratch, qkv: &Floats, offsets: &[u32], shape: &AttentionShape, out: &mut Floats) {
        attention::attention(self.isa, &mut scratch.attention, &mut scratch.packed, qkv, offsets, shape, out);
    }
}
