//! Files of models that Layerscope does not read, by the names that people know them under.

use std::path::Path;

use crate::error::Error;

/// Endings, and what such a file is.
const FORMATS: &[(&str, &str)] = &[
    ("onnx", "an ONNX model"),
    ("ort", "an ONNX Runtime model"),
    ("h5", "a TensorFlow (HDF5) checkpoint"),
    ("hdf5", "a TensorFlow (HDF5) checkpoint"),
    ("keras", "a Keras model"),
    ("pb", "a TensorFlow graph"),
    ("tflite", "a TensorFlow Lite model"),
    ("msgpack", "a Flax checkpoint"),
    ("ckpt", "a training checkpoint of TensorFlow or Lightning"),
    ("index", "a TensorFlow checkpoint"),
    ("ot", "a libtorch checkpoint"),
    ("mlmodel", "a Core ML model"),
    ("mlpackage", "a Core ML model"),
    ("engine", "a TensorRT engine"),
    ("ggml", "a GGML file, the format before GGUF"),
    ("nemo", "a NeMo archive"),
];

const READS: &str = "Layerscope reads safetensors, pytorch_model.bin and GGUF";

/// What a file is, where it is a model that is not read.
fn format(file: &Path) -> Option<&'static str> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.iter().find(|(known, _)| *known == ending).map(|(_, name)| *name)
}

/// The error of a single file that was given as a model.
pub(crate) fn file(file: &Path) -> Error {
    let ending = file.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match (format(file), ending.as_deref()) {
        (Some(name), _) => Error::file(file, format!("{name}; {READS}: give the folder of the checkpoint that it was made from")),
        (None, Some("safetensors" | "bin" | "pt" | "pth")) => {
            Error::file(file, "weights alone; give the folder that holds them and config.json")
        }
        _ => Error::file(file, "a file, not a folder; give a GGUF file, or the folder that holds config.json and the weights"),
    }
}

/// `; model.onnx is an ONNX model, ...` where a folder has no weights to read but others; nothing otherwise.
pub(crate) fn in_folder(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter_map(|path| Some((format(&path)?, path))).collect();
    found.sort_by(|a, b| a.1.cmp(&b.1));
    let named = found.first().map(|(name, path)| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), name));
    named.map_or(String::new(), |(file, name)| format!("; {file} is {name}, and {READS}"))
}
