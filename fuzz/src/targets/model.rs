//! Checkpoints: the headers of weights, the weights behind them, and configurations.

use std::path::Path;

use layerscope_corpus::{Tokenizer, Wrap};
use layerscope_model::Model;
use layerscope_model::checkpoint::Checkpoint;
use layerscope_model::config::ConfigReader;
use layerscope_model::families::{Family, GgufTokenizer, tokenizer_bytes};
use layerscope_model::safetensors::{NamedTensor, header, write};

use super::files::file;
use super::told;
use super::zip::{Entry, archive};

/// Two bytes say how many bytes of numbers follow the header, which is the rest.
pub fn safetensors(data: &[u8]) {
    let Some((numbers, text)) = data.split_first_chunk() else { return };
    let numbers = u64::from(u16::from_le_bytes(*numbers));
    let start = [&(text.len() as u64).to_le_bytes(), text].concat();
    let read_at = |buffer: &mut [u8], at: u64| {
        let at = at as usize;
        buffer.iter_mut().zip(at..).for_each(|(byte, at)| *byte = start.get(at).copied().unwrap_or(0));
        Ok(())
    };
    let size = start.len() as u64 + numbers;
    if let Ok(found) = header(read_at, size) {
        let covered: u64 = found.tensors.iter().map(|tensor| tensor.bytes.end - tensor.bytes.start).sum();
        assert_eq!(covered, numbers, "every byte belongs to one tensor");
        assert!(found.tensors.iter().all(|tensor| tensor.bytes.end <= size), "all tensors are in the file");
    }
}

/// A GGUF file: its weights, its model, its tokenizer.
pub fn gguf(data: &[u8]) {
    let path = file("model.gguf", data);
    let Some(checkpoint) = told(Checkpoint::open(&path)) else { return };
    read_all(&checkpoint);
    told(Model::open(&path));
    told(tokenizer_bytes(&path));
    if let Some(found) = told(GgufTokenizer::open(&path)) {
        told(Tokenizer::from_json(&path, &found.json, found.ends, Wrap::Model));
    }
}

/// The pickle of a PyTorch file that has three storages.
pub fn pickle(data: &[u8]) {
    let storage: Vec<u8> = (0..64).collect();
    let entry = |name, content| Entry { name, content, deflated: false };
    let storages = ["a/data/0", "a/data/1", "a/data/2"].map(|name| entry(name, storage.as_slice()));
    let entries: Vec<Entry<'_>> = [entry("a/data.pkl", data)].into_iter().chain(storages).collect();
    torch_zip(&archive(&entries));
}

/// A PyTorch file.
pub fn torch_zip(data: &[u8]) {
    let path = file("torch/pytorch_model.bin", data);
    if let Some(checkpoint) = told(Checkpoint::open(path.parent().expect("a folder"))) {
        read_all(&checkpoint);
    }
}

fn read_all(checkpoint: &Checkpoint) {
    for name in checkpoint.names() {
        let shape = &checkpoint.info(name).expect("a tensor").shape;
        told(checkpoint.read(name, shape));
        told(checkpoint.read_stored(name, shape));
    }
}

/// What families call the token embedding: with one of these, a checkpoint is searched for all that its configuration asks for.
const EMBEDDINGS: [&str; 6] =
    ["embed_tokens", "word_embeddings", "wte", "embed_in", "embeddings.word_embeddings", "embeddings.tok_embeddings"];

/// A `config.json`.
pub fn config(data: &[u8]) {
    let Some(mut reader) = told(ConfigReader::parse(Path::new("config.json"), data)) else { return };
    let Some(family) = told(Family::of(&mut reader)) else { return };
    let spec = (family.spec)(&mut reader);
    if told(reader.finish()).is_none() {
        return;
    }
    std::hint::black_box(spec.points());
    let path = file("config/config.json", data);
    let weights = path.with_file_name("model.safetensors");
    if !weights.exists() {
        let tensor = |name: &str| NamedTensor { name: format!("{name}.weight"), shape: vec![2, 2], values: vec![0.5; 4] };
        let mut bytes = Vec::new();
        write(&mut bytes, &EMBEDDINGS.map(tensor)).expect("weights");
        file("config/model.safetensors", &bytes);
    }
    told(Model::open(path.parent().expect("a folder")));
}
