//! Linear layers, activations, and what operations hand to the next product.

use half::{bf16, f16};
use layerscope_compute::{Activation, Backend, HostTensor, HostValues, NormKind, Reference};
use layerscope_testing::made_up_states::Random;

use crate::rows::NormCase;
use crate::support::normal;
use crate::{filled, of_product, on_every_card, with_references};

/// As a checkpoint of the first, second or third kind of numbers stores them.
pub fn as_stored(values: &[f32], kind: usize) -> HostValues {
    match kind {
        0 => HostValues::F32(values.to_vec()),
        1 => HostValues::F16(values.iter().map(|&x| f16::from_f32(x)).collect()),
        _ => HostValues::Bf16(values.iter().map(|&x| bf16::from_f32(x)).collect()),
    }
}

/// A layer, and what goes through it.
pub struct LinearCase {
    pub weight: HostTensor,
    pub bias: Option<Vec<f32>>,
    pub x: Vec<f32>,
    pub activation: Option<Activation>,
}

impl LinearCase {
    pub fn new(random: &mut Random, (rows, inputs, outputs): (usize, usize, usize), kind: usize, activation: Option<Activation>) -> Self {
        let spread = 1.0 / (inputs as f64).sqrt();
        let weight = HostTensor { values: as_stored(&normal(random, inputs * outputs, spread), kind), rows: outputs, columns: inputs };
        let bias = (outputs % 2 == 0).then(|| normal(random, outputs, 0.5));
        LinearCase { weight, bias, x: normal(random, rows * inputs, 1.0), activation }
    }

    pub fn layer<B: Backend>(&self, device: &B) -> B::Linear {
        device.linear(self.weight.clone(), self.bias.clone()).expect("memory")
    }
}

/// The layer's output, as it joins the residual stream, or as it stays between two products.
pub fn applied<B: Backend>(device: &B, case: &LinearCase, inner: bool) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let x = filled(device, &mut stream, &case.x);
    let (rows, outputs) = (case.x.len() / case.weight.columns, case.weight.rows);
    let room = if inner { device.inner_buffer(rows * outputs) } else { device.buffer(rows * outputs) };
    let mut out = room.expect("memory");
    device.apply_linear(&mut stream, &x, rows, &case.layer(device), case.activation, &mut out);
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
    let mut random = Random::new(3);
    let shapes = [(1, 8, 8), (3, 37, 21), (7, 24, 40), (130, 768, 256), (64, 768, 770), (33, 3072, 768)];
    let mut cases = Vec::new();
    for (number, shape) in shapes.into_iter().enumerate() {
        for kind in 0..3 {
            let activation = [None, Some(ACTIVATIONS[(number + kind) % ACTIVATIONS.len()])][(number + kind) % 2];
            cases.push(LinearCase::new(&mut random, shape, kind, activation));
        }
    }
    cases.extend(ACTIVATIONS.map(|activation| LinearCase::new(&mut random, (50, 64, 128), 0, Some(activation))));
    let cases = with_references(cases, |case| applied(&Reference, case, false));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let name = format!("{} to {}, {:?}", case.weight.columns, case.weight.rows, case.activation);
            report.compare(cuda, "linear", of_product(cuda.dtype()), &name, &applied(cuda, case, false), reference);
            report.compare(cuda, "linear, inner", of_product(cuda.dtype()), &name, &applied(cuda, case, true), reference);
        }
    });
}

struct ChainCase {
    norm: NormCase,
    up: LinearCase,
    down: LinearCase,
    activation: Activation,
}

/// A norm, a gated feed-forward of it, and the sum of both, twice: operands that kernels hand to the next product.
fn chained<B: Backend>(device: &B, ChainCase { norm, up, down, activation }: &ChainCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let (rows, width, inner) = (up.x.len() / up.weight.columns, norm.width, down.weight.columns);
    let mut x = filled(device, &mut stream, &up.x);
    let buffer = |len: usize| device.buffer(len).expect("memory");
    let (mut normed, mut branch, mut gated) = (buffer(rows * width), buffer(rows * width), buffer(rows * inner));
    let mut hidden = device.inner_buffer(rows * 2 * inner).expect("memory");
    let (up, down, norm) = (up.layer(device), down.layer(device), norm.on(device));
    for _ in 0..2 {
        device.apply_norm(&mut stream, &x, rows, &norm, &mut normed);
        device.apply_linear(&mut stream, &normed, rows, &up, None, &mut hidden);
        device.gate(&mut stream, &hidden, rows, inner, *activation, &mut gated);
        device.apply_linear(&mut stream, &gated, rows, &down, None, &mut branch);
        device.add(&mut stream, &mut x, &branch, rows * width);
        device.add(&mut stream, &mut x, &gated, rows * width.min(inner));
    }
    device.read(&mut stream, &x, rows * width).expect("rows")
}

#[test]
fn operands_go_from_one_operation_to_the_next() {
    let mut random = Random::new(4);
    let mut cases = Vec::new();
    for (rows, width, inner) in [(9, 36, 42), (40, 64, 128), (130, 768, 512), (5, 37, 53), (21, 48, 20)] {
        for activation in [Activation::Silu, Activation::GeluErf] {
            cases.push(ChainCase {
                norm: NormCase { kind: NormKind::Rms, width, gamma: Some(normal(&mut random, width, 1.0)), beta: None },
                up: LinearCase::new(&mut random, (rows, width, 2 * inner), 0, None),
                down: LinearCase::new(&mut random, (rows, inner, width), 0, None),
                activation,
            });
        }
    }
    let cases = with_references(cases, |case| chained(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let name = format!("{} to {}, {:?}", case.up.weight.columns, case.up.weight.rows, case.activation);
            report.compare(cuda, "chain of operations", 2.0 * of_product(cuda.dtype()), &name, &chained(cuda, case), reference);
        }
    });
}
