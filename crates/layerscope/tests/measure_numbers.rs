//! Every value of every table of a run against the definitions taken literally, on all states of the corpus kept in memory.

mod support;

mod measure_numbers {
    pub mod comparison;
    pub mod expected;
    pub mod literal;
    mod random_cases;
}

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::families::FAMILIES;
use measure_numbers::comparison::{Comparison, compare};
use measure_numbers::expected::FREQUENCY;
use measure_numbers::literal::{Counting, Document, MASSIVE, literal};
use support::measure::{manifest, measured, model, number, sentences, table, text, tokenizer_json};
use support::{empty_folder, root};

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
        let counting = Counting { grouping: "token", specials: "exclude", skip_first: 0, window: None };
        measured(&checkpoint, &corpus, &out, &flags(""));
        compare(&checkpoint, &out, &literal(&checkpoint, &documents, counting), true, &mut seen);
    }
    println!("{} values of {} families, worst deviation {:.1e}: {}", seen.compared, FAMILIES.len(), seen.worst.0, seen.worst.1);
}

/// The states after the last projection: narrower than the others, or wider; after the last block, or after a final norm.
#[test]
fn a_point_with_a_width_of_its_own_equals_the_definitions() {
    let folder = empty_folder("numbers-projected");
    let documents = documents(28);
    let corpus = write(&documents, &folder);
    let mut seen = Comparison::default();
    for (fixture, width) in [("350m", 16), ("projected-pre-norm", 32)] {
        let checkpoint = model(&format!("opt/{fixture}"), &format!("numbers-projected-{fixture}"));
        let out = folder.join(fixture);
        let counting = Counting { grouping: "token", specials: "exclude", skip_first: 0, window: None };
        measured(&checkpoint, &corpus, &out, &flags(""));
        compare(&checkpoint, &out, &literal(&checkpoint, &documents, counting), true, &mut seen);
        let components = table(&out, "components");
        let projected = |row: &usize| text(&components, "point", *row).as_deref() == Some("projected");
        let of_all = |row: &usize| text(&components, "selection", *row).as_deref() == Some("all");
        assert_eq!((0..components.rows()).filter(projected).filter(of_all).count(), width, "{fixture}");
        let layers = table(&out, "layers");
        let last = (0..layers.rows()).rfind(|row| number(&layers, "layer", *row) == Some(2.0));
        assert_eq!(last.and_then(|row| text(&layers, "point", row)).as_deref(), Some("projected"), "{fixture}");
    }
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
            for (specials, skip_first) in [("exclude", 0), ("include", 0), ("count", 0), ("exclude", 3), ("count", 1)] {
                let out = folder.join(format!("{name}-{grouping}-{specials}-{skip_first}"));
                let more = format!("--group {grouping} --specials {specials} --skip-first {skip_first}");
                measured(&checkpoint, &corpus, &out, &flags(&more));
                let has_frequency = ["token", "surface", "word"].contains(&grouping);
                let counting = Counting { grouping, specials, skip_first, window: None };
                compare(&checkpoint, &out, &literal(&checkpoint, &documents, counting), has_frequency, &mut seen);
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
    let vocabulary = tokenizer_json();
    measured(&checkpoint, &corpus, &folder.join("token"), &flags(""));
    let groups = table(&folder.join("token"), "groups");
    let mut last = None;
    let of_all = |row: &usize| text(&groups, "selection", *row).as_deref() == Some("all");
    for row in (0..groups.rows()).filter(of_all).filter(|&row| number(&groups, "layer", row) == Some(0.0)) {
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
            let of_all = |row: &usize| text(&groups, "selection", *row).as_deref() == Some("all");
            let rows = (0..groups.rows()).filter(of_all).filter(|&row| number(&groups, "layer", row) == Some(1.0));
            let found: BTreeMap<String, usize> = rows
                .map(|row| (text(&groups, "raw", row).expect("a name"), number(&groups, "n", row).expect("a count") as usize))
                .collect();
            assert_eq!(found, counts, "{fixture} {more}");
            let sequences = manifest(&out)["corpus"]["sequences"].as_u64().expect("a count");
            assert!(sequences > 3, "{sequences} windows");
        }
    }
}
