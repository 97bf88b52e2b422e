//! Reading state files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use layerscope_model::checkpoint::Dtype;
use layerscope_model::safetensors::{self, HeaderError, TensorEntry};
use layerscope_report::manifest::sha256;
use layerscope_stats::sketch::{Tensor, Tensors};

use super::numbers::{empty, extend};
use super::write::{Entry, Header, Metadata};
use super::{About, Fingerprint, VERSION, differences};
use crate::error::{Error, Result};

/// A state file whose header was read and found whole.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    source: Source,
    about: About,
    digest: String,
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
    pub start: u64,
    pub bytes: usize,
    pub checksum: u32,
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
        let digest = RefCell::new(String::new());
        let read = |buffer: &mut [u8], start: u64| {
            source.read_exact_at(buffer, start)?;
            *digest.borrow_mut() = sha256(buffer); // the last that is read is the header
            Ok(())
        };
        let header = safetensors::header(read, size).map_err(|error| match error {
            HeaderError::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => Error::io(path, source),
            HeaderError::Io(_) => damaged("it ends too early"),
            HeaderError::Malformed(problem) => damaged(&problem),
        })?;
        let metadata = |name: &str| header.metadata.get(name).cloned().unwrap_or_default();
        let version = metadata("version");
        if version != VERSION {
            return Err(Error::damaged(path, format!("state of version `{version}`; this program reads version {VERSION}")));
        }
        if stated_checksum(&header).is_none_or(|stated| stated != metadata("header_checksum")) {
            return Err(damaged("its header does not match its checksum"));
        }
        let fingerprint = serde_json::from_str(&metadata("fingerprint")).map_err(|_| damaged("unreadable fingerprint"))?;
        let details = serde_json::from_str(&metadata("details")).map_err(|_| damaged("unreadable details"))?;
        let checksums: BTreeMap<String, u32> = serde_json::from_str(&metadata("checksums")).map_err(|_| damaged("unreadable checksums"))?;
        let mut tensors = BTreeMap::new();
        for TensorEntry { name, dtype, shape, bytes } in header.tensors {
            let checksum = *checksums.get(&name).ok_or_else(|| damaged(&format!("tensor `{name}` has no checksum")))?;
            tensors.insert(name, StoredTensor { dtype, shape, start: bytes.start, bytes: (bytes.end - bytes.start) as usize, checksum });
        }
        Ok(StateFile { path: path.to_owned(), source, about: About { fingerprint, details }, digest: digest.into_inner(), tensors })
    }

    /// What it says beside its numbers.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of its header. The header has a checksum of every tensor, so this stands for the whole file.
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

    /// Copies the bytes of a tensor, checking them on the way.
    pub(super) fn copy(&self, stored: &StoredTensor, out: &mut dyn Write) -> io::Result<()> {
        self.for_each_piece(stored, |bytes| out.write_all(bytes))
    }

    /// The bytes of a tensor in pieces of whole numbers; an error at the end if they do not match their checksum.
    fn for_each_piece(&self, stored: &StoredTensor, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; stored.bytes.min(1 << 20)];
        let mut done = 0;
        while done < stored.bytes {
            let piece = buffer.len().min(stored.bytes - done);
            self.source.read_exact_at(&mut buffer[..piece], stored.start + done as u64)?;
            hasher.update(&buffer[..piece]);
            take(&buffer[..piece])?;
            done += piece;
        }
        match hasher.finalize() == stored.checksum {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", self.path.display()))),
        }
    }

    /// Reads everything and compares it with its checksums.
    pub fn verify(&self) -> Result<()> {
        self.tensors.values().try_for_each(|stored| self.copy(stored, &mut io::sink())).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "does not match its checksums"),
            _ => Error::io(&self.path, source),
        })
    }

    /// Numbers of the tensor of this name; 0 where there is none.
    pub fn length(&self, name: &str) -> usize {
        self.tensors.get(name).map_or(0, |stored| stored.bytes / stored.dtype.size())
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
            let mut values = empty(stored.dtype, stored.bytes).ok_or_else(|| damaged("of an unknown kind"))?;
            self.for_each_piece(stored, |bytes| extend(&mut values, bytes)).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => damaged("does not match its checksum"),
                io::ErrorKind::UnexpectedEof => damaged("ends too early"),
                _ => Error::io(&self.path, source),
            })?;
            if stored.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size)) != Some(values.len()) {
                return Err(damaged("its shape does not match its size"));
            }
            tensors.0.insert(name[prefix.len()..].to_owned(), Tensor { shape: stored.shape.clone(), values });
        }
        Ok(tensors)
    }
}

/// The checksum that a header must state.
fn stated_checksum(header: &safetensors::Header) -> Option<String> {
    let metadata = |name: &str| header.metadata.get(name).cloned();
    let data = header.tensors.iter().map(|tensor| tensor.bytes.start).min().unwrap_or(0);
    let entry = |tensor: &TensorEntry| {
        let data_offsets = [tensor.bytes.start - data, tensor.bytes.end - data];
        (
            tensor.name.clone(),
            Entry {
                dtype: safetensors::dtype_name(tensor.dtype).unwrap_or_default().to_owned(),
                shape: tensor.shape.clone(),
                data_offsets,
            },
        )
    };
    let metadata = Metadata {
        version: metadata("version")?,
        fingerprint: metadata("fingerprint")?,
        details: metadata("details")?,
        checksums: metadata("checksums")?,
        header_checksum: String::new(),
    };
    Header { metadata, tensors: header.tensors.iter().map(entry).collect() }.checksum().ok()
}
