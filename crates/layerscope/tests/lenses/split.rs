//! However a run is cut up, its tables are the same: shards to rounding, legs and interruptions bit by bit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::fixture;
use super::states::{minilm, sentences};
use super::table::{Name, Row, layers, scale};
use crate::support::storage::{held_at, release_with};
use crate::support::{empty_folder, layerscope};

const LENSES: &str = "--quiet --measures all --confidence --group cluster:3,8 --token-states 40";

fn words(model: &Path, corpus: &Path, out: &Path, flags: &str) -> Vec<String> {
    let text = format!("measure --model {} --corpus {} --out {} {flags}", model.display(), corpus.display(), out.display());
    text.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn measured(model: &Path, corpus: &Path, out: &Path, flags: &str) {
    let outcome = layerscope(&words(model, corpus, out, flags).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
}

/// What a deviation is compared with: Q for q, m, v and their parts, sd(y) / sd(x) for slopes, else as [`scale`] says.
fn scale_in(rows: &BTreeMap<Name, Row>, name: &Name) -> f64 {
    let other = |measure: &str| {
        let mut name = name.clone();
        name.3 = measure.to_owned();
        if measure == "q" {
            name.4 = None;
        }
        rows[&name].value
    };
    match name.3.as_str() {
        "q" | "m" | "v" | "v_within" | "v_between" | "intercept_v_on_m" => other("q").expect("Q"),
        // R^2 = slope^2 var(x) / var(y).
        slope if slope.starts_with("slope_") => {
            // A constant has slope 0 and no R^2; so do all shards.
            let r2 = other(&slope.replacen("slope", "r2", 1));
            r2.map_or(0.0, |r2| rows[name].value.expect("a slope").abs() / r2.sqrt())
        }
        "cv_q_exponent" => 1.0,
        measure => scale(measure, rows[name].value.expect("a value")),
    }
}

#[test]
fn five_shards_give_the_table_of_one() {
    for (fixture, last) in [("bert/base", "block"), ("llama/llama2", "final_norm")] {
        let name = format!("lenses-shards-{last}");
        let (model, corpus, folder) =
            (fixture::model(fixture, &format!("{name}-model")), fixture::corpus(&format!("{name}-text"), 400), empty_folder(&name));
        let flags = format!("{LENSES} --sample-states 300 --massive 1.2");
        let whole = folder.join("whole");
        measured(&model, &corpus, &whole, &flags);
        let shards: Vec<PathBuf> = (0..5).map(|shard| folder.join(format!("shard{shard}"))).collect();
        for (number, shard) in shards.iter().enumerate() {
            measured(&model, &corpus, shard, &format!("{flags} --shard {number}/5"));
        }
        let merged = folder.join("merged");
        let mut merge: Vec<&str> = vec!["merge", "--quiet", "--out", merged.to_str().expect("UTF-8")];
        merge.extend(shards.iter().map(|shard| shard.to_str().expect("UTF-8")));
        let outcome = layerscope(&merge);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);

        assert_eq!(
            std::fs::read(whole.join("sample.safetensors")).expect("a sample"),
            std::fs::read(merged.join("sample.safetensors")).expect("a sample")
        );
        let (one, five) = (layers(&whole), layers(&merged));
        assert!(one.keys().eq(five.keys()), "other rows");
        assert!(one.keys().any(|name| name.1 == last && name.3 == "silhouette"), "the last point is {last}");
        let mut worst = (0.0, None);
        for (name, row) in &one {
            let other = &five[name];
            assert_eq!(row.n, other.n, "n of {name:?}");
            assert_eq!((row.value.is_some(), row.se.is_some()), (other.value.is_some(), other.se.is_some()), "{name:?}");
            if let (Some(a), Some(b)) = (row.value, other.value) {
                let deviation = if a == b { 0.0 } else { (a - b).abs() / scale_in(&one, name) };
                assert!(deviation <= 1e-9, "{name:?}: {a} and {b}, {deviation:.1e} apart");
                if deviation > worst.0 {
                    worst = (deviation, Some(name.clone()));
                }
            }
            if let (Some(a), Some(b)) = (row.se, other.se) {
                assert!((a - b).abs() <= 1e-9 * a.max(1e-6 * scale_in(&one, name)), "standard error of {name:?}: {a} and {b}");
            }
        }
        println!("{fixture}: {} rows, largest deviation {:.1e} ({:?})", one.len(), worst.0, worst.1);
    }
}

const RESULTS: [&str; 7] =
    ["layers.parquet", "groups.parquet", "components.parquet", "spectra.parquet", "tokens.parquet", "norms.parquet", "sample.safetensors"];

#[track_caller]
fn same_bits(a: &Path, b: &Path) {
    let bytes = |folder: &Path, name: &str| {
        std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name} of {}: {error}", folder.display()))
    };
    let differing: Vec<&str> = RESULTS.into_iter().filter(|name| bytes(a, name) != bytes(b, name)).collect();
    assert!(differing.is_empty(), "{differing:?} of {} and {} differ", a.display(), b.display());
}

#[test]
fn several_legs_and_interruptions_give_the_same_bits() {
    let Some(model) = minilm() else { return };
    let (model, folder) = (Path::new(&model), empty_folder("lenses-legs"));
    let corpus = folder.join("sentences.txt");
    std::fs::write(&corpus, sentences(250).join("\n")).expect("a corpus");
    let flags = format!("{LENSES} --sample-states 200 --massive 1.1 --batch-tokens 256");
    let whole = folder.join("whole");
    measured(model, &corpus, &whole, &flags);

    // The refusal says what a single layer at a time takes; a little more than that allows a few layers.
    let refused = words(model, &corpus, &folder.join("refused"), &format!("{flags} --max-memory 1"));
    let outcome = layerscope(&refused.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(outcome.status, 5, "{}", outcome.stderr);
    let said = outcome.stderr.split("one layer at a time takes ").nth(1).expect("the least amount");
    let least: f64 = said.split(" MiB").next().expect("an amount").parse().expect("a number of MiB");
    let flags = format!("{flags} --keep-work --checkpoint-seconds 0 --max-memory {}", (least * 1.04 * f64::from(1 << 20)) as u64);

    let legs = folder.join("legs");
    measured(model, &corpus, &legs, &flags);
    let plan: serde_json::Value = serde_json::from_slice(&std::fs::read(legs.join(".work/plan.json")).expect("a plan")).expect("JSON");
    let segments: Vec<u64> =
        plan["plan"]["route"]["legs"].as_array().expect("legs").iter().map(|count| count.as_u64().expect("segments")).collect();
    assert!(segments.len() > 1, "one leg: {segments:?}");
    same_bits(&whole, &legs);

    // Interrupted in the first leg and after it, politely and not.
    for (name, ready, signal, status) in [
        ("stopped-early", "checkpoint-0-0.safetensors", libc::SIGINT, Some(6)),
        ("killed-early", "checkpoint-0-0.safetensors", libc::SIGKILL, None),
        ("stopped-late", "leg-0.safetensors", libc::SIGTERM, Some(6)),
        ("killed-late", "leg-0.safetensors", libc::SIGKILL, None),
    ] {
        let out = folder.join(name);
        let words = words(model, &corpus, &out, &flags);
        let mut child = held_at(ready, &out, &words, Stdio::null());
        release_with(&child, signal);
        assert_eq!(child.wait().expect("an end").code(), status, "{name}");
        assert!(!out.join("manifest.json").exists(), "{name}: it was finished");
        measured(model, &corpus, &out, &flags);
        same_bits(&whole, &out);
    }
    println!("legs of {segments:?} segments");
}
