//! However a measurement is split, over batches, threads, blocks, shards or devices, it gives the same tables.

mod support;

mod measure_split {
    mod by_column;
}

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use layerscope_report::Table;
use support::measure::{
    command, corpus, differing, manifest, measure, measured, model, number, run, run_with_input, sentences, table, text,
};
use support::{Outcome, empty_folder};

/// What splits may change, relative to the scale that the definitions name.
const TOLERANCE: f64 = 1e-12;
const FREQUENCY: (f64, f64) = (10.0, 300.0);

/// The standard deviation.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// The groups' Q, M, V or log10 n at one point, for the scales of regressions.
struct Columns<'a> {
    groups: &'a Table,
    rows: HashMap<(String, String), Vec<usize>>,
}

impl Columns<'_> {
    fn new(groups: &Table) -> Columns<'_> {
        let mut rows: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for row in (0..groups.rows()).filter(|&row| text(groups, "selection", row).as_deref() == Some("all")) {
            let key = (text(groups, "layer", row).expect("a layer"), text(groups, "point", row).expect("a point"));
            rows.entry(key).or_default().push(row);
        }
        Columns { groups, rows }
    }

    fn values(&self, at: &(String, String), selected: bool, name: &str) -> Vec<f64> {
        let n = |row: usize| number(self.groups, "n", row).expect("a count");
        let rows = self.rows[at].iter().copied().filter(|&row| !selected || (FREQUENCY.0..=FREQUENCY.1).contains(&n(row)));
        match name.strip_prefix("log_") {
            Some("n") => rows.map(|row| n(row).log10()).collect(),
            Some(column) => rows.map(|row| number(self.groups, column, row).expect("a value").ln_1p() / std::f64::consts::LN_10).collect(),
            None => rows.map(|row| number(self.groups, name, row).expect("a value")).collect(),
        }
    }
}

/// What the tolerance of a row is relative to.
fn scale(layers: &Table, columns: &Columns, row: usize, q: f64) -> f64 {
    let measure = text(layers, "measure", row).expect("a measure");
    let at = (text(layers, "layer", row).expect("a layer"), text(layers, "point", row).expect("a point"));
    let selected = text(layers, "selection", row).is_some_and(|selection| selection.ends_with("selected"));
    if let Some((y, x)) = measure.strip_prefix("slope_").and_then(|rest| rest.split_once("_on_")) {
        return spread(&columns.values(&at, selected, y)) / spread(&columns.values(&at, selected, x));
    }
    match measure.as_str() {
        "q" | "m" | "v" | "v_within" | "v_between" | "intercept_v_on_m" => q,
        "mean_norm" | "predicted_q" | "groups" | "states" => number(layers, "value", row).unwrap_or(1.0),
        "intrinsic_dimension" | "participation_ratio" | "effective_rank" | "rankme" | "stable_rank" | "alpha_req" => {
            number(layers, "value", row).map_or(1.0, f64::abs)
        }
        _ => 1.0,
    }
}

/// Asserts that all tables of two runs are equal to the tolerance.
#[track_caller]
fn close(what: &str, ours: &Path, whole: &Path, worst: &mut (f64, String)) {
    near_to(TOLERANCE, what, ours, whole, worst);
}

/// The same to any tolerance.
#[track_caller]
fn near_to(tolerance: f64, what: &str, ours: &Path, whole: &Path, worst: &mut (f64, String)) {
    let (a, b) = (table(ours, "groups"), table(whole, "groups"));
    assert_eq!(a.rows(), b.rows(), "{what}: groups");
    let mut near = |what: String, x: Option<f64>, y: Option<f64>, scale: f64| {
        let (Some(x), Some(y)) = (x, y) else { return assert_eq!(x, y, "{what}") };
        let deviation = if x == y { 0.0 } else { (x - y).abs() / scale };
        assert!(deviation <= tolerance, "{what}: {x:e} {y:e} (scale {scale:e})");
        if deviation > worst.0 {
            *worst = (deviation, what);
        }
    };
    for row in 0..a.rows() {
        for column in ["layer", "point", "group_id", "group", "raw", "subwords", "n", "selection"] {
            assert_eq!(text(&a, column, row), text(&b, column, row), "{what}: groups.{column}, row {row}");
        }
        let q = number(&b, "q", row).expect("a value");
        for (column, scale) in [("q", q), ("m", q), ("v", q), ("self_similarity", 1.0), ("mean_norm", q.sqrt())] {
            near(format!("{what}: groups.{column} row {row}"), number(&a, column, row), number(&b, column, row), scale);
        }
    }
    let columns = Columns::new(&b);
    let (a, b) = (table(ours, "layers"), table(whole, "layers"));
    assert_eq!(a.rows(), b.rows(), "{what}: layers");
    let mut q = HashMap::new();
    for row in 0..a.rows() {
        let names = ["model", "layer", "point", "selection", "measure", "variant", "n"];
        let name = |table: &Table| names.map(|column| text(table, column, row));
        assert_eq!(name(&a), name(&b), "{what}: layers, row {row}");
        let at = (text(&b, "layer", row), text(&b, "point", row));
        if text(&b, "measure", row).as_deref() == Some("q") && text(&b, "selection", row).as_deref() == Some("all") {
            q.insert(at.clone(), number(&b, "value", row).unwrap_or(0.0));
        }
        let scale = scale(&b, &columns, row, q[&at]);
        near(format!("{what}: {:?}", name(&a)), number(&a, "value", row), number(&b, "value", row), scale);
        assert_eq!(number(&a, "se", row).is_some(), number(&b, "se", row).is_some(), "{what}: se, row {row}");
    }
    let (a, b) = (table(ours, "components"), table(whole, "components"));
    assert_eq!(a.rows(), b.rows(), "{what}: components");
    for row in 0..a.rows() {
        let q = q[&(text(&b, "layer", row), text(&b, "point", row))];
        for (column, scale) in [
            ("mean", q.sqrt()),
            ("variance", q),
            ("second_moment", q),
            ("variance_within", q),
            ("variance_between", q),
            ("cosine_contribution", 1.0),
        ] {
            near(format!("{what}: components.{column} row {row}"), number(&a, column, row), number(&b, column, row), scale);
        }
    }
}

const FLAGS: &str = "--quiet --frequency 10:300 --measures norm,cosine --sample-states 500 --token-states 30";

fn merge(folders: &[PathBuf], out: &Path, more: &str) -> Outcome {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let mut words = vec!["merge".to_owned()];
    words.extend(folders.iter().map(|folder| path(folder)));
    words.extend(["--quiet".to_owned(), "--out".to_owned(), path(out)]);
    words.extend(more.split_whitespace().map(str::to_owned));
    run(&words)
}

fn shards(checkpoint: &Path, text: &Path, folder: &Path, count: usize, flags: &str) -> Vec<PathBuf> {
    let shard = |index: usize| {
        let out = folder.join(format!("shard-{index}-of-{count}"));
        measured(checkpoint, text, &out, &format!("{flags} --shard {index}/{count}"));
        out
    };
    (0..count).map(shard).collect()
}

#[test]
fn batches_and_shards_agree_and_threads_to_the_bit() {
    let folder = empty_folder("split");
    let text = corpus("split-text", &sentences(900, 21));
    let mut worst = <(f64, String)>::default();
    for (fixture, name) in
        [("bert/base", "split-post-norm"), ("gpt_neox/pythia", "split-rotary"), ("gemma3/1b", "split-rms"), ("opt/350m", "split-projected")]
    {
        let checkpoint = model(fixture, name);
        let out = |what: &str| folder.join(format!("{name}-{what}"));
        let whole = out("whole");
        measured(&checkpoint, &text, &whole, &format!("{FLAGS} --threads 1"));
        measured(&checkpoint, &text, &out("threads"), &format!("{FLAGS} --threads 2"));
        assert_eq!(differing(&out("threads"), &whole), None, "{name}: two threads");
        let all = FLAGS.replace("norm,cosine", "all");
        measured(&checkpoint, &text, &out("all-1"), &format!("{all} --threads 1"));
        measured(&checkpoint, &text, &out("all-2"), &format!("{all} --threads 2"));
        assert_eq!(differing(&out("all-2"), &out("all-1")), None, "{name}: two threads, all measures");
        measured(&checkpoint, &text, &out("threads5"), &format!("{FLAGS} --threads 5 --batch-tokens 64"));
        for tokens in [64, 1000, 20_000] {
            let split = out(&format!("batch-{tokens}"));
            measured(&checkpoint, &text, &split, &format!("{FLAGS} --batch-tokens {tokens}"));
            close(&format!("{name}: batches of {tokens}"), &split, &whole, &mut worst);
            let sample = |folder: &Path| std::fs::read(folder.join("sample.safetensors")).expect("a sample");
            assert!(sample(&split) == sample(&whole), "{name}: the kept states depend on the batch");
        }
        assert_eq!(differing(&out("threads5"), &out("batch-64")), None, "{name}: five threads");
        for count in [1, 2, 7] {
            let parts = shards(&checkpoint, &text, &folder.join(name), count, FLAGS);
            let merged = out(&format!("merged-{count}"));
            let outcome = merge(&parts, &merged, "");
            assert_eq!(outcome.status, 0, "{}", outcome.stderr);
            close(&format!("{name}: {count} shards"), &merged, &whole, &mut worst);
            let sample = |folder: &Path| std::fs::read(folder.join("sample.safetensors")).expect("a sample");
            assert!(sample(&merged) == sample(&whole), "{name}: the kept states of {count} shards differ");
            let counts = ["documents", "sequences", "tokens", "states", "groups", "records", "skipped", "fingerprint", "inputs"];
            let (ours, theirs) = (manifest(&merged), manifest(&whole));
            counts.iter().for_each(|key| assert_eq!(ours["corpus"][key], theirs["corpus"][key], "{key}"));
            assert_eq!(ours["sentence_words"], theirs["sentence_words"]);
            assert!(!merged.join(".work").exists());
        }
    }
    println!("worst deviation {:.1e}: {}", worst.0, worst.1);
}

/// The whole of `measure` on the plain definitions of all operations, as a second device.
#[test]
fn a_second_device_gives_the_same_tables() {
    let folder = empty_folder("split-devices");
    let text = corpus("split-devices-text", &sentences(120, 27));
    let mut worst = <(f64, String)>::default();
    for (fixture, name) in [
        ("bert/base", "devices-post-norm"),
        ("gpt_neox/pythia", "devices-rotary"),
        ("gemma3/1b", "devices-rms"),
        ("opt/350m", "devices-projected"),
    ] {
        let checkpoint = model(fixture, name);
        let run = |device: &str, flags: &str| {
            let out = folder.join(format!("{name}-{device}"));
            measured(&checkpoint, &text, &out, &format!("--quiet --frequency 10:300 --token-states 30 --device {device} {flags}"));
            out
        };
        let (cpu, reference) = (run("cpu", "--measures all --confidence"), run("reference", "--measures all --confidence"));
        near_to(1e-5, name, &reference, &cpu, &mut worst);
        // Block order: states go to the device and come back, and points are paired across legs.
        let words = |order: &str| {
            let out = folder.join(format!("{name}-words-{order}"));
            let flags = format!("--quiet --group word --measures norm,cosine,layers --device reference --order {order}");
            measured(&checkpoint, &text, &out, &flags);
            out
        };
        assert_eq!(differing(&words("block"), &words("batch")), None);
    }
    println!("worst deviation {:.1e}: {}", worst.0, worst.1);
}

#[test]
fn a_shard_of_standard_input_chooses_the_tokens_of_the_whole_corpus() {
    let folder = empty_folder("split-standard-input");
    let lines = sentences(200, 28);
    let text = corpus("split-standard-input-text", &lines);
    let checkpoint = model("gpt2/published", "split-standard-input-model");
    let whole = folder.join("whole");
    measured(&checkpoint, &text, &whole, FLAGS);
    let shards: Vec<PathBuf> = (0..2)
        .map(|index| {
            let out = folder.join(format!("shard-{index}"));
            let words = command(&checkpoint, Path::new("-"), &out, &format!("{FLAGS} --shard {index}/2"));
            let outcome = run_with_input(&words, &lines.join("\n"));
            assert_eq!(outcome.status, 0, "{}", outcome.stderr);
            out
        })
        .collect();
    let merged = folder.join("merged");
    assert_eq!(merge(&shards, &merged, "").status, 0);
    let names = |run: &Path| {
        let tokens = table(run, "tokens");
        (0..tokens.rows()).map(|row| text_of(&tokens, row)).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!names(&whole).is_empty());
    assert_eq!(names(&merged), names(&whole));
    let states = |run: &Path| table(run, "tokens").rows();
    assert_eq!(states(&merged), states(&whole));
}

fn text_of(tokens: &Table, row: usize) -> Option<String> {
    text(tokens, "group", row)
}

#[test]
fn every_grouping_merges_and_shards_may_be_empty() {
    let folder = empty_folder("split-groupings");
    let lines = sentences(60, 22);
    let objects: Vec<String> =
        lines.iter().enumerate().map(|(i, text)| serde_json::json!({ "text": text, "kind": i % 4 }).to_string()).collect();
    let path = folder.join("corpus.jsonl");
    std::fs::write(&path, objects.join("\n")).expect("written");
    let few = folder.join("few.txt");
    std::fs::write(&few, lines[..3].join("\n")).expect("written");
    let checkpoint = model("gpt2/published", "split-groupings-model");
    let mut worst = <(f64, String)>::default();
    let groupings = [
        "surface",
        "word",
        "position",
        "sequence",
        "none",
        "column:kind",
        "token --tokens the,of,cat --on-error skip",
        "surface --specials count --skip-first 1 --window 12 --stride 5",
        "word --skip-first 3",
    ];
    for (number, grouping) in groupings.into_iter().enumerate() {
        let flags = format!("{FLAGS} --group {}", grouping.replace("cat", "house"));
        let whole = folder.join(format!("whole-{number}"));
        measured(&checkpoint, &path, &whole, &flags);
        let parts = shards(&checkpoint, &path, &folder.join(number.to_string()), 3, &flags);
        let merged = folder.join(format!("merged-{number}"));
        let outcome = merge(&parts, &merged, "");
        assert_eq!(outcome.status, 0, "{grouping}: {}", outcome.stderr);
        close(grouping, &merged, &whole, &mut worst);
        let sample = |folder: &Path| std::fs::read(folder.join("sample.safetensors")).expect("a sample");
        assert!(sample(&merged) == sample(&whole), "{grouping}: the kept states differ");
    }
    // Three documents among five workers.
    let whole = folder.join("few-whole");
    measured(&checkpoint, &few, &whole, FLAGS);
    let parts = shards(&checkpoint, &few, &folder.join("few-shards"), 5, FLAGS);
    let outcome = merge(&parts, &folder.join("few-merged"), "");
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    close("few", &folder.join("few-merged"), &whole, &mut worst);
}

#[test]
fn several_devices_share_the_text_and_give_the_run_of_merged_shards() {
    let folder = empty_folder("split-several");
    let text = corpus("split-several-text", &sentences(60, 26));
    let checkpoint = model("gpt2/published", "split-several-model");
    let (merged, several) = (folder.join("merged"), folder.join("several"));
    assert_eq!(merge(&shards(&checkpoint, &text, &folder, 2, FLAGS), &merged, "").status, 0);
    measured(&checkpoint, &text, &several, &format!("{FLAGS} --device cpu,cpu"));
    for name in ["layers", "groups", "components"] {
        let file = format!("{name}.parquet");
        let read = |run: &Path| std::fs::read(run.join(&file)).expect("a table");
        assert!(read(&several) == read(&merged), "{name}");
    }
    assert!(!several.join("shards").exists() && !several.join(".work").exists());
    assert_eq!(manifest(&several)["settings"]["device"]["value"], "cpu,cpu");
    // Once more: it is complete. And a shard is one device's.
    measured(&checkpoint, &text, &several, &format!("{FLAGS} --device cpu,cpu"));
    let words = |more: &str| {
        format!("measure --model {} --corpus {} --out {} {more}", checkpoint.display(), text.display(), folder.join("not").display())
    };
    let refused = run(&words("--device cpu,cpu --shard 0/2").split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!((refused.status, refused.stderr.lines().count()), (2, 1), "{}", refused.stderr);
    assert!(refused.stderr.contains("--shard is for one device"), "{}", refused.stderr);
}

#[test]
fn shards_in_different_numbers_merge_only_if_that_is_allowed() {
    let folder = empty_folder("split-devices");
    let text = corpus("split-devices-text", &sentences(30, 25));
    let checkpoint = model("gpt2/published", "split-devices-model");
    let parts = [folder.join("f32"), folder.join("bf16")];
    for (number, (part, dtype)) in parts.iter().zip(["f32", "bf16"]).enumerate() {
        measured(&checkpoint, &text, part, &format!("{FLAGS} --shard {number}/2 --dtype {dtype}"));
    }
    let out = folder.join("merged");
    let refused = merge(&parts, &out, "");
    assert_eq!(refused.status, 5);
    assert!(refused.stderr.contains("--dtype is \"f32\" there and \"bf16\" here"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-devices"), "{}", refused.stderr);
    let allowed = merge(&parts, &out, "--allow-devices");
    assert_eq!(allowed.status, 0, "{}", allowed.stderr);
    let manifest = manifest(&out);
    assert_eq!(manifest["settings"]["dtype"]["value"], "f32 and bf16");
    assert!(manifest["warnings"].to_string().contains("the shards were computed on "), "{}", manifest["warnings"]);
    let whole = folder.join("whole");
    measured(&checkpoint, &text, &whole, FLAGS);
    // Half of the states have errors of bf16.
    let q = |run: &Path| number(&table(run, "layers"), "value", 0).expect("Q");
    assert!((q(&out) - q(&whole)).abs() < 0.02 * q(&whole));
}

#[test]
fn merge_refuses_duplicates_gaps_and_strangers() {
    let folder = empty_folder("split-refused");
    let text = corpus("split-refused-text", &sentences(30, 23));
    let other = corpus("split-refused-other", &sentences(30, 24));
    let checkpoint = model("gpt2/published", "split-refused-model");
    let parts = shards(&checkpoint, &text, &folder, 3, FLAGS);
    let out = folder.join("merged");
    let refused = |folders: &[PathBuf], said: &[&str]| {
        let outcome = merge(folders, &out, "");
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (5, 1), "{}", outcome.stderr);
        said.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{}", outcome.stderr));
        assert!(!out.join("manifest.json").exists() && !out.join("state.safetensors").exists());
    };
    let (zero, one, two) = (parts[0].clone(), parts[1].clone(), parts[2].clone());
    refused(&[zero.clone(), one.clone(), one.clone(), two.clone()], &["shard-1-of-3 and ", "are both shard 1 of 3"]);
    refused(&[two.clone(), zero.clone()], &["shard 1 of 3 is missing"]);
    refused(std::slice::from_ref(&one), &["shard 0, 2 of 3 is missing"]);
    let stranger = folder.join("stranger");
    measured(&checkpoint, &text, &stranger, &format!("{FLAGS} --shard 2/3 --massive 7"));
    refused(&[zero.clone(), one.clone(), stranger.clone()], &["stranger does not belong to", "--massive is \"10\" there and \"7\" here"]);
    measured(&checkpoint, &other, &stranger, &format!("{FLAGS} --shard 2/3 --overwrite"));
    refused(&[zero.clone(), one.clone(), stranger.clone()], &["corpus is "]);
    measured(&checkpoint, &text, &stranger, &format!("{FLAGS} --shard 2/4 --overwrite"));
    refused(&[zero.clone(), one.clone(), stranger], &["one of 3 shards there and one of 4 here"]);
    refused(&[zero.clone(), one.clone(), folder.join("nowhere")], &["nowhere: there is no such folder"]);

    let own = merge(&parts, &zero, "--overwrite");
    assert_eq!(own.status, 5);
    assert!(own.stderr.contains("is one of the shards") && zero.join("manifest.json").exists(), "{}", own.stderr);

    let outcome = merge(&[two.clone(), zero.clone(), one.clone()], &out, "");
    assert_eq!(outcome.status, 0, "any order: {}", outcome.stderr);
    let before = std::fs::read(out.join("layers.parquet")).expect("a table");
    let again = merge(&[zero.clone(), one.clone(), two.clone()], &out, "");
    assert_eq!(again.status, 5);
    assert!(again.stderr.contains("holds a run already") && again.stderr.contains("--overwrite"), "{}", again.stderr);
    assert_eq!(merge(&[zero, one, two], &out, "--overwrite").status, 0);
    assert!(before == std::fs::read(out.join("layers.parquet")).expect("a table"), "the order of the folders does not matter");
}

#[test]
fn chosen_layers_have_the_values_of_all_layers() {
    let folder = empty_folder("split-layers");
    let path = corpus("split-layers-text", &sentences(100, 26));
    let checkpoint = model("gpt2/causal-lm", "split-layers-model");
    let (all, some) = (folder.join("all"), folder.join("some"));
    measured(&checkpoint, &path, &all, FLAGS);
    measured(&checkpoint, &path, &some, &format!("{FLAGS} --layers 0,2"));
    for name in ["layers", "groups", "components"] {
        let (all, some) = (table(&all, name), table(&some, name));
        let rows: Vec<usize> = (0..all.rows()).filter(|&row| [Some(0.0), Some(2.0)].contains(&number(&all, "layer", row))).collect();
        assert_eq!(rows.len(), some.rows());
        for (ours, theirs) in (0..some.rows()).zip(rows) {
            assert!(some.row(ours).eq(all.row(theirs)), "{name}: row {ours}");
        }
    }
    let outcome = measure(&checkpoint, &path, &folder.join("none"), &format!("{FLAGS} --layers 9"));
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (2, 1), "{}", outcome.stderr);
}
