//! What is invented: smooth curves with noise.

use std::fs;
use std::path::Path;

use layerscope_report::export::{self, Format, parquet};
use layerscope_stats::measure::{cv_q, fit_line};
use serde_json::{Value, json};

use super::massive::Massive;
use super::random::{Random, word};
use super::tables::{GroupRow, LayerRows, groups_table};
use super::{HOSTILE, Result};

/// What to invent.
#[derive(Clone)]
pub struct Model {
    pub name: &'static str,
    pub layers: usize,
    pub groups: usize,
    pub width: usize,
    pub decoder: bool,
    pub seed: u64,
    pub steps: Vec<i64>,
    pub hostile: bool,
    /// Groups are words, some of several tokens.
    pub words: bool,
    pub massive: Massive,
}

/// A group: its name and how often it occurs.
pub struct Group {
    pub id: i64,
    pub name: String,
    pub n: u64,
    /// Never selected.
    pub special: bool,
}

/// Q, M and V of one group.
#[derive(Clone, Copy)]
pub struct Moments {
    pub q: f64,
    pub m: f64,
    pub v: f64,
}

impl Model {
    pub fn new(name: &'static str, layers: usize, groups: usize, width: usize, decoder: bool, seed: u64) -> Self {
        Model { name, layers, groups, width, decoder, seed, steps: Vec::new(), hostile: false, words: false, massive: Massive::None }
    }

    /// Embedding, every block, and the final norm of decoders.
    pub fn points(&self) -> Vec<(i64, &'static str)> {
        let blocks = (1..=self.layers as i64).map(|layer| (layer, "block"));
        let last = self.decoder.then_some((self.layers as i64, "final_norm"));
        std::iter::once((0, "embedding")).chain(blocks).chain(last).collect()
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
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
                self.layers_at(at, step, &groups, moments, &mut random, &mut rows);
            }
            for point in ["input_embedding", "output_embedding"] {
                let grown = step.map_or(1.0, |step| (1.0 + step as f64).ln() / 12.0);
                let share = if point.starts_with('i') { 0.04 } else { 0.92 };
                rows.push(None, point, "all", ("partition", Some("default")), Some(1.0 - share * grown), None, self.width as i64, step);
                rows.push(None, point, "all", ("mean_cosine", None), Some(0.3 * share * grown), None, self.width as i64, step);
            }
        }
        let mut tables = vec![("layers", rows.table()?)];
        if self.groups > 0 && self.steps.is_empty() {
            tables.push(("groups", groups_table(self, &self.group_rows(&points, &groups, &moments))?));
            tables.push(("tokens", self.tokens_table(&points, &groups, &mut random)?));
        }
        if self.steps.is_empty() {
            tables.push(("components", self.components_table(&points, &groups, &mut random)?));
            tables.push(("spectra", self.spectra_table(&points, &groups)?));
        }
        if self.massive == Massive::Measured && self.steps.is_empty() {
            tables.push(("massive", self.massive_table(&points, &groups)?));
            tables.push(("token_components", self.token_components_table(&points, &groups)?));
        }
        tables.push(("norms", self.norms_table(&points)?));
        for (i, &step) in self.steps.iter().enumerate() {
            let own = Model { steps: Vec::new(), groups: 300, seed: self.seed + 100 + i as u64, ..self.clone() };
            own.write(&folder.join(format!("steps/step{step}")))?;
        }
        if !self.steps.is_empty() {
            tables.push(("projections", self.projections_table(&mut random)?));
        }
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

    pub fn invent_groups(&self, random: &mut Random) -> Vec<Group> {
        let mut groups: Vec<Group> = (0..self.groups)
            .map(|i| {
                let n = (90_000.0 / (1.0 + i as f64 * 90_000.0 / (3.0 * self.groups as f64))) as u64 + 1;
                Group { id: 1000 + i as i64, name: word(i, random), n, special: false }
            })
            .collect();
        if self.massive != Massive::None {
            groups[4].name = "<s>".into();
            groups[4].special = self.massive == Massive::Measured;
        }
        if self.hostile {
            for (group, text) in groups.iter_mut().zip(HOSTILE) {
                group.name = text.into();
            }
            groups[HOSTILE.len()].name = "x".repeat(10_000);
        }
        groups
    }

    /// Frequent groups vary more and their means are shorter; most of all in the middle.
    pub fn moments(&self, (layer, point): (i64, &str), group: &Group, random: &mut Random) -> Moments {
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
        let v = match layer {
            0 if self.massive != Massive::None => 0.0, // positions come later: a token's embeddings are all the same
            0 => q * 0.03 * random.uniform(),
            _ => q * share,
        };
        let m = q - v;
        Moments { q: m + v, m, v }
    }

    /// The rows of all groups, with massive states and without.
    fn group_rows<'a>(&self, points: &[(i64, &'static str)], groups: &'a [Group], moments: &[Vec<Moments>]) -> Vec<GroupRow<'a>> {
        let mut rows = Vec::new();
        for (&at, moments) in points.iter().zip(moments) {
            let each = || groups.iter().zip(moments);
            rows.extend(each().map(|(group, &own)| (at, group, group.n, self.with_massive(at, group, own), "all")));
            if self.massive == Massive::Measured && self.has_massive(at, groups) {
                let typical = each().map(|(group, &own)| (at, group, group.n - self.massive_of(at, group), own, "typical"));
                rows.extend(typical.filter(|row| row.2 > 0));
            }
        }
        rows
    }

    /// The rows of a point: of all states, and of the typical ones as far as the program measured them.
    fn layers_at(
        &self,
        at: (i64, &'static str),
        step: Option<i64>,
        groups: &[Group],
        moments: &[Moments],
        random: &mut Random,
        rows: &mut LayerRows,
    ) {
        let all: Vec<(&Group, u64, Moments)> =
            groups.iter().zip(moments).map(|(group, &own)| (group, group.n, self.with_massive(at, group, own))).collect();
        self.layer_rows(at, step, ["all", "selected", "sample"], &all, self.massive_part(at, groups), &mut Random(random.next()), rows);
        if self.massive == Massive::None {
            return;
        }
        let typical = groups.iter().zip(moments).map(|(group, &own)| (group, group.n - self.massive_of(at, group), own));
        let typical: Vec<(&Group, u64, Moments)> = typical.filter(|(_, n, _)| *n > 0).collect();
        let before = rows.rows.len();
        self.layer_rows(at, step, ["typical", "typical_selected", "typical_sample"], &typical, 0.0, &mut Random(random.next()), rows);
        if self.massive == Massive::Old {
            let own = rows.rows.split_off(before);
            rows.rows.extend(own.into_iter().filter(|row| row.2 == "typical" && ["q", "m", "v"].contains(&row.3.0)));
        }
    }

    /// The rows of a point for selections of all states or of the typical ones. Massive states, where there are any, decide everything.
    #[allow(clippy::too_many_arguments)] // what there is at a point
    pub fn layer_rows(
        &self,
        (layer, point): (i64, &'static str),
        step: Option<i64>,
        [everything, selected, sample]: [&'static str; 3],
        groups: &[(&Group, u64, Moments)],
        massive_part: f64,
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
        for selection in [everything, selected] {
            let inside = |group: &Group, n: u64| selection == everything || (!group.special && (10..=100_000).contains(&n));
            let chosen: Vec<(u64, Moments)> =
                groups.iter().filter(|(group, n, _)| inside(group, *n)).map(|(_, n, own)| (*n, *own)).collect();
            if chosen.is_empty() {
                continue;
            }
            let states: u64 = chosen.iter().map(|(n, _)| n).sum();
            let mean = |of: fn(&Moments) -> f64| chosen.iter().map(|(n, own)| *n as f64 * of(own)).sum::<f64>() / states as f64;
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
                push(selection, ("r2_v_on_m", None), line.r2, Some(0.01), chosen.len());
            }
            push(selection, ("groups", None), Some(chosen.len() as f64), None, chosen.len());
            push(selection, ("states", None), Some(count as f64), None, count);
            push(selection, ("self_similarity", None), Some(0.95 - 0.5 * depth), Some(0.004), chosen.len());
        }
        let noise = 1.0 + 0.02 * random.normal();
        let cosine = (0.1 + 0.5 * depth * trained) * noise * normed;
        let hidden = if massive_part > 0.0 { 1.0 } else { 0.0 };
        let cosine = cosine * (1.0 - hidden) + 0.01 * hidden;
        let aniso = if self.decoder { 0.05 + 0.8 * bell * trained } else { 0.12 + 0.1 * depth } * noise * normed;
        let aniso = aniso * (1.0 - hidden) + 0.999 * hidden;
        push(everything, ("mean_cosine", None), Some(cosine), Some(0.003), 100_000);
        push(everything, ("anisotropy_svd", Some("corpus")), Some(aniso), None, 100_000);
        push(sample, ("anisotropy_svd", Some("batch4096")), Some(aniso * 1.02), None, 100_000);
        push(sample, ("anisotropy_svd", Some("batch4096_std")), Some(aniso * 0.05), None, 100_000);
        push(everything, ("isoscore", None), Some(0.18 * (1.0 - aniso)), None, 100_000);
        push(everything, ("participation_ratio", None), Some(1.0 + 0.18 * (1.0 - aniso) * (self.width - 1) as f64), None, 100_000);
        let spread = 8.0 + 20.0 * (4.0 * trained * (1.2 - trained)) * (1.0 - 0.5 * (depth - 0.3).abs());
        push(sample, ("intrinsic_dimension", Some("twonn")), (layer > 0).then_some(spread), Some(0.4), 20_000);
        push(sample, ("intrinsic_dimension", Some("mle")), (layer > 0).then_some(spread * 0.93), Some(0.3), 20_000);
        if everything == "all" {
            let massive = if self.decoder && depth > 0.2 && depth < 0.95 { 212.0 } else { 0.0 };
            push("all", ("massive_activations", None), Some(massive), None, 100_000);
        }
    }

    /// Lengths of sentences and how many there are; hardly any where there are hardly any groups.
    fn sentence_words(&self) -> Vec<[i64; 2]> {
        if (1..30).contains(&self.groups) {
            return vec![[3, 1], [8, 2], [21, 1]];
        }
        (1..=63).map(|words: i64| [words, 1 + 9000 / (1 + (words - 16).pow(2))]).collect()
    }

    pub fn manifest(&self, groups: &[Group]) -> Value {
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
            "sentence_words": self.sentence_words(),
            "grouping": if self.words { "word" } else { "token" }, "frequency": {"minimum": 10, "maximum": 100_000},
            "settings": {"group": {"value": "token", "from": "default"}, "seed": {"value": 0, "from": "flag"}},
            "host": {"name": "host", "cores": 2, "isa": "avx2"}, "wall_seconds": 93.4, "states_per_second": 4123.0, "peak_memory_bytes": 734_003_200u64,
            "identities": identities, "warnings": ["12 documents were longer than the model's window and were cut"],
        });
        if !self.steps.is_empty() {
            let mut trajectory: Vec<Value> = self
                .steps
                .iter()
                .map(|step| json!({"revision": format!("step{step}"), "step": step, "status": "measured", "reason": null, "folder": format!("steps/step{step}")}))
                .collect();
            trajectory.push(json!({"revision": "step2000", "step": 2000, "status": "missing", "reason": "no such revision"}));
            manifest["trajectory"] = json!(trajectory);
        }
        manifest
    }
}
