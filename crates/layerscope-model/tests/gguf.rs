//! GGUF files: hidden states of every family that the format knows, numbers of every kind, and tokenizers.

mod support;

use std::path::{Path, PathBuf};

use layerscope_compute::Cpu;
use layerscope_model::Model;
use layerscope_model::checkpoint::Checkpoint;
use layerscope_model::families::{FAMILIES, GgufTokenizer, tokenizer_bytes};
use support::{Golden, fixtures, states_of};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gguf")
}

/// Every file of a fixture, with the fixture it was made from.
fn files() -> Vec<(PathBuf, PathBuf)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data()).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "gguf") && !file.ends_with("blocks.gguf"));
    files.sort();
    let fixture = |file: &Path| {
        let name = file.file_stem().expect("a name").to_str().expect("UTF-8");
        let (family, variant) = name.split_once('-').expect("FAMILY-VARIANT");
        fixtures().join(family).join(variant)
    };
    files.into_iter().map(|file| (file.clone(), fixture(&file))).collect()
}

#[test]
fn states_are_those_of_the_checkpoint_that_the_file_was_made_from() {
    for (file, fixture) in files() {
        let model = Model::open(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(model.unknown_keys.is_empty(), "{}: unknown keys {:?}", file.display(), model.unknown_keys);
        let golden = Golden::open(&fixture);
        let transformer = model.load(Cpu::new()).unwrap_or_else(|error| panic!("{error}"));
        let ours = states_of(&transformer, &golden.sequences);
        let theirs = states_of(&Model::open(&fixture).expect("a fixture").load(Cpu::new()).expect("weights"), &golden.sequences);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}", file.display());
        // Frequencies that the fixture computes are numbers in the file, rounded on the way.
        let rounded = Checkpoint::open(&file).expect("sound").info("rope_freqs.weight").is_some();
        for ((at, sequence), states) in &ours {
            let reference = golden.states(*at, *sequence).expect("golden states");
            let rms = (reference.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / reference.len() as f64).sqrt();
            let worst = states.iter().zip(&reference).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / rms;
            assert!(worst <= 1e-5, "{} {at} sequence {sequence}: {worst:.1e}", file.display());
            let same = states.iter().zip(&theirs[&(*at, *sequence)]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same || rounded, "{} {at} sequence {sequence}: not the bits of its fixture", file.display());
        }
    }
}

#[test]
fn every_architecture_has_a_file() {
    let architectures: Vec<String> = files()
        .iter()
        .map(|(file, _)| {
            let checkpoint = Checkpoint::open(file).expect("sound");
            checkpoint.metadata().and_then(|metadata| metadata.text("general.architecture")).expect("an architecture").to_owned()
        })
        .collect();
    for gguf in FAMILIES.iter().filter_map(|family| family.gguf) {
        assert!(architectures.iter().any(|name| name == gguf.architecture), "{} has no file", gguf.architecture);
    }
}

#[test]
fn blocks_of_every_kind_are_what_the_gguf_package_makes_of_them_to_the_bit() {
    let checkpoint = Checkpoint::open(&data().join("blocks.gguf")).expect("sound");
    let stored: Vec<&str> = checkpoint.names().filter_map(|name| name.strip_suffix(".stored")).collect();
    assert_eq!(stored.len(), 11);
    for kind in stored {
        let read = |part: &str| {
            let name = format!("{kind}.{part}");
            let shape = checkpoint.info(&name).expect("there").shape.clone();
            checkpoint.read(&name, &shape).unwrap_or_else(|error| panic!("{error}"))
        };
        let (ours, expected) = (read("stored"), read("expected"));
        assert_eq!(ours.len(), 768, "{kind}");
        for (place, (a, b)) in ours.iter().zip(&expected).enumerate() {
            assert_eq!(a.to_bits(), b.to_bits(), "{kind}, number {place}: {a} instead of {b}");
        }
    }
    let kinds: Vec<String> = checkpoint.dtypes().into_iter().map(|(dtype, _)| dtype.to_string()).collect();
    assert_eq!(kinds, ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_1", "q5_0", "q5_k", "q4_1", "q4_0", "q4_k"]);
}

#[test]
fn a_folder_with_one_file_is_that_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gguf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(data().join("llama-llama2.gguf"), folder.join("a.gguf")).expect("copied");
    let model = Model::open(&folder).expect("one file");
    assert_eq!((model.folder.as_path(), model.ties_embeddings), (folder.join("a.gguf").as_path(), false));
    assert_eq!(model.output_embedding().expect("readable").expect("a head").name, "output.weight");
    std::fs::copy(data().join("llama-llama3.gguf"), folder.join("b.gguf")).expect("copied");
    let line = Model::open(&folder).expect_err("two files").to_string();
    assert!(line.ends_with("2 GGUF files here; give one of them, such as a.gguf"), "{line}");
    std::fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn norms_are_those_that_are_applied() {
    let open = |path: &Path| Model::open(path).expect("a model").norms().expect("norms");
    assert_eq!(open(&data().join("gemma3-4b.gguf")), open(&fixtures().join("gemma3/4b")));
}

#[test]
fn tokenizers_are_written_as_their_own_files_hold_them() {
    let tokenizer = GgufTokenizer::open(&data().join("llama-llama2.gguf")).expect("a tokenizer");
    let json: serde_json::Value = serde_json::from_slice(&tokenizer.json).expect("JSON");
    assert_eq!(json["model"]["merges"][0], serde_json::json!(["t", "h"]));
    assert_eq!(json["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
    assert_eq!(tokenizer.ends, serde_json::json!({ "bos_token": "<s>", "eos_token": "</s>" }));
    let none = GgufTokenizer::open(&data().join("qwen2-published.gguf")).expect_err("no tokenizer").to_string();
    assert!(none.contains("holds no tokenizer"), "{none}");
    let bytes = |name: &str| tokenizer_bytes(&data().join(name)).expect("readable");
    assert_eq!(bytes("llama-llama2.gguf"), bytes("llama-llama3.gguf"));
    assert_ne!(bytes("llama-llama2.gguf"), bytes("gpt2-published.gguf"));
}

/// Whatever one does to the header, opening gives a result or an error.
#[test]
fn damaged_models_and_tokenizers_never_panic() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gguf-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("model.gguf");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for name in ["llama-llama2.gguf", "gpt2-published.gguf", "gemma3-4b.gguf", "falcon-7b.gguf"] {
        let whole = std::fs::read(data().join(name)).expect("readable");
        for _ in 0..1500 {
            let mut content = whole.clone();
            for _ in 0..1 + random(3) {
                // The header is in the first few thousand bytes.
                let at = random(content.len().min(4000));
                content[at] = if random(2) == 0 { random(256) as u8 } else { content[at] ^ 1 << random(8) };
            }
            std::fs::write(&file, &content).expect("written");
            if let Ok(model) = Model::open(&file) {
                drop(model.load(Cpu::new()));
            }
            drop(GgufTokenizer::open(&file));
        }
    }
    std::fs::remove_dir_all(folder).expect("removable");
}
