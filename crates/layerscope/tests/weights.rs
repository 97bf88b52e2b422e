//! `layerscope weights` for people and for programs.

mod support;

use serde_json::Value;
use support::{Outcome, empty_folder, layerscope};

fn weights(flags: &str) -> Outcome {
    let mut words = vec!["weights", "--model", "fixtures/gpt2/published"];
    words.extend(flags.split_whitespace());
    layerscope(&words)
}

#[track_caller]
fn printed(flags: &str) -> String {
    let outcome = weights(flags);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    outcome.stdout
}

fn json(flags: &str) -> Value {
    serde_json::from_str(&printed(&format!("{flags} --format json"))).expect("one JSON value")
}

#[test]
fn both_tables_are_one_object() {
    let both = json("");
    assert_eq!(both.as_object().expect("an object").keys().collect::<Vec<_>>(), ["sources", "embeddings", "norms"]);
    assert_eq!((&both["embeddings"], &both["norms"]), (&json("--table embeddings"), &json("--table norms")));
    let points: Vec<&str> = both["embeddings"].as_array().expect("rows").iter().filter_map(|row| row["point"].as_str()).collect();
    assert!(points.contains(&"input_embedding") && points.contains(&"output_embedding"));
    assert!(both["norms"].as_array().expect("rows").iter().any(|row| row["norm"] == "final" && row["statistic"] == "gamma_mean"));
    assert!(
        both["sources"]
            .as_array()
            .expect("lines")
            .iter()
            .any(|line| line.as_str().is_some_and(|line| line.starts_with("input_embedding: ")))
    );
}

#[test]
fn one_table_in_every_format() {
    for (name, heading) in
        [("embeddings", "model,revision,layer,point,selection,measure,variant,value,se,n,step"), ("norms", "layer,norm,statistic,value")]
    {
        let rows = json(&format!("--table {name}")).as_array().expect("rows").clone();
        let csv = printed(&format!("--table {name} --format csv"));
        assert_eq!((csv.lines().next(), csv.lines().count()), (Some(heading), rows.len() + 1), "{name}");
        let width = heading.split(',').count();
        assert!(csv.lines().all(|line| line.split(',').count() == width), "{name}: one table, and nothing else");
        let lines: Vec<Value> =
            printed(&format!("--table {name} --format jsonl")).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines, rows, "{name}");
        assert_eq!(printed(&format!("--table {name}")).lines().count(), rows.len() + 2, "{name}");
        assert_eq!(printed(&format!("--table {name} --format latex")).matches("\\begin{tabular}").count(), 1, "{name}");
    }
    assert_eq!(printed("--format latex").matches("\\begin{tabular}").count(), 2);
    assert_eq!(json("--table long"), json(""));
    assert_eq!(printed("").lines().filter(|line| line.starts_with("| ---")).count(), 2);
}

/// A row a matrix and a row a norm, with the numbers of the long tables.
#[test]
fn people_read_a_row_a_matrix() {
    let shown = printed("");
    assert!(shown.lines().all(|line| line.chars().count() <= 110), "{shown}");
    let long = json("");
    let cells = |start: &str| -> Vec<String> {
        let line = shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}:\n{shown}"));
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let headings = cells("| matrix");
    assert_eq!(headings, ["matrix", "rows", "mean_cosine", "partition", "anisotropy_svd", "isoscore", "effective_rank"]);
    for point in ["input_embedding", "output_embedding"] {
        let found = cells(&format!("| {point}"));
        for (measure, cell) in headings.iter().zip(&found).skip(2) {
            let is = |row: &&Value| {
                let plain = row["variant"].is_null() || row["variant"] == "corpus" || row["variant"] == "default";
                row["point"] == point && row["measure"] == measure.as_str() && plain
            };
            let row = long["embeddings"].as_array().expect("rows").iter().find(is).expect("a row");
            assert_eq!(*cell, layerscope_report::text::rounded(row["value"].as_f64().expect("a value")), "{point} {measure}");
            assert_eq!(found[1], row["n"].to_string());
        }
    }
    let norms = cells("| layer");
    assert_eq!(norms, ["layer", "norm", "gamma_mean", "gamma_std", "gamma_norm", "beta_std", "beta_norm"]);
    let count = long["norms"].as_array().expect("rows").iter().filter(|row| row["statistic"] == "gamma_mean").count();
    let rows = shown.lines().skip_while(|line| !line.starts_with("| layer")).skip(2).take_while(|line| line.starts_with('|')).count();
    assert_eq!(rows, count, "{shown}");
    assert!(shown.ends_with("--table long prints every measure\n"), "{shown}");
    assert!(printed("--table long").contains("log_partition"));
}

#[test]
fn formats_of_one_table_ask_for_it() {
    for format in ["csv", "jsonl"] {
        let outcome = weights(&format!("--format {format}"));
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""));
        assert_eq!(outcome.stderr, format!("layerscope: {format} holds one table: add --table embeddings or --table norms\n"));
    }
    assert_eq!(weights("--table dance").status, 2);
}

/// `show` finds the same rows in the folder that was written.
#[test]
fn a_folder_of_weights_is_shown() {
    let out = empty_folder("weights-shown");
    let folder = out.to_str().expect("UTF-8");
    let direct = printed(&format!("--out {folder} --table embeddings --format csv"));
    let show = |table: &str| layerscope(&["show", folder, "--table", table, "--format", "csv"]);
    assert_eq!((show("weights").stdout, show("norms").stdout), (direct, printed("--table norms --format csv")));
    let outcome = show("groups");
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (2, 1), "{}", outcome.stderr);
}
