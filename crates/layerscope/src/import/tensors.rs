//! The header of a safetensors file, for states.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::arrays::{Described, Dtype, Location};

const LONGEST: u64 = 100_000_000;

/// The tensors of a file by name; those of other kinds of numbers are left out.
pub(super) fn describe(file: &File, size: u64) -> Result<BTreeMap<String, Described>, String> {
    let truncated = || "its header does not fit the file; it may be truncated".to_owned();
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).map_err(|_| truncated())?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST || length + 8 > size {
        return Err(truncated());
    }
    let mut header = vec![0; length as usize];
    file.read_exact_at(&mut header, 8).map_err(|_| truncated())?;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&header).map_err(|_| "its header is not readable".to_owned())?;
    let mut arrays = BTreeMap::new();
    for (name, entry) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let fault = || format!("tensor `{name}` is not described as the format wants it");
        let Some(dtype) = dtype(entry["dtype"].as_str().ok_or_else(fault)?) else { continue };
        let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        let shape = numbers(&entry["shape"]).ok_or_else(fault)?.into_iter().map(|extent| extent as usize).collect();
        let offsets = numbers(&entry["data_offsets"]).filter(|offsets| offsets.len() == 2).ok_or_else(fault)?;
        let start = offsets[0].checked_add(8 + length).ok_or_else(fault)?;
        let array = Described { dtype, shape, place: Location::File(start) };
        if array.count().and_then(|count| count.checked_mul(dtype.bytes())).map(|bytes| bytes as u64) != offsets[1].checked_sub(offsets[0])
        {
            return Err(format!("tensor `{name}`: its shape does not match its size"));
        }
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "F16" => Dtype::F16,
        "BF16" => Dtype::Bf16,
        "F32" => Dtype::F32,
        "F64" => Dtype::F64,
        "I8" => Dtype::Signed(1),
        "I16" => Dtype::Signed(2),
        "I32" => Dtype::Signed(4),
        "I64" => Dtype::Signed(8),
        "U8" => Dtype::Unsigned(1),
        "U16" => Dtype::Unsigned(2),
        "U32" => Dtype::Unsigned(4),
        "U64" => Dtype::Unsigned(8),
        _ => return None,
    })
}
