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
mod peak;
mod rows;

pub use bytes::ByteRows;
pub use floats::Floats;
pub use gemm::{Epilogue, Part, Rows, multiply};
pub use isa::{InstructionSet, Isa};
pub use panels::Panels;
pub use peak::fma_peak;

use crate::{Activation, AttentionShape, Backend, Gather, HeadSegments, HostBackend, HostTensor, Memory, NormKind, Result, RotaryRows};

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

impl HostBackend for Cpu {
    fn rows<'a>(&self, buffer: &'a Floats) -> &'a [f32] {
        buffer
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

/// Working memory of one worker. Operations run at once and do not fail.
#[derive(Default)]
pub struct CpuStream {
    packed: Floats,
    attention: attention::AttentionScratch,
}

impl Backend for Cpu {
    type Buffer = Floats;
    type Indices = Vec<u32>;
    type Offsets = Vec<u32>;
    type Table = CpuTable;
    type Linear = CpuLinear;
    type Norm = CpuNorm;
    type Attention = AttentionShape;
    type Stream = CpuStream;

    fn stream(&self) -> Result<CpuStream> {
        Ok(CpuStream::default())
    }

    fn synchronize(&self, _: &mut CpuStream) -> Result<()> {
        Ok(())
    }

    fn buffer(&self, len: usize) -> Result<Floats> {
        Floats::try_zeros(len)
    }

    fn indices(&self, capacity: usize) -> Result<Vec<u32>> {
        Ok(Vec::with_capacity(capacity))
    }

    fn offsets(&self, capacity: usize) -> Result<Vec<u32>> {
        Ok(Vec::with_capacity(capacity))
    }

    fn table(&self, rows: HostTensor) -> Result<CpuTable> {
        Ok(CpuTable { width: rows.columns, values: rows.values.into_f32() })
    }

    fn linear(&self, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<CpuLinear> {
        Ok(CpuLinear { weight: Panels::from_tensor(&weight)?, bias })
    }

    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Result<CpuNorm> {
        let gamma = gamma.unwrap_or_else(|| vec![1.0; width]);
        let beta = beta.unwrap_or_else(|| vec![0.0; width]);
        Ok(CpuNorm { kind, epsilon, width, gamma, beta })
    }

    fn attention(&self, shape: AttentionShape) -> Result<AttentionShape> {
        Ok(shape)
    }

    fn weight_memory(&self, numbers: usize) -> Memory {
        Memory::on_host(numbers * size_of::<f32>())
    }

    fn buffer_memory(&self, len: usize) -> Memory {
        Memory::on_host(len * size_of::<f32>())
    }

    /// Packed operands of products, and attention scores. Measured rather than derived: about a quarter of the widest activations.
    fn stream_memory(&self, rows: usize, widest: usize) -> Memory {
        Memory::on_host(rows.min(1024) * widest * size_of::<f32>() / 4)
    }

    fn write(&self, _: &mut CpuStream, buffer: &mut Floats, values: &[f32]) {
        buffer[..values.len()].copy_from_slice(values);
    }

    fn write_indices(&self, _: &mut CpuStream, indices: &mut Vec<u32>, values: &[u32]) {
        indices.clear();
        indices.extend_from_slice(values);
    }

    fn write_offsets(&self, _: &mut CpuStream, offsets: &mut Vec<u32>, values: &[u32]) {
        offsets.clear();
        offsets.extend_from_slice(values);
    }

    fn read(&self, _: &mut CpuStream, buffer: &Floats, len: usize) -> Result<Vec<f32>> {
        Ok(buffer[..len].to_vec())
    }

    fn gather_add(&self, _: &mut CpuStream, sources: &[Gather<CpuTable, Vec<u32>>], rows: usize, scale: f32, out: &mut Floats) {
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

    fn add(&self, _: &mut CpuStream, x: &mut Floats, y: &Floats, len: usize) {
        rows::add(self.isa, &mut x[..len], &y[..len]);
    }

    fn apply_norm(&self, _: &mut CpuStream, x: &Floats, rows: usize, norm: &CpuNorm, out: &mut Floats) {
        let len = rows * norm.width;
        rows::norm(self.isa, &x[..len], norm, &mut out[..len]);
    }

    fn add_norm(&self, _: &mut CpuStream, x: &mut Floats, y: &Floats, rows: usize, norm: &CpuNorm, out: &mut Floats) {
        let len = rows * norm.width;
        rows::add_norm(self.isa, &mut x[..len], &y[..len], norm, &mut out[..len]);
    }

    fn norm_segments(&self, _: &mut CpuStream, x: &mut Floats, rows: usize, segments: HeadSegments, norm: &CpuNorm) {
        rows::norm_segments(self.isa, &mut x[..rows * segments.row_width], segments, norm);
    }

    fn apply_linear(
        &self,
        stream: &mut CpuStream,
        x: &Floats,
        rows: usize,
        layer: &CpuLinear,
        activation: Option<Activation>,
        out: &mut Floats,
    ) {
        let (inputs, outputs) = (layer.weight.k, layer.weight.n);
        let a = Rows { data: &x[..rows * inputs], stride: inputs, count: rows };
        let epilogue = Epilogue { bias: layer.bias.as_deref(), activation };
        multiply(self.isa, a, &layer.weight, &Part::all(&layer.weight), &mut out[..rows * outputs], outputs, epilogue, &mut stream.packed);
    }

    fn gate(&self, _: &mut CpuStream, x: &Floats, rows: usize, width: usize, activation: Activation, out: &mut Floats) {
        rows::gate(self.isa, &x[..rows * 2 * width], width, activation, &mut out[..rows * width]);
    }

    fn rotate(&self, _: &mut CpuStream, x: &mut Floats, rows: usize, segments: HeadSegments, angles: &RotaryRows<Floats>) {
        let angles = rows::Angles { cos: angles.cos, sin: angles.sin, dim: angles.dim, pairs: angles.pairs };
        rows::rotate(self.isa, &mut x[..rows * segments.row_width], segments, angles);
    }

    fn apply_attention(&self, stream: &mut CpuStream, qkv: &Floats, offsets: &Vec<u32>, shape: &AttentionShape, out: &mut Floats) {
        attention::attention(self.isa, &mut stream.attention, &mut stream.packed, qkv, offsets, shape, out);
    }
}
