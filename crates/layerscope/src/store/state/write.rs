//! Writing state files.

use std::collections::BTreeMap;
use std::io::{self, Write};

use layerscope_compute::parallel::in_order;
use layerscope_model::checkpoint::Dtype;
use layerscope_model::safetensors::{dtype_name, dtype_named};
use layerscope_report::manifest::sha256;
use layerscope_stats::sketch::Tensors;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::{StateFile, StoredTensor};
use super::numbers::to_f16;
use super::packed::{Packed, packed};
use super::planes::{Encoder, Packing};
use super::{About, PACKED, PLAIN};
use crate::error::{Error, Result};
use crate::store::folder::{Folder, Unsettled};

/// Stands in the header where its own checksum goes.
const NO_CHECKSUM: &str = "00000000";
/// A tensor of fewer bytes is not worth packing.
const WORTH_PACKING: u64 = 4096;
/// No tensor takes as many bytes: what a header says of one takes no more digits than this.
const MORE_THAN_ANY: u64 = 1_000_000_000_000_000;

/// What the format lets us say about the whole file: strings only.
#[derive(Clone, Serialize)]
pub(super) struct Metadata {
    pub version: String,
    pub fingerprint: String,
    /// What else belongs to the tensors, as JSON.
    pub details: String,
    /// A JSON object: tensor to CRC-32 of its numbers.
    pub checksums: String,
    /// A JSON object: packed tensor to what it is once it is [`Unpacked`]; None where nothing is packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packed: Option<String>,
    /// CRC-32 of the header with [`NO_CHECKSUM`] in this place.
    pub header_checksum: String,
}

impl Metadata {
    /// As a file states it, but for the checksum of the header.
    pub fn of(stated: &BTreeMap<String, String>) -> Option<Metadata> {
        let get = |name: &str| stated.get(name).cloned();
        let (version, fingerprint, details, checksums) = (get("version")?, get("fingerprint")?, get("details")?, get("checksums")?);
        Some(Metadata { version, fingerprint, details, checksums, packed: get("packed"), header_checksum: String::new() })
    }
}

/// What a packed tensor is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Unpacked {
    pub dtype: String,
    pub shape: Vec<usize>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub data_offsets: [u64; 2],
}

impl Entry {
    fn bytes(&self) -> u64 {
        self.data_offsets[1] - self.data_offsets[0]
    }
}

/// Entries of tensors of a kind, a shape and so many bytes, one behind the other.
pub(super) fn laid_out<'d>(tensors: impl Iterator<Item = (String, (&'d str, Vec<usize>, u64))>) -> BTreeMap<String, Entry> {
    let mut end = 0;
    let entry = |(name, (dtype, shape, bytes)): (String, (&'d str, Vec<usize>, u64))| {
        let start = end;
        end += bytes;
        (name, Entry { dtype: dtype.to_owned(), shape, data_offsets: [start, end] })
    };
    tensors.map(entry).collect()
}

#[derive(Clone, Serialize)]
pub(super) struct Header {
    #[serde(rename = "__metadata__")]
    pub metadata: Metadata,
    #[serde(flatten)]
    pub tensors: BTreeMap<String, Entry>,
}

impl Header {
    fn of(about: &About, checksums: &BTreeMap<String, u32>, tensors: BTreeMap<String, Entry>) -> io::Result<Header> {
        let metadata = Metadata {
            version: PLAIN.to_owned(),
            fingerprint: Value::Object(about.fingerprint.clone()).to_string(),
            details: about.details.to_string(),
            checksums: serde_json::to_string(checksums)?,
            packed: None,
            header_checksum: String::new(),
        };
        Ok(Header { metadata, tensors })
    }

    /// CRC-32 of the header with [`NO_CHECKSUM`] in its own place.
    pub fn checksum(&mut self) -> serde_json::Result<String> {
        self.metadata.header_checksum = NO_CHECKSUM.to_owned();
        Ok(format!("{:08x}", crc32fast::hash(&serde_json::to_vec(self)?)))
    }

    /// The header with its own checksum in it, padded so that the numbers are aligned.
    pub fn bytes(mut self) -> io::Result<Vec<u8>> {
        self.metadata.header_checksum = self.checksum()?;
        let mut bytes = serde_json::to_vec(&self)?;
        bytes.resize(bytes.len().next_multiple_of(8), b' ');
        Ok(bytes)
    }

    /// The same of a file whose tensors are packed in so many bytes each, where they are worth it.
    fn packed(&self, sizes: &BTreeMap<String, u64>) -> io::Result<Header> {
        let unpacked = |(name, entry): (&String, &Entry)| {
            let packed = sizes.contains_key(name);
            packed.then(|| (name.clone(), Unpacked { dtype: entry.dtype.clone(), shape: entry.shape.clone() }))
        };
        let unpacked: BTreeMap<String, Unpacked> = self.tensors.iter().filter_map(unpacked).collect();
        let metadata = Metadata { version: PACKED.to_owned(), packed: Some(serde_json::to_string(&unpacked)?), ..self.metadata.clone() };
        let stored = |(name, entry): (&String, &Entry)| match sizes.get(name) {
            Some(&size) => (name.clone(), ("U8".to_owned(), vec![size as usize], size)),
            None => (name.clone(), (entry.dtype.clone(), entry.shape.clone(), entry.bytes())),
        };
        let stored: Vec<_> = self.tensors.iter().map(stored).collect();
        let tensors = laid_out(stored.iter().map(|(name, (dtype, shape, size))| (name.clone(), (dtype.as_str(), shape.clone(), *size))));
        Ok(Header { metadata, tensors })
    }
}

/// A state file before it is written: its header is known, and with it the checksums of all numbers.
pub struct Draft<'a> {
    name: &'a str,
    header: Header,
    content: Content<'a>,
}

enum Content<'a> {
    Tensors(BTreeMap<String, Packed<'a>>),
    Stored(BTreeMap<String, Part<'a>>),
}

/// A tensor of another file.
struct Part<'a> {
    file: &'a StateFile,
    stored: &'a StoredTensor,
    /// Whether its f32 numbers become f16.
    is_rounded: bool,
}

impl Part<'_> {
    fn dtype(&self) -> Dtype {
        if self.is_rounded { Dtype::F16 } else { self.stored.dtype }
    }

    fn bytes(&self) -> u64 {
        (self.stored.bytes / self.stored.dtype.size() * self.dtype().size()) as u64
    }

    fn checksum(&self) -> io::Result<u32> {
        if !self.is_rounded {
            return Ok(self.stored.checksum);
        }
        let mut hasher = crc32fast::Hasher::new();
        self.for_each_piece(&mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(hasher.finalize())
    }

    fn for_each_piece(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self.is_rounded {
            false => self.file.for_each_piece(self.stored, take),
            true => self.file.for_each_piece(self.stored, &mut |bytes| take(&to_f16(bytes))),
        }
    }
}

impl<'a> Draft<'a> {
    /// Of tensors and what is to be known about them, on so many threads.
    pub fn of(name: &'a str, about: &About, tensors: &'a Tensors<'a>, threads: usize) -> Result<Draft<'a>> {
        let packed = packed(tensors, threads);
        let header = header_of(about, &packed, threads).map_err(|source| Error::io(name.as_ref(), source))?;
        Ok(Draft { name, header, content: Content::Tensors(packed) })
    }

    /// One file with those tensors of several files that `wanted` names, without holding any of them in memory.
    pub fn joined(name: &'a str, about: &About, parts: &[&'a StateFile], wanted: impl Fn(&str) -> bool) -> Result<Draft<'a>> {
        Draft::of_parts(name, about, parts, wanted, |_| false)
    }

    /// One file again, with those tensors that `rounded` names in f16.
    pub fn rounded(name: &'a str, about: &About, file: &'a StateFile, rounded: impl Fn(&str) -> bool) -> Result<Draft<'a>> {
        Draft::of_parts(name, about, &[file], |_| true, rounded)
    }

    fn of_parts(
        name: &'a str,
        about: &About,
        files: &[&'a StateFile],
        wanted: impl Fn(&str) -> bool,
        rounded: impl Fn(&str) -> bool,
    ) -> Result<Draft<'a>> {
        let mut parts: BTreeMap<String, Part<'a>> = BTreeMap::new();
        for &file in files {
            let part = |(name, stored): (&String, &'a StoredTensor)| {
                let is_rounded = stored.dtype == Dtype::F32 && rounded(name);
                (name.clone(), Part { file, stored, is_rounded })
            };
            parts.extend(file.tensors.iter().filter(|(name, _)| wanted(name)).map(part));
        }
        let failed = |source: io::Error| Error::io(name.as_ref(), source);
        let checksums = parts.iter().map(|(tensor, part)| Ok((tensor.clone(), part.checksum()?))).collect::<io::Result<_>>();
        let layout = parts.iter().map(|(tensor, part)| (tensor.clone(), (name_of(part.dtype()), part.stored.shape.clone(), part.bytes())));
        let header = checksums.and_then(|checksums| Header::of(about, &checksums, laid_out(layout))).map_err(failed)?;
        Ok(Draft { name, header, content: Content::Stored(parts) })
    }

    /// What [`StateFile::digest`] will be, packed or not.
    pub fn digest(&self) -> Result<String> {
        self.header.clone().bytes().map(|header| sha256(&header)).map_err(|source| Error::io(self.name.as_ref(), source))
    }

    /// Writes the file so that any reader of the format understands its numbers.
    pub fn write(&self, store: &Folder) -> Result<Unsettled> {
        store.put_unsettled(self.name, |out| self.write_plain(out))
    }

    fn write_plain(&self, out: &mut dyn Write) -> io::Result<()> {
        let header = self.header.clone().bytes()?;
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        self.header.tensors.keys().try_for_each(|tensor| self.for_each_piece(tensor, &mut |bytes| out.write_all(bytes)))
    }

    /// Writes the file packed without loss, on so many threads. How long its tensors are is known last: room is left for the header.
    pub fn write_packed(&self, store: &Folder, threads: usize) -> Result<Unsettled> {
        let failed = |source: io::Error| Error::io(&store.path(self.name), source);
        let worth = self.header.tensors.iter().filter(|(_, entry)| entry.bytes() >= WORTH_PACKING);
        let mut sizes: BTreeMap<String, u64> = worth.map(|(tensor, _)| (tensor.clone(), MORE_THAN_ANY)).collect();
        let room = self.header.packed(&sizes).and_then(Header::bytes).map_err(failed)?.len();
        let packing = Packing::default();
        let written = store.put_unsettled(self.name, |out| {
            out.write_all(&(room as u64).to_le_bytes())?;
            out.write_all(&vec![b' '; room])?;
            for (tensor, entry) in &self.header.tensors {
                let Some(size) = sizes.get_mut(tensor) else {
                    self.for_each_piece(tensor, &mut |bytes| out.write_all(bytes))?;
                    continue;
                };
                let width = dtype_named(&entry.dtype).map_or(1, Dtype::size);
                let mut encoder = Encoder::new(width, threads, &packing, out);
                self.for_each_piece(tensor, &mut |bytes| encoder.push(bytes))?;
                *size = encoder.finish()?;
            }
            Ok(())
        })?;
        let mut header = self.header.packed(&sizes).and_then(Header::bytes).map_err(failed)?;
        header.resize(room, b' ');
        written.amended(8, &header)
    }

    fn for_each_piece(&self, tensor: &str, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match &self.content {
            Content::Tensors(tensors) => tensors[tensor].for_each_chunk(take),
            Content::Stored(parts) => parts[tensor].for_each_piece(take),
        }
    }
}

/// The format's name of numbers that it has.
pub(super) fn name_of(dtype: Dtype) -> &'static str {
    dtype_name(dtype).unwrap_or_default()
}

/// Writes tensors and what is to be known about them.
pub fn write_state(store: &Folder, name: &str, about: &About, tensors: &Tensors<'_>) -> Result<Unsettled> {
    Draft::of(name, about, tensors, 1)?.write(store)
}

/// The same in memory.
pub fn encode_state(about: &About, tensors: &Tensors<'_>) -> Result<Vec<u8>> {
    let (name, mut bytes) = ("a state in memory", Vec::new());
    Draft::of(name, about, tensors, 1)?.write_plain(&mut bytes).map_err(|source| Error::io(name.as_ref(), source))?;
    Ok(bytes)
}

fn header_of(about: &About, tensors: &BTreeMap<String, Packed<'_>>, threads: usize) -> io::Result<Header> {
    let all: Vec<_> = tensors.values().collect();
    let checksums = in_order(threads, all.len(), |at| all[at].checksum());
    let checksums = tensors.keys().zip(checksums).map(|(name, checksum)| Ok((name.clone(), checksum?))).collect::<io::Result<_>>()?;
    let layout = tensors.iter().map(|(name, tensor)| (name.clone(), (tensor.dtype(), tensor.shape.clone(), tensor.bytes() as u64)));
    Header::of(about, &checksums, laid_out(layout))
}
