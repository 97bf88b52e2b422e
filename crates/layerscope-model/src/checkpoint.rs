//! A folder of weights: which tensors it holds, and their values as f32, one tensor at a time.
//!
//! Opening reads headers only and checks that every tensor lies inside its file, so no header can make us allocate
//! more than the files are large. Reading uses positioned reads: a file that is cut short under us is an error, where under a
//! memory map it would kill the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::safetensors::{self, Entries};
use crate::torch_file;

/// Bytes converted at a time on the way from a file to f32.
const CHUNK: usize = 64 * 1024;

/// The longest index file worth reading.
const MAX_INDEX_BYTES: u64 = 100_000_000;

/// How a checkpoint stores the numbers of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    F8E4m3,
    F8E5m2,
    F8E8m0,
    C128,
    C64,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl Dtype {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Dtype::C128 => 16,
            Dtype::F64 | Dtype::C64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::F8E4m3 | Dtype::F8E5m2 | Dtype::F8E8m0 | Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format!("{self:?}").to_lowercase())
    }
}

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

/// The number of elements of a shape, unless it overflows.
pub(crate) fn checked_elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// A file of weights, held open so that what is read is what was checked.
#[derive(Debug)]
pub(crate) struct WeightFile {
    pub path: PathBuf,
    pub file: File,
    pub bytes: u64,
}

impl WeightFile {
    fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::io(path, source);
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::file(path, "not a regular file"));
        }
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let opened = WeightFile { path: path.to_owned(), file, bytes };
        let pointer = b"version https://git-lfs";
        if bytes >= pointer.len() as u64 && opened.bytes_at(0, pointer.len())? == pointer {
            return Err(Error::file(path, "a Git LFS pointer instead of the weights; fetch them with `git lfs pull`"));
        }
        Ok(opened)
    }

    /// Fills `buffer` from byte `start` on.
    pub fn read_at(&self, buffer: &mut [u8], start: u64) -> Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(buffer, start).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::file(&self.path, "ends too early; it became shorter while it was read"),
            _ => Error::io(&self.path, source),
        })
    }

    /// `count` bytes from byte `start` on; the caller has checked them against the file's size.
    pub fn bytes_at(&self, start: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.read_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

/// A folder of weights whose headers were read and found sound.
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
}

/// The formats a file of weights may have.
#[derive(Clone, Copy)]
enum Format {
    Safetensors,
    Torch,
}

/// What is looked for, in this order.
const CANDIDATES: &[(&str, Format)] = &[("model.safetensors", Format::Safetensors), ("pytorch_model.bin", Format::Torch)];

impl Checkpoint {
    /// Finds the weights of a folder and reads their headers.
    pub fn open(folder: &Path) -> Result<Checkpoint> {
        for &(name, format) in CANDIDATES {
            // Whether the name is there, even as a dangling link: that is an error to report, not a file to overlook.
            let present = |path: &Path| path.symlink_metadata().is_ok();
            let mut checkpoint = Checkpoint { folder: folder.to_owned(), files: BTreeMap::new(), tensors: BTreeMap::new() };
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
        Err(Error::file(folder, format!("no weights here; looked for {}", names.join(", "))))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
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
        let info = self.checked_info(name, shape)?;
        let fault = |problem: String| Error::tensor(&info.file, name, problem);
        let file = self.files.get(&info.file).ok_or_else(|| fault("its file is not open".into()))?;
        let values = match &info.strides {
            None => read_span(file, name, info)?,
            Some(strides) => gather(&read_span(file, name, info)?, shape, strides),
        };
        match first_not_finite(&values) {
            Some(index) => Err(fault(format!("value {index} is {}; weights must be finite", values[index]))),
            None => Ok(values),
        }
    }

    fn checked_info(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo> {
        let info = self.info(name).ok_or_else(|| Error::tensor(&self.folder, name, "missing"))?;
        let fault = |problem: String| Err(Error::tensor(&info.file, name, problem));
        if info.shape != shape {
            return fault(format!("expected shape {shape:?}, found {:?}", info.shape));
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return fault(format!("stored as {}; Layerscope reads f32, f16 and bf16", info.dtype));
        }
        Ok(info)
    }

    /// Opens one file and lists its tensors.
    fn add_file(&mut self, path: &Path, format: Format) -> Result<Vec<(String, TensorInfo)>> {
        let file = WeightFile::open(path)?;
        let tensors = match format {
            Format::Safetensors => safetensors::tensors(&file)?,
            Format::Torch => torch_file::tensors(&file)?,
        };
        let mut names = BTreeSet::new();
        for (name, _) in &tensors {
            if name.chars().any(char::is_control) {
                return Err(Error::file(path, format!("a tensor's name has control characters: `{}`", name.escape_debug())));
            }
            if !names.insert(name) {
                return Err(Error::tensor(path, name, "appears twice"));
            }
        }
        self.files.insert(path.to_owned(), file);
        Ok(tensors)
    }

    /// Opens the shards an index names. The index says which shard holds a tensor; one that it does not know is taken as well.
    fn add_shards(&mut self, index: &Path, format: Format) -> Result<()> {
        let promised = read_index(index)?;
        let shards: BTreeMap<&str, &str> = promised.iter().rev().map(|(tensor, shard)| (shard.as_str(), tensor.as_str())).collect();
        for (&shard, &tensor) in &shards {
            let path = self.folder.join(shard);
            if path.symlink_metadata().is_err() {
                return Err(Error::file(&path, format!("missing; {} says that it holds `{tensor}`", index.display())));
            }
            for (name, info) in self.add_file(&path, format)? {
                match promised.get(&name) {
                    Some(holder) if holder != shard => {}
                    None if self.tensors.contains_key(&name) => {
                        return Err(Error::tensor(&path, &name, "in several shards, and the index does not say which one counts"));
                    }
                    _ => drop(self.tensors.insert(name, info)),
                }
            }
        }
        match promised.iter().find(|(name, _)| !self.tensors.contains_key(*name)) {
            Some((name, shard)) => {
                Err(Error::tensor(&self.folder.join(shard), name, format!("missing, though {} says that it is here", index.display())))
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
        return Err(Error::file(path, format!("{} bytes are too many for an index", file.bytes)));
    }
    let bytes = file.bytes_at(0, file.bytes as usize)?;
    let index: Index = serde_json::from_slice(&bytes).map_err(|error| Error::file(path, format!("not an index of shards: {error}")))?;
    let mut shards = BTreeMap::new();
    for (tensor, shard) in index.weight_map.0 {
        let outside =
            shard.is_empty() || shard == "." || shard == ".." || shard.contains(['/', '\\', ':']) || shard.chars().any(char::is_control);
        if outside {
            let problem =
                format!("puts `{}` into `{}`, which is not the name of a file beside it", tensor.escape_debug(), shard.escape_debug());
            return Err(Error::file(path, problem));
        }
        if let Some(first) = shards.insert(tensor.clone(), shard.clone()).filter(|first| *first != shard) {
            return Err(Error::file(path, format!("puts `{}` into both `{first}` and `{shard}`", tensor.escape_debug())));
        }
    }
    if shards.is_empty() {
        return Err(Error::file(path, "`weight_map` names no tensor"));
    }
    Ok(shards)
}

/// The numbers of the file from the first to the last of a tensor.
fn read_span(file: &WeightFile, name: &str, info: &TensorInfo) -> Result<Vec<f32>> {
    let (size, count) = (info.dtype.size(), info.span());
    let mut values: Vec<f32> = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::tensor(&info.file, name, format!("not enough memory for {count} numbers")));
    }
    let mut buffer = vec![0u8; CHUNK.min(count * size)];
    let mut halves: Vec<f16> = Vec::new();
    while values.len() < count {
        let done = values.len();
        let chunk = &mut buffer[..CHUNK.min((count - done) * size)];
        file.read_at(chunk, info.start + (done * size) as u64)?;
        match info.dtype {
            Dtype::F16 => {
                halves.clear();
                halves.extend(chunk.chunks_exact(2).map(|bytes| f16::from_le_bytes([bytes[0], bytes[1]])));
                values.resize(done + halves.len(), 0.0);
                halves.convert_to_f32_slice(&mut values[done..]);
            }
            Dtype::Bf16 => values.extend(chunk.chunks_exact(2).map(|bytes| bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32())),
            _ => values.extend(chunk.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))),
        }
    }
    Ok(values)
}

/// The elements of a strided view in their logical order.
fn gather(span: &[f32], shape: &[usize], strides: &[usize]) -> Vec<f32> {
    let count = if span.is_empty() { 0 } else { shape.iter().product() };
    let mut position = vec![0; shape.len()];
    let mut at = 0;
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        values.push(span[at]);
        // Step the last dimension, carrying into those before it.
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            at += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            at -= position[axis] * strides[axis];
            position[axis] = 0;
        }
    }
    values
}

/// The index of the first NaN or infinity; sound stretches are passed over without a branch per value.
fn first_not_finite(values: &[f32]) -> Option<usize> {
    let sound = |stretch: &[f32]| stretch.iter().fold(true, |sound, value| sound & value.is_finite());
    let stretch = values.chunks(4096).position(|stretch| !sound(stretch))?;
    values[stretch * 4096..].iter().position(|value| !value.is_finite()).map(|index| stretch * 4096 + index)
}
