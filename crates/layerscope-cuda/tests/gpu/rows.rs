//! Rows of the residual stream: gathered, normed, rotated.

use layerscope_compute::{Backend, Gather, HeadSegments, HostTensor, NormKind, Reference, RotaryPairs, RotaryRows};
use layerscope_testing::made_up_states::Random;

use crate::products::as_stored;
use crate::support::normal;
use crate::{EXACT, filled, on_every_card, with_references};

struct GatherCase {
    tables: Vec<HostTensor>,
    indices: Vec<Option<Vec<u32>>>,
}

fn gathered<B: Backend>(device: &B, GatherCase { tables, indices }: &GatherCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let (rows, scale, width) = (77, 1.5, tables[0].columns);
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

#[test]
fn rows_are_gathered_from_tables_of_every_kind() {
    let mut random = Random::new(1);
    let mut cases = Vec::new();
    for (case, width) in [5, 37, 64, 768].into_iter().enumerate() {
        let table = |random: &mut Random, rows: usize, kind: usize| HostTensor {
            values: as_stored(&normal(random, rows * width, 1.0), kind),
            rows,
            columns: width,
        };
        let tables = [table(&mut random, 50, case % 3), table(&mut random, 1, 2), table(&mut random, 20, 1)];
        let numbers = |random: &mut Random, below: usize| Some((0..77).map(|_| random.below(below) as u32).collect());
        let indices = [numbers(&mut random, 50), None, numbers(&mut random, 20)];
        cases.extend((1..=3).map(|count| GatherCase { tables: tables[..count].to_vec(), indices: indices[..count].to_vec() }));
    }
    let cases = with_references(cases, |case| gathered(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let name = format!("{} tables of {}", case.tables.len(), case.tables[0].columns);
            report.compare(cuda, "gather", EXACT, &name, &gathered(cuda, case), reference);
        }
    });
}

/// Parameters of a norm.
#[derive(Clone)]
pub struct NormCase {
    pub kind: NormKind,
    pub width: usize,
    pub gamma: Option<Vec<f32>>,
    pub beta: Option<Vec<f32>>,
}

impl NormCase {
    pub fn on<B: Backend>(&self, device: &B) -> B::Norm {
        device.norm(self.kind, 1e-5, self.width, self.gamma.clone(), self.beta.clone()).expect("memory")
    }
}

/// How rows come to their norm.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Add,
    Join,
}

struct RowsCase {
    norm: NormCase,
    before: Before,
    x: Vec<f32>,
    y: Vec<f32>,
}

/// The normed rows, then the rows themselves where they are used again.
fn normed<B: Backend>(device: &B, RowsCase { norm: case, before, x, y }: &RowsCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let (norm, rows, len) = (case.on(device), x.len() / case.width, x.len());
    let (mut x, y) = (filled(device, &mut stream, x), filled(device, &mut stream, y));
    let mut out = device.buffer(len).expect("memory");
    match before {
        Before::Nothing => device.apply_norm(&mut stream, &x, rows, &norm, &mut out),
        Before::Add => device.add_norm(&mut stream, &mut x, &y, rows, &norm, &mut out),
        Before::Join => device.join_norm(&mut stream, &mut x, &y, rows, &norm, &mut out),
    }
    let mut result = device.read(&mut stream, &out, len).expect("rows");
    if *before != Before::Join {
        result.extend(device.read(&mut stream, &x, len).expect("rows"));
    }
    result
}

struct SegmentsCase {
    norm: NormCase,
    segments: HeadSegments,
    x: Vec<f32>,
}

fn normed_segments<B: Backend>(device: &B, SegmentsCase { norm, segments, x }: &SegmentsCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let mut buffer = filled(device, &mut stream, x);
    device.norm_segments(&mut stream, &mut buffer, x.len() / segments.row_width, *segments, &norm.on(device));
    device.read(&mut stream, &buffer, x.len()).expect("rows")
}

#[test]
fn norms_equal_their_definition() {
    let mut random = Random::new(2);
    let mut cases = Vec::new();
    for width in [5, 37, 64, 384, 768, 1024, 1028, 1600, 4096, 8192, 8196] {
        for kind in [NormKind::Layer, NormKind::Rms] {
            let gamma = Some(normal(&mut random, width, 1.0));
            let beta = (kind == NormKind::Layer).then(|| normal(&mut random, width, 1.0));
            for norm in [NormCase { kind, width, gamma, beta }, NormCase { kind, width, gamma: None, beta: None }] {
                for before in [Before::Nothing, Before::Add, Before::Join] {
                    let x = normal(&mut random, 5 * width, 1.0).iter().map(|x| x + 3.0).collect();
                    cases.push(RowsCase { norm: norm.clone(), before, x, y: normal(&mut random, 5 * width, 1.0) });
                }
            }
        }
    }
    let mut of_heads = Vec::new();
    for (heads, dim) in [(4, 64), (3, 37), (12, 128), (2, 8), (5, 66)] {
        for segments in [
            HeadSegments { row_width: 3 * heads * dim, start: heads * dim, width: dim, count: heads },
            HeadSegments { row_width: 3 * heads * dim, start: heads * dim, width: heads * dim, count: 1 },
        ] {
            let gamma = Some(normal(&mut random, segments.width, 1.0));
            let norm = NormCase { kind: NormKind::Rms, width: segments.width, gamma, beta: None };
            of_heads.push(SegmentsCase { norm, segments, x: normal(&mut random, 11 * segments.row_width, 1.0) });
        }
    }
    let cases = with_references(cases, |case| normed(&Reference, case));
    let of_heads = with_references(of_heads, |case| normed_segments(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let name = format!("{:?} of {}, {:?} before", case.norm.kind, case.norm.width, case.before);
            report.compare(cuda, "norm", EXACT, &name, &normed(cuda, case), reference);
        }
        for (case, reference) in &of_heads {
            report.compare(cuda, "norm of heads", EXACT, &format!("{:?}", case.segments), &normed_segments(cuda, case), reference);
        }
    });
}

struct RotationCase {
    segments: HeadSegments,
    dim: usize,
    pairs: RotaryPairs,
    x: Vec<f32>,
    angles: Vec<f32>,
}

fn rotated<B: Backend>(device: &B, case: &RotationCase) -> Vec<f32> {
    let mut stream = device.stream().expect("a stream");
    let mut buffer = filled(device, &mut stream, &case.x);
    let (cos, sin): (Vec<f32>, Vec<f32>) = case.angles.iter().map(|angle| (angle.cos(), angle.sin())).unzip();
    let (cos, sin) = (filled(device, &mut stream, &cos), filled(device, &mut stream, &sin));
    let rows = RotaryRows { cos: &cos, sin: &sin, dim: case.dim, pairs: case.pairs };
    device.rotate(&mut stream, &mut buffer, case.x.len() / case.segments.row_width, case.segments, &rows);
    device.read(&mut stream, &buffer, case.x.len()).expect("rows")
}

#[test]
fn rotations_equal_their_definition() {
    let mut random = Random::new(5);
    let mut cases = Vec::new();
    for (heads, width, dim) in [(4, 64, 64), (3, 40, 16), (2, 8, 6), (12, 128, 32)] {
        for pairs in [RotaryPairs::Halves, RotaryPairs::Interleaved] {
            let segments = HeadSegments { row_width: 3 * heads * width, start: heads * width, width, count: heads };
            let (x, angles) = (normal(&mut random, 19 * segments.row_width, 1.0), normal(&mut random, 19 * dim / 2, 5.0));
            cases.push(RotationCase { segments, dim, pairs, x, angles });
        }
    }
    let cases = with_references(cases, |case| rotated(&Reference, case));
    on_every_card(|cuda, report| {
        for (case, reference) in &cases {
            let name = format!("{:?}, {}, {:?}", case.segments, case.dim, case.pairs);
            report.compare(cuda, "rotate", EXACT, &name, &rotated(cuda, case), reference);
        }
    });
}
