//! Reading state files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use layerscope_files::Positioned;
use layerscope_model::checkpoint::Dtype;
use layerscope_model::safetensors::{self, HeaderError, TensorEntry};
use layerscope_report::manifest::sha256;
use layerscope_stats::sketch::{Tensor, Tensors};

use super::numbers::{empty, extend};
use super::packed::unpack;
use super::planes;
use super::write::{Entry, Header, Metadata, Unpacked, laid_out, name_of};
use super::{About, Fingerprint, PLAIN, READABLE, differences};
use crate::error::{Error, Result};

/// A state file whose header was read and found whole.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    source: Source,
    about: About,
    digest: String,
    is_packed: bool,
    pub(super) tensors: BTreeMap<String, StoredTensor>,
}

/// Where the bytes are.
#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn read_exact_at(&self, bytes: &mut [u8], start: u64) -> io::Result<()> {
        match self {
            Source::File(file) => file.read_exact_at(bytes, start),
            Source::Memory(held) => {
                let held = usize::try_from(start).ok().and_then(|start| held.get(start..)?.get(..bytes.len()));
                bytes.copy_from_slice(held.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Where a tensor lies.
#[derive(Debug)]
pub(super) struct StoredTensor {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// Of its numbers.
    pub bytes: usize,
    pub checksum: u32,
    start: u64,
    /// The bytes that its numbers are packed in, where they are.
    packed: Option<usize>,
}

impl StateFile {
    /// Reads the header of a state and checks that the file is as long as it says.
    pub fn open(path: &Path) -> Result<StateFile> {
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let size = file.metadata().map_err(|source| Error::io(path, source))?.len();
        StateFile::parse(Source::File(file), size, path)
    }

    /// The same of bytes that [`encode_state`] made; `name` is what errors call it.
    pub fn decode(bytes: Vec<u8>, name: &str) -> Result<StateFile> {
        let size = bytes.len() as u64;
        StateFile::parse(Source::Memory(bytes), size, name.as_ref())
    }

    fn parse(source: Source, size: u64, path: &Path) -> Result<StateFile> {
        let damaged = |problem: &str| Error::damaged(path, format!("damaged state: {problem}; use an earlier checkpoint or measure again"));
        let last_read = RefCell::new(Vec::new());
        let read = |buffer: &mut [u8], start: u64| {
            source.read_exact_at(buffer, start)?;
            *last_read.borrow_mut() = buffer.to_vec();
            Ok(())
        };
        let header = safetensors::header(read, size).map_err(|error| match error {
            HeaderError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => Error::io(path, source),
            HeaderError::Io(_) => damaged("it ends too early"),
            HeaderError::Malformed(problem) => damaged(&problem),
        })?;
        let header_bytes = last_read.into_inner();
        let metadata = |name: &str| header.metadata.get(name).cloned().unwrap_or_default();
        let version = metadata("version");
        if !READABLE.contains(&version.as_str()) {
            let known = READABLE.join(", ").replacen(", 3", " and 3", 1);
            return Err(Error::damaged(path, format!("state of version `{version}`; this program reads versions {known}")));
        }
        if stated_checksum(&header).is_none_or(|stated| stated != metadata("header_checksum")) {
            return Err(damaged("its header does not match its checksum"));
        }
        let fingerprint = serde_json::from_str(&metadata("fingerprint")).map_err(|_| damaged("unreadable fingerprint"))?;
        let details = serde_json::from_str(&metadata("details")).map_err(|_| damaged("unreadable details"))?;
        let checksums: BTreeMap<String, u32> = serde_json::from_str(&metadata("checksums")).map_err(|_| damaged("unreadable checksums"))?;
        let unpacked = header.metadata.get("packed").map(|packed| serde_json::from_str(packed)).transpose();
        let unpacked: Option<BTreeMap<String, Unpacked>> = unpacked.map_err(|_| damaged("it does not say how it is packed"))?;
        let mut tensors = BTreeMap::new();
        for entry in &header.tensors {
            let checksum = checksums.get(&entry.name).ok_or_else(|| damaged(&format!("tensor `{}` has no checksum", entry.name)))?;
            let unpacked = unpacked.as_ref().and_then(|all| all.get(&entry.name));
            let stored = StoredTensor::of(entry, unpacked, *checksum);
            tensors.insert(entry.name.clone(), stored.ok_or_else(|| damaged(&format!("tensor `{}` is packed wrongly", entry.name)))?);
        }
        let is_packed = unpacked.is_some();
        let digest = match unpacked {
            None => sha256(&header_bytes),
            Some(_) => sha256(&plain_header(&header.metadata, &tensors).ok_or_else(|| damaged("unreadable header"))?),
        };
        Ok(StateFile { path: path.to_owned(), source, about: About { fingerprint, details }, digest, is_packed, tensors })
    }

    /// What it says beside its numbers.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of its header, as it is where nothing is packed. The header has a checksum of every tensor, so this stands for the whole file.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The names of its tensors, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Refuses a state of another model, corpus or setting, and says what differs.
    pub fn expect(&self, expected: &Fingerprint) -> Result<()> {
        let differences = differences(&self.about.fingerprint, expected);
        match differences.is_empty() {
            true => Ok(()),
            false => Err(Error::mismatch(format!("{} belongs to another run: {differences}", self.path.display()))),
        }
    }

    /// The bytes of a tensor in pieces of whole numbers; an error at the end if they do not match their checksum.
    pub(super) fn for_each_piece(&self, stored: &StoredTensor, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        let mut take = |bytes: &[u8]| {
            hasher.update(bytes);
            take(bytes)
        };
        let mut next = stored.start;
        let mut read = |buffer: &mut [u8]| {
            self.source.read_exact_at(buffer, next)?;
            next += buffer.len() as u64;
            Ok(())
        };
        match stored.packed {
            Some(packed) => {
                let width = stored.dtype.size();
                planes::decode((stored.bytes / width, width), packed, &mut read, &mut take)?;
            }
            None => {
                let mut buffer = vec![0; stored.bytes.min(1 << 20)];
                for start in (0..stored.bytes).step_by(buffer.len().max(1)) {
                    let piece = buffer.len().min(stored.bytes - start);
                    read(&mut buffer[..piece])?;
                    take(&buffer[..piece])?;
                }
            }
        }
        match hasher.finalize() == stored.checksum {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", self.path.display()))),
        }
    }

    /// Reads everything and compares it with its checksums.
    pub fn verify(&self) -> Result<()> {
        self.tensors.values().try_for_each(|stored| self.for_each_piece(stored, &mut |_| Ok(()))).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "does not match its checksums"),
            _ => Error::io(&self.path, source),
        })
    }

    /// Whether its tensors are packed where that is worth it.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// The largest absolute value of f32 numbers.
    pub fn largest(&self, name: &str) -> Result<f32> {
        let mut largest = 0f32;
        let mut look = |bytes: &[u8]| {
            bytes.as_chunks().0.iter().for_each(|bytes| largest = largest.max(f32::from_le_bytes(*bytes).abs()));
            Ok(())
        };
        let stored = self.tensors.get(name).filter(|stored| stored.dtype == Dtype::F32);
        stored.map_or(Ok(()), |stored| self.for_each_piece(stored, &mut look)).map_err(|source| Error::io(&self.path, source))?;
        Ok(largest)
    }

    /// Bytes of the tensor of this name; 0 where there is none.
    pub fn bytes_of(&self, name: &str) -> usize {
        self.tensors.get(name).map_or(0, |stored| stored.bytes)
    }

    /// Bytes of the tensors under `prefix.`.
    pub fn bytes(&self, prefix: &str) -> usize {
        let prefix = format!("{prefix}.");
        self.tensors.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)).map(|(_, stored)| stored.bytes).sum()
    }

    /// The tensors under `prefix.`, without the prefix, each checked against its checksum.
    pub fn read(&self, prefix: &str) -> Result<Tensors<'static>> {
        let prefix = format!("{prefix}.");
        let mut tensors = Tensors::default();
        for (name, stored) in self.tensors.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)) {
            let damaged = |problem: &str| Error::damaged(&self.path, format!("tensor `{name}`: {problem}"));
            let mut values = empty(stored.dtype, stored.room()).ok_or_else(|| damaged("of an unknown kind"))?;
            self.for_each_piece(stored, &mut |bytes| extend(&mut values, stored.dtype, bytes)).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => damaged("does not match its checksum"),
                io::ErrorKind::UnexpectedEof => damaged("ends too early"),
                _ => Error::io(&self.path, source),
            })?;
            if stored.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size)) != Some(values.len()) {
                return Err(damaged("its shape does not match its size"));
            }
            tensors.0.insert(name[prefix.len()..].to_owned(), Tensor { shape: stored.shape.clone(), values });
        }
        unpack(&mut tensors).map_err(|problem| Error::damaged(&self.path, problem))?;
        Ok(tensors)
    }
}

/// The checksum that a header must state.
fn stated_checksum(header: &safetensors::Header) -> Option<String> {
    let data = header.tensors.iter().map(|tensor| tensor.bytes.start).min().unwrap_or(0);
    let entry = |tensor: &TensorEntry| {
        let data_offsets = [tensor.bytes.start - data, tensor.bytes.end - data];
        (tensor.name.clone(), Entry { dtype: name_of(tensor.dtype).to_owned(), shape: tensor.shape.clone(), data_offsets })
    };
    let metadata = Metadata::of(&header.metadata)?;
    Header { metadata, tensors: header.tensors.iter().map(entry).collect() }.checksum().ok()
}

/// The header that a packed file has where nothing is packed.
fn plain_header(metadata: &BTreeMap<String, String>, tensors: &BTreeMap<String, StoredTensor>) -> Option<Vec<u8>> {
    let metadata = Metadata { version: PLAIN.to_owned(), packed: None, ..Metadata::of(metadata)? };
    let layout = tensors.iter().map(|(name, stored)| (name.clone(), (name_of(stored.dtype), stored.shape.clone(), stored.bytes as u64)));
    Header { metadata, tensors: laid_out(layout) }.bytes().ok()
}

impl StoredTensor {
    /// Bytes to make room for: those of packed numbers are there once they were seen.
    fn room(&self) -> usize {
        self.packed.unwrap_or(self.bytes)
    }

    /// None if what it is packed in cannot be a tensor.
    fn of(entry: &TensorEntry, unpacked: Option<&Unpacked>, checksum: u32) -> Option<StoredTensor> {
        let (start, length) = (entry.bytes.start, (entry.bytes.end - entry.bytes.start) as usize);
        let Some(unpacked) = unpacked else {
            return Some(StoredTensor { dtype: entry.dtype, shape: entry.shape.clone(), bytes: length, checksum, start, packed: None });
        };
        let dtype = safetensors::dtype_named(&unpacked.dtype)?;
        let numbers = unpacked.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size))?;
        let bytes = numbers.checked_mul(dtype.size())?;
        Some(StoredTensor { dtype, shape: unpacked.shape.clone(), bytes, checksum, start, packed: Some(length) })
    }
}
