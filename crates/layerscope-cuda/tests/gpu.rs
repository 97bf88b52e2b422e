//! Every operation on a card against its definition, in every kind of numbers; and what a row's bits must not depend on.
//!
//! Without a card these tests say so and pass. `make test-gpu` asks for one.

mod support;

use std::collections::BTreeMap;

use half::{bf16, f16};
use layerscope_compute::{
    Activation, AttentionShape, Backend, ComputeDtype, Gather, HeadSegments, HostTensor, HostValues, NormKind, PositionBias, Reference,
    RotaryPairs, RotaryRows,
};
use layerscope_cuda::Cuda;
use layerscope_testing::made_up_states::Random;
use support::{cards_of_every_dtype, deviation, normal, same_bits};

/// Operations that multiply no matrices.
const EXACT: f64 = 1e-5;

/// Largest difference of a product, as a share of the result's root mean square.
fn of_product(dtype: ComputeDtype) -> f64 {
    match dtype {
        ComputeDtype::F32 => 2e-5,
        ComputeDtype::F32x3 => 2e-4,
        ComputeDtype::Tf32 | ComputeDtype::F16 => 1e-2,
        ComputeDtype::Bf16 => 8e-2,
    }
}

/// Collects what is too far off, and prints the worst of each operation.
#[derive(Default)]
struct Report {
    worst: BTreeMap<(&'static str, &'static str), f64>,
    failures: Vec<String>,
}

impl Report {
    fn compare(&mut self, cuda: &Cuda, operation: &'static str, tolerance: f64, case: &str, ours: &[f32], reference: &[f32]) {
        let largest = deviation(ours, reference).largest;
        let dtype = cuda.dtype().name();
        let worst = self.worst.entry((operation, dtype)).or_default();
        *worst = worst.max(largest);
        if largest.is_nan() || largest > tolerance {
            self.failures.push(format!("{operation} in {dtype}, {case}: {largest:.1e}, allowed {tolerance:.0e}"));
        }
    }

    fn end(self) {
        self.worst.iter().for_each(|((operation, dtype), worst)| println!("{operation:24} {dtype:6} {worst:.1e}"));
        assert!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
    }
}

/// A buffer with these values.
fn filled<B: Backend>(device: &B, stream: &mut B::Stream, values: &[f32]) -> B::Buffer {
    let mut buffer = device.buffer(values.len()).expect("memory");
    device.write(stream, &mut buffer, values);
    buffer
}

fn gathered<B: Backend>(device: &B, tables: &[HostTensor], indices: &[Option<Vec<u32>>], rows: usize, scale: f32) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let width = tables[0].columns;
    let tables: Vec<B::Table> = tables.iter().map(|table| device.table(table.clone()).expect("memory")).collect();
    let places: Vec<Option<B::Indices>> = indices
        .iter()
        .map(|values| {
            values.as_ref().map(|values| {
                let mut indices = device.indices(rows).expect("memory");
                device.write_indices(&mut stream, &mut indices, values);
                indices
            })
        })
        .collect();
    let sources: Vec<_> = tables.iter().zip(&places).map(|(table, place)| Gather { table, indices: place.as_ref() }).collect();
    let mut out = device.buffer(rows * width).expect("memory");
    device.gather_add(&mut stream, &sources, rows, scale, &mut out);
    device.read(&mut stream, &out, rows * width).expect("rows")
}

fn as_halves(values: &[f32], kind: usize) -> HostValues {
    match kind {
        0 => HostValues::F32(values.to_vec()),
        1 => HostValues::F16(values.iter().map(|&x| f16::from_f32(x)).collect()),
        _ => HostValues::Bf16(values.iter().map(|&x| bf16::from_f32(x)).collect()),
    }
}

#[test]
fn rows_are_gathered_from_tables_of_every_kind() {
    let mut report = Report::default();
    let mut random = Random::new(1);
    for cuda in cards_of_every_dtype() {
        for (case, width) in [5, 37, 64, 768].into_iter().enumerate() {
            let table = |random: &mut Random, rows: usize, kind: usize| HostTensor {
                values: as_halves(&normal(random, rows * width, 1.0), kind),
                rows,
                columns: width,
            };
            let tables = [table(&mut random, 50, case % 3), table(&mut random, 1, 2), table(&mut random, 20, 1)];
            let numbers = |random: &mut Random, below: usize| Some((0..77).map(|_| random.below(below) as u32).collect());
            let indices = [numbers(&mut random, 50), None, numbers(&mut random, 20)];
            for count in 1..=3 {
                let run = (&tables[..count], &indices[..count]);
                let (ours, reference) = (gathered(&cuda, run.0, run.1, 77, 1.5), gathered(&Reference, run.0, run.1, 77, 1.5));
                report.compare(&cuda, "gather", EXACT, &format!("{count} tables of {width}"), &ours, &reference);
            }
        }
    }
    report.end();
}

/// Parameters of a norm.
#[derive(Clone)]
struct NormCase {
    kind: NormKind,
    width: usize,
    gamma: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
}

impl NormCase {
    fn on<B: Backend>(&self, device: &B) -> B::Norm {
        device.norm(self.kind, 1e-5, self.width, self.gamma.clone(), self.beta.clone()).expect("memory")
    }
}

fn normed<B: Backend>(device: &B, case: &NormCase, x: &[f32], y: Option<&[f32]>) -> (Vec<f32>, Vec<f32>) {
    let mut stream = device.stream().expect("a stream");
    let (norm, rows) = (case.on(device), x.len() / case.width);
    let mut x = filled(device, &mut stream, x);
    let len = rows * case.width;
    let mut out = device.buffer(len).expect("memory");
    match y {
        Some(y) => {
            let y = filled(device, &mut stream, y);
            device.add_norm(&mut stream, &mut x, &y, rows, &norm, &mut out);
        }
        None => device.apply_norm(&mut stream, &x, rows, &norm, &mut out),
    }
    let sum = device.read(&mut stream, &x, len).expect("rows");
    (sum, device.read(&mut stream, &out, len).expect("rows"))
}

fn normed_segments<B: Backend>(device: &B, case: &NormCase, x: &[f32], segments: HeadSegments) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let mut buffer = filled(device, &mut stream, x);
    device.norm_segments(&mut stream, &mut buffer, x.len() / segments.row_width, segments, &case.on(device));
    device.read(&mut stream, &buffer, x.len()).expect("rows")
}

#[test]
fn norms_equal_their_definition() {
    let mut report = Report::default();
    let mut random = Random::new(2);
    for cuda in cards_of_every_dtype() {
        for width in [5, 37, 64, 384, 768, 1024, 1028, 1600, 4096, 8192, 8196] {
            for kind in [NormKind::Layer, NormKind::Rms] {
                let gamma = Some(normal(&mut random, width, 1.0));
                let beta = (kind == NormKind::Layer).then(|| normal(&mut random, width, 1.0));
                for case in [NormCase { kind, width, gamma, beta }, NormCase { kind, width, gamma: None, beta: None }] {
                    let x: Vec<f32> = normal(&mut random, 13 * width, 1.0).iter().map(|x| x + 3.0).collect();
                    let y = normal(&mut random, 13 * width, 1.0);
                    for y in [None, Some(y.as_slice())] {
                        let (ours, reference) = (normed(&cuda, &case, &x, y), normed(&Reference, &case, &x, y));
                        let name = format!("{kind:?} of {width}, added {}", y.is_some());
                        report.compare(&cuda, "norm", EXACT, &name, &ours.1, &reference.1);
                        report.compare(&cuda, "sum before a norm", EXACT, &name, &ours.0, &reference.0);
                    }
                }
            }
        }
        for (heads, dim) in [(4, 64), (3, 37), (12, 128), (2, 8), (5, 66)] {
            for segments in [
                HeadSegments { row_width: 3 * heads * dim, start: heads * dim, width: dim, count: heads },
                HeadSegments { row_width: 3 * heads * dim, start: heads * dim, width: heads * dim, count: 1 },
            ] {
                let case = NormCase {
                    kind: NormKind::Rms,
                    width: segments.width,
                    gamma: Some(normal(&mut random, segments.width, 1.0)),
                    beta: None,
                };
                let x = normal(&mut random, 11 * segments.row_width, 1.0);
                let (ours, reference) = (normed_segments(&cuda, &case, &x, segments), normed_segments(&Reference, &case, &x, segments));
                report.compare(&cuda, "norm of heads", EXACT, &format!("{segments:?}"), &ours, &reference);
            }
        }
    }
    report.end();
}

/// A layer, and what goes through it.
struct LinearCase {
    weight: HostTensor,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    activation: Option<Activation>,
}

impl LinearCase {
    fn new(random: &mut Random, (rows, inputs, outputs): (usize, usize, usize), kind: usize, activation: Option<Activation>) -> LinearCase {
        let spread = 1.0 / (inputs as f64).sqrt();
        let weight = HostTensor { values: as_halves(&normal(random, inputs * outputs, spread), kind), rows: outputs, columns: inputs };
        let bias = (outputs % 2 == 0).then(|| normal(random, outputs, 0.5));
        LinearCase { weight, bias, x: normal(random, rows * inputs, 1.0), activation }
    }
}

fn applied<B: Backend>(device: &B, case: &LinearCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let layer = device.linear(case.weight.clone(), case.bias.clone()).expect("memory");
    let x = filled(device, &mut stream, &case.x);
    let (rows, outputs) = (case.x.len() / case.weight.columns, case.weight.rows);
    let mut out = device.buffer(rows * outputs).expect("memory");
    device.apply_linear(&mut stream, &x, rows, &layer, case.activation, &mut out);
    device.read(&mut stream, &out, rows * outputs).expect("rows")
}

const ACTIVATIONS: [Activation; 7] = [
    Activation::GeluErf,
    Activation::GeluTanh,
    Activation::GeluQuick,
    Activation::Relu,
    Activation::ReluSquared,
    Activation::Silu,
    Activation::Tanh,
];

#[test]
fn linear_layers_equal_their_definition() {
    let mut report = Report::default();
    let mut random = Random::new(3);
    for cuda in cards_of_every_dtype() {
        let shapes = [(1, 8, 8), (3, 37, 21), (7, 24, 40), (130, 768, 256), (64, 768, 770), (33, 3072, 768)];
        for (number, shape) in shapes.into_iter().enumerate() {
            for kind in 0..3 {
                let activation = [None, Some(ACTIVATIONS[(number + kind) % ACTIVATIONS.len()])][(number + kind) % 2];
                let case = LinearCase::new(&mut random, shape, kind, activation);
                let (ours, reference) = (applied(&cuda, &case), applied(&Reference, &case));
                let name = format!("{shape:?}, weight of kind {kind}, {activation:?}");
                report.compare(&cuda, "linear", of_product(cuda.dtype()), &name, &ours, &reference);
            }
        }
        for activation in ACTIVATIONS {
            let case = LinearCase::new(&mut random, (50, 64, 128), 0, Some(activation));
            let (ours, reference) = (applied(&cuda, &case), applied(&Reference, &case));
            report.compare(&cuda, "activation", of_product(cuda.dtype()), &format!("{activation:?}"), &ours, &reference);
        }
    }
    report.end();
}

/// A norm, a gated feed-forward of it, and the sum of both: operands that kernels hand to the next product.
fn chained<B: Backend>(device: &B, norm: &NormCase, up: &LinearCase, down: &LinearCase, activation: Activation) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let (rows, inner) = (up.x.len() / up.weight.columns, down.weight.columns);
    let width = norm.width;
    let mut x = filled(device, &mut stream, &up.x);
    let buffer = |len: usize| device.buffer(len).expect("memory");
    let (mut normed, mut hidden, mut gated, mut branch) =
        (buffer(rows * width), buffer(rows * 2 * inner), buffer(rows * inner), buffer(rows * width));
    let linear = |case: &LinearCase| device.linear(case.weight.clone(), case.bias.clone()).expect("memory");
    let (up, down, norm) = (linear(up), linear(down), norm.on(device));
    for _ in 0..2 {
        device.apply_norm(&mut stream, &x, rows, &norm, &mut normed);
        device.apply_linear(&mut stream, &normed, rows, &up, None, &mut hidden);
        device.gate(&mut stream, &hidden, rows, inner, activation, &mut gated);
        device.apply_linear(&mut stream, &gated, rows, &down, None, &mut branch);
        device.add(&mut stream, &mut x, &branch, rows * width);
        device.add(&mut stream, &mut x, &gated, rows * width.min(inner));
    }
    device.read(&mut stream, &x, rows * width).expect("rows")
}

#[test]
fn operands_go_from_one_operation_to_the_next() {
    let mut report = Report::default();
    let mut random = Random::new(4);
    for cuda in cards_of_every_dtype() {
        for (rows, width, inner) in [(9, 36, 42), (40, 64, 128), (130, 768, 512), (5, 37, 53)] {
            for activation in [Activation::Silu, Activation::GeluErf] {
                let norm = NormCase { kind: NormKind::Rms, width, gamma: Some(normal(&mut random, width, 1.0)), beta: None };
                let up = LinearCase::new(&mut random, (rows, width, 2 * inner), 0, None);
                let down = LinearCase::new(&mut random, (rows, inner, width), 0, None);
                let ours = chained(&cuda, &norm, &up, &down, activation);
                let reference = chained(&Reference, &norm, &up, &down, activation);
                let name = format!("{rows} x {width} x {inner}, {activation:?}");
                report.compare(&cuda, "chain of operations", 2.0 * of_product(cuda.dtype()), &name, &ours, &reference);
            }
        }
    }
    report.end();
}

fn rotated<B: Backend>(device: &B, x: &[f32], angles: &[f32], segments: HeadSegments, dim: usize, pairs: RotaryPairs) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let mut buffer = filled(device, &mut stream, x);
    let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|angle| (angle.cos(), angle.sin())).unzip();
    let (cos, sin) = (filled(device, &mut stream, &cos), filled(device, &mut stream, &sin));
    let rows = RotaryRows { cos: &cos, sin: &sin, dim, pairs };
    device.rotate(&mut stream, &mut buffer, x.len() / segments.row_width, segments, &rows);
    device.read(&mut stream, &buffer, x.len()).expect("rows")
}

#[test]
fn rotations_equal_their_definition() {
    let mut report = Report::default();
    let mut random = Random::new(5);
    for cuda in cards_of_every_dtype() {
        for (heads, width, dim) in [(4, 64, 64), (3, 40, 16), (2, 8, 6), (12, 128, 32)] {
            for pairs in [RotaryPairs::Halves, RotaryPairs::Interleaved] {
                let segments = HeadSegments { row_width: 3 * heads * width, start: heads * width, width, count: heads };
                let x = normal(&mut random, 19 * segments.row_width, 1.0);
                let angles = normal(&mut random, 19 * dim / 2, 5.0);
                let run = (&x[..], &angles[..]);
                let ours = rotated(&cuda, run.0, run.1, segments, dim, pairs);
                let reference = rotated(&Reference, run.0, run.1, segments, dim, pairs);
                report.compare(&cuda, "rotate", EXACT, &format!("{segments:?}, {dim}, {pairs:?}"), &ours, &reference);
            }
        }
    }
    report.end();
}

fn attended<B: Backend>(device: &B, shape: &AttentionShape, qkv: &[f32], offsets: &[u32]) -> Vec<f32> {
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

fn offsets_of(lengths: &[u32]) -> Vec<u32> {
    let mut offsets = vec![0];
    lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
    offsets
}

/// Attention of many kinds: every way to mask and to bias, grouped heads, and heads of odd sizes.
fn attention_shapes(random: &mut Random) -> Vec<AttentionShape> {
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

#[test]
fn attention_equals_its_definition() {
    let mut report = Report::default();
    let mut random = Random::new(6);
    let lengths = [1, 5, 16, 17, 39, 64, 65, 130, 2, 200];
    let offsets = offsets_of(&lengths);
    let rows = offsets[lengths.len()] as usize;
    let cards = cards_of_every_dtype();
    for shape in if cards.is_empty() { Vec::new() } else { attention_shapes(&mut random) } {
        let qkv = normal(&mut random, rows * shape.qkv_width(), 1.0);
        let reference = attended(&Reference, &shape, &qkv, &offsets);
        for cuda in &cards {
            let ours = attended(cuda, &shape, &qkv, &offsets);
            // Few values are averaged by the first queries: their products weigh fully.
            let tolerance = if cuda.dtype() == ComputeDtype::Tf32 { of_product(ComputeDtype::F32x3) } else { of_product(cuda.dtype()) };
            let name = format!(
                "{} heads, {} for keys, of {}, causal {}, window {:?}",
                shape.heads, shape.kv_heads, shape.head_dim, shape.causal, shape.window
            );
            report.compare(cuda, "attention", tolerance, &format!("{name}, {:?}", shape.bias.is_some()), &ours, &reference);
        }
    }
    report.end();
}

#[test]
fn the_bits_of_a_row_do_not_depend_on_the_other_rows() {
    let mut random = Random::new(7);
    let mut failures = Vec::new();
    for cuda in cards_of_every_dtype() {
        for (inputs, outputs) in [(768, 768), (768, 2304), (768, 3072), (3072, 768), (384, 1536), (576, 1536), (64, 48), (37, 22)] {
            let most = 9000;
            let case = LinearCase::new(&mut random, (most, inputs, outputs), 0, None);
            let all = applied(&cuda, &case);
            for (first, rows) in [(0, 1), (17, 1), (5, 2), (100, 63), (1000, 128), (77, 129), (3, 1000), (500, 8192), (0, most)] {
                let part = LinearCase {
                    weight: case.weight.clone(),
                    bias: case.bias.clone(),
                    x: case.x[first * inputs..(first + rows) * inputs].to_vec(),
                    activation: None,
                };
                if !same_bits(&applied(&cuda, &part), &all[first * outputs..(first + rows) * outputs]) {
                    failures.push(format!("{}: {inputs} to {outputs}, {rows} rows from {first}", cuda.dtype().name()));
                }
            }
        }
        for shape in attention_shapes(&mut random) {
            let lengths = [33, 1, 64, 150, 12];
            let offsets = offsets_of(&lengths);
            let qkv = normal(&mut random, offsets[lengths.len()] as usize * shape.qkv_width(), 1.0);
            let all = attended(&cuda, &shape, &qkv, &offsets);
            for bounds in offsets.windows(2) {
                let rows = |width: usize| bounds[0] as usize * width..bounds[1] as usize * width;
                let alone = attended(&cuda, &shape, &qkv[rows(shape.qkv_width())], &[0, bounds[1] - bounds[0]]);
                if !same_bits(&alone, &all[rows(shape.heads * shape.head_dim)]) {
                    failures.push(format!("{}: attention with heads of {}", cuda.dtype().name(), shape.head_dim));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_failure_is_handed_out_once_and_the_stream_works_again() {
    for cuda in cards_of_every_dtype() {
        let too_much = cuda.buffer(1 << 45).map(|_| ()).expect_err("no card has that much memory");
        assert!(matches!(too_much, layerscope_compute::Error::OutOfMemory { .. }), "{too_much}");
        let mut stream = cuda.stream().expect("a stream");
        let buffer = filled(&cuda, &mut stream, &[1.0, 2.0, 3.0]);
        assert_eq!(cuda.read(&mut stream, &buffer, 3), Ok(vec![1.0, 2.0, 3.0]));
    }
}
