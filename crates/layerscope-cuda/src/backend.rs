//! The operations, one after another: `impl Backend for Cuda`.

use layerscope_compute::{
    Activation, AttentionShape, Backend, Gather, HeadSegments, HostTensor, Memory, NormKind, NumberKind, Result, RotaryRows,
};

use crate::attention::{CudaAttention, CudaOffsets};
use crate::buffer::Buffer;
use crate::device::{Cuda, free_memory};
use crate::linear::CudaLinear;
use crate::operand::OperandKind;
use crate::products::WORKSPACE;
use crate::rows::Normed;
use crate::stream::{CudaStream, Work};
use crate::weights::{CudaIndices, CudaNorm, CudaTable};

impl Backend for Cuda {
    type Buffer = Buffer;
    type Indices = CudaIndices;
    type Offsets = CudaOffsets;
    type Table = CudaTable;
    type Linear = CudaLinear;
    type Norm = CudaNorm;
    type Attention = CudaAttention;
    type Stream = CudaStream;

    fn describe(&self) -> String {
        format!("{}, {}, cuBLASLt {}, {}", self.card().name, self.dtype().name(), self.products().version(), self.kernels().compiler())
    }

    fn stream(&self) -> Result<CudaStream> {
        CudaStream::new(self)
    }

    fn synchronize(&self, stream: &mut CudaStream) -> Result<()> {
        stream.wait()
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::new(self, len)
    }

    /// Without floats, where products take something else: see [`Buffer`].
    fn inner_buffer(&self, len: usize) -> Result<Buffer> {
        if self.operand() == OperandKind::Floats { Buffer::new(self, len) } else { Ok(Buffer::inner(self, len)) }
    }

    fn indices(&self, capacity: usize) -> Result<CudaIndices> {
        CudaIndices::new(self, capacity)
    }

    fn offsets(&self, capacity: usize) -> Result<CudaOffsets> {
        CudaOffsets::new(self, capacity)
    }

    fn table(&self, rows: HostTensor) -> Result<CudaTable> {
        CudaTable::new(self, rows)
    }

    fn linear(&self, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<CudaLinear> {
        CudaLinear::new(self, weight, bias)
    }

    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Result<CudaNorm> {
        CudaNorm::new(self, kind, epsilon, width, gamma, beta)
    }

    fn attention(&self, shape: AttentionShape) -> Result<CudaAttention> {
        CudaAttention::new(self, shape)
    }

    /// One computes while the next batch of the other is made ready.
    fn workers(&self, threads: usize) -> usize {
        threads.min(2)
    }

    fn free_memory(&self) -> Option<u64> {
        Some(free_memory(self.context()).unwrap_or(0) as u64)
    }

    /// In the numbers of the products.
    fn linear_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        let of_one = match self.operand() {
            OperandKind::Floats => size_of::<f32>(),
            halves => halves.weight_parts(stored) * size_of::<u16>(),
        };
        Memory::on_device(numbers * of_one)
    }

    fn table_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        Memory::on_device(numbers * stored.bytes())
    }

    /// Floats, and the operand that may lie beside them.
    fn buffer_memory(&self, len: usize) -> Memory {
        Memory::on_device(len * (size_of::<f32>() + self.operand().parts() * size_of::<u16>()))
    }

    /// Nothing but the operand where that is one 16-bit number; rows that are split are floats before.
    fn inner_buffer_memory(&self, len: usize) -> Memory {
        if self.operand().is_halves() { Memory::on_device(len * size_of::<u16>()) } else { self.buffer_memory(len) }
    }

    /// What cuBLASLt works in, and rows that are converted for a product.
    fn stream_memory(&self, rows: usize, widest: usize) -> Memory {
        Memory::on_device(WORKSPACE + rows * widest * self.operand().parts() * size_of::<u16>())
    }

    fn write(&self, stream: &mut CudaStream, buffer: &mut Buffer, values: &[f32]) {
        stream.run(Work::Upload, |raw| buffer.write(self, raw, values));
    }

    fn write_indices(&self, stream: &mut CudaStream, indices: &mut CudaIndices, values: &[u32]) {
        stream.run(Work::Upload, |raw| indices.write(self, raw, values));
    }

    fn write_offsets(&self, stream: &mut CudaStream, offsets: &mut CudaOffsets, values: &[u32]) {
        stream.run(Work::Upload, |raw| offsets.write(self, raw, values));
    }

    fn read(&self, stream: &mut CudaStream, buffer: &Buffer, len: usize) -> Result<Vec<f32>> {
        let mut floats = vec![0.0; len];
        stream.run(Work::Upload, |raw| buffer.read(self, raw, &mut floats));
        stream.wait()?;
        Ok(floats)
    }

    fn gather_add(&self, stream: &mut CudaStream, sources: &[Gather<CudaTable, CudaIndices>], rows: usize, scale: f32, out: &mut Buffer) {
        stream.run(Work::Rows, |raw| self.rows().gather(self, raw, sources, rows, scale, out));
    }

    fn add(&self, stream: &mut CudaStream, x: &mut Buffer, y: &Buffer, len: usize) {
        stream.run(Work::Rows, |raw| self.rows().add(self, raw, x, y, len));
    }

    fn apply_norm(&self, stream: &mut CudaStream, x: &Buffer, rows: usize, norm: &CudaNorm, out: &mut Buffer) {
        stream.run(Work::Norm, |raw| self.rows().norm(self, raw, Normed::Row(x), rows, norm, out));
    }

    fn add_norm(&self, stream: &mut CudaStream, x: &mut Buffer, y: &Buffer, rows: usize, norm: &CudaNorm, out: &mut Buffer) {
        stream.run(Work::Norm, |raw| self.rows().norm(self, raw, Normed::Sum(x, y), rows, norm, out));
    }

    /// The sum stays in registers.
    fn join_norm(&self, stream: &mut CudaStream, x: &mut Buffer, y: &Buffer, rows: usize, norm: &CudaNorm, out: &mut Buffer) {
        stream.run(Work::Norm, |raw| self.rows().norm(self, raw, Normed::LastSum(x, y), rows, norm, out));
    }

    fn norm_segments(&self, stream: &mut CudaStream, x: &mut Buffer, rows: usize, segments: HeadSegments, norm: &CudaNorm) {
        stream.run(Work::Norm, |raw| self.rows().norm_segments(self, raw, x, rows, segments, norm));
    }

    fn apply_linear(
        &self,
        stream: &mut CudaStream,
        x: &Buffer,
        rows: usize,
        layer: &CudaLinear,
        activation: Option<Activation>,
        out: &mut Buffer,
    ) {
        layer.apply(self, stream, x, rows, activation, out);
    }

    fn gate(&self, stream: &mut CudaStream, x: &Buffer, rows: usize, width: usize, activation: Activation, out: &mut Buffer) {
        stream.run(Work::Activation, |raw| self.activations().gate(self, raw, (rows, width), x, activation, out));
    }

    fn rotate(&self, stream: &mut CudaStream, x: &mut Buffer, rows: usize, segments: HeadSegments, angles: &RotaryRows<Buffer>) {
        stream.run(Work::Rotary, |raw| self.rows().rotate(self, raw, x, rows, segments, angles));
    }

    fn apply_attention(&self, stream: &mut CudaStream, qkv: &Buffer, offsets: &CudaOffsets, layer: &CudaAttention, out: &mut Buffer) {
        layer.apply(self, stream, qkv, offsets, out);
    }
}
