//! Small models with a tokenizer, text for them, and measurements through the program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use layerscope_corpus::hash::hash64;
use layerscope_model::safetensors::{NamedTensor, write};
use layerscope_report::{Cell, Table};
use serde_json::{Value, json};

use super::{Outcome, copy_of, empty_folder, layerscope, root};

/// Words the vocabulary has whole.
const WORDS: &[&str] =
    &["the", "of", "and", "to", "in", "it", "was", "that", "he", "she", "house", "time", "old", "little", "day", "said", "on"];
/// Words that fall into letters.
const OTHERS: &[&str] = &["cat", "dogs", "zebra", "ox", "violin", "queue", "jazz", "a", "i", "winter"];

/// A random number that depends on nothing but its arguments.
pub fn random(seed: u64, at: u64) -> u64 {
    hash64([seed, at], b"test")
}

/// Uniform in [-1, 1).
pub fn uniform(seed: u64, at: u64) -> f64 {
    (random(seed, at) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A WordPiece tokenizer of 80 entries, as many as every fixture has embeddings.
pub fn tokenizer_json() -> Value {
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let mut tokens: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).into();
    tokens.extend(letters.iter().cloned());
    tokens.extend(letters.iter().map(|letter| format!("##{letter}")));
    tokens.extend([".", ",", "!", "?", "'", "##ing", "##s'"].map(str::to_owned));
    tokens.extend(WORDS.iter().map(|word| (*word).to_owned()));
    assert_eq!(tokens.len(), 80);
    let special = |id: usize| json!({ "id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true });
    let vocabulary: serde_json::Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let around = |id: usize| json!({ "id": tokens[id], "ids": [id], "tokens": [tokens[id]] });
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": (0..4).map(special).collect::<Vec<_>>(),
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                { "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": "[SEP]", "type_id": 0 } },
            ],
            "pair": [],
            "special_tokens": { "[CLS]": around(2), "[SEP]": around(3) },
        },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    })
}

/// A fixture's checkpoint with the tokenizer beside it.
pub fn model(fixture: &str, name: &str) -> PathBuf {
    let folder = copy_of(fixture, name);
    std::fs::write(folder.join("tokenizer.json"), tokenizer_json().to_string()).expect("a tokenizer");
    folder
}

/// A random encoder of any size: the fixture's shapes, stretched. `scale` is the standard size of its weights.
pub fn wide_model(name: &str, layers: usize, width: usize, scale: f64) -> PathBuf {
    let folder = empty_folder(name);
    let config = std::fs::read_to_string(root().join("fixtures/bert/base/config.json")).expect("a fixture");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    for (key, value) in [("hidden_size", width), ("intermediate_size", width), ("num_hidden_layers", layers)] {
        config[key] = value.into();
    }
    std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let seed = tensors.len() as u64;
        let count: usize = shape.iter().product();
        let norm = name.contains("LayerNorm.weight");
        let value = |at: usize| if norm { 1.0 + 0.1 * uniform(seed, at as u64) } else { scale * uniform(seed, at as u64) };
        tensors.push(NamedTensor { name, shape: shape.to_vec(), values: (0..count).map(|at| value(at) as f32).collect() });
    };
    for (table, rows) in [("word", 80), ("position", 48), ("token_type", 2)] {
        add(format!("embeddings.{table}_embeddings.weight"), &[rows, width]);
    }
    add("embeddings.LayerNorm.weight".into(), &[width]);
    add("embeddings.LayerNorm.bias".into(), &[width]);
    for layer in 0..layers {
        let parts = [
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", width, width),
            ("output.dense", width, width),
        ];
        for (part, out, of) in parts {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[out, of]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[out]);
        }
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[width]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[width]);
        }
    }
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join("model.safetensors")).expect("a file"));
    write(&mut file, &tensors).expect("weights");
    std::fs::write(folder.join("tokenizer.json"), tokenizer_json().to_string()).expect("a tokenizer");
    folder
}

/// Sentences of 1 to 12 words, the first ones of the list the most frequent, some with capitals and punctuation.
pub fn sentences(count: usize, seed: u64) -> Vec<String> {
    let all: Vec<&str> = WORDS.iter().chain(OTHERS).copied().collect();
    let word = |s: usize, w: usize| {
        let draw = (uniform(seed, (s * 50 + w) as u64) + 1.0) / 2.0;
        all[((all.len() as f64).powf(draw) - 1.0) as usize]
    };
    let sentence = |s: usize| {
        let words: Vec<&str> = (0..1 + random(seed, (s * 50 + 40) as u64) as usize % 12).map(|w| word(s, w)).collect();
        let text = words.join(" ");
        match s % 4 {
            0 => format!("{}{}.", text[..1].to_uppercase(), &text[1..]),
            1 => format!("{text}, {}!", words[0]),
            _ => text,
        }
    };
    (0..count).map(sentence).collect()
}

/// Writes lines to a file beside a test's other files.
pub fn corpus(name: &str, lines: &[String]) -> PathBuf {
    let path = empty_folder(name).join("corpus.txt");
    std::fs::write(&path, lines.join("\n")).expect("a corpus");
    path
}

/// The words of a command: `measure`, where from, where to, and more flags.
pub fn command(model: &Path, corpus: &Path, out: &Path, flags: &str) -> Vec<String> {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let mut words: Vec<String> = ["measure", "--model"].map(str::to_owned).into();
    words.extend([path(model), "--corpus".to_owned(), path(corpus), "--out".to_owned(), path(out)]);
    words.extend(flags.split_whitespace().map(str::to_owned));
    words
}

/// Measures and gives what the program said.
pub fn measure(model: &Path, corpus: &Path, out: &Path, flags: &str) -> Outcome {
    run(&command(model, corpus, out, flags))
}

/// Runs the program.
pub fn run(words: &[String]) -> Outcome {
    layerscope(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The same with a text on standard input.
pub fn run_with_input(words: &[String], input: &str) -> Outcome {
    end(start_with_input(words, input))
}

/// The same without waiting for its end. A process that does not read its input to the end is no fault.
pub fn start_with_input(words: &[String], input: &str) -> Child {
    use std::io::Write;
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command.args(words).current_dir(root()).env("HF_HUB_OFFLINE", "1").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let (mut pipe, input) = (child.stdin.take().expect("standard input"), input.to_owned());
    std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    child
}

/// Measures, which must succeed.
#[track_caller]
pub fn measured(model: &Path, corpus: &Path, out: &Path, flags: &str) -> Outcome {
    let outcome = measure(model, corpus, out, flags);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    outcome
}

/// The same without waiting for its end.
pub fn start(words: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command.args(words).current_dir(root()).env("HF_HUB_OFFLINE", "1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// What an ended process left behind; the status is minus the signal where one ended it.
pub fn end(child: Child) -> Outcome {
    use std::os::unix::process::ExitStatusExt;
    let output = child.wait_with_output().expect("an end");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let status = output.status.code().unwrap_or_else(|| -output.status.signal().expect("a signal"));
    Outcome { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Every file whose bytes must not depend on how a run came about.
pub const RESULTS: &[&str] =
    &["layers.parquet", "groups.parquet", "components.parquet", "spectra.parquet", "tokens.parquet", "sample.safetensors"];

/// The first of those files that differs between two runs.
pub fn differing(a: &Path, b: &Path) -> Option<&'static str> {
    let bytes = |folder: &Path, name: &str| std::fs::read(folder.join(name)).ok();
    assert!(bytes(a, RESULTS[0]).is_some() && bytes(b, RESULTS[0]).is_some(), "no tables at all");
    RESULTS.iter().copied().find(|name| bytes(a, name) != bytes(b, name))
}

/// The manifest of a run.
pub fn manifest(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("manifest.json")).expect("a manifest")).expect("JSON")
}

/// Makes the run what an older program would have left: its manifest names no files, and may be changed.
pub fn without_digests(out: &Path) {
    let mut manifest = manifest(out);
    let keys = manifest.as_object_mut().expect("an object");
    ["files", "state", "seal"].iter().for_each(|key| drop(keys.shift_remove(*key)));
    std::fs::write(out.join("manifest.json"), manifest.to_string()).expect("written");
}

/// A table of a run.
pub fn table(out: &Path, name: &str) -> Table {
    layerscope_report::export::parquet::read(&out.join(format!("{name}.parquet"))).expect("a table")
}

/// A cell as text; nothing for null.
pub fn text(table: &Table, column: &str, row: usize) -> Option<String> {
    match table.column(column).unwrap_or_else(|| panic!("no column {column}")).cell(row) {
        Cell::Null => None,
        Cell::Text(text) => Some(text.to_owned()),
        Cell::Integer(number) => Some(number.to_string()),
        Cell::Real(number) => Some(number.to_string()),
    }
}

/// A cell as a number; nothing for null.
pub fn number(table: &Table, column: &str, row: usize) -> Option<f64> {
    match table.column(column).unwrap_or_else(|| panic!("no column {column}")).cell(row) {
        Cell::Integer(number) => Some(number as f64),
        Cell::Real(number) => Some(number),
        _ => None,
    }
}

/// A .npy file of f32.
pub fn npy(name: &str, shape: &str, numbers: usize) -> PathBuf {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..numbers).flat_map(|at| uniform(3, at as u64).to_string().parse::<f32>().expect("a number").to_le_bytes()));
    let file = empty_folder(name).join("states.npy");
    std::fs::write(&file, bytes).expect("written");
    file
}
