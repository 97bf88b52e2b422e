//! Safetensors files: the header read with every promise of the format checked, and a plain writer.
//!
//! Eight bytes of header length, the header as JSON, then the numbers: each tensor at the offsets the header gives, all of
//! them together covering the rest of the file without overlaps or holes.

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::checkpoint::{Dtype, TensorInfo, WeightFile, checked_elements};
use crate::error::{Error, Result};

/// The format's own limit on the header.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A JSON object as a list of its entries, so that none hides another of the same name; `__metadata__` is left out.
pub(crate) struct Entries<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

/// What the header says about one tensor; offsets count from the end of the header.
#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The tensors of a safetensors file.
pub(crate) fn tensors(file: &WeightFile) -> Result<Vec<(String, TensorInfo)>> {
    let fault = |problem: String| Error::file(&file.path, problem);
    if file.bytes < 8 {
        return Err(fault(format!("{} bytes are too few for a safetensors file; it may be truncated", file.bytes)));
    }
    let mut length = [0; 8];
    file.read_at(&mut length, 0)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(fault(format!(
            "a header of {header_bytes} bytes is over the limit of {MAX_HEADER_BYTES}; this is not a safetensors file"
        )));
    }
    if header_bytes > file.bytes - 8 {
        return Err(fault(format!("its header needs {header_bytes} bytes, {} are there; it may be truncated", file.bytes - 8)));
    }
    let header = file.bytes_at(8, header_bytes as usize)?;
    let Entries(entries) = serde_json::from_slice::<Entries<Entry>>(&header).map_err(|error| {
        let what = if error.is_data() { "malformed header" } else { "the header is not JSON" };
        fault(format!("{what}: {error}"))
    })?;
    let data_start = 8 + header_bytes;
    check_coverage(file, &entries, file.bytes - data_start)?;
    entries
        .into_iter()
        .map(|(name, entry)| {
            let dtype = check_size(&entry).map_err(|problem| tensor_fault(file, &name, problem))?;
            let info =
                TensorInfo { shape: entry.shape, dtype, file: file.path.clone(), start: data_start + entry.data_offsets[0], strides: None };
            Ok((name, info))
        })
        .collect()
}

/// Every byte of the data belongs to exactly one tensor.
fn check_coverage(file: &WeightFile, entries: &[(String, Entry)], data_bytes: u64) -> Result<()> {
    let mut order: Vec<_> = entries.iter().map(|(name, entry)| (entry.data_offsets, name)).collect();
    order.sort();
    let mut covered = 0;
    let mut previous = "";
    for ([begin, end], name) in order {
        let problem = if begin > end {
            format!("begins at byte {begin} of the data and ends at {end}")
        } else if end > data_bytes {
            format!("ends at byte {end} of the data, of which there are {data_bytes}; the file may be truncated")
        } else if begin < covered {
            format!("begins at byte {begin} of the data and overlaps `{}`, which ends at {covered}", previous.escape_debug())
        } else if begin > covered {
            format!("begins at byte {begin} of the data; bytes {covered} to {begin} before it belong to no tensor")
        } else {
            covered = end;
            previous = name;
            continue;
        };
        return Err(tensor_fault(file, name, problem));
    }
    if covered < data_bytes {
        return Err(Error::file(&file.path, format!("{} bytes after the last tensor belong to none", data_bytes - covered)));
    }
    Ok(())
}

/// The tensor's bytes are those its shape and dtype need.
fn check_size(entry: &Entry) -> std::result::Result<Dtype, String> {
    let dtype = dtype(&entry.dtype).ok_or_else(|| format!("unknown dtype `{}`", entry.dtype.escape_debug()))?;
    let [begin, end] = entry.data_offsets;
    let needed = checked_elements(&entry.shape).and_then(|elements| elements.checked_mul(dtype.size()));
    match needed {
        None => Err(format!("shape {:?} overflows", entry.shape)),
        Some(needed) if needed as u64 != end - begin => {
            Err(format!("shape {:?} in {dtype} needs {needed} bytes, the header gives it {}", entry.shape, end - begin))
        }
        Some(_) => Ok(dtype),
    }
}

fn tensor_fault(file: &WeightFile, name: &str, problem: String) -> Error {
    Error::tensor(&file.path, &name.escape_debug().to_string(), problem)
}

/// The format's names of the kinds of numbers.
fn dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "F64" => Dtype::F64,
        "F32" => Dtype::F32,
        "F16" => Dtype::F16,
        "BF16" => Dtype::Bf16,
        "F8_E4M3" => Dtype::F8E4m3,
        "F8_E5M2" => Dtype::F8E5m2,
        "F8_E8M0" => Dtype::F8E8m0,
        "C64" => Dtype::C64,
        "I64" => Dtype::I64,
        "I32" => Dtype::I32,
        "I16" => Dtype::I16,
        "I8" => Dtype::I8,
        "U64" => Dtype::U64,
        "U32" => Dtype::U32,
        "U16" => Dtype::U16,
        "U8" => Dtype::U8,
        "BOOL" => Dtype::Bool,
        _ => return None,
    })
}

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its name.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Vec<f32>,
}

/// Writes f32 tensors in the given order.
pub fn write(out: &mut impl Write, tensors: &[NamedTensor]) -> io::Result<()> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for tensor in tensors {
        let start = end;
        end += size_of_val(tensor.values.as_slice());
        header.insert(tensor.name.clone(), serde_json::json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": [start, end] }));
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' '); // so that the numbers are aligned
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in tensors {
        for value in &tensor.values {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    out.flush()
}
