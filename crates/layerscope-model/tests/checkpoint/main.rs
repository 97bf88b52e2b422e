//! Reading weights: what is right comes out exactly, what is wrong gives one clear line.

mod folder;
mod gguf_files;
mod mutations;
mod safetensors_files;
mod torch_files;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use layerscope_model::checkpoint::Checkpoint;

/// A folder of its own for one test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoint-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = Folder::new();
        for (name, content) in files {
            folder.write(name, content);
        }
        folder
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.join(name), content).unwrap();
    }

    fn open(&self) -> layerscope_model::Result<Checkpoint> {
        let gguf = self.0.join("model.gguf");
        Checkpoint::open(if gguf.exists() { &gguf } else { &self.0 })
    }

    /// The error of opening, or else of reading every tensor, which must be one line that names this folder.
    fn error(&self) -> String {
        match self.open() {
            Ok(checkpoint) => read_all(&checkpoint).map(|_| panic!("{} should be refused", self.0.display())).unwrap_err(),
            Err(error) => error,
        }
        .one_line(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

trait OneLine {
    fn one_line(self, folder: &Path) -> String;
}

impl OneLine for layerscope_model::Error {
    fn one_line(self, folder: &Path) -> String {
        let line = self.to_string();
        assert!(!line.contains('\n'), "more than a line: {line}");
        assert!(line.starts_with(&folder.display().to_string()), "does not say where: {line}");
        line
    }
}

/// Reads every tensor as its header describes it.
fn read_all(checkpoint: &Checkpoint) -> layerscope_model::Result<usize> {
    checkpoint.names().map(|name| Ok(checkpoint.read(name, &checkpoint.info(name).unwrap().shape)?.len())).sum()
}

/// A safetensors file with this header and this many bytes of zeros behind it.
fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

/// A safetensors file with these tensors: name, dtype, shape, bytes.
fn safetensors_of(tensors: &[(&str, &str, &[usize], &[u8])]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let (begin, end) = (data.len(), data.len() + bytes.len());
        entries.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#));
        data.extend_from_slice(bytes);
    }
    let mut file = safetensors(&format!("{{{}}}", entries.join(",")), 0);
    file.extend(data);
    file
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Asserts that a line contains every part.
#[track_caller]
fn assert_says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}
