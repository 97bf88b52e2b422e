//! Attention: alone, and with all that happens to queries and keys before it.

use layerscope_compute::{AttentionShape, Backend, ComputeDtype, HeadSegments, NormKind, PositionBias, Reference, RotaryPairs, RotaryRows};
use layerscope_testing::made_up_states::Random;

use crate::products::LinearCase;
use crate::rows::NormCase;
use crate::support::normal;
use crate::{filled, of_product, on_every_card, with_references};

pub struct AttentionCase {
    pub shape: AttentionShape,
    pub qkv: Vec<f32>,
    pub offsets: Vec<u32>,
}

impl AttentionCase {
    pub fn new(random: &mut Random, shape: AttentionShape, lengths: &[u32]) -> AttentionCase {
        let mut offsets = vec![0];
        lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
        let qkv = normal(random, offsets[lengths.len()] as usize * shape.qkv_width(), 1.0);
        AttentionCase { shape, qkv, offsets }
    }

    pub fn name(&self) -> String {
        let AttentionShape { heads, kv_heads, head_dim, causal, window, bias, .. } = &self.shape;
        let biased = bias.is_some();
        format!("{heads} heads, {kv_heads} for keys, of {head_dim}, causal {causal}, window {window:?}, biased {biased}")
    }
}

pub fn attended<B: Backend>(device: &B, AttentionCase { shape, qkv, offsets }: &AttentionCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let layer = device.attention(shape.clone()).expect("a kernel");
    let rows = qkv.len() / shape.qkv_width();
    let qkv = filled(device, &mut stream, qkv);
    let mut places = device.offsets(rows + 1).expect("memory");
    device.write_offsets(&mut stream, &mut places, offsets);
    let len = rows * shape.heads * shape.head_dim;
    let mut out = device.buffer(len).expect("memory");
    device.apply_attention(&mut stream, &qkv, &places, &layer, &mut out);
    device.read(&mut stream, &out, len).expect("rows")
}

/// Attention of many kinds: every way to mask and to bias, grouped heads, and heads of odd sizes.
pub fn attention_shapes(random: &mut Random) -> Vec<AttentionShape> {
    let plain = |heads: usize, kv_heads: usize, head_dim: usize| AttentionShape {
        heads,
        kv_heads,
        head_dim,
        scale: 1.0 / (head_dim as f32).sqrt(),
        causal: false,
        window: None,
        bias: None,
    };
    let mut shapes: Vec<AttentionShape> = [4, 8, 16, 20, 32, 37, 64, 80, 96, 112, 128, 160, 256].map(|dim| plain(2, 2, dim)).to_vec();
    shapes.extend([plain(4, 2, 32), plain(6, 1, 16), plain(12, 3, 64)]);
    for (causal, window) in [(true, None), (false, Some(1)), (false, Some(7)), (true, Some(7)), (true, Some(70)), (false, Some(100))] {
        shapes.push(AttentionShape { causal, window, ..plain(2, 1, 64) });
        shapes.push(AttentionShape { causal, window, ..plain(2, 2, 24) });
    }
    for (rounded_to_bf16, scale) in [(false, 1.0), (true, 0.125)] {
        let bias = Some(PositionBias::Alibi { slopes: vec![0.5, 0.07, 0.01], rounded_to_bf16, scale });
        shapes.push(AttentionShape { bias, causal: true, ..plain(3, 3, 32) });
    }
    for reach in [3, 40] {
        let bias = Some(PositionBias::Relative { values: normal(random, 3 * (2 * reach + 1), 1.0), reach });
        shapes.push(AttentionShape { bias, ..plain(3, 1, 32) });
    }
    shapes
}

/// What attention itself may lose: only 16-bit numbers are multiplied as such.
fn of_attention(dtype: ComputeDtype) -> f64 {
    match dtype {
        ComputeDtype::Bf16 | ComputeDtype::F16 => of_product(dtype),
        _ => of_product(ComputeDtype::F32),
    }
}

/// What it costs to read a result as it is kept for the next product. Two bfloat16 terms have 8 bits each: half a unit of the second is
/// 2^-17 of the power of two of a value, here of the largest, as a share of the root mean square.
fn of_representation(dtype: ComputeDtype, reference: &[f32]) -> f64 {
    if dtype != ComputeDtype::F32x3 {
        return 0.0;
    }
    let largest = reference.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
    let mean_square = reference.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / reference.len() as f64;
    (largest.log2().floor() - 17.0).exp2() / mean_square.sqrt()
}

#[test]
fn attention_equals_its_definition() {
    let mut random = Random::new(6);
    let shapes = attention_shapes(&mut random);
    let lengths = [1, 5, 16, 17, 39, 64, 65, 130, 2, 200];
    let cases = shapes.into_iter().map(|shape| AttentionCase::new(&mut random, shape, &lengths)).collect();
    let cases = with_references(cases, |case| attended(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let tolerance = of_attention(cuda.dtype()) + of_representation(cuda.dtype(), reference);
            report.compare(cuda, "attention", tolerance, &case.name(), &attended(cuda, case), reference);
        }
    });
}

struct BranchCase {
    attention: AttentionCase,
    pairs: RotaryPairs,
    qkv: LinearCase,
    norm: NormCase,
    out: LinearCase,
}

/// The attention half of a block: product, norms of the queries' heads, rotation of queries, attention, product.
fn branch<B: Backend>(device: &B, BranchCase { attention, pairs, qkv: first, norm, out: last }: &BranchCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let AttentionShape { heads, head_dim, .. } = attention.shape;
    let rows = first.x.len() / first.weight.columns;
    let x = filled(device, &mut stream, &first.x);
    let inner = |width: usize| device.inner_buffer(rows * width).expect("memory");
    let (mut qkv, mut context) = (inner(attention.shape.qkv_width()), inner(heads * head_dim));
    let mut places = device.offsets(rows + 1).expect("memory");
    device.write_offsets(&mut stream, &mut places, &attention.offsets);
    let angles: Vec<f32> = (0..rows * head_dim / 2).map(|i| i as f32 * 0.37).collect();
    let cos = filled(device, &mut stream, &angles.iter().map(|angle| angle.cos()).collect::<Vec<_>>());
    let sin = filled(device, &mut stream, &angles.iter().map(|angle| angle.sin()).collect::<Vec<_>>());
    let mut out = device.buffer(rows * last.weight.rows).expect("memory");
    let queries = HeadSegments { row_width: attention.shape.qkv_width(), start: 0, width: head_dim, count: heads };

    device.apply_linear(&mut stream, &x, rows, &first.layer(device), None, &mut qkv);
    device.norm_segments(&mut stream, &mut qkv, rows, queries, &norm.on(device));
    let angles = RotaryRows { cos: &cos, sin: &sin, dim: head_dim, pairs: *pairs };
    device.rotate(&mut stream, &mut qkv, rows, queries, &angles);
    let layer = device.attention(attention.shape.clone()).expect("a kernel");
    device.apply_attention(&mut stream, &qkv, &places, &layer, &mut context);
    device.apply_linear(&mut stream, &context, rows, &last.layer(device), None, &mut out);
    device.read(&mut stream, &out, rows * last.weight.rows).expect("rows")
}

#[test]
fn a_branch_of_attention_equals_its_definition() {
    let mut random = Random::new(8);
    let shapes = attention_shapes(&mut random);
    let mut cases = Vec::new();
    for (number, shape) in shapes.into_iter().filter(|shape| [8, 20, 32, 64, 128].contains(&shape.head_dim)).enumerate() {
        let (width, context, dim) = (72, shape.heads * shape.head_dim, shape.head_dim);
        let gamma = Some(normal(&mut random, dim, 1.0));
        let attention = AttentionCase::new(&mut random, shape, &[3, 40, 70]);
        cases.push(BranchCase {
            qkv: LinearCase::new(&mut random, (113, width, attention.shape.qkv_width()), 0, None),
            out: LinearCase::new(&mut random, (113, context, 48), 0, None),
            pairs: [RotaryPairs::Halves, RotaryPairs::Interleaved][number % 2],
            norm: NormCase { kind: NormKind::Rms, width: dim, gamma, beta: None },
            attention,
        });
    }
    let cases = with_references(cases, |case| branch(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let tolerance = 3.0 * of_product(cuda.dtype());
            report.compare(cuda, "branch of attention", tolerance, &case.attention.name(), &branch(cuda, case), reference);
        }
    });
}
