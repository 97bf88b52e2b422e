//! Runs made up by a fixed rule: every table of a run, plausible shapes, hostile names.

use std::path::{Path, PathBuf};

use layerscope_report::{Column, Manifest, Run, Table};
use serde_json::json;

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
};

/// A decoder of the usual size, with a final norm.
pub const DECODER: Shape =
    Shape { name: "org/decoder-small", final_norm: true, causal: true, scale: 9000.0, parameters: 124_000_000, ..ENCODER };

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

/// The rows of layers.parquet as they are gathered.
#[derive(Default)]
struct Layers {
    layer: Vec<Option<i64>>,
    point: Vec<Option<String>>,
    selection: Vec<Option<String>>,
    measure: Vec<Option<String>>,
    variant: Vec<Option<String>>,
    value: Vec<Option<f64>>,
    step: Vec<Option<i64>>,
}

impl Layers {
    fn push(
        &mut self,
        at: (Option<i64>, &str),
        selection: &str,
        measure: &str,
        variant: Option<&str>,
        value: Option<f64>,
        step: Option<i64>,
    ) {
        self.layer.push(at.0);
        self.point.push(Some(at.1.into()));
        self.selection.push(Some(selection.into()));
        self.measure.push(Some(measure.into()));
        self.variant.push(variant.map(Into::into));
        self.value.push(value);
        self.step.push(step);
    }

    fn table(self, model: &str) -> Table {
        let rows = self.layer.len();
        Table::new([
            ("model", Column::Text(vec![Some(model.into()); rows])),
            ("revision", Column::Text(vec![None; rows])),
            ("layer", Column::Integer(self.layer)),
            ("point", Column::Text(self.point)),
            ("selection", Column::Text(self.selection)),
            ("measure", Column::Text(self.measure)),
            ("variant", Column::Text(self.variant)),
            ("value", Column::Real(self.value.clone())),
            ("se", Column::Real(self.value.iter().map(|value| value.map(|value| value.abs() * 0.01)).collect())),
            ("n", Column::Integer(vec![Some(1000); rows])),
            ("step", Column::Integer(self.step)),
        ])
        .unwrap()
    }
}

/// Least squares by its definition: slope and R^2.
pub fn line(x: &[f64], y: &[f64]) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(x), mean(y));
    let sum = |a: &[f64], ma: f64, b: &[f64], mb: f64| a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum::<f64>();
    let (sxx, sxy, syy) = (sum(x, mx, x, mx), sum(x, mx, y, my), sum(y, my, y, my));
    (sxy / sxx, sxy * sxy / (sxx * syy))
}

fn measures(layers: &mut Layers, shape: &Shape, at: (i64, &str), groups: &[Group], step: Option<i64>, random: &mut Numbers) {
    let place = (Some(at.0), at.1);
    let depth = at.0 as f64 / shape.layers as f64;
    let age = step.map_or(1.0, |step| (1.0 + step as f64).log10() / 5.2);
    for selection in ["all", "selected"] {
        let kept: Vec<&Group> = groups.iter().filter(|group| selection == "all" || (10..=100_000).contains(&group.n)).collect();
        let total: f64 = kept.iter().map(|group| group.n as f64).sum();
        let weighted = |of: fn(&Group) -> f64| kept.iter().map(|group| group.n as f64 * of(group)).sum::<f64>() / total;
        let (q, within) = (weighted(|group| group.q), weighted(|group| group.v));
        let m = q * (0.25 + 0.3 * depth * (1.0 - depth) * 4.0 * age).min(0.95 - within / q);
        let v = q - m;
        let between = v - within;
        let mut push = |measure: &str, value: f64| layers.push(place, selection, measure, None, Some(value), step);
        for (measure, value) in [("q", q), ("m", m), ("v", v), ("v_within", within), ("v_between", between)] {
            push(measure, value);
        }
        for (measure, value) in
            [("m_over_q", m / q), ("v_over_q", v / q), ("v_within_over_q", within / q), ("v_between_over_q", between / q)]
        {
            push(measure, value);
        }
        push("v_within_over_v", within / v);
        push("v_between_over_v", between / v);
        push("mean_norm", q.sqrt());
        if selection == "selected" {
            let of = |value: fn(&Group) -> f64| kept.iter().map(|group| value(group)).collect::<Vec<f64>>();
            let (qs, ms, vs, logs) = (of(|group| group.q), of(|group| group.m), of(|group| group.v), of(|group| (group.n as f64).log10()));
            let mean = qs.iter().sum::<f64>() / qs.len() as f64;
            push("cv_q", (qs.iter().map(|q| (q - mean).powi(2)).sum::<f64>() / qs.len() as f64).sqrt() / mean);
            push("slope_v_on_m", line(&ms, &vs).0);
            push("r2_v_on_m", line(&ms, &vs).1);
            for (name, values) in [("q", &qs), ("m", &ms), ("v", &vs)] {
                let values: Vec<f64> = values.iter().map(|value| (1.0 + value).log10()).collect();
                push(&format!("slope_log_{name}_on_log_n"), line(&logs, &values).0);
            }
        } else {
            let cosine = (m / q * 0.9 + 0.05 * random.next()).min(0.99);
            push("mean_cosine", cosine);
            push("self_similarity", (0.97 - 0.45 * depth).max(cosine));
            push("self_similarity_adjusted", (0.97 - 0.45 * depth).max(cosine) - cosine);
            push("intra_sentence_similarity", cosine + 0.3 * (1.0 - cosine));
            push("intra_sentence_similarity_adjusted", 0.3 * (1.0 - cosine));
            push("max_explainable_variance", 0.9 - 0.6 * depth);
            push("max_explainable_variance_adjusted", 0.8 - 0.75 * depth);
            push("isoscore", 0.16 - 0.1 * depth * age);
            push("effective_rank", 300.0 - 120.0 * depth * age);
        }
    }
    let bell = if shape.causal { 0.1 + 0.7 * age * (depth * std::f64::consts::PI).sin() } else { 0.12 + 0.04 * random.next() };
    layers.push(place, "all", "anisotropy_svd", Some("corpus"), Some(bell), step);
    layers.push(place, "sample", "anisotropy_svd", Some("batch4096"), Some(bell * 1.02), step);
    layers.push(place, "sample", "anisotropy_svd", Some("batch4096_std"), Some(0.02 + 0.02 * depth), step);
    layers.push(place, "sample", "intrinsic_dimension", Some("twonn"), Some(14.0 + 20.0 * age * (1.4 - age) + 6.0 * depth), step);
}

fn groups_table(rows: &[(i64, &str, Vec<Group>)]) -> Table {
    fn column<T>(rows: &[(i64, &str, Vec<Group>)], of: impl Fn(i64, &str, usize, &Group) -> T) -> Vec<Option<T>> {
        rows.iter()
            .flat_map(|(layer, point, groups)| {
                groups.iter().enumerate().map(|(i, group)| Some(of(*layer, point, i, group))).collect::<Vec<_>>()
            })
            .collect()
    }
    Table::new([
        ("layer", Column::Integer(column(rows, |layer, _, _, _| layer))),
        ("point", Column::Text(column(rows, |_, point, _, _| point.to_owned()))),
        ("group_id", Column::Integer(column(rows, |_, _, i, _| i as i64))),
        ("group", Column::Text(column(rows, |_, _, _, group| group.name.clone()))),
        ("raw", Column::Text(column(rows, |_, _, _, group| group.name.clone()))),
        ("subwords", Column::Integer(column(rows, |_, _, i, _| 1 + (i % 4) as i64))),
        ("n", Column::Integer(column(rows, |_, _, _, group| group.n))),
        ("q", Column::Real(column(rows, |_, _, _, group| group.q))),
        ("m", Column::Real(column(rows, |_, _, _, group| group.m))),
        ("v", Column::Real(column(rows, |_, _, _, group| group.v))),
        ("self_similarity", Column::Real(column(rows, |_, _, _, _| 0.5))),
        ("mean_norm", Column::Real(column(rows, |_, _, _, group| group.q.sqrt()))),
    ])
    .unwrap()
}

fn tokens_table(shape: &Shape, rows: &[(i64, &str, Vec<Group>)], random: &mut Numbers) -> Table {
    let mut table: Vec<(i64, String, String, i64, bool, f64, f64)> = Vec::new();
    let mut ids = Vec::new();
    for (layer, point, groups) in rows {
        let every = (groups.len() / 40).max(1);
        for (id, group) in groups.iter().enumerate().step_by(every).take(40) {
            ids.extend(vec![Some(id as i64); shape.token_states + 1]);
            let angle = random.next() * 2.2 - 0.4;
            let (x, y) = (group.m.sqrt() * angle.cos(), group.m.sqrt() * angle.sin());
            table.push((*layer, (*point).into(), group.name.clone(), group.n, true, x, y));
            for _ in 0..shape.token_states {
                let spread = (group.v / 2.0).sqrt() * 0.35;
                table.push((
                    *layer,
                    (*point).into(),
                    group.name.clone(),
                    group.n,
                    false,
                    x + spread * random.normal(),
                    y + spread * random.normal(),
                ));
            }
        }
    }
    Table::new([
        ("layer", Column::Integer(table.iter().map(|row| Some(row.0)).collect())),
        ("point", Column::Text(table.iter().map(|row| Some(row.1.clone())).collect())),
        ("group_id", Column::Integer(ids)),
        ("group", Column::Text(table.iter().map(|row| Some(row.2.clone())).collect())),
        ("n", Column::Integer(table.iter().map(|row| Some(row.3)).collect())),
        ("role", Column::Text(table.iter().map(|row| Some(if row.4 { "mean" } else { "state" }.into())).collect())),
        ("document", Column::Text(table.iter().map(|row| (!row.4).then(|| "0:1".into())).collect())),
        ("position", Column::Integer(table.iter().map(|row| (!row.4).then_some(3)).collect())),
        ("x", Column::Real(table.iter().map(|row| Some(row.5)).collect())),
        ("y", Column::Real(table.iter().map(|row| Some(row.6)).collect())),
        ("explainable_variance", Column::Real(table.iter().map(|row| row.4.then_some(0.3)).collect())),
    ])
    .unwrap()
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
    let rows: Vec<(i64, &str, Vec<Group>)> = points(shape).into_iter().map(|at| (at.0, at.1, groups_at(shape, at, &mut random))).collect();
    let mut layers = Layers::default();
    let steps: Vec<Option<i64>> = if shape.steps.is_empty() { vec![None] } else { shape.steps.iter().map(|step| Some(*step)).collect() };
    for step in &steps {
        let age = step.map_or(1.0, |step| (1.0 + step as f64).log10() / 5.2);
        for (layer, point, groups) in &rows {
            measures(&mut layers, shape, (*layer, point), groups, *step, &mut random);
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
        ("point", Column::Text(points)),
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
