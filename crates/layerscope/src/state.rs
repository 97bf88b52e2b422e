//! Sketches on disk: a safetensors file with a version, a fingerprint and a checksum for every tensor.
//!
//! A shard, a checkpoint and a finished result are all such a file. Reading takes one prefix (one point of the network) at
//! a time, so that merging many large states needs the memory of one point.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use layerscope_stats::sketch::{Tensor, Tensors, Values};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::store::Store;

/// Raised whenever older programs could misread what newer ones write.
const VERSION: &str = "1";
/// No header of ours comes near this; a damaged length must not make us allocate.
const MAX_HEADER: u64 = 100_000_000;
/// Stands in the header where its own checksum goes.
const NO_CHECKSUM: &str = "00000000";

/// Everything that must be equal for two states to be merged or continued, as a flat object.
pub type Fingerprint = Map<String, Value>;

/// What the format lets us say about the whole file: strings only.
#[derive(Serialize, Deserialize)]
struct Metadata {
    version: String,
    fingerprint: String,
    /// What else belongs to the tensors, as JSON.
    details: String,
    /// A JSON object: tensor to CRC-32.
    checksums: String,
    /// CRC-32 of the header with [`NO_CHECKSUM`] in this place.
    header_checksum: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: Metadata,
    #[serde(flatten)]
    tensors: BTreeMap<String, Entry>,
}

/// What a state file says beside its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What the numbers were computed from.
    pub fingerprint: Fingerprint,
    /// Anything else that belongs to them.
    pub details: Value,
}

/// Writes tensors and what is to be known about them.
pub fn write_state(store: &Store, name: &str, about: &About, tensors: &Tensors<'_>) -> Result<()> {
    let failed = |source: io::Error| Error::io(&store.path(name), source);
    let header = header_of(about, tensors).map_err(failed)?;
    store.put_atomic(name, |out| write_parts(out, &header, |out| write_tensors(tensors, out)))
}

/// The same in memory.
pub fn encode_state(about: &About, tensors: &Tensors<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = header_of(about, tensors).and_then(|header| write_parts(&mut bytes, &header, |out| write_tensors(tensors, out)));
    written.map_err(|source| Error::io("a state in memory".as_ref(), source))?;
    Ok(bytes)
}

fn write_tensors(tensors: &Tensors<'_>, out: &mut dyn Write) -> io::Result<()> {
    tensors.0.values().try_for_each(|tensor| for_each_chunk(&tensor.values, |bytes| out.write_all(bytes)))
}

fn header_of(about: &About, tensors: &Tensors<'_>) -> io::Result<Vec<u8>> {
    let mut checksums = BTreeMap::new();
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (tensor_name, tensor) in &tensors.0 {
        let start = end;
        end += (tensor.values.len() * width(&tensor.values)) as u64;
        checksums.insert(tensor_name.clone(), checksum(&tensor.values)?);
        let (dtype, shape) = (dtype(&tensor.values).to_owned(), tensor.shape.clone());
        entries.insert(tensor_name.clone(), Entry { dtype, shape, data_offsets: [start, end] });
    }
    header_bytes(about, &checksums, entries)
}

/// Writes one file with those tensors of several files that `wanted` names, without holding any of them in memory.
pub fn join_states(store: &Store, name: &str, about: &About, parts: &[&StateFile], wanted: impl Fn(&str) -> bool) -> Result<()> {
    let mut sources: BTreeMap<&String, (&StateFile, &StoredTensor)> = BTreeMap::new();
    for &part in parts {
        sources.extend(part.tensors.iter().filter(|(name, _)| wanted(name)).map(|(name, stored)| (name, (part, stored))));
    }
    let mut checksums = BTreeMap::new();
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (&tensor, (_, stored)) in &sources {
        let start = end;
        end += stored.bytes as u64;
        checksums.insert(tensor.clone(), stored.checksum);
        entries.insert(tensor.clone(), Entry { dtype: stored.dtype.clone(), shape: stored.shape.clone(), data_offsets: [start, end] });
    }
    let header = header_bytes(about, &checksums, entries).map_err(|source| Error::io(&store.path(name), source))?;
    store.put_atomic(name, |out| write_parts(out, &header, |out| sources.values().try_for_each(|(part, stored)| part.copy(stored, out))))
}

fn write_parts(out: &mut dyn Write, header: &[u8], write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header)?;
    write(out)
}

/// The header with its own checksum in it, padded so that the numbers are aligned.
fn header_bytes(about: &About, checksums: &BTreeMap<String, u32>, tensors: BTreeMap<String, Entry>) -> io::Result<Vec<u8>> {
    let metadata = Metadata {
        version: VERSION.to_owned(),
        fingerprint: Value::Object(about.fingerprint.clone()).to_string(),
        details: about.details.to_string(),
        checksums: serde_json::to_string(checksums)?,
        header_checksum: NO_CHECKSUM.to_owned(),
    };
    let mut header = Header { metadata, tensors };
    header.metadata.header_checksum = format!("{:08x}", crc32fast::hash(&serde_json::to_vec(&header)?));
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    Ok(bytes)
}

/// A state file whose header was read and found whole.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    source: Source,
    data: u64,
    about: About,
    tensors: BTreeMap<String, StoredTensor>,
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

#[derive(Debug)]
struct StoredTensor {
    dtype: String,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
    checksum: u32,
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
        let damaged =
            |problem: &str| Error::damaged(path, format!("damaged state: {problem}; an earlier checkpoint or a new run is needed"));

        let mut length = [0; 8];
        read_at(&source, path, &mut length, 0)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length + 8 > size {
            return Err(damaged("its header does not fit the file"));
        }
        let mut bytes = vec![0; length as usize];
        read_at(&source, path, &mut bytes, 8)?;
        let mut header: Header = serde_json::from_slice(&bytes).map_err(|_| damaged("its header is not readable"))?;
        if header.metadata.version != VERSION {
            let problem = format!("state of version {}, this program reads version {VERSION}", header.metadata.version);
            return Err(Error::damaged(path, problem));
        }
        let stated = std::mem::replace(&mut header.metadata.header_checksum, NO_CHECKSUM.to_owned());
        let content = serde_json::to_vec(&header).map_err(|_| damaged("its header is not readable"))?;
        if stated != format!("{:08x}", crc32fast::hash(&content)) {
            return Err(damaged("its header does not match its checksum"));
        }
        let fingerprint = serde_json::from_str(&header.metadata.fingerprint).map_err(|_| damaged("its fingerprint is not readable"))?;
        let details = serde_json::from_str(&header.metadata.details).map_err(|_| damaged("its details are not readable"))?;
        let checksums: BTreeMap<String, u32> =
            serde_json::from_str(&header.metadata.checksums).map_err(|_| damaged("its checksums are not readable"))?;
        let data = 8 + length;
        let mut tensors = BTreeMap::new();
        for (name, entry) in header.tensors {
            let [start, end] = entry.data_offsets;
            let checksum = *checksums.get(&name).ok_or_else(|| damaged(&format!("tensor `{name}` has no checksum")))?;
            if start > end || end > size - data {
                return Err(damaged(&format!("tensor `{name}` ends beyond the file")));
            }
            let stored = StoredTensor { dtype: entry.dtype, shape: entry.shape, start, bytes: (end - start) as usize, checksum };
            tensors.insert(name, stored);
        }
        Ok(StateFile { path: path.to_owned(), source, data, about: About { fingerprint, details }, tensors })
    }

    /// What it says beside its numbers.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
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
            false => Err(Error::Mismatch(format!("{}: not of this run: {differences}", self.path.display()))),
        }
    }

    /// Copies the bytes of a tensor, checking them on the way.
    fn copy(&self, stored: &StoredTensor, out: &mut dyn Write) -> io::Result<()> {
        self.for_each_piece(stored, |bytes| out.write_all(bytes))
    }

    /// The bytes of a tensor in pieces of whole numbers; an error at the end if they do not match their checksum.
    fn for_each_piece(&self, stored: &StoredTensor, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; stored.bytes.min(1 << 20)];
        let mut done = 0;
        while done < stored.bytes {
            let piece = buffer.len().min(stored.bytes - done);
            self.source.read_exact_at(&mut buffer[..piece], self.data + stored.start + done as u64)?;
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

    /// The tensors under `prefix.`, without the prefix, each checked against its checksum.
    pub fn read(&self, prefix: &str) -> Result<Tensors<'static>> {
        let prefix = format!("{prefix}.");
        let mut tensors = Tensors::default();
        for (name, stored) in self.tensors.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix)) {
            let damaged = |problem: &str| Error::damaged(&self.path, format!("tensor `{name}`: {problem}"));
            let mut values = empty(&stored.dtype, stored.bytes).ok_or_else(|| damaged("of an unknown kind"))?;
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

/// How two fingerprints differ, in words; empty when they are equal.
pub fn differences(there: &Fingerprint, here: &Fingerprint) -> String {
    let keys: std::collections::BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    let differing = keys.into_iter().filter(|key| here.get(*key) != there.get(*key));
    let lines: Vec<String> =
        differing.map(|key| format!("{key} is {} there and {} here", shown(there.get(key)), shown(here.get(key)))).collect();
    lines.join("; ")
}

fn read_at(source: &Source, path: &Path, bytes: &mut [u8], start: u64) -> Result<()> {
    source.read_exact_at(bytes, start).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(path, "damaged state: ends too early"),
        _ => Error::io(path, source),
    })
}

fn dtype(values: &Values<'_>) -> &'static str {
    match values {
        Values::F64(_) => "F64",
        Values::F32(_) => "F32",
        Values::U64(_) => "U64",
    }
}

fn width(values: &Values<'_>) -> usize {
    match values {
        Values::F64(_) | Values::U64(_) => 8,
        Values::F32(_) => 4,
    }
}

/// Room for the numbers of a tensor.
fn empty(dtype: &str, bytes: usize) -> Option<Values<'static>> {
    match dtype {
        "F64" => Some(Values::F64(Cow::Owned(Vec::with_capacity(bytes / size_of::<f64>())))),
        "U64" => Some(Values::U64(Cow::Owned(Vec::with_capacity(bytes / size_of::<u64>())))),
        "F32" => Some(Values::F32(Cow::Owned(Vec::with_capacity(bytes / size_of::<f32>())))),
        _ => None,
    }
}

/// Appends little-endian numbers.
fn extend(values: &mut Values<'static>, bytes: &[u8]) -> io::Result<()> {
    match values {
        Values::F64(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes))),
        Values::U64(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))),
        Values::F32(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
    }
    Ok(())
}

fn checksum(values: &Values<'_>) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    for_each_chunk(values, |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.finalize())
}

/// The bytes of a tensor in pieces, little-endian.
fn for_each_chunk(values: &Values<'_>, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    fn pieces<T: Copy, const W: usize>(
        values: &[T],
        bytes: impl Fn(T) -> [u8; W],
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![[0; W]; values.len().min(8192)];
        for piece in values.chunks(8192) {
            buffer.iter_mut().zip(piece).for_each(|(place, value)| *place = bytes(*value));
            take(buffer[..piece.len()].as_flattened())?;
        }
        Ok(())
    }
    match values {
        Values::F64(values) => pieces(values, f64::to_le_bytes, &mut take),
        Values::F32(values) => pieces(values, f32::to_le_bytes, &mut take),
        Values::U64(values) => pieces(values, u64::to_le_bytes, &mut take),
    }
}
