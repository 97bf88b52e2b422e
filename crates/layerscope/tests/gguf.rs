//! GGUF files through the program: the same tables as the checkpoint they were made from, and tokens as the reference library cuts them.

mod support;

use std::path::{Path, PathBuf};

use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::families::GgufTokenizer;
use serde_json::Value;
use support::measure::{corpus, table};
use support::{copy_of, empty_folder, layerscope, root};

fn gguf(name: &str) -> PathBuf {
    root().join("crates/layerscope-model/tests/data/gguf").join(name)
}

fn tokenizer(file: &Path, wrap: Wrap) -> Tokenizer {
    let read = GgufTokenizer::open(file).unwrap_or_else(|error| panic!("{error}"));
    Tokenizer::from_json(file, &read.json, read.ends, wrap).unwrap_or_else(|error| panic!("{error}"))
}

/// Sentences with the ids that the reference library gives them, special tokens around them left out.
fn equals_golden(tokenizer: &Tokenizer, golden: &Value) {
    for pair in golden.as_array().expect("a list") {
        let ids: Vec<u64> = pair[1].as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id")).collect();
        let sentence = pair[0].as_str().expect("a sentence");
        let ours: Vec<u64> = tokenizer.encode(sentence).expect("ids").into_iter().map(u64::from).collect();
        assert_eq!(ours, ids, "{sentence}");
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON")
}

#[test]
fn tokens_are_those_of_the_reference_library() {
    let golden = json(&gguf("tokenizers.json"));
    for (name, golden) in golden.as_object().expect("files") {
        equals_golden(&tokenizer(&gguf(name), Wrap::Model), golden);
    }
}

#[test]
fn smollm2_has_the_tokens_of_the_reference_library() {
    let Some(file) = std::env::var_os("LAYERSCOPE_SMOLLM2") else {
        eprintln!("skipped: LAYERSCOPE_SMOLLM2 does not name the GGUF file of SmolLM2-135M-Instruct; `make test-all` sets it");
        return;
    };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden-smollm2.json");
    equals_golden(&tokenizer(file.as_ref(), Wrap::Model), &json(&golden));
}

#[test]
fn the_file_says_what_stands_around_a_text() {
    let around = |name: &str, wrap| {
        let tokenizer = tokenizer(&gguf(name), wrap);
        (tokenizer.prefix().to_vec(), tokenizer.suffix().to_vec())
    };
    assert_eq!(around("llama-llama2.gguf", Wrap::Model), (vec![1], vec![]));
    assert_eq!(around("llama-llama2.gguf", Wrap::BosEos), (vec![1], vec![2]));
    assert_eq!(around("gpt2-published.gguf", Wrap::Model), (vec![], vec![]));
    assert_eq!(around("gpt2-published.gguf", Wrap::BosEos), (vec![0], vec![0]));
    let readable = tokenizer(&gguf("gpt2-published.gguf"), Wrap::Model);
    assert_eq!(readable.readable(readable.encode(" the").expect("ids")[0]), " the");
}

#[test]
fn a_gguf_file_gives_the_tables_of_its_checkpoint() {
    let folder = empty_folder("gguf-measure");
    let text = corpus("gguf-text", &["the cat sat on the mat".to_owned(), "a tall ship, at sea".to_owned(), "Then the otter".to_owned()]);
    // The checkpoint beside a tokenizer.json that says the same.
    let checkpoint = copy_of("llama/llama2", "gguf-checkpoint");
    let written = GgufTokenizer::open(&gguf("llama-llama2.gguf")).expect("a tokenizer");
    std::fs::write(checkpoint.join("tokenizer.json"), &written.json).expect("written");
    // A folder with nothing but the file is the file.
    let alone = empty_folder("gguf-alone");
    std::fs::copy(gguf("llama-llama2.gguf"), alone.join("tiny.gguf")).expect("copied");
    let measured = |model: &Path, name: &str| {
        let out = folder.join(name);
        let words = format!(
            "measure --quiet --measures all --frequency 1:1000 --model {} --corpus {} --out {}",
            model.display(),
            text.display(),
            out.display()
        );
        let outcome = layerscope(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        out
    };
    let (file, reference) = (measured(&gguf("llama-llama2.gguf"), "file"), measured(&checkpoint, "checkpoint"));
    measured(&alone, "alone");
    let numbers = |out: &Path| {
        let layers = table(out, "layers");
        let name = |row: usize, column: &str| layers.text(column, row).map(str::to_owned);
        let facts = |row: usize| (layers.integer("layer", row), name(row, "measure"), name(row, "variant"), name(row, "selection"));
        (0..layers.rows()).map(|row| (facts(row), layers.real("value", row), layers.integer("n", row))).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&file), numbers(&reference));
    assert_eq!(numbers(&file), numbers(&folder.join("alone")));
    let manifest = |name: &str| json(&folder.join(name).join("manifest.json"));
    assert_eq!(manifest("file")["model"]["name"], "llama-llama2");
    assert_eq!(manifest("file")["model"]["fingerprint"], manifest("alone")["model"]["fingerprint"]);
    assert_ne!(manifest("file")["model"]["fingerprint"], manifest("checkpoint")["model"]["fingerprint"]);
}

#[test]
fn inspect_shows_a_file() {
    let outcome = layerscope(&["inspect", "--no-probe", "--model", gguf("falcon-40b.gguf").to_str().expect("UTF-8")]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("falcon-40b.gguf (falcon)") && outcome.stdout.contains("2 for keys and values"), "{}", outcome.stdout);
}

#[test]
fn bad_files_are_refused_in_a_line() {
    let folder = empty_folder("gguf-bad");
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        let file = folder.join(name);
        std::fs::write(&file, content).expect("written");
        let outcome = layerscope(&["measure", "--model", file.to_str().expect("UTF-8"), "--corpus", "README.md", "--out", "/nowhere/run"]);
        assert_eq!(outcome.status, 3, "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        for part in parts {
            assert!(outcome.stderr.contains(part), "`{part}` is not in: {}", outcome.stderr);
        }
    };
    let whole = std::fs::read(gguf("llama-llama2.gguf")).expect("readable");
    refused("cut.gguf", &whole[..whole.len() / 2], &["cut.gguf: tensor `", "may be truncated"]);
    // The same length in another word: no architecture, no pre-tokenizer, no key of the configuration.
    let replaced = |content: &[u8], old: &str, new: &str| {
        let at = content.windows(old.len()).position(|window| window == old.as_bytes()).expect("there");
        [&content[..at], new.as_bytes(), &content[at + old.len()..]].concat()
    };
    refused(
        "other.gguf",
        &replaced(&whole, "\x05\0\0\0\0\0\0\0llama", "\x05\0\0\0\0\0\0\0mamba"),
        &["architecture `mamba` is not supported", "llama"],
    );
    refused("keys.gguf", &replaced(&whole, "llama.embedding_length", "llama.embedding_langth"), &["missing `llama.embedding_length`"]);
}

#[test]
fn an_unknown_pre_tokenizer_is_refused_by_name() {
    let whole = std::fs::read(gguf("gpt2-published.gguf")).expect("readable");
    let at = whole.windows(5).position(|window| window == b"gpt-2").expect("there");
    let file = empty_folder("gguf-pre").join("other.gguf");
    std::fs::write(&file, [&whole[..at], b"gpt-9", &whole[at + 5..]].concat()).expect("written");
    let line = GgufTokenizer::open(&file).expect_err("unknown").to_string();
    assert!(line.contains("`tokenizer.ggml.pre` = `gpt-9` is not known; Layerscope reads default, gpt-2"), "{line}");
}
