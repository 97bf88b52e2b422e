//! `layerscope compare`: every number against a naive computation from the runs' own tables.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use layerscope::internals::StateFile;
use layerscope_report::{Run, Table};
use layerscope_stats::measure::BlockErrors;
use layerscope_stats::sketch::{DocumentBlocks, Mergeable};
use serde_json::Value;
use support::measure::{corpus, measured, model, number, sentences, table, text};
use support::{Outcome, empty_folder, layerscope};

const FLAGS: &str = "--quiet --threads 1 --frequency 5:1000 --confidence --measures norm,cosine,spectrum";

/// Runs of an encoder, of a decoder with a final norm on the same text, and of the encoder on another one.
fn runs() -> &'static [PathBuf; 3] {
    static RUNS: OnceLock<[PathBuf; 3]> = OnceLock::new();
    RUNS.get_or_init(|| {
        let folder = empty_folder("compare");
        let (encoder, decoder) = (model("bert/base", "compare-encoder"), model("gpt2/causal-lm", "compare-decoder"));
        let (one, other) = (corpus("compare-text", &sentences(300, 71)), corpus("compare-other", &sentences(200, 72)));
        [("encoder", &encoder, &one), ("decoder", &decoder, &one), ("again", &encoder, &other)].map(|(name, model, text)| {
            let out = folder.join(name);
            measured(model, text, &out, FLAGS);
            out
        })
    })
}

fn compare(folders: &[&Path], flags: &str) -> Outcome {
    let mut words = vec!["compare"];
    words.extend(folders.iter().map(|folder| folder.to_str().expect("UTF-8")));
    words.extend(flags.split_whitespace());
    layerscope(&words)
}

#[track_caller]
fn compared(folders: &[&Path], flags: &str) -> String {
    let outcome = compare(folders, flags);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    outcome.stdout
}

fn objects(folders: &[&Path], flags: &str) -> Vec<Value> {
    let json = compared(folders, &format!("{flags} --format json"));
    serde_json::from_str::<Value>(&json).expect("JSON").as_array().expect("a list").clone()
}

/// What names a value in a table of layers: place, selection, measure, variant.
type Key = (Option<i64>, String, String, String, Option<String>);

/// Value, standard error and count of every row.
fn values(out: &Path) -> BTreeMap<Key, [Option<f64>; 3]> {
    let layers = table(out, "layers");
    let word = |name: &str, row: usize| text(&layers, name, row).expect("a word");
    let key = |row: usize| {
        let layer = number(&layers, "layer", row).map(|layer| layer as i64);
        (layer, word("point", row), word("selection", row), word("measure", row), text(&layers, "variant", row))
    };
    (0..layers.rows()).map(|row| (key(row), ["value", "se", "n"].map(|name| number(&layers, name, row)))).collect()
}

fn key(object: &Value, prefix: &str) -> Key {
    let word = |name: &str| object[name].as_str().expect("a word").to_owned();
    let variant = object["variant"].as_str().map(str::to_owned);
    (object[format!("{prefix}layer")].as_i64(), word(&format!("{prefix}point")), word("selection"), word("measure"), variant)
}

#[test]
fn a_run_with_itself_differs_by_nothing() {
    let [encoder, ..] = runs();
    let rows = objects(&[encoder, encoder], "");
    assert_eq!(rows.len(), values(encoder).len(), "every row has its counterpart");
    for row in &rows {
        assert_eq!(key(row, ""), key(row, "first_"));
        assert_eq!(row["difference"].as_f64(), row["value"].as_f64().map(|_| 0.0));
        if row["difference_error"] == "paired" {
            assert_eq!(row["difference_se"].as_f64(), Some(0.0), "the same documents were left out of both: {row}");
        }
    }
}

#[test]
fn differences_and_errors_are_those_of_the_tables() {
    let [encoder, decoder, again] = runs();
    let (ours, theirs) = (values(encoder), [values(decoder), values(again)]);
    let rows = objects(&[encoder, decoder, again], "");
    let (mut paired, mut independent, mut none) = (0, 0, 0);
    for row in &rows {
        let run = row["run"].as_str().expect("a label");
        let theirs = &theirs[usize::from(!run.starts_with("compare-decoder"))];
        let (one, other) = (ours[&key(row, "first_")], theirs[&key(row, "")]);
        for (name, expected) in ["value", "se", "n"].iter().zip(other) {
            assert_eq!(row[*name].as_f64(), expected, "{name} of {row}");
        }
        for (name, expected) in ["first_value", "first_se", "first_n"].iter().zip(one) {
            assert_eq!(row[*name].as_f64(), expected, "{name} of {row}");
        }
        assert_eq!(row["difference"].as_f64(), one[0].zip(other[0]).map(|(one, other)| other - one), "{row}");
        match row["difference_error"].as_str() {
            Some("paired") => {
                paired += 1;
                assert!(theirs.len() != ours.len() || run.starts_with("compare-decoder"), "the other text is not the same: {row}");
            }
            Some(_) => {
                independent += 1;
                let expected = (one[1].expect("an error").powi(2) + other[1].expect("an error").powi(2)).sqrt();
                let found = row["difference_se"].as_f64().expect("an error");
                assert!((found - expected).abs() <= 1e-15 * expected, "{found} {expected}: {row}");
            }
            None => {
                none += 1;
                assert!(row["difference_se"].is_null() && (one[1].is_none() || other[1].is_none() || row["difference"].is_null()), "{row}");
            }
        }
    }
    assert!(paired > 0 && independent > 0 && none > 0, "{paired} {independent} {none}");
    // No row of the first run that another one has is left out.
    let expected = ours.keys().filter(|key| theirs[1].contains_key(key)).count();
    assert_eq!(rows.iter().filter(|row| !row["run"].as_str().expect("a label").starts_with("compare-decoder")).count(), expected);
}

/// The last layer of the encoder is compared with what follows the decoder's final norm: its last hidden state for everybody else.
#[test]
fn layers_are_those_of_the_reference_library() {
    let [encoder, decoder, _] = runs();
    let rows = objects(&[encoder, decoder], "--measures q");
    let places: Vec<(Key, Key)> =
        rows.iter().filter(|row| row["selection"] == "all").map(|row| (key(row, "first_"), key(row, ""))).collect();
    let layers = Run::open(encoder).expect("a run").manifest.model.layers.expect("layers") as i64;
    assert_eq!(places.len() as i64, layers + 1);
    for (one, other) in &places {
        assert_eq!(one.0, other.0);
        let last = one.0 == Some(layers);
        assert_eq!(
            (one.1.as_str(), other.1.as_str()),
            match one.0 {
                Some(0) => ("embedding", "embedding"),
                _ => ("block", if last { "final_norm" } else { "block" }),
            }
        );
    }
    // Between two decoders, the last block's own output has its counterpart too.
    let points = objects(&[decoder, decoder], "--measures q");
    assert_eq!(points.iter().filter(|row| row["selection"] == "all").count() as i64, layers + 2);
}

#[test]
fn models_of_other_depths_are_compared_at_the_same_depth() {
    let folder = empty_folder("compare-depths");
    let text = corpus("compare-depths-text", &sentences(60, 73));
    let run = |layers: usize| {
        let out = folder.join(format!("of-{layers}"));
        measured(
            &support::measure::wide_model(&format!("compare-{layers}"), layers, 24, 0.3),
            &text,
            &out,
            "--quiet --measures norm --tokens none",
        );
        out
    };
    let (four, six, eight) = (run(4), run(6), run(8));
    let pairs = |one: &Path, other: &Path| -> Vec<(i64, i64)> {
        let rows = objects(&[one, other], "--measures q");
        let rows = rows.iter().filter(|row| row["selection"] == "all");
        rows.map(|row| {
            let (ours, theirs) = (row["first_depth"].as_f64().expect("a depth"), row["depth"].as_f64().expect("a depth"));
            let layers = (row["first_layer"].as_i64().expect("a layer"), row["layer"].as_i64().expect("a layer"));
            assert!((ours - theirs).abs() < 0.5 / 4.0, "{row}");
            layers
        })
        .collect()
    };
    let said = "no standard errors of Q and the mean cosine: measure with --confidence to get them";
    assert!(compared(&[&four, &six], "").ends_with(&format!("\nA and B have {said}\n")), "these have no errors");
    assert!(!compared(&[&four, &six], "--measures slope_v_on_m").contains(said), "of this there are none");
    let [encoder, decoder, _] = runs();
    assert!(!compared(&[encoder, decoder], "").contains(said), "and these have");
    assert!(compared(&[encoder, &four], "").ends_with(&format!("\nB has {said}\n")), "one of these has");
    assert_eq!(pairs(&four, &eight), [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]);
    assert_eq!(pairs(&eight, &four), [(0, 0), (2, 1), (4, 2), (6, 3), (8, 4)], "what lies between two layers has no counterpart");
    // 1/4 of six layers is 1.5: the shallower of two that are as near.
    assert_eq!(pairs(&four, &six), [(0, 0), (1, 1), (2, 3), (3, 4), (4, 6)]);
}

/// Paired errors, from the blocks in the state files.
#[test]
fn errors_of_one_text_are_paired_by_blocks_of_documents() {
    let [encoder, decoder, _] = runs();
    let blocks = |out: &Path, place: &str| {
        let state = StateFile::open(&out.join("state.safetensors")).expect("a state");
        let mut tensors = state.read(&format!("{place}.lenses.blocks")).expect("blocks");
        DocumentBlocks::decode(&mut tensors).expect("blocks")
    };
    let rows = objects(&[encoder, decoder], "--measures q,m,mean_cosine");
    let all: Vec<&Value> = rows.iter().filter(|row| row["selection"] == "all" && row["variant"].is_null()).collect();
    assert!(!all.is_empty());
    for row in all {
        let place = |prefix: &str| {
            let (layer, point, ..) = key(row, prefix);
            format!("layer{}.{point}", layer.expect("a layer"))
        };
        let errors = BlockErrors::of_difference(&blocks(encoder, &place("first_")), &blocks(decoder, &place(""))).expect("errors");
        let expected = match row["measure"].as_str() {
            Some("q") => errors.q,
            Some("m") => errors.m,
            _ => errors.mean_cosine,
        };
        assert_eq!((row["difference_se"].as_f64(), row["difference_error"].as_str()), (expected, Some("paired")), "{row}");
    }
    let selected = rows.iter().filter(|row| row["selection"] == "selected");
    assert!(selected.clone().count() > 0 && selected.clone().all(|row| row["difference_error"] != "paired"));
}

#[test]
fn every_format_says_the_same() {
    let [encoder, decoder, _] = runs();
    let folders = [encoder.as_path(), decoder.as_path()];
    let rows = objects(&folders, "--measures slope_v_on_m");
    let lines = compared(&folders, "--measures slope_v_on_m --format jsonl");
    assert_eq!(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>(), rows);
    let csv = compared(&folders, "--measures slope_v_on_m --format csv");
    let heading = "run,first,layer,point,depth,first_layer,first_point,first_depth,selection,measure,variant,step,value,se,n,\
                   first_value,first_se,first_n,difference,difference_se,difference_error";
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some(heading), rows.len() + 1));
    let markdown = compared(&folders, "--measures slope_v_on_m --format md");
    let latex = compared(&folders, "--measures slope_v_on_m --format latex");
    assert_eq!(markdown.lines().count(), rows.len() + 2);
    assert!(
        markdown.contains("| compare-decoder - compare-encoder |") && latex.contains("compare-decoder - compare-encoder"),
        "{markdown}"
    );
    let of_family = objects(&folders, "--measures spectrum,q");
    let has = |name: &str| of_family.iter().any(|row| row["measure"] == name);
    assert!(has("isoscore") && has("anisotropy_svd") && has("q") && !has("m") && !has("mean_cosine"), "a family is its measures");
    let overview = compared(&folders, "");
    let text = compared(&folders, "--measures slope_v_on_m");
    assert!(
        overview.starts_with("A  compare-encoder\nB  compare-decoder\n") && overview.contains("\nmean cosine over all states\n"),
        "{overview}"
    );
    let is_shown = |row: &&Value| row["selection"] == "selected" && row["variant"].is_null() && row["difference"].is_number();
    for row in rows.iter().filter(is_shown) {
        let rounded = |name: &str| layerscope_report::text::rounded(row[name].as_f64().expect("a number"));
        let cells = [rounded("first_value"), rounded("value"), rounded("difference")];
        assert!(markdown.lines().any(|line| cells.iter().all(|cell| line.contains(&format!(" {cell} |")))), "{row}\n{markdown}");
        let short = |name: &str| format!("{:.4}", row[name].as_f64().expect("a number"));
        let cells = [short("first_value"), short("value"), short("difference")];
        for shown in [&overview, &text] {
            assert!(shown.lines().any(|line| cells.iter().all(|cell| line.split_whitespace().any(|word| word == cell))), "{row}\n{shown}");
        }
    }
}

#[test]
fn another_frequency_is_computed_again() {
    let [encoder, decoder, _] = runs();
    let rows = objects(&[encoder, decoder], "--frequency 12:500 --measures slope_v_on_m,q");
    let show = |out: &Path| -> Vec<Value> {
        let words = ["show", out.to_str().expect("UTF-8"), "--table", "layers", "--format", "json", "--frequency", "12:500"];
        serde_json::from_str(&layerscope(&words).stdout).expect("JSON")
    };
    let (ours, theirs) = (show(encoder), show(decoder));
    let find = |rows: &[Value], wanted: Key| rows.iter().find(|row| key(row, "") == wanted).expect("a row")["value"].as_f64();
    let selected: Vec<&Value> = rows.iter().filter(|row| row["selection"] == "selected").collect();
    assert!(selected.len() > 4);
    for row in selected {
        let (one, other) = (find(&ours, key(row, "first_")), find(&theirs, key(row, "")));
        assert_eq!(row["difference"].as_f64(), one.zip(other).map(|(one, other)| other - one), "{row}");
    }
}

#[test]
fn figures_are_drawn_of_all_runs_and_the_table_beside_them() {
    let [encoder, decoder, _] = runs();
    let out = empty_folder("compare-figures");
    let text = compared(&[encoder, decoder], &format!("--out {} --only fig4,fig5", out.display()));
    assert!(text.contains(&format!("2 figures in 8 files in {}", out.display())), "{text}");
    let svg = std::fs::read_to_string(out.join("fig4.svg")).expect("figure 4");
    assert!(svg.contains("compare-encoder") && svg.contains("compare-decoder"), "both runs are in it");
    let csv = std::fs::read_to_string(out.join("differences.csv")).expect("the table");
    assert_eq!(csv, compared(&[encoder, decoder], "--format csv"));
    // A program that reads the table hears of the figures elsewhere.
    let json = compare(&[encoder, decoder], &format!("--out {} --only fig4 --format json", out.display()));
    assert!(serde_json::from_str::<Value>(&json.stdout).is_ok() && json.stderr.contains("1 figure in 4 files"), "{}", json.stderr);
}

#[test]
fn what_else_differs_is_said_and_what_cannot_be_compared_refused() {
    let [encoder, decoder, again] = runs();
    let text = compared(&[encoder, again], "");
    assert!(text.contains("note: the text is not the same in all runs"), "{text}");
    assert!(text.starts_with("A  compare-encoder (encoder)\nB  compare-encoder (again)\n"), "{text}");
    assert!(!compared(&[encoder, decoder], "").contains("note:"));
    let csv = compare(&[encoder, again], "--format csv");
    assert!(csv.stderr.contains("the text is not the same") && !csv.stdout.contains("note"), "{}", csv.stderr);
    let nowhere = empty_folder("compare-nowhere");
    for (folders, flags, status, words) in [
        (vec![encoder.as_path(), nowhere.as_path()], "", 1, "no finished run here"),
        (vec![encoder, decoder], "--measures dance", 2, "--measures `dance`"),
        (vec![encoder, decoder], "--measures mean_cosin", 2, "(did you mean `mean_cosine`?)"),
        (vec![encoder, decoder], "--measures curvature", 2, "is in at most one of these runs"),
        (vec![encoder, decoder], "--format xlsx", 2, "give text, md, csv, json, jsonl or latex"),
        (vec![encoder, decoder], "--frequency 9", 2, "--frequency"),
        (vec![encoder, decoder], "--frequency 9:2", 2, "9 is more than 2; give the smaller number first, such as 2:9"),
        (vec![encoder, decoder], "--only fig44 --out target/never", 2, "--only `fig44` is not understood"),
    ] {
        let outcome = compare(&folders, flags);
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{flags}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "what is refused is refused before anything is printed");
    }
    assert_eq!(compare(&[encoder], "").status, 2, "one run is no comparison");
}

/// Steps of a training are compared step by step; with a single checkpoint, the last one is.
#[test]
fn trajectories_are_compared_step_by_step() {
    let folder = empty_folder("compare-steps");
    let [encoder, ..] = runs();
    let source = Run::open(encoder).expect("a run");
    let stretched = |name: &str, steps: &[i64], factor: f64| {
        let out = folder.join(name);
        std::fs::create_dir_all(&out).expect("a folder");
        let rows: Vec<(usize, usize)> = steps.iter().flat_map(|_| (0..source.layers.rows()).map(|row| (0, row))).collect();
        let layers = Table::gather(&[&source.layers], &rows).expect("rows");
        let columns = layers.columns().map(|(name, column)| {
            let count = source.layers.rows();
            let column = match (name, column) {
                ("step", _) => layerscope_report::Column::Integer((0..rows.len()).map(|row| Some(steps[row / count])).collect()),
                ("value", layerscope_report::Column::Real(values)) => layerscope_report::Column::Real(
                    values.iter().enumerate().map(|(row, value)| value.map(|value| value + factor * steps[row / count] as f64)).collect(),
                ),
                _ => column.clone(),
            };
            (name.to_owned(), column)
        });
        let mut bytes = Vec::new();
        layerscope_report::export::parquet::write(&Table::new(columns.collect::<Vec<_>>()).expect("a table"), &mut bytes).expect("bytes");
        std::fs::write(out.join("layers.parquet"), bytes).expect("written");
        std::fs::write(out.join("manifest.json"), serde_json::to_string(&source.manifest).expect("JSON")).expect("written");
        support::measure::without_digests(&out);
        out
    };
    let (one, other) = (stretched("one", &[1, 10, 100], 1.0), stretched("other", &[10, 100, 1000], 2.0));
    let rows = objects(&[&one, &other], "--measures m_over_q");
    let steps: std::collections::BTreeSet<i64> = rows.iter().filter_map(|row| row["step"].as_i64()).collect();
    assert_eq!(steps.into_iter().collect::<Vec<_>>(), [10, 100]);
    for row in &rows {
        let difference = row["difference"].as_f64().expect("a number");
        assert!((difference - row["step"].as_f64().expect("a step")).abs() < 1e-9, "{row}");
    }
    let rows = objects(&[encoder, &other], "--measures m_over_q");
    assert!(!rows.is_empty());
    for row in &rows {
        assert!(row["step"].is_null() && (row["difference"].as_f64().expect("a number") - 2000.0).abs() < 1e-9, "the last step: {row}");
    }
}
