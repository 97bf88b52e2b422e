//! Runs made up by a fixed rule: every table of a run, plausible shapes, hostile names.

mod measures;
mod tables;

use std::path::{Path, PathBuf};

use layerscope_report::{Column, Manifest, Run, States, Table};
use serde_json::json;

use measures::{Layers, massive_share, measures};
use tables::{groups_table, tokens_table};

/// What a made-up run looks like.
#[derive(Clone)]
pub struct Shape {
    /// What the model is called.
    pub name: &'static str,
    /// Blocks of the model.
    pub layers: i64,
    /// Whether a norm follows the last block.
    pub final_norm: bool,
    /// Whether tokens see only what stands before them.
    pub causal: bool,
    /// How many groups there are.
    pub groups: usize,
    /// Squared norm of a state in the first layers.
    pub scale: f64,
    /// Size of the model.
    pub parameters: i64,
    /// What a group is, as on the command line.
    pub grouping: &'static str,
    /// Training steps; none for a single checkpoint.
    pub steps: &'static [i64],
    /// States kept of each chosen token.
    pub token_states: usize,
    /// Whether a few massive states hide the others in the middle layers. Only then tables have rows of the typical states, as if the
    /// others were of an older program.
    pub massive: bool,
}

/// An encoder of the usual size.
pub const ENCODER: Shape = Shape {
    name: "encoder-base",
    layers: 12,
    final_norm: false,
    causal: false,
    groups: 400,
    scale: 240.0,
    parameters: 110_000_000,
    grouping: "token",
    steps: &[],
    token_states: 12,
    massive: false,
};

/// A decoder of the usual size, with a final norm.
pub const DECODER: Shape =
    Shape { name: "org/decoder-small", final_norm: true, causal: true, scale: 9000.0, parameters: 124_000_000, ..ENCODER };

/// A decoder with attention sinks.
pub const SINKS: Shape = Shape { name: "org/decoder-sinks", scale: 300.0, massive: true, ..DECODER };

/// Names that must neither break nor inject anything.
pub const HOSTILE: [&str; 12] = [
    "<script>alert(1)</script>",
    "%_&$#{}\\",
    "=1+1",
    "😀",
    "مرحبا",
    "你好",
    "\u{202e}reversed",
    "\u{7}\u{1b}[31m",
    "\"quoted\" 'twice'",
    "a very long token that goes on and on and on and on and on and on and on and on and on",
    "]]>",
    "дом",
];

/// Numbers from 0 to 1 by a fixed rule.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// About normal, by the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// One group at one point.
#[derive(Clone)]
struct Group {
    name: String,
    n: i64,
    q: f64,
    m: f64,
    v: f64,
}

fn name(i: usize) -> String {
    const BEGINNINGS: [&str; 14] =
        ["wink", "once", "river", "tele", "micro", "gar", "mono", "pal", "inter", "sun", "quant", "hol", "bright", "un"];
    const ENDINGS: [&str; 11] = ["ed", "", "side", "graph", "den", "chrome", "ace", "net", "light", "ity", "iday"];
    match HOSTILE.get(i / 3) {
        Some(hostile) if i % 3 == 1 => (*hostile).to_owned(),
        _ => format!("{}{}{}", BEGINNINGS[i % 14], ENDINGS[(i / 14) % 11], if i >= 154 { (i / 154).to_string() } else { String::new() }),
    }
}

fn points(shape: &Shape) -> Vec<(i64, &'static str)> {
    let mut points = vec![(0, "embedding")];
    points.extend((1..=shape.layers).map(|layer| (layer, "block")));
    if shape.final_norm {
        points.push((shape.layers, "final_norm"));
    }
    points
}

fn groups_at(shape: &Shape, (layer, point): (i64, &str), random: &mut Numbers) -> Vec<Group> {
    let depth = layer as f64 / shape.layers as f64;
    let size =
        if point == "final_norm" { shape.scale * 0.4 } else { shape.scale * (1.0 + if shape.final_norm { 4.0 } else { 0.6 } * depth) };
    (0..shape.groups)
        .map(|i| {
            let part = (i as f64 + 1.0) / shape.groups as f64;
            let n = (200_000.0 * part.powf(-1.1) / (shape.groups as f64).powf(1.1)).max(1.0).round() as i64;
            let log_n = (n as f64).log10();
            let q = size * (1.0 + 0.04 * random.normal() * if shape.final_norm { 3.0 } else { 1.0 });
            let share = (0.93 - depth * (0.25 + 0.07 * log_n) + 0.05 * random.normal()).clamp(0.03, 0.995);
            let v = if layer == 0 { q * 0.02 * random.next() } else { q * (1.0 - share) };
            Group { name: name(i), n, q, m: q - v, v }
        })
        .collect()
}

/// Whether some states at a point are massive.
fn has_massive(shape: &Shape, (layer, point): (i64, &str)) -> bool {
    shape.massive && point == "block" && 4 * layer >= shape.layers && layer < shape.layers
}

/// The groups of all states, where those of the typical ones are known: some tokens often begin a sentence, and are massive there.
fn with_massive(groups: &[Group]) -> Vec<Group> {
    let all = |(i, group): (usize, &Group)| {
        if i % 7 != 0 {
            return group.clone();
        }
        let massive = group.n / 20 + 1;
        let n = group.n + massive;
        let q = (group.n as f64 * group.q + massive as f64 * 3000.0 * group.q) / n as f64;
        let v = 0.6 * q;
        Group { name: group.name.clone(), n, q, m: q - v, v }
    };
    groups.iter().enumerate().map(all).collect()
}

/// The groups of some states at one point.
struct Rows {
    at: (i64, &'static str),
    states: States,
    groups: Vec<Group>,
}

/// Least squares by its definition: slope and R^2.
pub fn line(x: &[f64], y: &[f64]) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(x), mean(y));
    let sum = |a: &[f64], ma: f64, b: &[f64], mb: f64| a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum::<f64>();
    let (sxx, sxy, syy) = (sum(x, mx, x, mx), sum(x, mx, y, my), sum(y, my, y, my));
    (sxy / sxx, sxy * sxy / (sxx * syy))
}

fn manifest(shape: &Shape) -> Manifest {
    let diagram = if shape.causal {
        "x\n├── LayerNorm ─┬─ attention, 12 heads of 64, causal ╮\n│              ╰─ feed-forward of 3072, GELU (tanh) ───┤\n+──────────────────────────────────────────────────────╯\nx'"
    } else {
        "x\n├──╮\n│  attention, 12 heads of 64, both ways\n+──╯\nLayerNorm\n├──╮\n│  feed-forward of 3072, GELU (exact)\n+──╯\nLayerNorm\nx'"
    };
    let words: Vec<[i64; 2]> =
        (1..=63).map(|words| [words, (60_000.0 * (-((words as f64 - 16.0) / 13.0).powi(2) / 2.0).exp()) as i64 + 1]).collect();
    let manifest = json!({
        "format": 1,
        "model": {"name": shape.name, "layers": shape.layers, "width": 768, "heads": 12, "parameters": shape.parameters, "causal": shape.causal,
                  "final_norm": shape.final_norm, "diagram": diagram},
        "corpus": {"fingerprint": "same", "documents": 739_106, "states": 12_384_011, "groups": shape.groups},
        "grouping": shape.grouping,
        "frequency": {"minimum": 10, "maximum": 100_000},
        "sentence_words": words,
    });
    serde_json::from_value(manifest).unwrap()
}

/// The run of a shape.
pub fn run(shape: &Shape) -> Run {
    let mut random = Numbers(shape.name.bytes().map(u64::from).sum());
    let mut rows = Vec::new();
    for at in points(shape) {
        let groups = groups_at(shape, at, &mut random);
        if has_massive(shape, at) {
            rows.push(Rows { at, states: States::All, groups: with_massive(&groups) });
            rows.push(Rows { at, states: States::Typical, groups });
        } else {
            rows.push(Rows { at, states: States::All, groups });
        }
    }
    let mut layers = Layers::default();
    let steps: Vec<Option<i64>> = if shape.steps.is_empty() { vec![None] } else { shape.steps.iter().map(|step| Some(*step)).collect() };
    for step in &steps {
        let age = step.map_or(1.0, |step| (1.0 + step as f64).log10() / 5.2);
        for at in points(shape) {
            let here: Vec<&Rows> = rows.iter().filter(|rows| rows.at == at).collect();
            let [all, typical] = [here[0], here[here.len() - 1]].map(|rows| &rows.groups[..]);
            measures(&mut layers, shape, at, States::All, all, *step, &mut random);
            if shape.massive {
                measures(&mut layers, shape, at, States::Typical, typical, *step, &mut random);
                massive_share(&mut layers, at, [all, typical], *step);
            }
        }
        for (point, isotropy) in [("input_embedding", 0.96 - 0.02 * age), ("output_embedding", 0.95 - 0.86 * age)] {
            layers.push((None, point), "all", "partition", Some("default"), Some(isotropy), *step);
            layers.push((None, point), "all", "partition", Some("default_centred"), Some(0.99 - 0.02 * age), *step);
            layers.push((None, point), "all", "mean_cosine", None, Some(0.3 * age * (1.0 - isotropy)), *step);
        }
    }
    let single = shape.steps.is_empty();
    Run {
        folder: PathBuf::from(shape.name),
        manifest: manifest(shape),
        layers: layers.table(shape.name),
        groups: single.then(|| groups_table(&rows)),
        components: None,
        spectra: None,
        tokens: single.then(|| tokens_table(shape, &rows, &mut random)),
        norms: None,
    }
}

/// The run with projected embedding matrices in a folder of its own; the output embedding of the first step is tied to the input.
pub fn projected(run: Run, folder: &Path) -> Run {
    let steps = [0i64, 8, 512, 4000];
    let mut random = Numbers(11);
    let (mut points, mut step_of, mut ids, mut x, mut y) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        let images: Vec<[f64; 2]> = (0..60).map(|_| [random.normal() + 0.002 * step as f64, random.normal()]).collect();
        for (point, stretch) in [("input_embedding", 1.0), ("output_embedding", 1.0 + step as f64 / 100.0)] {
            for (id, image) in images.iter().enumerate() {
                points.push(Some(point.to_owned()));
                step_of.push(Some(step));
                ids.push(Some(3 * id as i64));
                x.push(Some(stretch * image[0]));
                y.push(Some(stretch * image[1]));
            }
        }
    }
    let table = Table::new([
        ("point", Column::text(points)),
        ("group_id", Column::Integer(ids)),
        ("x", Column::Real(x)),
        ("y", Column::Real(y)),
        ("step", Column::Integer(step_of)),
    ])
    .unwrap();
    let mut bytes = Vec::new();
    layerscope_report::export::parquet::write(&table, &mut bytes).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("projections.parquet"), bytes).unwrap();
    Run { folder: folder.to_path_buf(), ..run }
}
