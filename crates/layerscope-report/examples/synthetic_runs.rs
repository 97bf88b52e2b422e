//! Writes invented runs, and the pages of them, for tests of the page: `synthetic_runs FOLDER`.
//!
//! The numbers are smooth curves with noise from a fixed generator, the same on every machine; what derives from groups (means,
//! regressions, C.V.) is computed from them. `FOLDER/NAME.html` is the page of `FOLDER/NAME-*`; beside every run's tables lie
//! the same as CSV, so that a test can read them without Parquet.

use std::error::Error;
use std::fs;
use std::path::Path;

use layerscope_report::export::{self, Format, parquet};
use layerscope_report::page;
use layerscope_report::{Column, Run, Table};
use layerscope_stats::measure::{cv_q, fit_line};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Texts that try to leave the page, the table or the line.
const HOSTILE: [&str; 12] = [
    "</script><script>window.injected=1</script>",
    "<!--<script>",
    "<img src=x onerror=window.injected=1>",
    "\"'`&amp;",
    "=1+1",
    "\u{202e}desrever",
    "line\u{2028}separator",
    "nul\0bell\u{7}",
    "]]>{{constructor}}${1}",
    "javascript:alert(1)",
    "@SUM(A1)",
    "\u{feff}",
];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("usage: synthetic_runs FOLDER [NAME...]")?;
    let only: Vec<String> = std::env::args().skip(2).collect();
    let folder = Path::new(&folder);
    let two = [Model::new("encoder-small", 12, 2_000, 96, false, 1), Model::new("decoder-small", 12, 1_500, 96, true, 2)];
    let big = [Model::new("encoder-large", 24, 25_000, 1024, false, 3)];
    let steps = [Model { steps: vec![0, 1, 8, 64, 512, 1_000, 8_000, 33_000, 143_000], ..Model::new("decoder-steps", 6, 0, 64, true, 4) }];
    let hostile = [Model { hostile: true, ..Model::new("</title><script>window.injected=1</script>", 3, 40, 16, true, 5) }];
    for (name, models) in [("two", &two[..]), ("big", &big), ("steps", &steps), ("hostile", &hostile)] {
        if !only.is_empty() && !only.iter().any(|own| own == name) {
            continue;
        }
        let mut runs = Vec::new();
        for (i, model) in models.iter().enumerate() {
            let path = folder.join(format!("{name}-{i}"));
            model.write(&path)?;
            runs.push(Run::open(&path)?);
        }
        let mut html = Vec::new();
        page::write(&runs, &page::Settings::default(), &mut html)?;
        println!("{name}.html {:.2} MB", html.len() as f64 / 1e6);
        fs::write(folder.join(format!("{name}.html")), html)?;
    }
    Ok(())
}

/// What to invent.
struct Model {
    name: &'static str,
    layers: usize,
    groups: usize,
    width: usize,
    decoder: bool,
    seed: u64,
    steps: Vec<i64>,
    hostile: bool,
}

/// A group: its name and how often it occurs.
struct Group {
    id: i64,
    name: String,
    n: u64,
}

/// Q, M and V of one group.
#[derive(Clone, Copy)]
struct Moments {
    q: f64,
    m: f64,
    v: f64,
}

impl Model {
    fn new(name: &'static str, layers: usize, groups: usize, width: usize, decoder: bool, seed: u64) -> Self {
        Model { name, layers, groups, width, decoder, seed, steps: Vec::new(), hostile: false }
    }

    /// Embedding, every block, and the final norm of decoders.
    fn points(&self) -> Vec<(i64, &'static str)> {
        let blocks = (1..=self.layers as i64).map(|layer| (layer, "block"));
        let last = self.decoder.then_some((self.layers as i64, "final_norm"));
        std::iter::once((0, "embedding")).chain(blocks).chain(last).collect()
    }

    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let mut random = Random(self.seed);
        let groups = self.invent_groups(&mut random);
        let points = self.points();
        let moments: Vec<Vec<Moments>> =
            points.iter().map(|&at| groups.iter().map(|group| self.moments(at, group, &mut random)).collect()).collect();
        let mut rows = LayerRows { model: self.name.into(), ..LayerRows::default() };
        let steps: Vec<Option<i64>> = if self.steps.is_empty() { vec![None] } else { self.steps.iter().copied().map(Some).collect() };
        for step in steps {
            for (&at, moments) in points.iter().zip(&moments) {
                self.layer_rows(at, step, &groups, moments, &mut random, &mut rows);
            }
            for point in ["input_embedding", "output_embedding"] {
                let grown = step.map_or(1.0, |step| (1.0 + step as f64).ln() / 12.0);
                let share = if point.starts_with('i') { 0.04 } else { 0.92 };
                rows.push(None, point, "all", ("partition", Some("default")), Some(1.0 - share * grown), None, self.width as i64, step);
                rows.push(None, point, "all", ("mean_cosine", None), Some(0.3 * share * grown), None, self.width as i64, step);
            }
        }
        let mut tables = vec![("layers", rows.table()?)];
        if self.groups > 0 {
            tables.push(("groups", groups_table(&points, &groups, &moments)?));
            tables.push(("tokens", self.tokens_table(&points, &groups, &mut random)?));
        }
        if self.steps.is_empty() {
            tables.push(("components", self.components_table(&points, &mut random)?));
            tables.push(("spectra", self.spectra_table(&points)?));
        }
        tables.push(("norms", self.norms_table(&points)?));
        for (name, table) in &tables {
            let mut bytes = Vec::new();
            parquet::write(table, &mut bytes)?;
            fs::write(folder.join(format!("{name}.parquet")), bytes)?;
            let mut csv = Vec::new();
            export::write(table, Format::Csv, &mut csv)?;
            fs::write(folder.join(format!("{name}.csv")), csv)?;
        }
        Ok(fs::write(folder.join("manifest.json"), serde_json::to_string_pretty(&self.manifest(&groups))?)?)
    }

    fn invent_groups(&self, random: &mut Random) -> Vec<Group> {
        let mut groups: Vec<Group> = (0..self.groups)
            .map(|i| {
                let n = (90_000.0 / (1.0 + i as f64 * 90_000.0 / (3.0 * self.groups as f64))) as u64 + 1;
                Group { id: 1000 + i as i64, name: word(i, random), n }
            })
            .collect();
        if self.hostile {
            for (group, text) in groups.iter_mut().zip(HOSTILE) {
                group.name = text.into();
            }
            groups[HOSTILE.len()].name = "x".repeat(10_000);
        }
        groups
    }

    /// Frequent groups vary more and their means are shorter; most of all in the middle.
    fn moments(&self, (layer, point): (i64, &str), group: &Group, random: &mut Random) -> Moments {
        let depth = layer as f64 / self.layers as f64;
        let scale = match (self.decoder, point) {
            (_, "final_norm") => 300.0,
            (true, _) => 40.0 * (1.0 + 60.0 * depth),
            (false, _) => 200.0 + 300.0 * depth,
        };
        let tight = 1.0 - (2.0 * depth - 1.0).powi(2);
        let q = scale * (1.0 + (0.25 - 0.2 * tight) * random.normal() * 0.5).max(0.2);
        let often = ((group.n as f64).log10() / 5.0).clamp(0.0, 1.0);
        let share = (0.15 + 0.55 * depth.sqrt() * often + 0.05 * random.normal()).clamp(0.0, 0.95);
        let v = if layer == 0 { q * 0.03 * random.uniform() } else { q * share };
        let m = q - v;
        Moments { q: m + v, m, v }
    }

    fn layer_rows(
        &self,
        (layer, point): (i64, &'static str),
        step: Option<i64>,
        groups: &[Group],
        moments: &[Moments],
        random: &mut Random,
        rows: &mut LayerRows,
    ) {
        let depth = layer as f64 / self.layers as f64;
        let trained = step.map_or(1.0, |step| (1.0 + step as f64).ln() / (143_001.0_f64).ln());
        let bell = (-(depth - 0.55).powi(2) / 0.05).exp();
        let normed = if point == "final_norm" { 0.4 } else { 1.0 };
        let mut push =
            |selection: &'static str, measure: (&'static str, Option<&'static str>), value: Option<f64>, se: Option<f64>, n: usize| {
                rows.push(Some(layer), point, selection, measure, value, se, n as i64, step);
            };
        for selection in ["all", "selected"] {
            let chosen: Vec<(&Group, &Moments)> =
                groups.iter().zip(moments).filter(|(group, _)| selection == "all" || (10..=100_000).contains(&group.n)).collect();
            if chosen.is_empty() {
                continue;
            }
            let states: u64 = chosen.iter().map(|(group, _)| group.n).sum();
            let mean = |of: fn(&Moments) -> f64| chosen.iter().map(|(group, own)| group.n as f64 * of(own)).sum::<f64>() / states as f64;
            let (q, within, means) = (mean(|own| own.q), mean(|own| own.v), mean(|own| own.m));
            let (m, between) = (0.7 * means, 0.3 * means);
            let v = within + between;
            let count = states as usize;
            for (name, value) in
                [("q", q), ("m", m), ("v", v), ("v_within", within), ("v_between", between), ("m_over_q", m / q), ("v_over_q", v / q)]
            {
                push(selection, (name, None), Some(value), None, count);
            }
            for (name, value) in [
                ("v_within_over_q", within / q),
                ("v_between_over_q", between / q),
                ("v_within_over_v", within / v),
                ("v_between_over_v", between / v),
            ] {
                push(selection, (name, None), Some(value), None, count);
            }
            push(selection, ("mean_norm", None), Some(q.sqrt() * 0.98), None, count);
            let of = |part: fn(&Moments) -> f64| chosen.iter().map(|(_, own)| part(own)).collect::<Vec<f64>>();
            push(selection, ("cv_q", None), cv_q(&of(|own| own.q)).value, Some(0.002), chosen.len());
            if let Some(line) = fit_line(&of(|own| own.m), &of(|own| own.v)) {
                push(selection, ("slope_v_on_m", None), Some(line.slope), Some(0.01), chosen.len());
                push(selection, ("intercept_v_on_m", None), Some(line.intercept), None, chosen.len());
                push(selection, ("r2_v_on_m", None), Some(line.r2), Some(0.01), chosen.len());
            }
            push(selection, ("groups", None), Some(chosen.len() as f64), None, chosen.len());
            push(selection, ("states", None), Some(count as f64), None, count);
            push(selection, ("self_similarity", None), Some(0.95 - 0.5 * depth), Some(0.004), chosen.len());
        }
        let noise = 1.0 + 0.02 * random.normal();
        let cosine = (0.1 + 0.5 * depth * trained) * noise * normed;
        let aniso = if self.decoder { 0.05 + 0.8 * bell * trained } else { 0.12 + 0.1 * depth } * noise * normed;
        push("all", ("mean_cosine", None), Some(cosine), Some(0.003), 100_000);
        push("all", ("anisotropy_svd", Some("corpus")), Some(aniso), None, 100_000);
        push("all", ("anisotropy_svd", Some("batch4096")), Some(aniso * 1.02), Some(aniso * 0.05), 100_000);
        push("all", ("isoscore", None), Some(0.18 * (1.0 - aniso)), None, 100_000);
        push("all", ("participation_ratio", None), Some(1.0 + 0.18 * (1.0 - aniso) * (self.width - 1) as f64), None, 100_000);
        let spread = 8.0 + 20.0 * (4.0 * trained * (1.2 - trained)) * (1.0 - 0.5 * (depth - 0.3).abs());
        push("sample", ("intrinsic_dimension", Some("twonn")), (layer > 0).then_some(spread), Some(0.4), 20_000);
        push("sample", ("intrinsic_dimension", Some("mle")), (layer > 0).then_some(spread * 0.93), Some(0.3), 20_000);
        let massive = if self.decoder && depth > 0.2 && depth < 0.95 { 212.0 } else { 0.0 };
        push("all", ("massive_activations", None), Some(massive), None, 100_000);
    }

    fn components_table(&self, points: &[(i64, &str)], random: &mut Random) -> Result<Table> {
        let mut cells = Cells::new(
            ["layer", "point", "component"],
            ["mean", "variance", "second_moment", "variance_within", "variance_between", "cosine_contribution"],
        );
        for &(layer, point) in points {
            for i in 0..self.width {
                let rogue = i == 7 || i == self.width / 2;
                let size = if rogue { 40.0 * layer as f64 } else { 1.0 };
                let mean = 0.3 * random.normal() + if rogue { size.sqrt() } else { 0.0 };
                let variance = 0.5 + random.uniform() + 0.02 * size;
                let within = 0.6 * variance;
                let reals =
                    [mean, variance, mean * mean + variance, within, variance - within, mean * mean / (self.width as f64 * (1.0 + size))];
                cells.push([Some(layer), None, Some(i as i64)], Some(point), reals.map(Some));
            }
        }
        cells.table()
    }

    fn spectra_table(&self, points: &[(i64, &str)]) -> Result<Table> {
        let mut cells = Cells::new(["layer", "point", "rank"], ["eigenvalue"]);
        for &(layer, point) in points {
            let exponent = 0.6 + 0.6 * layer as f64 / self.layers as f64;
            for rank in 1..=self.width {
                cells.push([Some(layer), None, Some(rank as i64)], Some(point), [Some(30.0 * (rank as f64).powf(-exponent))]);
            }
        }
        cells.table()
    }

    fn norms_table(&self, points: &[(i64, &str)]) -> Result<Table> {
        let (mut layers, mut norms, mut statistics, mut values) = (vec![], vec![], vec![], vec![]);
        for &(layer, _) in points {
            for (statistic, value) in [("gamma_mean", 0.8 + 0.01 * layer as f64), ("gamma_norm2", 70.0), ("beta_norm2", 4.5)] {
                layers.push(Some(layer));
                norms.push(Some("attention".into()));
                statistics.push(Some(statistic.into()));
                values.push(Some(value));
            }
        }
        let columns = [("layer", Column::Integer(layers)), ("norm", Column::Text(norms)), ("statistic", Column::Text(statistics))];
        Ok(Table::new(columns.into_iter().chain([("value", Column::Real(values))]))?)
    }

    fn tokens_table(&self, points: &[(i64, &str)], groups: &[Group], random: &mut Random) -> Result<Table> {
        let chosen: Vec<&Group> = groups.iter().filter(|group| group.n >= 10).step_by((groups.len() / 40).max(1)).collect();
        let mut rows: Vec<(i64, &str, &Group, Option<(String, i64)>, f64, f64, Option<f64>)> = Vec::new();
        for &(layer, point) in points {
            let spread = 0.4 + 2.0 * layer as f64 / self.layers as f64;
            for (k, group) in chosen.iter().enumerate() {
                let angle = k as f64 * 2.4;
                let radius = 8.0 + 6.0 * (k as f64 / chosen.len() as f64);
                let (x, y) = (radius * angle.cos() + 10.0, radius * angle.sin());
                for i in 0..60 {
                    let place = Some((format!("corpus.txt:{}", i * 31 % 977), i % 20));
                    rows.push((layer, point, group, place, x + spread * random.normal(), y + spread * random.normal(), None));
                }
                rows.push((layer, point, group, None, x, y, Some(0.9 - 0.5 * layer as f64 / self.layers as f64)));
            }
        }
        let text = |of: &dyn Fn(usize) -> Option<String>| Column::Text((0..rows.len()).map(of).collect());
        let integer = |of: &dyn Fn(usize) -> Option<i64>| Column::Integer((0..rows.len()).map(of).collect());
        let real = |of: &dyn Fn(usize) -> Option<f64>| Column::Real((0..rows.len()).map(of).collect());
        Ok(Table::new([
            ("layer", integer(&|i| Some(rows[i].0))),
            ("point", text(&|i| Some(rows[i].1.into()))),
            ("group_id", integer(&|i| Some(rows[i].2.id))),
            ("group", text(&|i| Some(rows[i].2.name.clone()))),
            ("n", integer(&|i| Some(rows[i].2.n as i64))),
            ("role", text(&|i| Some(if rows[i].3.is_some() { "state" } else { "mean" }.into()))),
            ("document", text(&|i| rows[i].3.as_ref().map(|place| place.0.clone()))),
            ("position", integer(&|i| rows[i].3.as_ref().map(|place| place.1))),
            ("x", real(&|i| Some(rows[i].4))),
            ("y", real(&|i| Some(rows[i].5))),
            ("explainable_variance", real(&|i| rows[i].6)),
        ])?)
    }

    fn manifest(&self, groups: &[Group]) -> Value {
        let points: Vec<Value> = self.points().iter().map(|(layer, point)| json!({"layer": layer, "point": point})).collect();
        let identities: Vec<Value> = self
            .points()
            .iter()
            .flat_map(|(layer, point)| ["Q = M + V", "V = V_W + V_B"].map(|identity| json!({"layer": layer, "point": point, "selection": "all", "identity": identity, "residual": 3.1e-16 * (1.0 + *layer as f64)})))
            .collect();
        let mut manifest = json!({
            "format": 1, "program": "0.1.0",
            "command": ["layerscope", "measure", "--model", self.name, "--corpus", "corpus.txt", "--out", "runs/it's here"],
            "model": {"name": self.name, "revision": "main", "fingerprint": "9f2c6a".repeat(10), "family": if self.decoder { "decoder" } else { "encoder" },
                "layers": self.layers, "width": self.width, "heads": 4, "parameters": 12 * self.layers * self.width * self.width, "vocabulary": 30_522,
                "norm": "layer", "norm_placement": if self.decoder { "pre" } else { "post" }, "causal": self.decoder, "final_norm": self.decoder,
                "diagram": "x ─┬─ norm ─ attention ─ + ─┬─ norm ─ feed-forward ─ + ─ x'\n   └────────────────────┘  └───────────────────────┘", "altered": null},
            "points": points,
            "corpus": {"fingerprint": "77aa".repeat(16), "inputs": ["corpus.txt"], "documents": 7391, "sequences": 7391, "tokens": 152_003,
                "states": groups.iter().map(|group| group.n).sum::<u64>(), "groups": groups.len(), "skipped": {"too long": 12}},
            "grouping": "token", "frequency": {"minimum": 10, "maximum": 100_000},
            "settings": {"group": {"value": "token", "from": "default"}, "seed": {"value": 0, "from": "flag"}},
            "host": {"name": "host", "cores": 2, "isa": "avx2"}, "wall_seconds": 93.4, "states_per_second": 4123.0, "peak_memory_bytes": 734_003_200u64,
            "identities": identities, "warnings": ["12 documents were longer than the model's window and were cut"],
        });
        if !self.steps.is_empty() {
            let mut trajectory: Vec<Value> = self
                .steps
                .iter()
                .map(|step| json!({"revision": format!("step{step}"), "step": step, "status": "measured", "reason": null}))
                .collect();
            trajectory.push(json!({"revision": "step2000", "step": 2000, "status": "missing", "reason": "no such revision"}));
            manifest["trajectory"] = json!(trajectory);
        }
        manifest
    }
}

fn groups_table(points: &[(i64, &str)], groups: &[Group], moments: &[Vec<Moments>]) -> Result<Table> {
    let at = || points.iter().zip(moments).flat_map(|(at, moments)| groups.iter().zip(moments).map(move |(group, own)| (*at, group, own)));
    Ok(Table::new([
        ("layer", Column::Integer(at().map(|((layer, _), ..)| Some(layer)).collect())),
        ("point", Column::Text(at().map(|((_, point), ..)| Some(point.into())).collect())),
        ("group_id", Column::Integer(at().map(|(_, group, _)| Some(group.id)).collect())),
        ("group", Column::Text(at().map(|(_, group, _)| Some(group.name.clone())).collect())),
        ("raw", Column::Text(at().map(|(_, group, _)| Some(format!("Ġ{}", group.name))).collect())),
        ("subwords", Column::Integer(at().map(|_| Some(1)).collect())),
        ("n", Column::Integer(at().map(|(_, group, _)| Some(group.n as i64)).collect())),
        ("q", Column::Real(at().map(|(.., own)| Some(own.q)).collect())),
        ("m", Column::Real(at().map(|(.., own)| Some(own.m)).collect())),
        ("v", Column::Real(at().map(|(.., own)| Some(own.v)).collect())),
        ("self_similarity", Column::Real(at().map(|(_, group, own)| (group.n > 1).then_some(own.m / own.q)).collect())),
        ("mean_norm", Column::Real(at().map(|(.., own)| Some(own.q.sqrt() * 0.98)).collect())),
    ])?)
}

/// Columns of the layers' table.
#[derive(Default)]
struct LayerRows {
    model: String,
    rows: Vec<LayerRow>,
}

type LayerRow = (Option<i64>, &'static str, &'static str, (&'static str, Option<&'static str>), Option<f64>, Option<f64>, i64, Option<i64>);

impl LayerRows {
    #[allow(clippy::too_many_arguments)] // one per column
    fn push(
        &mut self,
        layer: Option<i64>,
        point: &'static str,
        selection: &'static str,
        measure: (&'static str, Option<&'static str>),
        value: Option<f64>,
        se: Option<f64>,
        n: i64,
        step: Option<i64>,
    ) {
        self.rows.push((layer, point, selection, measure, value, se, n, step));
    }

    fn table(&self) -> Result<Table> {
        let text = |of: &dyn Fn(&LayerRow) -> Option<String>| Column::Text(self.rows.iter().map(of).collect());
        Ok(Table::new([
            ("model", text(&|_| Some(self.model.clone()))),
            ("revision", text(&|_| Some("main".into()))),
            ("layer", Column::Integer(self.rows.iter().map(|row| row.0).collect())),
            ("point", text(&|row| Some(row.1.into()))),
            ("selection", text(&|row| Some(row.2.into()))),
            ("measure", text(&|row| Some(row.3.0.into()))),
            ("variant", text(&|row| row.3.1.map(Into::into))),
            ("value", Column::Real(self.rows.iter().map(|row| row.4).collect())),
            ("se", Column::Real(self.rows.iter().map(|row| row.5).collect())),
            ("n", Column::Integer(self.rows.iter().map(|row| Some(row.6)).collect())),
            ("step", Column::Integer(self.rows.iter().map(|row| row.7).collect())),
        ])?)
    }
}

/// A table of two integers and a point, then reals.
struct Cells<const N: usize> {
    keys: [&'static str; 3],
    names: [&'static str; N],
    integers: [Vec<Option<i64>>; 3],
    points: Vec<Option<String>>,
    reals: Vec<[Option<f64>; N]>,
}

impl<const N: usize> Cells<N> {
    fn new(keys: [&'static str; 3], names: [&'static str; N]) -> Self {
        Cells { keys, names, integers: Default::default(), points: Vec::new(), reals: Vec::new() }
    }

    fn push(&mut self, integers: [Option<i64>; 3], point: Option<&str>, reals: [Option<f64>; N]) {
        self.integers.iter_mut().zip(integers).for_each(|(column, value)| column.push(value));
        self.points.push(point.map(Into::into));
        self.reals.push(reals);
    }

    fn table(self) -> Result<Table> {
        let [layers, _, last] = self.integers;
        let keys = [Column::Integer(layers), Column::Text(self.points), Column::Integer(last)];
        let reals = (0..N).map(|i| (self.names[i], Column::Real(self.reals.iter().map(|row| row[i]).collect())));
        Ok(Table::new(self.keys.into_iter().zip(keys).chain(reals))?)
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal: twelve uniforms.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// The name of the group of this rank.
fn word(rank: usize, random: &mut Random) -> String {
    const FIRST: [&str; 12] = ["the", "of", "and", "to", "was", "once", "winked", "river", "night", "he", "she", "said"];
    const SYLLABLES: [&str; 16] =
        ["ka", "lo", "mi", "ren", "sta", "vel", "tor", "un", "ish", "der", "pho", "qua", "bel", "nor", "ex", "ly"];
    if let Some(first) = FIRST.get(rank) {
        return (*first).into();
    }
    let syllables = 1 + (random.next() % 3) as usize;
    let name: String = (0..=syllables).map(|_| SYLLABLES[(random.next() % 16) as usize]).collect();
    format!("{name}{rank}")
}
