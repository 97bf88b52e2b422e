//! Every bad checkpoint gets one line that says what and where, exit status 3, and no panic.

mod support;

use std::path::Path;

use layerscope_model::checkpoint::Checkpoint;
use layerscope_model::safetensors::{self, NamedTensor};
use support::{Outcome, copy_of, empty_folder, layerscope, layerscope_with, root};

fn refused(folder: &Path) -> Outcome {
    let outcome = layerscope(&["inspect", "--probe", "--model", folder.to_str().expect("a path in UTF-8")]);
    assert_eq!(outcome.status, 3, "status of {}: {}", folder.display(), outcome.stderr);
    assert_eq!(outcome.stderr.trim_end().lines().count(), 1, "one line: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty(), "nothing on standard output: {}", outcome.stdout);
    outcome
}

/// Asserts that the error line of a folder mentions all of `parts`.
fn refused_with(folder: &Path, parts: &[&str]) {
    let line = refused(folder).stderr;
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}

/// Rewrites the weights after a change to the list of tensors.
fn change_tensors(folder: &Path, change: impl FnOnce(&mut Vec<NamedTensor>)) {
    let checkpoint = Checkpoint::open(folder).expect("a fixture");
    let read = |name: &str| {
        let shape = checkpoint.info(name).expect("listed").shape.clone();
        NamedTensor { name: name.to_owned(), values: checkpoint.read(name, &shape).expect("readable"), shape }
    };
    let mut tensors: Vec<NamedTensor> = checkpoint.names().map(read).collect();
    change(&mut tensors);
    let mut bytes = Vec::new();
    safetensors::write(&mut bytes, &tensors).expect("writing to memory");
    std::fs::write(folder.join("model.safetensors"), bytes).expect("writable");
}

fn change_config(folder: &Path, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let file = folder.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect("config.json")).expect("JSON");
    change(config.as_object_mut().expect("an object"));
    std::fs::write(file, config.to_string()).expect("writable");
}

/// Replaces the header of the weights.
fn write_header(folder: &Path, header: &str, data: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    std::fs::write(folder.join("model.safetensors"), bytes).expect("writable");
}

const GAMMA: &str = "encoder.layer.1.output.LayerNorm.weight";

#[test]
fn truncated_weights() {
    let folder = copy_of("bert/base", "truncated");
    let file = folder.join("model.safetensors");
    let bytes = std::fs::read(&file).expect("weights");
    std::fs::write(&file, &bytes[..bytes.len() - 100]).expect("writable");
    refused_with(&folder, &["model.safetensors", "truncated"]);
    std::fs::write(&file, &bytes[..300]).expect("writable");
    refused_with(&folder, &["model.safetensors"]);
}

#[test]
fn a_header_over_the_limit() {
    let folder = copy_of("bert/base", "header-limit");
    let mut bytes = 200_000_000u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{}");
    std::fs::write(folder.join("model.safetensors"), bytes).expect("writable");
    refused_with(&folder, &["model.safetensors", "200000000"]);
}

#[test]
fn offsets_out_of_range_and_overlapping() {
    let folder = copy_of("bert/base", "offsets");
    write_header(&folder, r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4);
    refused_with(&folder, &["model.safetensors", "`a`"]);
    let overlapping = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    write_header(&folder, overlapping, 12);
    refused_with(&folder, &["model.safetensors", "`b`", "overlap"]);
}

#[test]
fn missing_extra_and_misshapen_tensors() {
    let folder = copy_of("bert/base", "missing-tensor");
    change_tensors(&folder, |tensors| tensors.retain(|tensor| tensor.name != GAMMA));
    refused_with(&folder, &[GAMMA, "missing", "expected shape [32]"]);

    let folder = copy_of("bert/base", "extra-tensor");
    let extra = NamedTensor { name: "encoder.layer.0.surprise.weight".to_owned(), shape: vec![2], values: vec![0.0; 2] };
    change_tensors(&folder, |tensors| tensors.push(extra));
    refused_with(&folder, &["encoder.layer.0.surprise.weight", "[2]"]);

    let folder = copy_of("bert/base", "misshapen-tensor");
    change_tensors(&folder, |tensors| {
        let tensor = tensors.iter_mut().find(|tensor| tensor.name == GAMMA).expect("in the fixture");
        (tensor.shape, tensor.values) = (vec![31], vec![1.0; 31]);
    });
    refused_with(&folder, &[GAMMA, "expected shape [32], found [31]"]);
}

#[test]
fn weights_that_are_not_finite() {
    for (name, value) in [("nan", f32::NAN), ("infinite", f32::NEG_INFINITY)] {
        let folder = copy_of("bert/base", name);
        change_tensors(&folder, |tensors| {
            let tensor = tensors.iter_mut().find(|tensor| tensor.name == GAMMA).expect("in the fixture");
            tensor.values[7] = value;
        });
        refused_with(&folder, &[GAMMA, "value 7", "finite"]);
    }
}

#[test]
fn missing_keys_are_listed_all_at_once() {
    let folder = copy_of("bert/base", "missing-keys");
    change_config(&folder, |config| {
        config.remove("hidden_size");
        config.remove("num_hidden_layers");
        config.remove("vocab_size");
    });
    refused_with(&folder, &["config.json", "`hidden_size`", "`num_hidden_layers`", "`vocab_size`"]);
}

#[test]
fn contradictory_and_unsupported_settings() {
    let folder = copy_of("bert/base", "contradiction");
    change_config(&folder, |config| drop(config.insert("num_attention_heads".into(), 5.into())));
    refused_with(&folder, &["config.json", "`num_attention_heads` = 5 does not divide `hidden_size` = 32"]);

    let folder = copy_of("bert/base", "unsupported");
    change_config(&folder, |config| {
        config.insert("position_embedding_type".into(), "relative_key".into());
        config.insert("hidden_act".into(), "gelu_10".into());
    });
    refused_with(&folder, &["`position_embedding_type` = \"relative_key\"", "`hidden_act` = gelu_10"]);

    let folder = copy_of("bert/base", "quantized");
    change_config(&folder, |config| drop(config.insert("quantization_config".into(), serde_json::json!({ "bits": 4 }))));
    refused_with(&folder, &["`quantization_config`"]);

    let folder = copy_of("bert/base", "absurd");
    change_config(&folder, |config| drop(config.insert("num_hidden_layers".into(), 4_000_000_000u64.into())));
    refused_with(&folder, &["`num_hidden_layers`"]);
}

#[test]
fn an_unknown_family() {
    let folder = copy_of("bert/base", "unknown-family");
    change_config(&folder, |config| drop(config.insert("model_type".into(), "rwkv9".into())));
    refused_with(&folder, &["`rwkv9`", "layerscope models"]);
}

#[test]
fn a_configuration_that_is_not_json() {
    let folder = copy_of("bert/base", "not-json");
    std::fs::write(folder.join("config.json"), "model_type: bert\n").expect("writable");
    refused_with(&folder, &["config.json", "not JSON"]);
}

#[test]
fn folders_without_configuration_or_weights() {
    refused_with(&empty_folder("empty"), &["no config.json"]);
    let folder = copy_of("bert/base", "no-weights");
    std::fs::remove_file(folder.join("model.safetensors")).expect("removable");
    refused_with(&folder, &["no weights", "model.safetensors", "pytorch_model.bin"]);
}

#[test]
fn a_pickle_that_wants_to_run_code() {
    let folder = copy_of("bert/base", "pickle");
    std::fs::remove_file(folder.join("model.safetensors")).expect("removable");
    let malicious = root().join("crates/layerscope-model/tests/data/torch/malicious/pytorch_model.bin");
    std::fs::copy(malicious, folder.join("pytorch_model.bin")).expect("the malicious file");
    refused_with(&folder, &["pytorch_model.bin", "system", "safetensors"]);
}

#[test]
fn a_link_out_of_the_hub_cache() {
    let home = empty_folder("hub-home");
    let repository = home.join("hub/models--org--name");
    let snapshot = repository.join("snapshots/0123456789abcdef0123456789abcdef01234567");
    std::fs::create_dir_all(&snapshot).expect("a cache");
    std::fs::create_dir_all(repository.join("refs")).expect("a cache");
    std::fs::write(repository.join("refs/main"), "0123456789abcdef0123456789abcdef01234567").expect("a reference");
    let outside = copy_of("bert/base", "outside-the-cache");
    for file in ["config.json", "model.safetensors"] {
        std::os::unix::fs::symlink(outside.join(file), snapshot.join(file)).expect("a link");
    }
    let home = home.to_str().expect("UTF-8").to_owned();
    let outcome = layerscope_with(&["inspect", "--model", "org/name"], &[("HF_HOME", &home), ("HF_HUB_OFFLINE", "1")]);
    assert_eq!(outcome.status, 3, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("model.safetensors: a link out of the hub cache"), "{}", outcome.stderr);
}

#[test]
fn a_hub_model_that_is_not_cached_offline() {
    let outcome = layerscope(&["inspect", "--model", "org/name"]);
    assert_eq!(outcome.status, 3);
    assert!(outcome.stderr.contains("org/name") && outcome.stderr.contains("HF_HUB_OFFLINE"), "{}", outcome.stderr);
}
