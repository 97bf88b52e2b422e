//! The trait every device implements.

use crate::operations::{Activation, AttentionShape, Gather, HeadSegments, NormKind, RotaryRows};
use crate::{HostTensor, Memory, NumberKind, Result};

/// Hidden states of one batch at one point of the network, where the backend keeps them.
pub struct States<'a, B: Backend> {
    /// The backend that owns the buffer.
    pub backend: &'a B,
    /// The stream in which the states are computed.
    pub stream: &'a mut B::Stream,
    /// Row-major `[rows, width]`; the buffer may be longer.
    pub buffer: &'a B::Buffer,
    /// Rows in use.
    pub rows: usize,
    /// Floats per row.
    pub width: usize,
}

impl<B: Backend> States<'_, B> {
    /// Waits for the states and copies them to the host, row-major.
    pub fn to_vec(&mut self) -> Result<Vec<f32>> {
        self.backend.read(self.stream, self.buffer, self.rows * self.width)
    }
}

impl<'a, B: HostBackend> States<'a, B> {
    /// The states themselves, row-major.
    pub fn as_slice(&self) -> &'a [f32] {
        &self.backend.rows(self.buffer)[..self.rows * self.width]
    }
}

/// A device that holds weights and activations and runs the operations of a Transformer over packed rows.
///
/// Weights enter once, in the reference layout `[out, in]`, and are kept in whatever layout the device likes. Buffers
/// are allocated once per worker and reused. Operations take the number of `rows` in use; buffers may be longer.
///
/// # Streams and failures
///
/// A worker has one stream, and every operation names it. Operations of a stream run in the order of the calls, possibly
/// after the call returned: only [`synchronize`](Backend::synchronize) and [`read`](Backend::read) wait for them.
///
/// So an operation returns nothing. Its failure is *latched*: the stream keeps the first one, and until it is handed out,
/// later operations do nothing or compute numbers that nobody may use. `synchronize` and `read` hand it out, once;
/// afterwards the stream may be used again. [`Latch`](crate::Latch) does this for a stream.
///
/// Allocations and uploads of weights fail at once.
///
/// A clone is another handle of the same device.
pub trait Backend: Clone + Send + Sync + Sized + 'static {
    /// Row-major f32 activations on the device.
    type Buffer: Send + Sync;
    /// Row numbers on the device.
    type Indices: Send + Sync;
    /// Where the sequences of a batch begin and end, on the device.
    type Offsets: Send + Sync;
    /// Rows to gather from.
    type Table: Send + Sync;
    /// A linear layer's weight and bias.
    type Linear: Send + Sync;
    /// A normalization's gamma and beta.
    type Norm: Send + Sync;
    /// The attention of a block, its position bias included.
    type Attention: Send + Sync;
    /// One worker's queue of operations, their working memory, and their first failure.
    type Stream: Send;

    /// What computes the numbers, in a few words: two machines of the same words give the same bits.
    fn describe(&self) -> String;

    /// How many workers keep it busy where so many threads are to be used.
    fn workers(&self, threads: usize) -> usize {
        threads
    }
    /// Bytes of its own memory that are free; None where it computes in the host's.
    fn free_memory(&self) -> Option<u64> {
        None
    }

    /// A stream for one worker. Its working memory grows to what the operations need, and stays.
    fn stream(&self) -> Result<Self::Stream>;
    /// Waits for all operations of the stream and hands out the first failure among them.
    fn synchronize(&self, stream: &mut Self::Stream) -> Result<()>;

    /// Zeroed activations.
    fn buffer(&self, len: usize) -> Result<Self::Buffer>;
    /// Activations that stay between two products of a block. A device may keep them in the numbers of its products.
    fn inner_buffer(&self, len: usize) -> Result<Self::Buffer> {
        self.buffer(len)
    }
    /// Room for row numbers.
    fn indices(&self, capacity: usize) -> Result<Self::Indices>;
    /// Room for offsets: one more than there may be sequences.
    fn offsets(&self, capacity: usize) -> Result<Self::Offsets>;
    /// A table of rows.
    fn table(&self, rows: HostTensor) -> Result<Self::Table>;
    /// A linear layer from its weight `[outputs, inputs]`.
    fn linear(&self, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<Self::Linear>;
    /// A normalization; a missing gamma is 1, a missing beta 0.
    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Result<Self::Norm>;
    /// The attention of a block.
    fn attention(&self, shape: AttentionShape) -> Result<Self::Attention>;

    /// What `numbers` numbers of weights of linear layers take once they are loaded, stored in this kind.
    fn linear_memory(&self, numbers: usize, stored: NumberKind) -> Memory;
    /// The same of tables, and of everything else that a model has.
    fn table_memory(&self, numbers: usize, stored: NumberKind) -> Memory;
    /// What a buffer of `len` floats takes.
    fn buffer_memory(&self, len: usize) -> Memory;
    /// What a buffer of `len` numbers between two products takes.
    fn inner_buffer_memory(&self, len: usize) -> Memory {
        self.buffer_memory(len)
    }
    /// What a stream grows to with batches of `rows` rows and products over at most `widest` columns.
    fn stream_memory(&self, rows: usize, widest: usize) -> Memory;

    /// Copies host floats to the start of a buffer.
    fn write(&self, stream: &mut Self::Stream, buffer: &mut Self::Buffer, values: &[f32]);
    /// Replaces the row numbers.
    fn write_indices(&self, stream: &mut Self::Stream, indices: &mut Self::Indices, values: &[u32]);
    /// Replaces the offsets: cumulative lengths, starting with 0.
    fn write_offsets(&self, stream: &mut Self::Stream, offsets: &mut Self::Offsets, values: &[u32]);
    /// Waits for the operations of the stream and copies the first `len` floats to the host, or hands out a failure.
    fn read(&self, stream: &mut Self::Stream, buffer: &Self::Buffer, len: usize) -> Result<Vec<f32>>;

    /// `out[r] = scale * first[r] + the others[r]`, each `table[indices[r]]`.
    fn gather_add(
        &self,
        stream: &mut Self::Stream,
        sources: &[Gather<Self::Table, Self::Indices>],
        rows: usize,
        scale: f32,
        out: &mut Self::Buffer,
    );
    /// `x += y` over `len` floats.
    fn add(&self, stream: &mut Self::Stream, x: &mut Self::Buffer, y: &Self::Buffer, len: usize);
    /// `out = norm(x)`.
    fn apply_norm(&self, stream: &mut Self::Stream, x: &Self::Buffer, rows: usize, norm: &Self::Norm, out: &mut Self::Buffer);
    /// `x += y; out = norm(x)`.
    fn add_norm(
        &self,
        stream: &mut Self::Stream,
        x: &mut Self::Buffer,
        y: &Self::Buffer,
        rows: usize,
        norm: &Self::Norm,
        out: &mut Self::Buffer,
    );
    /// `out = norm(x + y)`. What `x` holds afterwards is nobody's business.
    fn join_norm(
        &self,
        stream: &mut Self::Stream,
        x: &mut Self::Buffer,
        y: &Self::Buffer,
        rows: usize,
        norm: &Self::Norm,
        out: &mut Self::Buffer,
    ) {
        self.add_norm(stream, x, y, rows, norm, out);
    }
    /// Normalizes each slice of each row in place.
    fn norm_segments(&self, stream: &mut Self::Stream, x: &mut Self::Buffer, rows: usize, segments: HeadSegments, norm: &Self::Norm);
    /// `out = activation(x W^T + b)`.
    fn apply_linear(
        &self,
        stream: &mut Self::Stream,
        x: &Self::Buffer,
        rows: usize,
        layer: &Self::Linear,
        activation: Option<Activation>,
        out: &mut Self::Buffer,
    );
    /// `out[r, j] = activation(x[r, j]) * x[r, width + j]` for rows of `2 * width`.
    fn gate(&self, stream: &mut Self::Stream, x: &Self::Buffer, rows: usize, width: usize, activation: Activation, out: &mut Self::Buffer);
    /// Rotates each slice of each row by the angles of its position.
    fn rotate(
        &self,
        stream: &mut Self::Stream,
        x: &mut Self::Buffer,
        rows: usize,
        segments: HeadSegments,
        angles: &RotaryRows<Self::Buffer>,
    );
    /// Softmax attention within each sequence.
    fn apply_attention(
        &self,
        stream: &mut Self::Stream,
        qkv: &Self::Buffer,
        offsets: &Self::Offsets,
        layer: &Self::Attention,
        out: &mut Self::Buffer,
    );
}

/// A backend that computes on the host, each operation before its call returns: its rows can be looked at without a copy.
pub trait HostBackend: Backend {
    /// All floats of a buffer.
    fn rows<'a>(&self, buffer: &'a Self::Buffer) -> &'a [f32];
}
