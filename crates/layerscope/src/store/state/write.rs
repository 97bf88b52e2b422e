//! Writing state files.

use std::collections::BTreeMap;
use std::io::{self, Write};

use layerscope_model::safetensors::dtype_name;
use layerscope_report::manifest::sha256;
use layerscope_stats::sketch::Tensors;
use serde::Serialize;
use serde_json::Value;

use super::file::{StateFile, StoredTensor};
use super::numbers::{checksum, dtype, for_each_chunk, width};
use super::{About, VERSION};
use crate::error::{Error, Result};
use crate::store::folder::{Folder, Unsettled};

/// Stands in the header where its own checksum goes.
const NO_CHECKSUM: &str = "00000000";

/// What the format lets us say about the whole file: strings only.
#[derive(Serialize)]
pub(super) struct Metadata {
    pub version: String,
    pub fingerprint: String,
    /// What else belongs to the tensors, as JSON.
    pub details: String,
    /// A JSON object: tensor to CRC-32.
    pub checksums: String,
    /// CRC-32 of the header with [`NO_CHECKSUM`] in this place.
    pub header_checksum: String,
}

#[derive(Serialize)]
pub(super) struct Entry {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub data_offsets: [u64; 2],
}

#[derive(Serialize)]
pub(super) struct Header {
    #[serde(rename = "__metadata__")]
    pub metadata: Metadata,
    #[serde(flatten)]
    pub tensors: BTreeMap<String, Entry>,
}

impl Header {
    /// CRC-32 of the header with [`NO_CHECKSUM`] in its own place.
    pub fn checksum(&mut self) -> serde_json::Result<String> {
        self.metadata.header_checksum = NO_CHECKSUM.to_owned();
        Ok(format!("{:08x}", crc32fast::hash(&serde_json::to_vec(self)?)))
    }
}

/// A state file before it is written: its header is known, and with it the checksums of all numbers.
pub struct Draft<'a> {
    name: &'a str,
    header: Vec<u8>,
    content: Content<'a>,
}

enum Content<'a> {
    Tensors(&'a Tensors<'a>),
    Stored(Vec<(&'a StateFile, &'a StoredTensor)>),
}

impl<'a> Draft<'a> {
    /// Of tensors and what is to be known about them.
    pub fn of(name: &'a str, about: &About, tensors: &'a Tensors<'a>) -> Result<Draft<'a>> {
        let header = header_of(about, tensors).map_err(|source| Error::io(name.as_ref(), source))?;
        Ok(Draft { name, header, content: Content::Tensors(tensors) })
    }

    /// What [`StateFile::digest`] will be.
    pub fn digest(&self) -> String {
        sha256(&self.header)
    }

    /// Writes the file.
    pub fn write(&self, store: &Folder) -> Result<Unsettled> {
        store.put_unsettled(self.name, |out| {
            write_parts(out, &self.header, |out| match &self.content {
                Content::Tensors(tensors) => write_tensors(tensors, out),
                Content::Stored(sources) => sources.iter().try_for_each(|(part, stored)| part.copy(stored, out)),
            })
        })
    }
}

/// Writes tensors and what is to be known about them.
pub fn write_state(store: &Folder, name: &str, about: &About, tensors: &Tensors<'_>) -> Result<Unsettled> {
    Draft::of(name, about, tensors)?.write(store)
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

/// One file with those tensors of several files that `wanted` names, without holding any of them in memory.
pub fn join_states<'a>(name: &'a str, about: &About, parts: &[&'a StateFile], wanted: impl Fn(&str) -> bool) -> Result<Draft<'a>> {
    let mut sources: BTreeMap<&String, (&'a StateFile, &'a StoredTensor)> = BTreeMap::new();
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
        entries.insert(
            tensor.clone(),
            Entry {
                dtype: dtype_name(stored.dtype).unwrap_or_default().to_owned(),
                shape: stored.shape.clone(),
                data_offsets: [start, end],
            },
        );
    }
    let header = header_bytes(about, &checksums, entries).map_err(|source| Error::io(name.as_ref(), source))?;
    Ok(Draft { name, header, content: Content::Stored(sources.into_values().collect()) })
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
        header_checksum: String::new(),
    };
    let mut header = Header { metadata, tensors };
    header.metadata.header_checksum = header.checksum()?;
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    Ok(bytes)
}
