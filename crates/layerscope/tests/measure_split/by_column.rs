//! A run split by a column: its parts are what runs of their texts alone would be, and together they are the whole.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::support::measure::{
    command, differing, end, manifest, measure, measured, model, run, run_with_input, sentences, table, text as text_of,
};
use crate::support::storage::held_at;
use crate::support::{Outcome, empty_folder};
use crate::{FLAGS, close, merge};

/// Documents of two genres, and some of none. Massive states depend on the first documents of the whole text: there are none here.
const SPLIT: &str = "--split column:genre --massive 1000";
const PARTS: [(&str, &str); 3] = [("News", "split/news"), ("a/b", "split/a-b"), ("none", "split/none")];

fn lines(count: usize) -> Vec<(usize, String)> {
    let line = |(number, text): (usize, String)| {
        let genre = [Some("a/b"), Some("News"), None, Some("News")][number % 4];
        let mut line = json!({ "text": text, "number": number });
        match (genre, number % 8) {
            (Some(genre), _) => line["genre"] = genre.into(),
            (None, 2) => line["genre"] = serde_json::Value::Null,
            (None, _) => {}
        }
        (number % 4, line.to_string())
    };
    sentences(count, 31).into_iter().enumerate().map(line).collect()
}

fn written(folder: &Path, name: &str, lines: impl Iterator<Item = String>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).expect("written");
    path
}

fn said(words: &[&str]) -> Outcome {
    run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

#[test]
fn every_value_is_a_run_of_its_own_and_all_together_are_the_whole() {
    let folder = empty_folder("split-column");
    let lines = lines(120);
    let text = written(&folder, "all.jsonl", lines.iter().map(|(_, line)| line.clone()));
    let checkpoint = model("gpt2/published", "split-column-model");
    let (split, whole) = (folder.join("split"), folder.join("whole"));
    let flags = format!("{FLAGS} --confidence");
    let outcome = measured(&checkpoint, &text, &split, &format!("{flags} {SPLIT}"));
    assert!(outcome.stdout.contains("3 parts by column:genre: News, a/b, none\n"), "{}", outcome.stdout);
    measured(&checkpoint, &text, &whole, &format!("{flags} --massive 1000"));

    // The whole is that of the same command without --split, and that of merged shards to the bit.
    let mut worst = <(f64, String)>::default();
    close("split", &split, &whole, &mut worst);
    let file = |run: &Path, name: &str| std::fs::read(run.join(name)).expect("a file");
    // The header names the settings.
    let kept = |run: &Path| {
        let bytes = file(run, "sample.safetensors");
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("a length"));
        bytes[8 + header as usize..].to_vec()
    };
    assert!(kept(&split) == kept(&whole), "the kept states differ");
    let folders = PARTS.map(|(_, folder)| split.join(folder));
    let outcome = merge(&folders, &folder.join("merged"), "");
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert_eq!(differing(&split, &folder.join("merged")), None);

    // A part has the numbers of a run of its documents alone.
    let name = manifest(&whole)["model"]["name"].as_str().expect("a name").to_owned();
    for ((value, place), of) in PARTS.into_iter().zip([&[1, 3][..], &[0], &[2]]) {
        let part = split.join(place);
        let alone = folder.join(place.replace('/', "-"));
        let own = written(&folder, "own.jsonl", lines.iter().filter(|(kind, _)| of.contains(kind)).map(|(_, line)| line.clone()));
        measured(&checkpoint, &own, &alone, &format!("{flags} --massive 1000"));
        for name in ["groups.parquet", "components.parquet"] {
            assert!(file(&part, name) == file(&alone, name), "{value}: {name}");
        }
        let (ours, theirs) = (table(&part, "layers"), table(&alone, "layers"));
        assert_eq!(ours.rows(), theirs.rows(), "{value}");
        for row in 0..ours.rows() {
            // Errors and the sample depend on the numbers of documents.
            if text_of(&ours, "selection", row).is_some_and(|selection| selection.ends_with("sample")) {
                continue;
            }
            for column in ["layer", "point", "selection", "measure", "variant", "value", "n"] {
                assert_eq!(
                    text_of(&ours, column, row),
                    text_of(&theirs, column, row),
                    "{value}: layers.{column}, {:?}",
                    text_of(&ours, "measure", row)
                );
            }
        }
        let own = manifest(&part);
        assert_eq!((&own["part"], &own["model"]["name"]), (&json!(value), &json!(format!("{name} ({value})"))));
        assert_eq!(own["corpus"]["documents"], manifest(&alone)["corpus"]["documents"]);
        assert_eq!(own["massive_thresholds"], manifest(&whole)["massive_thresholds"]);
    }
    let of_whole = manifest(&split);
    assert_eq!(of_whole["split"], json!(PARTS.map(|(value, folder)| json!({ "value": value, "folder": folder }))));
    assert_eq!((&of_whole["model"]["name"], &of_whole["part"]), (&json!(name), &serde_json::Value::Null));

    shown(&folder, &split, &name);

    // Once more: it is complete. Another text in its place starts over, and takes parts with it that are no more.
    let outcome = measured(
        &checkpoint,
        &text,
        &split,
        &format!("--frequency 10:300 --measures norm,cosine --sample-states 500 --token-states 30 --confidence {SPLIT}"),
    );
    assert!(outcome.stderr.contains("is complete; to measure it again, give --overwrite"), "{}", outcome.stderr);
    let fewer = written(&folder, "all.jsonl", lines.iter().filter(|(kind, _)| *kind != 0).map(|(_, line)| line.clone()));
    let refused = measure(&checkpoint, &fewer, &split, &format!("{flags} {SPLIT}"));
    assert_eq!(refused.status, 4, "{}", refused.stderr);
    std::fs::create_dir(split.join("split/mine")).expect("a folder that is no run");
    measured(&checkpoint, &fewer, &split, &format!("{flags} {SPLIT} --overwrite"));
    assert!(!split.join("split/a-b").exists() && split.join("split/mine").exists() && split.join("split/none/manifest.json").exists());
    assert_eq!(manifest(&split)["split"].as_array().map(Vec::len), Some(2));
    assert_eq!(said(&["prune", split.to_str().expect("UTF-8"), "--keep", "tables"]).status, 0);
    assert_eq!([&split, &split.join("split/news"), &split.join("split/none")].map(|run| manifest(run)["pruned"] == "tables"), [true; 3]);
}

/// A split run alone stands for its parts wherever runs are shown.
fn shown(folder: &Path, split: &Path, name: &str) {
    let run = split.to_str().expect("UTF-8");
    let compared = said(&["compare", run, "--measures", "q"]);
    let legend = format!("A  {name} (News)\nB  {name} (a/b)\nC  {name} (none)\n");
    assert!(compared.status == 0 && compared.stdout.starts_with(&legend), "{}{}", compared.stdout, compared.stderr);
    assert!(compared.stdout.contains("the text is not the same in all runs"), "{}", compared.stdout);
    // Blocks of documents of two parts have nothing in common.
    let table = said(&["compare", run, "--measures", "q", "--format", "csv"]).stdout;
    assert!(table.contains("independent") && !table.contains("paired"), "{table}");

    let page = folder.join("report.html");
    assert_eq!(said(&["report", run, "--out", page.to_str().expect("UTF-8")]).status, 0);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains(&format!("<title>{name}, {name} (News), {name} (a/b), {name} (none) · Layerscope</title>")));
    let drawn = folder.join("figures");
    let outcome = said(&["figures", run, "--only", "fig4", "--out", drawn.to_str().expect("UTF-8")]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let csv = std::fs::read_to_string(drawn.join("fig4.csv")).expect("numbers");
    PARTS.iter().for_each(|(value, _)| assert!(csv.contains(&format!("{name} ({value}),")), "{csv}"));
}

#[test]
fn a_killed_split_goes_on_with_the_part_where_it_was() {
    let folder = empty_folder("split-column-killed");
    let text = written(&folder, "all.jsonl", lines(40).into_iter().map(|(_, line)| line));
    let checkpoint = model("gpt2/published", "split-column-killed-model");
    let flags = format!("{FLAGS} {SPLIT}");
    let (whole, killed) = (folder.join("whole"), folder.join("killed"));
    measured(&checkpoint, &text, &whole, &flags);
    let refused = measure(&checkpoint, &text, &killed, &format!("{flags} --resume"));
    assert_eq!((refused.status, killed.exists()), (5, false), "{}", refused.stderr);
    // Once a part is complete, and once nothing is left but to merge.
    for (_, place) in [PARTS[0], PARTS[2]] {
        let mut child = held_at(&format!("{place}/manifest.json"), &killed, &command(&checkpoint, &text, &killed, &flags), Stdio::null());
        child.kill().expect("killed");
        end(child);
        let first = std::fs::metadata(killed.join("split/news/manifest.json")).and_then(|file| file.modified()).expect("a manifest");
        if place == PARTS[2].1 {
            measured(&checkpoint, &text, &killed, &flags);
        }
        let now = std::fs::metadata(killed.join("split/news/manifest.json")).and_then(|file| file.modified()).expect("a manifest");
        assert_eq!(first, now, "a part that is complete is left as it is");
    }
    assert_eq!(differing(&killed, &whole), None);
    for (value, place) in PARTS {
        assert_eq!(differing(&killed.join(place), &whole.join(place)), None, "{value}");
        assert!(!killed.join(place).join(".work").exists());
    }
    assert_eq!(manifest(&killed)["split"], manifest(&whole)["split"]);
}

#[test]
fn what_cannot_be_split_is_refused_in_a_line_and_leaves_nothing() {
    let folder = empty_folder("split-column-refused");
    let text = written(&folder, "all.jsonl", lines(70).into_iter().map(|(_, line)| line));
    let plain = written(&folder, "plain.txt", sentences(9, 1).into_iter());
    let checkpoint = model("gpt2/published", "split-column-refused-model");
    let out = folder.join("out");
    let refused = |outcome: Outcome, status: i32, said: &str| {
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(said) && !out.exists(), "{}", outcome.stderr);
    };
    let of = |text: &Path, flags: &str| measure(&checkpoint, text, &out, &format!("--quiet {flags}"));
    refused(of(&plain, "--split column:genre"), 4, "lines of text have no columns; --split column:NAME needs .jsonl or .parquet");
    refused(of(&text, "--split column:author"), 4, "no document has a value in column `author`; name another with --split");
    refused(of(&text, "--split column:number"), 2, "--split column:number has 70 values; name a column with at most 64");
    refused(of(&text, "--split genre"), 2, "--split `genre` is not understood; give column:NAME");
    refused(of(&text, "--split column:genre --shard 0/2"), 2, "--split does not go with --shard 0/2; leave out one of them");
    refused(of(&text, "--split column:genre --device cpu,cpu"), 2, "--split does not go with --device cpu,cpu; leave out one of them");
    let piped = command(&checkpoint, Path::new("-"), &out, "--quiet --text-column text --split column:genre");
    let outcome = run_with_input(&piped, &std::fs::read_to_string(&text).expect("a text"));
    refused(outcome, 2, "--split column:genre reads the text several times, and standard input only once; give a file");
    // A run without parts stays what it is.
    measured(&checkpoint, &text, &out, &format!("{FLAGS} --limit 20"));
    let other = measure(&checkpoint, &text, &out, &format!("{FLAGS} --limit 20 --split column:genre"));
    assert!(other.status == 5 && other.stderr.contains("--split is null there"), "{}", other.stderr);
    assert!(!out.join("split").exists());
    let outcome = said(&["compare", out.to_str().expect("UTF-8")]);
    assert!(outcome.status == 2 && outcome.stderr.contains("there is only one run"), "{}", outcome.stderr);
}
