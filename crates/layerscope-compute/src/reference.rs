//! The plain backend: every operation as its definition, sums in f64. Slow; the other backends are tested against it.

use crate::{
    Activation, AttentionShape, Backend, Gather, HeadSegments, HostBackend, HostTensor, Memory, NormKind, NumberKind, PositionBias, Result,
    RotaryPairs, RotaryRows,
};

/// The definition of every operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// Rows of `width` floats.
pub struct Matrix {
    values: Vec<f32>,
    width: usize,
}

/// A weight `[outputs, inputs]` and a bias.
pub struct Linear {
    weight: Matrix,
    bias: Option<Vec<f32>>,
}

/// A normalization.
pub struct Norm {
    kind: NormKind,
    epsilon: f32,
    width: usize,
    gamma: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
}

impl Norm {
    fn apply(&self, row: &[f32]) -> Vec<f32> {
        let count = row.len() as f64;
        let mean = match self.kind {
            NormKind::Layer => row.iter().map(|&x| x as f64).sum::<f64>() / count,
            NormKind::Rms => 0.0,
        };
        let variance = row.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + self.epsilon as f64).sqrt();
        let parameter = |values: &Option<Vec<f32>>, i: usize, default: f64| values.as_ref().map_or(default, |values| values[i] as f64);
        let normed =
            |(i, &x): (usize, &f32)| (x as f64 - mean) / deviation * parameter(&self.gamma, i, 1.0) + parameter(&self.beta, i, 0.0);
        row.iter().enumerate().map(normed).map(|x| x as f32).collect()
    }
}

/// An activation by its definition.
pub(crate) fn activation(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::GeluErf => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Activation::GeluTanh => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        Activation::GeluQuick => x * sigmoid(1.702 * x),
        Activation::Relu => x.max(0.0),
        Activation::ReluSquared => x.max(0.0).powi(2),
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => x.tanh(),
    }
}

/// The error function: its Maclaurin series near zero, the continued fraction of its complement beyond.
pub(crate) fn erf(x: f64) -> f64 {
    let t = x.abs();
    if t < 3.0 {
        let (mut term, mut sum) = (t, t);
        for n in 1..200 {
            term *= -t * t / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return (2.0 / std::f64::consts::PI.sqrt() * sum).copysign(x);
    }
    let fraction = (1..=60).rev().fold(t, |tail, n| t + n as f64 / 2.0 / tail);
    (1.0 - (-t * t).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x)
}

fn bf16(x: f64) -> f64 {
    let bits = (x as f32).to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000) as f64
}

/// What is added to the scaled score of one query and key.
fn bias_of(bias: &PositionBias, head: usize, query: usize, key: usize) -> f64 {
    match bias {
        PositionBias::Alibi { slopes, rounded_to_bf16: false, scale } => slopes[head] as f64 * key as f64 * *scale as f64,
        PositionBias::Alibi { slopes, rounded_to_bf16: true, scale } => bf16(bf16(slopes[head] as f64) * bf16(key as f64)) * *scale as f64,
        PositionBias::Relative { values, reach } => {
            let distance = (key as isize - query as isize).clamp(-(*reach as isize), *reach as isize);
            values[head * (2 * reach + 1) + (distance + *reach as isize) as usize] as f64
        }
    }
}

impl HostBackend for Reference {
    fn rows<'a>(&self, buffer: &'a Vec<f32>) -> &'a [f32] {
        buffer
    }
}

impl Backend for Reference {
    type Buffer = Vec<f32>;
    type Indices = Vec<u32>;
    type Offsets = Vec<u32>;
    type Table = Matrix;
    type Linear = Linear;
    type Norm = Norm;
    type Attention = AttentionShape;
    type Stream = ();

    fn describe(&self) -> String {
        "f64, rounded to f32".to_owned()
    }

    fn stream(&self) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self, _: &mut ()) -> Result<()> {
        Ok(())
    }

    fn buffer(&self, len: usize) -> Result<Vec<f32>> {
        Ok(vec![0.0; len])
    }

    fn indices(&self, _capacity: usize) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    fn offsets(&self, _capacity: usize) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    fn table(&self, rows: HostTensor) -> Result<Matrix> {
        Ok(Matrix { width: rows.columns, values: rows.values.into_f32() })
    }

    fn linear(&self, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<Linear> {
        Ok(Linear { weight: self.table(weight)?, bias })
    }

    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Vec<f32>>, beta: Option<Vec<f32>>) -> Result<Norm> {
        Ok(Norm { kind, epsilon, width, gamma, beta })
    }

    fn attention(&self, shape: AttentionShape) -> Result<AttentionShape> {
        Ok(shape)
    }

    fn linear_memory(&self, numbers: usize, _: NumberKind) -> Memory {
        Memory::on_host(numbers * size_of::<f32>())
    }

    fn table_memory(&self, numbers: usize, _: NumberKind) -> Memory {
        Memory::on_host(numbers * size_of::<f32>())
    }

    fn buffer_memory(&self, len: usize) -> Memory {
        Memory::on_host(len * size_of::<f32>())
    }

    fn stream_memory(&self, _rows: usize, _widest: usize) -> Memory {
        Memory::default()
    }

    fn write(&self, _: &mut (), buffer: &mut Vec<f32>, values: &[f32]) {
        buffer[..values.len()].copy_from_slice(values);
    }

    fn write_indices(&self, _: &mut (), indices: &mut Vec<u32>, values: &[u32]) {
        *indices = values.to_vec();
    }

    fn write_offsets(&self, _: &mut (), offsets: &mut Vec<u32>, values: &[u32]) {
        *offsets = values.to_vec();
    }

    fn read(&self, _: &mut (), buffer: &Vec<f32>, len: usize) -> Result<Vec<f32>> {
        Ok(buffer[..len].to_vec())
    }

    fn gather_add(&self, _: &mut (), sources: &[Gather<Matrix, Vec<u32>>], rows: usize, scale: f32, out: &mut Vec<f32>) {
        let width = sources[0].table.width;
        for r in 0..rows {
            for i in 0..width {
                let value = |source: &Gather<Matrix, Vec<u32>>| {
                    source.table.values[source.indices.map_or(0, |indices| indices[r] as usize) * width + i]
                };
                out[r * width + i] = scale * value(&sources[0]) + sources[1..].iter().map(value).sum::<f32>();
            }
        }
    }

    fn add(&self, _: &mut (), x: &mut Vec<f32>, y: &Vec<f32>, len: usize) {
        (0..len).for_each(|i| x[i] += y[i]);
    }

    fn apply_norm(&self, _: &mut (), x: &Vec<f32>, rows: usize, norm: &Norm, out: &mut Vec<f32>) {
        for r in 0..rows {
            let row = r * norm.width..(r + 1) * norm.width;
            out[row.clone()].copy_from_slice(&norm.apply(&x[row]));
        }
    }

    fn add_norm(&self, stream: &mut (), x: &mut Vec<f32>, y: &Vec<f32>, rows: usize, norm: &Norm, out: &mut Vec<f32>) {
        self.add(stream, x, y, rows * norm.width);
        self.apply_norm(stream, x, rows, norm, out);
    }

    fn norm_segments(&self, _: &mut (), x: &mut Vec<f32>, rows: usize, segments: HeadSegments, norm: &Norm) {
        for r in 0..rows {
            for s in 0..segments.count {
                let at = r * segments.row_width + segments.start + s * segments.width;
                let normed = norm.apply(&x[at..at + segments.width]);
                x[at..at + segments.width].copy_from_slice(&normed);
            }
        }
    }

    fn apply_linear(&self, _: &mut (), x: &Vec<f32>, rows: usize, layer: &Linear, activation_: Option<Activation>, out: &mut Vec<f32>) {
        let inputs = layer.weight.width;
        let outputs = layer.weight.values.len() / inputs;
        for r in 0..rows {
            for j in 0..outputs {
                let weight = &layer.weight.values[j * inputs..][..inputs];
                let sum: f64 = x[r * inputs..][..inputs].iter().zip(weight).map(|(&x, &w)| x as f64 * w as f64).sum();
                let sum = sum + layer.bias.as_ref().map_or(0.0, |bias| bias[j] as f64);
                out[r * outputs + j] = activation_.map_or(sum, |kind| activation(kind, sum)) as f32;
            }
        }
    }

    fn gate(&self, _: &mut (), x: &Vec<f32>, rows: usize, width: usize, kind: Activation, out: &mut Vec<f32>) {
        for r in 0..rows {
            for j in 0..width {
                let (gate, up) = (x[r * 2 * width + j], x[r * 2 * width + width + j]);
                out[r * width + j] = (activation(kind, gate as f64) * up as f64) as f32;
            }
        }
    }

    fn rotate(&self, _: &mut (), x: &mut Vec<f32>, rows: usize, segments: HeadSegments, angles: &RotaryRows<Vec<f32>>) {
        let half = angles.dim / 2;
        for r in 0..rows {
            for s in 0..segments.count {
                let at = r * segments.row_width + segments.start + s * segments.width;
                for i in 0..half {
                    let (a, b) = match angles.pairs {
                        RotaryPairs::Halves => (at + i, at + i + half),
                        RotaryPairs::Interleaved => (at + 2 * i, at + 2 * i + 1),
                    };
                    let (cos, sin) = (angles.cos[r * half + i], angles.sin[r * half + i]);
                    (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin);
                }
            }
        }
    }

    fn apply_attention(&self, _: &mut (), qkv: &Vec<f32>, offsets: &Vec<u32>, shape: &AttentionShape, out: &mut Vec<f32>) {
        let (stride, dim) = (shape.qkv_width(), shape.head_dim);
        for bounds in offsets.windows(2) {
            let (start, end) = (bounds[0] as usize, bounds[1] as usize);
            for head in 0..shape.heads {
                let kv_head = head * shape.kv_heads / shape.heads;
                for query in 0..end - start {
                    let vector = |row: usize, head: usize| &qkv[(start + row) * stride + head * dim..][..dim];
                    let score = |key: usize| {
                        let keys = vector(key, shape.heads + kv_head);
                        let dot: f64 = vector(query, head).iter().zip(keys).map(|(&q, &k)| q as f64 * k as f64).sum();
                        dot * shape.scale as f64 + shape.bias.as_ref().map_or(0.0, |bias| bias_of(bias, head, query, key))
                    };
                    let seen = shape.visible(query, end - start);
                    let largest = seen.clone().map(score).fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = seen.clone().map(|key| (score(key) - largest).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    for i in 0..dim {
                        let value = |key: usize| vector(key, shape.heads + shape.kv_heads + kv_head)[i] as f64;
                        let sum: f64 = seen.clone().zip(&weights).map(|(key, weight)| weight * value(key)).sum();
                        out[(start + query) * shape.heads * dim + head * dim + i] = (sum / total) as f32;
                    }
                }
            }
        }
    }
}
