//! Every value of every table of a run against the definitions taken literally, on all states of the corpus kept in memory.

#[path = "../../layerscope-stats/tests/support/mod.rs"]
mod definitions;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use definitions::Data;
use definitions::naive::{self, Naive};
use layerscope_compute::{Cpu, States};
use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::families::FAMILIES;
use layerscope_model::{Batch, Model, Observer, Point, Transformer};
use layerscope_report::Table;
use layerscope_stats::NOT_COUNTED;
use layerscope_stats::measure::Selection;
use support::measure::{manifest, measured, model, number, sentences, table, text};
use support::{empty_folder, root};

/// Of the scale that the definitions name.
const TOLERANCE: f64 = 1e-9;
const FREQUENCY: std::ops::RangeInclusive<u64> = 4..=60;
const MASSIVE: f64 = 1.02;

/// What the oracle can compute; a run may have more measures than these, and must have all of them.
const KNOWN: &[&str] = &[
    "q",
    "m",
    "v",
    "v_within",
    "v_between",
    "m_over_q",
    "v_over_q",
    "v_within_over_q",
    "v_between_over_q",
    "v_within_over_v",
    "v_between_over_v",
    "mean_norm",
    "cv_q",
    "cv_q_exponent",
    "slope_v_on_m",
    "intercept_v_on_m",
    "r2_v_on_m",
    "slope_q_on_log_n",
    "r2_q_on_log_n",
    "slope_m_on_log_n",
    "r2_m_on_log_n",
    "slope_v_on_log_n",
    "r2_v_on_log_n",
    "slope_log_q_on_log_n",
    "r2_log_q_on_log_n",
    "slope_log_m_on_log_n",
    "r2_log_m_on_log_n",
    "slope_log_v_on_log_n",
    "r2_log_v_on_log_n",
    "predicted_q",
    "groups",
    "states",
    "mean_cosine",
    "self_similarity",
    "self_similarity_adjusted",
    "intra_sentence_similarity",
    "intra_sentence_similarity_adjusted",
    "massive_activations",
];

/// A document: its text and the value of its column.
type Document = (String, String);

/// All counted items of a corpus in memory.
struct Literal {
    /// Raw names of the groups, and tokens of a word.
    groups: Vec<(String, usize)>,
    /// Per item its group.
    ids: Vec<u32>,
    /// Items of each sequence.
    lengths: Vec<usize>,
    /// Item after item, point by point.
    points: BTreeMap<(usize, &'static str), Vec<f32>>,
    dim: usize,
}

/// Keeps the states of one sequence.
struct Keep {
    blocks: usize,
    states: Mutex<BTreeMap<(usize, &'static str), Vec<f32>>>,
}

impl Observer<Cpu> for Keep {
    type Error = layerscope_model::Error;

    fn observe(&self, _: &Batch, at: Point, states: &States<Cpu>) -> layerscope_model::Result<()> {
        self.states.lock().expect("no panics").insert(place(at, self.blocks), states.as_slice().to_vec());
        Ok(())
    }
}

fn place(at: Point, blocks: usize) -> (usize, &'static str) {
    match at {
        Point::Embedding => (0, "embedding"),
        Point::Block(number) => (number, "block"),
        Point::FinalNorm => (blocks, "final_norm"),
    }
}

/// One item of a document: its group and its tokens.
struct Item {
    group: Option<String>,
    ids: Vec<u32>,
}

/// The items of a text, and how many of them there are.
fn items(text: &str, column: &str, grouping: &str, tokenizer: &Tokenizer) -> Vec<Item> {
    if grouping == "word" {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| (2..=15).contains(&word.chars().count()));
        let ids = |word: &str| tokenizer.encode(word).expect("ids");
        return words.map(|word| Item { group: Some(word.to_owned()), ids: ids(word) }).collect();
    }
    let group = |id: u32| match grouping {
        "token" => tokenizer.raw(id),
        "surface" => tokenizer.raw(id).trim_start_matches("##").to_owned(),
        "none" => "all".to_owned(),
        _ => column.to_owned(), // positions and sequences are named later
    };
    tokenizer.encode(text).expect("ids").into_iter().map(|id| Item { group: Some(group(id)), ids: vec![id] }).collect()
}

/// Reads every document, cuts it into windows, runs each window alone, and keeps everything.
fn literal(folder: &Path, documents: &[Document], grouping: &str, include_specials: bool) -> Literal {
    let model = Model::open(folder).expect("a model");
    let transformer: Transformer<Cpu> = model.load(Cpu::new()).expect("weights");
    let tokenizer = Tokenizer::load(folder, Wrap::Model).expect("a tokenizer");
    let room = model.spec.max_positions.unwrap_or(2048) - 2;
    let blocks = model.spec.blocks.len();
    let dim = model.spec.width;
    let mut found = Literal { groups: Vec::new(), ids: Vec::new(), lengths: Vec::new(), points: BTreeMap::new(), dim };
    for (record, (text, column)) in documents.iter().enumerate() {
        let (mut window, mut first): (Vec<Item>, usize) = (Vec::new(), 0);
        let mut windows: Vec<(usize, Vec<Item>)> = Vec::new();
        for item in items(text, column, grouping, &tokenizer) {
            let length: usize = window.iter().map(|item| item.ids.len()).sum();
            if length + item.ids.len() > room {
                windows.push((first, std::mem::take(&mut window)));
                first += length;
            }
            window.push(item);
        }
        if !window.is_empty() {
            windows.push((first, window));
        }
        for (first, mut window) in windows {
            let special = |raw: &str, id: u32| {
                let name = match grouping {
                    "token" | "surface" | "word" => raw,
                    "none" => "all",
                    _ => column,
                };
                Item { group: include_specials.then(|| name.to_owned()), ids: vec![id] }
            };
            window.insert(0, special("[CLS]", 2));
            window.push(special("[SEP]", 3));
            let ids: Vec<u32> = window.iter().flat_map(|item| item.ids.iter().copied()).collect();
            let keep = Keep { blocks, states: Mutex::default() };
            transformer.forward(&Batch::pack([&ids]), &mut transformer.workspace(ids.len()), &keep).expect("a forward pass");
            let states = keep.states.into_inner().expect("no panics");
            found.lengths.push(window.len());
            let mut row = 0;
            for item in &window {
                let group = item.group.as_ref().map(|name| match grouping {
                    "position" => row.to_string(),
                    "sequence" => format!("0:{record}:0:{first}"),
                    _ => name.clone(),
                });
                let id = group.map(|name| {
                    let known = found.groups.iter().position(|(other, _)| *other == name);
                    known.unwrap_or_else(|| {
                        found.groups.push((name, item.ids.len()));
                        found.groups.len() - 1
                    }) as u32
                });
                found.ids.push(id.unwrap_or(NOT_COUNTED));
                for (at, rows) in &states {
                    let mean = |i: usize| {
                        let values = (row..row + item.ids.len()).map(|row| f64::from(rows[row * dim + i]));
                        (values.sum::<f64>() / item.ids.len() as f64) as f32
                    };
                    found.points.entry(*at).or_default().extend((0..dim).map(mean));
                }
                row += item.ids.len();
            }
        }
    }
    found
}

impl Literal {
    fn data(&self, at: (usize, &'static str)) -> Data {
        let (groups, ids) = (self.groups.len(), self.ids.clone());
        let mut data = Data {
            name: "corpus",
            dim: self.dim,
            groups,
            states: self.points[&at].clone(),
            ids,
            lengths: self.lengths.clone(),
            massive: None,
        };
        let norm = |row: usize| naive::norm(&data.row(row).iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
        let mut norms: Vec<f64> = (0..data.ids.len()).filter(|&row| data.ids[row] != NOT_COUNTED).map(norm).collect();
        norms.sort_by(f64::total_cmp);
        let middle = norms.len() / 2;
        let median = if norms.len() % 2 == 1 { norms[middle] } else { 0.5 * (norms[middle - 1] + norms[middle]) };
        data.massive = Some(MASSIVE * median);
        data
    }
}

/// A selection with its slow values computed once.
struct Expected {
    naive: Naive,
    mean_cosine: Option<f64>,
    self_similarity: Option<f64>,
    intra: Option<f64>,
}

impl Expected {
    fn new(data: &Data, selection: Selection) -> Expected {
        let naive = Naive::new(data, selection, &FREQUENCY);
        let (mean_cosine, self_similarity) = (naive.mean_cosine(), naive.self_similarity());
        Expected { mean_cosine, self_similarity, intra: naive.intra_sentence_similarity(), naive }
    }

    /// The value, and what its tolerance is relative to.
    fn value(&self, measure: &str, variant: Option<&str>, predicted: Option<f64>, massive: usize) -> (Option<f64>, f64) {
        let naive = &self.naive;
        let q = naive.q().unwrap_or(0.0);
        let over = |part: Option<f64>, whole: Option<f64>| (whole? > 0.0).then(|| part.expect("defined") / whole.expect("defined"));
        if let Some((y, x)) = measure.strip_prefix("slope_").and_then(|rest| rest.split_once("_on_")) {
            let (x, y) = (naive.column(x), naive.column(y));
            let line = naive::ols(&x, &y);
            return (line.map(|line| line.0), line.map_or(1.0, |_| naive::sd(&y) / naive::sd(&x)));
        }
        if let Some((y, x)) = measure.strip_prefix("r2_").and_then(|rest| rest.split_once("_on_")) {
            return (naive::ols(&naive.column(x), &naive.column(y)).map(|line| line.2), 1.0);
        }
        match measure {
            "q" => (naive.q(), q),
            "m" => (naive.m(), q),
            "v" => (naive.v(), q),
            "v_within" => (naive.v_within(), q),
            "v_between" => (naive.v_between(), q),
            "m_over_q" => (over(naive.m(), naive.q()), 1.0),
            "v_over_q" => (over(naive.v(), naive.q()), 1.0),
            "v_within_over_q" => (over(naive.v_within(), naive.q()), 1.0),
            "v_between_over_q" => (over(naive.v_between(), naive.q()), 1.0),
            "v_within_over_v" => (over(naive.v_within(), naive.v()), 1.0),
            "v_between_over_v" => (over(naive.v_between(), naive.v()), 1.0),
            "mean_norm" => (naive.mean_norm(), naive.mean_norm().unwrap_or(1.0)),
            "cv_q" => (naive.cv_q(variant.map_or(1, |variant| variant[3..].parse().expect("n0"))), 1.0),
            "cv_q_exponent" => (naive.cv_q_exponent(), 1.0),
            "intercept_v_on_m" => (naive::ols(&naive.column("m"), &naive.column("v")).map(|line| line.1), q),
            "predicted_q" => (predicted, predicted.unwrap_or(1.0)),
            "groups" => (Some(naive.groups.len() as f64), 1.0),
            "states" => (Some(naive.states().len() as f64), 1.0),
            "mean_cosine" => (self.mean_cosine, 1.0),
            "self_similarity" => (self.self_similarity, 1.0),
            "self_similarity_adjusted" => (self.self_similarity.zip(self.mean_cosine).map(|(a, b)| a - b), 1.0),
            "intra_sentence_similarity" => (self.intra, 1.0),
            "intra_sentence_similarity_adjusted" => (self.intra.zip(self.mean_cosine).map(|(a, b)| a - b), 1.0),
            "massive_activations" => (Some(massive as f64), 1.0),
            other => panic!("the oracle does not know {other}"),
        }
    }

    /// What the column `n` counts.
    fn count(&self, measure: &str) -> Option<usize> {
        match measure {
            "q" | "m" | "v" | "v_within" | "v_between" | "mean_norm" | "mean_cosine" | "massive_activations" | "states" => {
                Some(self.naive.states().len())
            }
            "groups" | "slope_v_on_m" | "r2_q_on_log_n" => Some(self.naive.groups.len()),
            "self_similarity" => Some(self.naive.groups.iter().filter(|group| group.states.len() >= 5).count()),
            "intra_sentence_similarity" => Some(self.naive.sequences.iter().filter(|states| states.len() >= 2).count()),
            _ => None,
        }
    }
}

/// Compares, and remembers the worst.
#[derive(Default)]
struct Comparison {
    compared: usize,
    worst: (f64, String),
}

impl Comparison {
    #[track_caller]
    fn close(&mut self, what: impl FnOnce() -> String, ours: Option<f64>, theirs: Option<f64>, scale: f64) {
        self.compared += 1;
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let deviation = (ours - theirs).abs() / scale;
                if deviation > self.worst.0 || deviation.is_nan() {
                    self.worst = (deviation, what());
                }
                assert!(deviation <= TOLERANCE || ours == theirs, "{}: {ours:e} instead of {theirs:e} (scale {scale:e})", self.worst.1);
            }
            _ => assert_eq!(ours, theirs, "{}", what()),
        }
    }
}

/// Everything a run wrote against the oracle.
fn compare(folder: &Path, out: &Path, literal: &Literal, has_frequency: bool, seen: &mut Comparison) {
    let model = Model::open(folder).expect("a model");
    let blocks = model.spec.blocks.len();
    let (layers, groups, components) = (table(out, "layers"), table(out, "groups"), table(out, "components"));
    for at in Point::all(blocks, model.spec.final_norm.is_some()) {
        let (layer, point) = place(at, blocks);
        let data = literal.data((layer, point));
        let here = |table: &Table| -> Vec<usize> {
            let is_here =
                |row: &usize| number(table, "layer", *row) == Some(layer as f64) && text(table, "point", *row).as_deref() == Some(point);
            (0..table.rows()).filter(is_here).collect()
        };
        let norm = model.output_norm(at).expect("a norm");
        let square = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let predicted =
            norm.map(|norm| norm.gamma.as_deref().map_or(literal.dim as f64, square) + norm.beta.as_deref().map_or(0.0, square));
        let all = Expected::new(&data, Selection::All);
        let massive = all.naive.states().iter().filter(|x| naive::norm(x) > data.massive.expect("a threshold")).count();
        let selections = [
            ("all", Some(Selection::All)),
            ("selected", has_frequency.then_some(Selection::Selected)),
            ("typical", Some(Selection::Typical)),
        ];
        let mut names: Vec<(String, String)> = Vec::new();
        for (name, selection) in selections {
            let expected = selection.map(|selection| Expected::new(&data, selection));
            for row in here(&layers).into_iter().filter(|&row| text(&layers, "selection", row).as_deref() == Some(name)) {
                let measure = text(&layers, "measure", row).expect("a measure");
                if !KNOWN.contains(&measure.as_str()) {
                    continue;
                }
                let expected = expected.as_ref().unwrap_or_else(|| panic!("no selection {name} without frequencies"));
                let variant = text(&layers, "variant", row);
                let (value, scale) = expected.value(&measure, variant.as_deref(), predicted, massive);
                let what = || format!("{} {layer} {point} {name} {measure} {variant:?}", out.display());
                seen.close(what, number(&layers, "value", row), value, scale);
                if let Some(count) = expected.count(&measure).filter(|_| variant.is_none()) {
                    assert_eq!(number(&layers, "n", row), Some(count as f64), "n of {}", what());
                }
                names.push((name.to_owned(), measure));
            }
        }
        for measure in KNOWN {
            assert!(names.iter().any(|(name, known)| name == "all" && known == measure), "no row of {measure}");
        }
        assert_eq!(names.iter().any(|(name, _)| name == "selected"), has_frequency);

        let rows = here(&groups);
        assert_eq!(rows.len(), all.naive.groups.len(), "groups");
        for group in &all.naive.groups {
            let (raw, subwords) = &literal.groups[group.id as usize];
            let row =
                *rows.iter().find(|&&row| text(&groups, "raw", row).as_ref() == Some(raw)).unwrap_or_else(|| panic!("no group {raw}"));
            assert_eq!(number(&groups, "n", row), Some(group.states.len() as f64), "{raw}");
            let words = number(&groups, "subwords", row).expect("a count");
            assert!(words == 0.0 || words == *subwords as f64, "{raw}: {words} subwords");
            let (q, norms) = (group.q(), group.states.iter().map(|x| naive::norm(x)).sum::<f64>() / group.states.len() as f64);
            let mut check = |column: &str, value: Option<f64>, scale: f64| {
                seen.close(
                    || format!("{} {layer} {point} group {raw} {column}", out.display()),
                    number(&groups, column, row),
                    value,
                    scale,
                );
            };
            check("q", Some(q), q);
            check("m", Some(group.m()), q);
            check("v", Some(group.v()), q);
            check("mean_norm", Some(norms), norms);
            check("self_similarity", naive::mean_cosine(&group.refs()), 1.0);
        }

        let states = all.naive.states();
        let (n, q, mu) = (states.len() as f64, all.naive.q().expect("states"), naive::mean(&states).expect("states"));
        let contributions = naive::cosine_contributions(&states, literal.dim).expect("pairs");
        let rows = here(&components);
        assert_eq!(rows.len(), literal.dim);
        for (i, &row) in rows.iter().enumerate() {
            assert_eq!(number(&components, "component", row), Some(i as f64));
            let own: Vec<f64> = all.naive.groups.iter().map(|group| naive::mean(&group.refs()).expect("states")[i]).collect();
            let with_own = || all.naive.groups.iter().zip(&own);
            let within: f64 = with_own().map(|(group, own)| group.states.iter().map(|x| (x[i] - own).powi(2)).sum::<f64>() / n).sum();
            let between: f64 = with_own().map(|(group, own)| group.states.len() as f64 / n * (own - mu[i]).powi(2)).sum();
            let mut check = |column: &str, value: f64, scale: f64| {
                seen.close(
                    || format!("{} {layer} {point} component {i} {column}", out.display()),
                    number(&components, column, row),
                    Some(value),
                    scale,
                );
            };
            check("mean", mu[i], q.sqrt());
            check("second_moment", states.iter().map(|x| x[i] * x[i]).sum::<f64>() / n, q);
            check("variance", states.iter().map(|x| (x[i] - mu[i]).powi(2)).sum::<f64>() / n, q);
            check("variance_within", within, q);
            check("variance_between", between, q);
            check("cosine_contribution", contributions[i], 1.0);
        }
    }
    let manifest = manifest(out);
    assert_eq!(manifest["corpus"]["states"], literal.ids.iter().filter(|id| **id != NOT_COUNTED).count());
    assert_eq!(manifest["corpus"]["sequences"], literal.lengths.len());
    assert_eq!(manifest["corpus"]["groups"], literal.groups.len());
    let residual = |identity: &serde_json::Value| identity["residual"].as_f64().expect("a residual");
    let identities = manifest["identities"].as_array().expect("identities");
    assert!(!identities.is_empty() && identities.iter().all(|identity| residual(identity) < 1e-12), "{identities:?}");
    assert_eq!(manifest["warnings"], serde_json::json!([]));
}

/// Sentences, some of them longer than a window, with a column of three values.
fn documents(count: usize) -> Vec<Document> {
    let mut texts = sentences(count, 7);
    texts.push(sentences(9, 8).join(" "));
    texts.push("zebra violin queue jazz winter ".repeat(4));
    texts.into_iter().enumerate().map(|(i, text)| (text, ["prose", "verse", "drama"][i % 3].to_owned())).collect()
}

fn write(documents: &[Document], folder: &Path) -> PathBuf {
    let path = folder.join("corpus.jsonl");
    let lines: Vec<String> = documents.iter().map(|(text, kind)| serde_json::json!({ "text": text, "kind": kind }).to_string()).collect();
    std::fs::write(&path, lines.join("\n")).expect("written");
    path
}

fn flags(more: &str) -> String {
    format!(
        "--quiet --frequency {}:{} --massive {MASSIVE} --batch-tokens 200 --measures norm,cosine {more}",
        FREQUENCY.start(),
        FREQUENCY.end()
    )
}

#[test]
fn every_family_equals_the_definitions() {
    let folder = empty_folder("numbers-families");
    let documents = documents(28);
    let corpus = write(&documents, &folder);
    let mut seen = Comparison::default();
    for family in FAMILIES {
        let name = family.model_types[0];
        let mut variants: Vec<_> = std::fs::read_dir(root().join("fixtures").join(name))
            .expect("fixtures")
            .map(|entry| entry.expect("readable").file_name())
            .collect();
        variants.sort();
        let variant = variants.first().expect("a fixture").to_str().expect("UTF-8").to_owned();
        let checkpoint = model(&format!("{name}/{variant}"), &format!("numbers-model-{name}"));
        let out = folder.join(name);
        measured(&checkpoint, &corpus, &out, &flags(""));
        compare(&checkpoint, &out, &literal(&checkpoint, &documents, "token", false), true, &mut seen);
    }
    println!("{} values of {} families, worst deviation {:.1e}: {}", seen.compared, FAMILIES.len(), seen.worst.0, seen.worst.1);
}

#[test]
fn every_grouping_equals_the_definitions() {
    let folder = empty_folder("numbers-groupings");
    let documents = documents(40);
    let corpus = write(&documents, &folder);
    let mut seen = Comparison::default();
    for (fixture, name) in [("bert/base", "numbers-both-sides"), ("gpt2/published", "numbers-left-side")] {
        let checkpoint = model(fixture, name);
        for grouping in ["token", "surface", "word", "position", "sequence", "none", "column:kind"] {
            for include in [false, true] {
                let out = folder.join(format!("{name}-{grouping}-{include}"));
                let specials = if include { "include" } else { "exclude" };
                measured(&checkpoint, &corpus, &out, &flags(&format!("--group {grouping} --specials {specials}")));
                let has_frequency = ["token", "surface", "word"].contains(&grouping);
                compare(&checkpoint, &out, &literal(&checkpoint, &documents, grouping, include), has_frequency, &mut seen);
            }
        }
    }
    println!("{} values of 7 groupings, worst deviation {:.1e}: {}", seen.compared, seen.worst.0, seen.worst.1);
}

#[test]
fn group_ids_and_names_are_those_of_the_vocabulary() {
    let folder = empty_folder("numbers-names");
    let corpus = write(&documents(40), &folder);
    let checkpoint = model("bert/base", "numbers-names-model");
    let vocabulary = support::measure::tokenizer_json();
    measured(&checkpoint, &corpus, &folder.join("token"), &flags(""));
    let groups = table(&folder.join("token"), "groups");
    let mut last = None;
    for row in (0..groups.rows()).filter(|&row| number(&groups, "layer", row) == Some(0.0)) {
        let raw = text(&groups, "raw", row).expect("a name");
        let id = number(&groups, "group_id", row);
        assert_eq!(id, vocabulary["model"]["vocab"][&raw].as_f64(), "{raw}");
        assert!(id > last, "in the order of the ids");
        last = id;
    }
    // `s` and `##s` are one surface.
    measured(&checkpoint, &corpus, &folder.join("surface"), &flags("--group surface"));
    let surfaces = table(&folder.join("surface"), "groups");
    let names: Vec<String> = (0..surfaces.rows()).filter_map(|row| text(&surfaces, "group", row)).collect();
    assert!(names.iter().any(|name| name == "s") && names.iter().all(|name| !name.starts_with("##")), "{names:?}");
}

#[test]
fn every_token_of_a_long_document_is_counted_once() {
    let folder = empty_folder("numbers-windows");
    let texts = [sentences(60, 3).join(" "), sentences(4, 4).join(" "), "cat".to_owned()];
    let corpus = folder.join("long.txt");
    std::fs::write(&corpus, texts.join("\n")).expect("written");
    for (fixture, name) in [("bert/base", "numbers-windows-both"), ("gpt2/published", "numbers-windows-left")] {
        let checkpoint = model(fixture, name);
        let tokenizer = Tokenizer::load(&checkpoint, Wrap::Model).expect("a tokenizer");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let tokens = texts.iter().flat_map(|text| tokenizer.encode(text).expect("ids"));
        tokens.for_each(|id| *counts.entry(tokenizer.raw(id)).or_default() += 1);
        for more in ["", "--stride 1", "--stride 10", "--window 11", "--window 11 --stride 4", "--stride 46"] {
            let out = folder.join(format!("{name}{}", more.replace(' ', "")));
            measured(&checkpoint, &corpus, &out, &flags(more));
            let groups = table(&out, "groups");
            let rows = (0..groups.rows()).filter(|&row| number(&groups, "layer", row) == Some(1.0));
            let found: BTreeMap<String, usize> = rows
                .map(|row| (text(&groups, "raw", row).expect("a name"), number(&groups, "n", row).expect("a count") as usize))
                .collect();
            assert_eq!(found, counts, "{fixture} {more}");
            let sequences = manifest(&out)["corpus"]["sequences"].as_u64().expect("a count");
            assert!(sequences > 3, "{sequences} windows");
        }
    }
}
