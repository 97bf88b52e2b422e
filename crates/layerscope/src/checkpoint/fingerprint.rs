//! Hashes of a checkpoint's files.
//!
//! A model is named by the hash of the hashes of its files, in the order of their names: what
//! `sha256sum config.json *.safetensors | cut -c 1-64 | sha256sum` prints. So several files are hashed at once, and files in the hub's
//! cache, which are called by their hashes, are not read at all. Hashing goes on while the text is read and the weights are loaded.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use layerscope_compute::parallel::in_order;
use layerscope_model::Model;
use layerscope_model::checkpoint::is_gguf;
use layerscope_model::families::tokenizer_bytes;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// How far it is, and whether nobody waits any more.
#[derive(Debug, Default)]
struct Watch {
    read: AtomicU64,
    total: AtomicU64,
    abandoned: AtomicBool,
}

/// The hash of a model, computed on threads of its own from now on.
#[derive(Debug)]
pub struct ModelHash {
    files: Vec<PathBuf>,
    watch: Arc<Watch>,
    running: Mutex<Option<JoinHandle<Result<String>>>>,
    known: OnceLock<String>,
}

impl ModelHash {
    /// Begins to hash config.json, where the model has one, and every file of weights, on up to `threads` threads.
    pub fn begin(model: &Model, threads: usize) -> ModelHash {
        ModelHash::of(files_of(model), threads)
    }

    fn of(files: Vec<PathBuf>, threads: usize) -> ModelHash {
        let watch = Arc::<Watch>::default();
        let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |file| file.len());
        let total = files.iter().filter(|file| hub_name(file).is_none()).map(size).sum();
        watch.total.store(total, Ordering::Relaxed);
        let (listed, seen) = (files.clone(), Arc::clone(&watch));
        let running = std::thread::spawn(move || hash_of_hashes(&listed, threads, &seen));
        ModelHash { files, watch, running: Mutex::new(Some(running)), known: OnceLock::new() }
    }

    /// Bytes that were hashed, and all that will be.
    pub fn bytes(&self) -> (u64, u64) {
        (self.watch.read.load(Ordering::Relaxed), self.watch.total.load(Ordering::Relaxed))
    }

    /// Whether nobody would wait for it.
    pub fn is_finished(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The hash, once all files are read.
    pub fn wait(&self) -> Result<String> {
        if let Some(known) = self.known.get() {
            return Ok(known.clone());
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let hash = match running {
            Some(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            None => hash_of_hashes(&self.files, 1, &self.watch)?,
        };
        Ok(self.known.get_or_init(|| hash).clone())
    }
}

impl Drop for ModelHash {
    /// Nobody waits any more: large files are not read to their ends.
    fn drop(&mut self) {
        self.watch.abandoned.store(true, Ordering::Relaxed);
    }
}

/// The hash of a model, now.
pub fn model_fingerprint(model: &Model) -> Result<String> {
    hash_of_hashes(&files_of(model), crate::process::system::processors(), &Watch::default())
}

fn files_of(model: &Model) -> Vec<PathBuf> {
    let mut files = if is_gguf(&model.folder) { Vec::new() } else { vec![model.folder.join("config.json")] };
    files.extend(model.checkpoint.files().map(Path::to_path_buf));
    files
}

/// SHA-256 over the files, or the part of a GGUF file, that decide how text is cut into tokens.
pub fn tokenizer_fingerprint(folder: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    if is_gguf(folder) {
        hasher.update(tokenizer_bytes(folder)?);
        return Ok(hexadecimal(hasher));
    }
    for path in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"].map(|name| folder.join(name)) {
        if path.is_file() {
            hash_file(&path, &mut hasher, &Watch::default())?;
        }
    }
    Ok(hexadecimal(hasher))
}

/// SHA-256 over the lines of the files' own hashes.
fn hash_of_hashes(files: &[PathBuf], threads: usize, watch: &Watch) -> Result<String> {
    let hash = |at: usize| -> Result<String> {
        let path = &files[at];
        if let Some(known) = hub_name(path) {
            return Ok(known);
        }
        let mut hasher = Sha256::new();
        hash_file(path, &mut hasher, watch)?;
        Ok(hexadecimal(hasher))
    };
    let mut all = Sha256::new();
    for hash in in_order(threads, files.len(), hash) {
        all.update(format!("{}\n", hash?));
    }
    Ok(hexadecimal(all))
}

/// The hash that the hub's cache knows a large file by: `models--NAME/blobs/SHA-256`, to which the file is a link.
fn hub_name(path: &Path) -> Option<String> {
    let blob = path.is_symlink().then(|| path.canonicalize().ok())??;
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let folder = blob.parent().filter(|folder| name(folder).as_deref() == Some("blobs"))?;
    name(folder.parent()?).filter(|repository| repository.starts_with("models--"))?;
    name(&blob).filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

fn hash_file(path: &Path, hasher: &mut Sha256, watch: &Watch) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut file = File::open(path).map_err(|source| Error::io(path, source))?;
    while !watch.abandoned.load(Ordering::Relaxed) {
        match file.read(&mut buffer).map_err(|source| Error::io(path, source))? {
            0 => return Ok(()),
            count => {
                hasher.update(&buffer[..count]);
                watch.read.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }
    Err(Error::Interrupted("nobody waits for the hash of the weights".into()))
}

fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().into_iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(bytes: &[u8]) -> String {
        hexadecimal(Sha256::new_with_prefix(bytes))
    }

    fn fixture(name: &str) -> Model {
        Model::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)).expect("a model")
    }

    #[test]
    fn a_model_is_named_by_the_hashes_of_its_files() {
        let model = fixture("bert/base");
        let of = |name: &str| sha256(&std::fs::read(model.folder.join(name)).expect("a file"));
        let expected = sha256(format!("{}\n{}\n", of("config.json"), of("model.safetensors")).as_bytes());
        assert_eq!(model_fingerprint(&model).expect("readable"), expected);
        for threads in [1, 4] {
            let hash = ModelHash::begin(&model, threads);
            assert_eq!((hash.wait().expect("readable"), hash.wait().expect("known")), (expected.clone(), expected.clone()));
            assert!(hash.is_finished() && hash.bytes().0 == hash.bytes().1 && hash.bytes().1 > 0);
        }
    }

    #[test]
    #[cfg(unix)]
    fn files_of_the_hubs_cache_are_called_by_their_hashes() {
        let root = std::env::temp_dir().join(format!("layerscope-blobs-{}", std::process::id()));
        let known = "0123456789abcdef".repeat(4);
        for (repository, blob, name) in
            [("models--a--b", known.as_str(), Some(known.clone())), ("models--a--b", "d1f8e29c70", None), ("elsewhere", &known, None)]
        {
            let (blobs, snapshot) = (root.join(repository).join("blobs"), root.join(repository).join("snapshots"));
            std::fs::create_dir_all(&blobs).expect("a folder");
            std::fs::create_dir_all(&snapshot).expect("a folder");
            std::fs::write(blobs.join(blob), "weights").expect("written");
            let link = snapshot.join("model.safetensors");
            std::os::unix::fs::symlink(format!("../blobs/{blob}"), &link).expect("a link");
            assert_eq!(hub_name(&link), name, "{repository}/{blob}");
            assert_eq!(hub_name(&blobs.join(blob)), None, "only what is reached by a link of a snapshot");
            std::fs::remove_file(link).expect("removed");
        }
        std::fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_each_time() {
        let hash = ModelHash::of(vec!["/no/such/file".into()], 1);
        assert!(
            [hash.wait(), hash.wait()]
                .iter()
                .all(|outcome| outcome.as_ref().is_err_and(|error| error.to_string().contains("/no/such/file")))
        );
    }
}
