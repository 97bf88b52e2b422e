//! Safetensors files of states.

use std::collections::BTreeMap;
use std::fs::File;

use layerscope_files::Positioned;
use layerscope_model::checkpoint::Dtype as Stored;
use layerscope_model::safetensors::{HeaderError, TensorEntry, header};

use super::arrays::{Described, Dtype, Location};

/// The tensors of a file by name; those of other kinds of numbers are left out.
pub(super) fn describe(file: &File, size: u64) -> Result<BTreeMap<String, Described>, String> {
    let header = header(|buffer, start| file.read_exact_at(buffer, start), size).map_err(|error| match error {
        HeaderError::Io(source) => source.to_string(),
        HeaderError::Malformed(problem) => problem,
    })?;
    let described = |TensorEntry { name, dtype, shape, bytes }: TensorEntry| {
        Some((name, Described { dtype: number(dtype)?, shape, place: Location::File(bytes.start) }))
    };
    Ok(header.tensors.into_iter().filter_map(described).collect())
}

fn number(dtype: Stored) -> Option<Dtype> {
    Some(match dtype {
        Stored::F16 => Dtype::F16,
        Stored::Bf16 => Dtype::Bf16,
        Stored::F32 => Dtype::F32,
        Stored::F64 => Dtype::F64,
        Stored::I8 | Stored::I16 | Stored::I32 | Stored::I64 => Dtype::Signed(dtype.size()),
        Stored::U8 | Stored::U16 | Stored::U32 | Stored::U64 => Dtype::Unsigned(dtype.size()),
        _ => return None,
    })
}
