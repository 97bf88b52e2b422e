//! The parameters of the operations: plain data shared by all backends.

/// An elementwise activation. Exact and approximate GELU are different functions and never stand in for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x Phi(x)` with the exact normal distribution function, `0.5 x (1 + erf(x / sqrt 2))`.
    GeluErf,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x sigmoid(1.702 x)`.
    GeluQuick,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `x sigmoid(x)`.
    Silu,
    /// `tanh x`.
    Tanh,
}

/// How a normalization measures its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `(x - mean) / sqrt(var + eps) * gamma + beta`, population variance.
    Layer,
    /// `x / sqrt(mean(x^2) + eps) * gamma`.
    Rms,
}

/// Which two dimensions of a head rotary positions turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryPairs {
    /// Dimension `i` with `i + dim/2`.
    Halves,
    /// Dimension `2i` with `2i + 1`.
    Interleaved,
}

/// Cosines and sines of one batch: row `r` holds `dim / 2` angles for the position of row `r`.
pub struct RotaryRows<'a, Buffer> {
    /// Cosines, `[rows, dim / 2]`.
    pub cos: &'a Buffer,
    /// Sines, `[rows, dim / 2]`.
    pub sin: &'a Buffer,
    /// Leading dimensions of each head that are rotated.
    pub dim: usize,
    /// How dimensions are paired.
    pub pairs: RotaryPairs,
}

/// Equal consecutive slices of every row: the heads of the queries, or of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSegments {
    /// Floats from one row to the next.
    pub row_width: usize,
    /// First column of the first slice.
    pub start: usize,
    /// Columns of one slice.
    pub width: usize,
    /// Number of slices.
    pub count: usize,
}

/// One table of a gather-and-add: `out[r] += table[indices[r]]`.
pub struct Gather<'a, Table, Indices> {
    /// Rows to choose from.
    pub table: &'a Table,
    /// The chosen row for each output row; `None` takes row 0 throughout.
    pub indices: Option<&'a Indices>,
}

/// What is added to attention scores according to distance.
#[derive(Clone, Debug, PartialEq)]
pub enum PositionBias {
    /// `slope[head] * key position`, equal to the distance form under softmax.
    Alibi {
        /// One slope a head.
        slopes: Vec<f32>,
        /// Round slope, position and product to bfloat16, as some checkpoints were trained.
        rounded_to_bf16: bool,
        /// Factor on the (rounded) bias.
        scale: f32,
    },
    /// A learned value per head and `key - query`, distances clamped to the table.
    Relative {
        /// `[heads, 2 * reach + 1]`, entry `reach + key - query`.
        values: Vec<f32>,
        /// Largest distance that is told apart.
        reach: usize,
    },
}

/// Attention over packed sequences. A row of `qkv` is all query heads, then all key heads, then all value heads.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query head `h` reads `h * kv_heads / heads`.
    pub kv_heads: usize,
    /// Columns of one head.
    pub head_dim: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Attend only to keys at or before the query.
    pub causal: bool,
    /// Attend only where `|query - key| < window`.
    pub window: Option<usize>,
    /// Added to the scaled scores.
    pub bias: Option<PositionBias>,
}

impl AttentionShape {
    /// Columns of a row of queries, keys and values together.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// The keys that the query at `query` of a sequence of `length` may see.
    pub fn visible(&self, query: usize, length: usize) -> std::ops::Range<usize> {
        let reach = self.window.unwrap_or(length);
        let first = (query + 1).saturating_sub(reach);
        let end = if self.causal { query + 1 } else { (query + reach).min(length) };
        first..end
    }
}
