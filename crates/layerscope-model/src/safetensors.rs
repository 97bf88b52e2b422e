//! Safetensors files: the header read with every promise of the format checked, and a plain writer.
//!
//! Eight bytes of header length, the header as JSON, then the numbers: each tensor at the offsets the header gives, all of
//! them together covering the rest of the file without overlaps or holes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::checkpoint::{Dtype, checked_elements};

/// The format's own limit on the header.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A header that was found sound: every byte after it belongs to exactly one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The tensors, in the order of the header.
    pub tensors: Vec<TensorEntry>,
    /// The texts of `__metadata__`; values of other kinds are left out.
    pub metadata: BTreeMap<String, String>,
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name, which no other tensor of the file has.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: Dtype,
    /// Its dimensions, none for a single number.
    pub shape: Vec<usize>,
    /// Its bytes in the file, as many as shape and dtype need.
    pub bytes: Range<u64>,
}

/// Why a header could not be read.
#[derive(Debug)]
pub enum HeaderError {
    /// The file could not be read.
    Io(io::Error),
    /// The file breaks a promise of the format; says which, but not in which file.
    Malformed(String),
}

impl From<String> for HeaderError {
    fn from(problem: String) -> Self {
        HeaderError::Malformed(problem)
    }
}

/// Reads the header of a file of `size` bytes. `read_at` fills a buffer from a byte of the file on.
///
/// ```
/// use layerscope_model::safetensors::{NamedTensor, header, write};
///
/// let mut file = Vec::new();
/// write(&mut file, &[NamedTensor { name: "w".into(), shape: vec![2, 3], values: vec![0.0; 6] }])?;
/// let read_at = |buffer: &mut [u8], start: u64| Ok(buffer.copy_from_slice(&file[start as usize..][..buffer.len()]));
/// let found = header(read_at, file.len() as u64).expect("a sound file");
/// assert_eq!((found.tensors[0].name.as_str(), &found.tensors[0].shape[..]), ("w", &[2, 3][..]));
/// assert_eq!(found.tensors[0].bytes.end, file.len() as u64);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn header(read_at: impl Fn(&mut [u8], u64) -> io::Result<()>, size: u64) -> Result<Header, HeaderError> {
    if size < 8 {
        return Err(format!("{size} bytes are too few for a safetensors file; it may be truncated").into());
    }
    let mut length = [0; 8];
    read_at(&mut length, 0).map_err(HeaderError::Io)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        let problem = format!("a header of {length} bytes is over the limit of {MAX_HEADER_BYTES}; this is not a safetensors file");
        return Err(problem.into());
    }
    if length > size - 8 {
        return Err(format!("its header needs {length} bytes, {} are there; it may be truncated", size - 8).into());
    }
    let mut text = vec![0; length as usize];
    read_at(&mut text, 8).map_err(HeaderError::Io)?;
    Ok(parse(&text, 8 + length, size - 8 - length)?)
}

/// Parses and checks a header, behind which `data_bytes` bytes of numbers begin at `data_start`.
fn parse(text: &[u8], data_start: u64, data_bytes: u64) -> Result<Header, String> {
    let Entries { entries, metadata } = serde_json::from_slice::<Entries<Entry>>(text).map_err(|error| {
        let what = if error.is_data() { "malformed header" } else { "the header is not JSON" };
        format!("{what}: {error}")
    })?;
    check_coverage(&entries, data_bytes)?;
    let mut names = BTreeSet::new();
    if let Some((name, _)) = entries.iter().find(|(name, _)| !names.insert(name)) {
        return Err(of_tensor(name, "appears twice"));
    }
    let located = |(name, entry): (String, Entry)| {
        let dtype = check_size(&entry).map_err(|problem| of_tensor(&name, &problem))?;
        let [begin, end] = entry.data_offsets.map(|offset| data_start + offset);
        Ok(TensorEntry { name, dtype, shape: entry.shape, bytes: begin..end })
    };
    Ok(Header { tensors: entries.into_iter().map(located).collect::<Result<_, String>>()?, metadata })
}

/// What the header says about one tensor; offsets count from the end of the header.
#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// A JSON object as a list of its entries, so that none hides another of the same name; `__metadata__` apart.
pub(crate) struct Entries<T> {
    pub entries: Vec<(String, T)>,
    metadata: BTreeMap<String, String>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut found = Entries { entries: Vec::new(), metadata: BTreeMap::new() };
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "__metadata__" => found.metadata = texts(map.next_value()?),
                        _ => found.entries.push((name, map.next_value()?)),
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

/// The texts of an object. Nobody reads anything else, so it does not make a file unusable.
fn texts(value: Value) -> BTreeMap<String, String> {
    let Value::Object(values) = value else { return BTreeMap::new() };
    let text = |(name, value)| match value {
        Value::String(text) => Some((name, text)),
        _ => None,
    };
    values.into_iter().filter_map(text).collect()
}

/// Every byte of the data belongs to exactly one tensor.
fn check_coverage(entries: &[(String, Entry)], data_bytes: u64) -> Result<(), String> {
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
        return Err(of_tensor(name, &problem));
    }
    match data_bytes - covered {
        0 => Ok(()),
        rest => Err(format!("{rest} bytes after the last tensor belong to none")),
    }
}

/// The tensor's bytes are those its shape and dtype need.
fn check_size(entry: &Entry) -> Result<Dtype, String> {
    let dtype = dtype_named(&entry.dtype).ok_or_else(|| format!("unknown dtype `{}`", entry.dtype.escape_debug()))?;
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

fn of_tensor(name: &str, problem: &str) -> String {
    format!("tensor `{}`: {problem}", name.escape_debug())
}

/// The format's names of the kinds of numbers.
const DTYPES: [(&str, Dtype); 17] = [
    ("F64", Dtype::F64),
    ("F32", Dtype::F32),
    ("F16", Dtype::F16),
    ("BF16", Dtype::Bf16),
    ("F8_E4M3", Dtype::F8E4m3),
    ("F8_E5M2", Dtype::F8E5m2),
    ("F8_E8M0", Dtype::F8E8m0),
    ("C64", Dtype::C64),
    ("I64", Dtype::I64),
    ("I32", Dtype::I32),
    ("I16", Dtype::I16),
    ("I8", Dtype::I8),
    ("U64", Dtype::U64),
    ("U32", Dtype::U32),
    ("U16", Dtype::U16),
    ("U8", Dtype::U8),
    ("BOOL", Dtype::Bool),
];

/// The kind of numbers that the format calls so.
pub fn dtype_named(name: &str) -> Option<Dtype> {
    DTYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// The format's name of a kind of numbers; None for one that it does not know.
pub fn dtype_name(dtype: Dtype) -> Option<&'static str> {
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_gives_absolute_bytes_in_its_own_order_and_the_texts_of_its_metadata() {
        let text = r#"{"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},"__metadata__":{"format":"pt","version":2},
            "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#;
        let header = parse(text.as_bytes(), 1000, 8).expect("sound");
        let tensor = |name: &str, dtype, shape, bytes| TensorEntry { name: name.to_owned(), dtype, shape, bytes };
        assert_eq!(header.tensors, [tensor("b", Dtype::Bf16, vec![2], 1004..1008), tensor("a", Dtype::F32, vec![], 1000..1004)]);
        assert_eq!(header.metadata.into_iter().collect::<Vec<_>>(), [("format".to_owned(), "pt".to_owned())]);
    }

    #[test]
    fn two_empty_tensors_of_one_name_are_refused() {
        let text = r#"{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#;
        assert_eq!(parse(text.as_bytes(), 8, 0), Err("tensor `w`: appears twice".to_owned()));
    }

    #[test]
    fn a_failed_read_is_not_a_malformed_file() {
        let failing = |_: &mut [u8], _: u64| Err(io::ErrorKind::PermissionDenied.into());
        assert!(matches!(header(failing, 100), Err(HeaderError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied));
        assert!(matches!(header(failing, 7), Err(HeaderError::Malformed(problem)) if problem.contains("too few")));
    }
}
