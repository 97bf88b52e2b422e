//! Hashes of a checkpoint's files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use layerscope_model::Model;
use layerscope_model::checkpoint::is_gguf;
use layerscope_model::families::tokenizer_bytes;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// SHA-256 over config.json, where the model has one, and every file of weights, in the order of their names.
pub fn model_fingerprint(model: &Model) -> Result<String> {
    let mut files = if is_gguf(&model.folder) { Vec::new() } else { vec![model.folder.join("config.json")] };
    files.extend(model.checkpoint.files().map(Path::to_path_buf));
    sha256(&files)
}

/// SHA-256 over the files, or the part of a GGUF file, that decide how text is cut into tokens.
pub fn tokenizer_fingerprint(folder: &Path) -> Result<String> {
    if is_gguf(folder) {
        return Ok(hexadecimal(Sha256::digest(tokenizer_bytes(folder)?)));
    }
    let names = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"];
    sha256(&names.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()).collect::<Vec<_>>())
}

fn sha256(files: &[PathBuf]) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path).map_err(|source| Error::io(path, source))?;
        loop {
            match file.read(&mut buffer).map_err(|source| Error::io(path, source))? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
    }
    Ok(hexadecimal(hasher.finalize()))
}

fn hexadecimal(digest: impl IntoIterator<Item = u8>) -> String {
    digest.into_iter().map(|byte| format!("{byte:02x}")).collect()
}
