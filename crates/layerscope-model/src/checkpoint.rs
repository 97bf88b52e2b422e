//! A folder of weights: which tensors it holds, and their numbers, one tensor at a time.
//!
//! Opening reads headers only and checks that every tensor lies inside its file, so no header can make the program allocate
//! more than the files are large. Reading uses positioned reads: a file that another process truncates is an error, where a
//! memory map would kill the process.

mod blocks;
mod dtype;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use layerscope_compute::HostValues;
use layerscope_files::Positioned;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::foreign;
use crate::gguf::{self, Header, Metadata};
use crate::safetensors::{self, Entries, HeaderError, TensorEntry};
use crate::torch_file;
pub use dtype::{Block, Dtype};

/// The longest index file worth reading.
const MAX_INDEX_BYTES: u64 = 100_000_000;

/// Where a tensor lies and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its dimensions, none for a single number.
    pub shape: Vec<usize>,
    /// How its numbers are stored.
    pub dtype: Dtype,
    /// The file that holds it.
    pub file: PathBuf,
    /// The byte of the file where its first number starts.
    pub(crate) start: u64,
    /// Numbers to skip per step of each dimension, where they do not simply follow each other.
    pub(crate) strides: Option<Vec<usize>>,
}

impl TensorInfo {
    /// How many numbers it has. Opening refused the shapes for which this would overflow.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many numbers of the file lie between its first and its last, both included.
    fn span(&self) -> usize {
        match &self.strides {
            Some(strides) if self.elements() > 0 => {
                1 + self.shape.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<usize>()
            }
            _ => self.elements(),
        }
    }
}

/// Whether a path is a GGUF file, by its ending.
pub fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) && !path.is_dir()
}

/// The one GGUF file of a folder that holds nothing else to read a model from; None where it has a `config.json` or no such file.
pub fn gguf_in(folder: &Path) -> Result<Option<PathBuf>> {
    if !folder.is_dir() || folder.join("config.json").symlink_metadata().is_ok() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_gguf(path)).collect();
    files.sort();
    match files.len() {
        0 | 1 => Ok(files.pop()),
        count => {
            let name = files[0].file_name().unwrap_or_default().to_string_lossy().into_owned();
            Err(Error::file(folder, format!("{count} GGUF files here; give one of them, such as {name}")))
        }
    }
}

/// The number of elements of a shape, unless it overflows.
pub(crate) fn checked_elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// A file of weights. It stays open, so the file that is read is the file that was checked.
#[derive(Debug)]
pub(crate) struct WeightFile {
    pub path: PathBuf,
    pub file: File,
    pub bytes: u64,
}

impl WeightFile {
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::io(path, source);
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::file(path, "not a regular file"));
        }
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let opened = WeightFile { path: path.to_owned(), file, bytes };
        let pointer = b"version https://git-lfs";
        if bytes >= pointer.len() as u64 && opened.bytes_at(0, pointer.len())? == pointer {
            return Err(Error::file(path, "a Git LFS pointer, not the weights; fetch them with `git lfs pull`"));
        }
        Ok(opened)
    }

    /// Fills `buffer` from byte `start` on.
    pub fn read_at(&self, buffer: &mut [u8], start: u64) -> Result<()> {
        self.file.read_exact_at(buffer, start).map_err(|source| self.unread(source))
    }

    fn unread(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::file(&self.path, "the file became shorter while it was read"),
            _ => Error::io(&self.path, source),
        }
    }

    /// The tensors of a safetensors file.
    fn safetensors(&self) -> Result<Vec<(String, TensorInfo)>> {
        let header = safetensors::header(|buffer, start| self.file.read_exact_at(buffer, start), self.bytes);
        let header = header.map_err(|error| match error {
            HeaderError::Io(source) => self.unread(source),
            HeaderError::Malformed(problem) => Error::file(&self.path, problem),
        })?;
        let located = |tensor: TensorEntry| {
            let info =
                TensorInfo { shape: tensor.shape, dtype: tensor.dtype, file: self.path.clone(), start: tensor.bytes.start, strides: None };
            (tensor.name, info)
        };
        Ok(header.tensors.into_iter().map(located).collect())
    }

    /// `count` bytes from byte `start` on; the caller has checked them against the file's size.
    pub fn bytes_at(&self, start: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.read_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

/// A folder of weights, or one GGUF file, whose headers were read and found sound.
///
/// ```no_run
/// # fn main() -> layerscope_model::Result<()> {
/// let checkpoint = layerscope_model::checkpoint::Checkpoint::open("bert-tiny".as_ref())?;
/// let bias = checkpoint.read("embeddings.LayerNorm.bias", &[128])?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    files: BTreeMap<PathBuf, WeightFile>,
    tensors: BTreeMap<String, TensorInfo>,
    metadata: Option<Metadata>,
}

/// The formats a file of weights may have.
#[derive(Clone, Copy)]
enum Format {
    Safetensors,
    Torch,
}

/// The files to look for, in this order.
const CANDIDATES: &[(&str, Format)] = &[("model.safetensors", Format::Safetensors), ("pytorch_model.bin", Format::Torch)];

impl Checkpoint {
    /// Finds the weights of a folder, or takes a GGUF file, and reads their headers.
    pub fn open(folder: &Path) -> Result<Checkpoint> {
        if is_gguf(folder) {
            return Checkpoint::open_gguf(folder);
        }
        for &(name, format) in CANDIDATES {
            // A dangling link counts as present: opening it reports the error.
            let present = |path: &Path| path.symlink_metadata().is_ok();
            let mut checkpoint = Checkpoint::empty(folder);
            let single = folder.join(name);
            let index = folder.join(format!("{name}.index.json"));
            if present(&single) {
                checkpoint.tensors = checkpoint.add_file(&single, format)?.into_iter().collect();
                return Ok(checkpoint);
            }
            if present(&index) {
                checkpoint.add_shards(&index, format)?;
                return Ok(checkpoint);
            }
        }
        let names: Vec<_> = CANDIDATES.iter().flat_map(|(name, _)| [format!("`{name}`"), format!("`{name}.index.json`")]).collect();
        Err(Error::file(folder, format!("no weights here; looked for {}{}", names.join(", "), foreign::in_folder(folder))))
    }

    fn empty(folder: &Path) -> Checkpoint {
        Checkpoint { folder: folder.to_owned(), files: BTreeMap::new(), tensors: BTreeMap::new(), metadata: None }
    }

    fn open_gguf(path: &Path) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::empty(path);
        let file = WeightFile::open(path)?;
        let Header { metadata, tensors } = gguf::header(&file)?;
        let located = tensors.into_iter().map(|tensor| {
            let info =
                TensorInfo { shape: tensor.shape, dtype: tensor.dtype, file: path.to_owned(), start: tensor.bytes.start, strides: None };
            (tensor.name, info)
        });
        checkpoint.tensors = checkpoint.add_tensors(file, located.collect())?.into_iter().collect();
        checkpoint.metadata = Some(metadata);
        Ok(checkpoint)
    }

    /// The folder, or the GGUF file.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a GGUF file says about its model.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// What is known about a tensor before reading it.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The files of weights, in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// The size of the files of weights.
    pub fn bytes_on_disk(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// The kinds of numbers stored, with how many tensors have each.
    pub fn dtypes(&self) -> Vec<(Dtype, usize)> {
        let mut counts = BTreeMap::new();
        for info in self.tensors.values() {
            *counts.entry(info.dtype).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    /// Refuses a tensor that is missing, has another shape than expected, or is stored as something we do not read.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.checked_info(name, shape).map(|_| ())
    }

    /// The values of a tensor, which must be there, have this shape and be finite; f32, f16 and bf16 convert exactly.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (file, info) = self.checked_file(name, shape)?;
        values::widened(file, name, info)
    }

    /// The same, but in the numbers of the file.
    pub fn read_stored(&self, name: &str, shape: &[usize]) -> Result<HostValues> {
        let (file, info) = self.checked_file(name, shape)?;
        values::stored(file, name, info)
    }

    fn checked_file(&self, name: &str, shape: &[usize]) -> Result<(&WeightFile, &TensorInfo)> {
        let info = self.checked_info(name, shape)?;
        let file = self.files.get(&info.file).ok_or_else(|| Error::tensor(&info.file, name, "its file is not open"))?;
        Ok((file, info))
    }

    fn checked_info(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo> {
        let info = self.info(name).ok_or_else(|| Error::tensor(&self.folder, name, "missing"))?;
        let fault = |problem: String| Err(Error::tensor(&info.file, name, problem));
        if info.shape != shape {
            return fault(format!("expected shape {shape:?}, found {:?}", info.shape));
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) && !info.dtype.is_quantized() {
            return fault(format!("stored as {}; Layerscope reads f32, f16 and bf16", info.dtype));
        }
        Ok(info)
    }

    /// Opens one file and lists its tensors.
    fn add_file(&mut self, path: &Path, format: Format) -> Result<Vec<(String, TensorInfo)>> {
        let file = WeightFile::open(path)?;
        let tensors = match format {
            Format::Safetensors => file.safetensors()?,
            Format::Torch => torch_file::tensors(&file)?,
        };
        self.add_tensors(file, tensors)
    }

    /// Keeps a file whose tensors have names that can be shown, each once.
    fn add_tensors(&mut self, file: WeightFile, tensors: Vec<(String, TensorInfo)>) -> Result<Vec<(String, TensorInfo)>> {
        let path = file.path.clone();
        let mut names = BTreeSet::new();
        for (name, _) in &tensors {
            if name.chars().any(char::is_control) {
                return Err(Error::file(&path, format!("a tensor's name has control characters: `{}`", name.escape_debug())));
            }
            if !names.insert(name) {
                return Err(Error::tensor(&path, name, "appears twice"));
            }
        }
        self.files.insert(path, file);
        Ok(tensors)
    }

    /// Opens the shards an index names. The index says which shard holds a tensor; tensors that it does not list are read too.
    fn add_shards(&mut self, index: &Path, format: Format) -> Result<()> {
        let promised = read_index(index)?;
        let shards: BTreeMap<&str, &str> = promised.iter().rev().map(|(tensor, shard)| (shard.as_str(), tensor.as_str())).collect();
        for (&shard, &tensor) in &shards {
            let path = self.folder.join(shard);
            if path.symlink_metadata().is_err() {
                return Err(Error::file(&path, format!("missing, but {} places `{tensor}` there", index.display())));
            }
            for (name, info) in self.add_file(&path, format)? {
                match promised.get(&name) {
                    Some(holder) if holder != shard => {}
                    None if self.tensors.contains_key(&name) => {
                        return Err(Error::tensor(&path, &name, "in several shards, and the index does not say which to use"));
                    }
                    _ => drop(self.tensors.insert(name, info)),
                }
            }
        }
        match promised.iter().find(|(name, _)| !self.tensors.contains_key(*name)) {
            Some((name, shard)) => {
                Err(Error::tensor(&self.folder.join(shard), name, format!("missing, but {} places it here", index.display())))
            }
            None => Ok(()),
        }
    }
}

/// The `weight_map` of an index: tensor to file name, which must name a file beside the index.
fn read_index(path: &Path) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: Entries<String>,
    }
    let file = WeightFile::open(path)?;
    if file.bytes > MAX_INDEX_BYTES {
        return Err(Error::file(path, format!("an index of {} bytes is over the limit of {MAX_INDEX_BYTES}", file.bytes)));
    }
    let bytes = file.bytes_at(0, file.bytes as usize)?;
    let index: Index = serde_json::from_slice(&bytes).map_err(|error| Error::file(path, format!("not an index of shards: {error}")))?;
    let mut shards = BTreeMap::new();
    for (tensor, shard) in index.weight_map.entries {
        let outside =
            shard.is_empty() || shard == "." || shard == ".." || shard.contains(['/', '\\', ':']) || shard.chars().any(char::is_control);
        if outside {
            let problem =
                format!("assigns `{}` to `{}`, which is not a file name in the same folder", tensor.escape_debug(), shard.escape_debug());
            return Err(Error::file(path, problem));
        }
        if let Some(first) = shards.insert(tensor.clone(), shard.clone()).filter(|first| *first != shard) {
            return Err(Error::file(path, format!("assigns `{}` to both `{first}` and `{shard}`", tensor.escape_debug())));
        }
    }
    if shards.is_empty() {
        return Err(Error::file(path, "`weight_map` names no tensor"));
    }
    Ok(shards)
}
