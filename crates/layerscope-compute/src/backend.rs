//! The trait every device implements.

use crate::operations::{Activation, AttentionShape, Gather, HeadSegments, NormKind, RotaryRows};

/// Hidden states of one batch at one point of the network, where the backend keeps them.
pub struct States<'a, B: Backend> {
    /// The backend that owns the buffer.
    pub backend: &'a B,
    /// Row-major `[rows, width]`; the buffer may be longer.
    pub buffer: &'a B::Buffer,
    /// Rows in use.
    pub rows: usize,
    /// Floats per row.
    pub width: usize,
}

impl<B: Backend> States<'_, B> {
    /// Copies the states to the host, row-major.
    pub fn to_vec(&self) -> Vec<f32> {
        self.backend.read(self.buffer, self.rows * self.width)
    }
}

/// A device that holds weights and activations and runs the operations of a Transformer over packed rows.
///
/// Weights enter once, in the reference layout `[out, in]`, and are kept in whatever layout the device likes. Buffers
/// are allocated once per worker and reused. Operations take the number of `rows` in use; buffers may be longer.
pub trait Backend: Send + Sync + Sized + 'static {
    /// Row-major f32 activations on the device.
    type Buffer: Send + Sync;
    /// Row numbers on the device.
    type Indices: Send + Sync;
    /// Rows to gather from.
    type Table: Send + Sync;
    /// A linear layer's weight and bias.
    type Linear: Send + Sync;
    /// A normalization's gamma and beta.
    type Norm: Send + Sync;
    /// Working memory of one worker.
    type Scratch: Send;

    /// Zeroed activations.
    fn buffer(&self, len: usize) -> Self::Buffer;
    /// Copies host floats to the start of a buffer.
    fn write(&self, buffer: &mut Self::Buffer, values: &[f32]);
    /// Copies the first `len` floats to the host.
    fn read(&self, buffer: &Self::Buffer, len: usize) -> Vec<f32>;
    /// Room for row numbers.
    fn indices(&self, capacity: usize) -> Self::Indices;
    /// Replaces the row numbers.
    fn write_indices(&self, indices: &mut Self::Indices, values: &[u32]);
    /// A table of rows of `width` floats.
    fn table(&self, values: Vec<f32>, width: usize) -> Self::Table;
    /// A linear layer from its weight `[outputs, inputs]`.
    fn linear(&self, weight: Vec<f32>, outputs: usize, inputs: usize, bias: Option<Vec<f32>>) -> Self::Linear;
    /// A normalization; a missing gamma is 1, a missing beta 0.
    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Self::Norm;
    /// Working memory for one worker; it grows to what the operations need and stays.
    fn scratch(&self) -> Self::Scratch;

    /// `out[r] = scale * first[r] + the others[r]`, each `table[indices[r]]`.
    fn gather_add(&self, sources: &[Gather<Self::Table, Self::Indices>], rows: usize, scale: f32, out: &mut Self::Buffer);
    /// `x += y` over `len` floats.
    fn add(&self, x: &mut Self::Buffer, y: &Self::Buffer, len: usize);
    /// `out = norm(x)`.
    fn apply_norm(&self, x: &Self::Buffer, rows: usize, norm: &Self::Norm, out: &mut Self::Buffer);
    /// `x += y; out = norm(x)`.
    fn add_norm(&self, x: &mut Self::Buffer, y: &Self::Buffer, rows: usize, norm: &Self::Norm, out: &mut Self::Buffer);
    /// Normalizes each slice of each row in place.
    fn norm_segments(&self, x: &mut Self::Buffer, rows: usize, segments: HeadSegments, norm: &Self::Norm);
    /// `out = activation(x W^T + b)`.
    fn apply_linear(
        &self,
        scratch: &mut Self::Scratch,
        x: &Self::Buffer,
        rows: usize,
        layer: &Self::Linear,
        activation: Option<Activation>,
        out: &mut Self::Buffer,
    );
    /// `out[r, j] = activation(x[r, j]) * x[r, width + j]` for rows of `2 * width`.
    fn gate(&self, x: &Self::Buffer, rows: usize, width: usize, activation: Activation, out: &mut Self::Buffer);
    /// Rotates each slice of each row by the angles of its position.
    fn rotate(&self, x: &mut Self::Buffer, rows: usize, segments: HeadSegments, angles: &RotaryRows<Self::Buffer>);
    /// Softmax attention within each sequence; `offsets` are cumulative lengths, starting with 0.
    fn attention(&self, scratch: &mut Self::Scratch, qkv: &Self::Buffer, offsets: &[u32], shape: &AttentionShape, out: &mut Self::Buffer);
}
