//! The CPU backend: one thread per batch, single-threaded products over weights packed once, fused row operations.

mod attention;
mod bf16;
mod bytes;
mod floats;
mod gemm;
mod half_panels;
mod isa;
mod kernels;
mod lanes;
mod math;
mod near;
mod panels;
mod peak;
mod rows;
mod weights;

pub use bf16::Bf16Kernel;
pub use bytes::ByteRows;
pub use floats::Floats;
pub use gemm::{Epilogue, Part, Rows, multiply};
pub use isa::{InstructionSet, Isa};
pub use near::NearPairs;
pub use panels::Panels;
pub use peak::fma_peak;
pub use weights::{CpuLinear, CpuTable};

use crate::{
    Activation, AttentionShape, Backend, ComputeDtype, Error, Gather, HeadSegments, HostBackend, HostTensor, Memory, NormKind, NumberKind,
    Result, RotaryRows,
};

/// The fast backend for processors.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    isa: Isa,
    /// What computes products in bfloat16; None: they are f32.
    bf16: Option<Bf16Kernel>,
}

impl Cpu {
    /// In f32, with the best instruction set of this machine.
    pub fn new() -> Cpu {
        Cpu::with_isa(Isa::detect())
    }

    /// Whether it computes products in these numbers.
    pub fn computes(dtype: ComputeDtype) -> bool {
        matches!(dtype, ComputeDtype::F32 | ComputeDtype::Bf16)
    }

    /// With products in these numbers.
    pub fn with_dtype(dtype: ComputeDtype) -> Result<Cpu> {
        match dtype {
            ComputeDtype::F32 => Ok(Cpu::new()),
            ComputeDtype::Bf16 => Ok(Cpu::with_bf16(Bf16Kernel::detect())),
            _ => {
                let problem = format!("products in {} are for GPUs: choose f32 or bf16", dtype.name());
                Err(Error::Unavailable { device: "cpu".to_owned(), problem })
            }
        }
    }

    /// In f32, with a chosen one of [`Isa::available`].
    pub fn with_isa(isa: Isa) -> Cpu {
        Cpu { isa, bf16: None }
    }

    /// In bfloat16, with a chosen one of [`Bf16Kernel::available`].
    pub fn with_bf16(kernel: Bf16Kernel) -> Cpu {
        Cpu { isa: Isa::detect(), bf16: Some(kernel) }
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
    /// A row of a table, widened.
    row: Vec<f32>,
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

    fn describe(&self) -> String {
        match self.bf16 {
            None => format!("{:?}", self.isa),
            Some(kernel) => format!("{:?}, {kernel}", self.isa),
        }
    }

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
        Ok(CpuTable::new(rows))
    }

    fn linear(&self, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<CpuLinear> {
        CpuLinear::new(weight, bias, self.bf16.is_some())
    }

    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Result<CpuNorm> {
        let gamma = gamma.unwrap_or_else(|| vec![1.0; width]);
        let beta = beta.unwrap_or_else(|| vec![0.0; width]);
        Ok(CpuNorm { kind, epsilon, width, gamma, beta })
    }

    fn attention(&self, shape: AttentionShape) -> Result<AttentionShape> {
        Ok(shape)
    }

    /// In the numbers of the file, or of the products.
    fn linear_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        Memory::on_host(numbers * if self.bf16.is_some() { NumberKind::Bf16 } else { stored }.bytes())
    }

    fn table_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        Memory::on_host(numbers * stored.bytes())
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

    fn gather_add(&self, stream: &mut CpuStream, sources: &[Gather<CpuTable, Vec<u32>>], rows: usize, scale: f32, out: &mut Floats) {
        let width = sources[0].table.width();
        for (r, out) in out.chunks_exact_mut(width).take(rows).enumerate() {
            for (place, source) in sources.iter().enumerate() {
                let row = source.table.row(source.indices.map_or(0, |indices| indices[r] as usize), &mut stream.row);
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
        layer.apply(self.isa, self.bf16, x, rows, activation, out, &mut stream.packed);
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
