//! `pytorch_model.bin`: a zip archive of one pickle, which describes the tensors, and their storages, uncompressed.

use std::collections::BTreeMap;
use std::io::BufReader;

use zip::{CompressionMethod, ZipArchive};

use crate::checkpoint::{TensorInfo, WeightFile, checked_elements};
use crate::error::{Error, Result};
use crate::pickle::{self, Fault, PickledTensor};

/// The longest pickle worth reading: tensors take about 150 bytes each.
const MAX_PICKLE_BYTES: u64 = 64 << 20;

/// An uncompressed entry of the archive; its bytes lie inside the file.
#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    bytes: u64,
}

/// The tensors of a PyTorch file.
pub(crate) fn tensors(file: &WeightFile) -> Result<Vec<(String, TensorInfo)>> {
    let fault = |problem: String| Error::file(&file.path, problem);
    check_magic(file)?;
    let archive = entries(file).map_err(fault)?;
    let (root, pickle) = archive
        .iter()
        .find_map(|(name, entry)| Some((name.strip_suffix("/data.pkl").filter(|root| !root.contains('/'))?, entry)))
        .ok_or_else(|| fault("a zip archive without `data.pkl`, so not a PyTorch file; use safetensors".into()))?;
    if let Some(order) = archive.get(&format!("{root}/byteorder"))
        && content(file, order, 16)? != b"little"
    {
        return Err(fault("its numbers are stored big-endian; use safetensors".into()));
    }
    let pickle = content(file, pickle, MAX_PICKLE_BYTES)?;
    let mut tensors = Vec::new();
    for (name, tensor) in pickle::state_dict(&pickle).map_err(fault)? {
        let storage = archive.get(&format!("{root}/data/{}", tensor.storage));
        let info = place(file, tensor, storage).map_err(|problem| Error::tensor(&file.path, &name.escape_debug().to_string(), problem))?;
        tensors.push((name.to_owned(), info));
    }
    Ok(tensors)
}

/// Refuses files that are not zip archives, such as those of old PyTorch versions.
fn check_magic(file: &WeightFile) -> Result<()> {
    let start = file.bytes_at(0, file.bytes.min(4) as usize)?;
    match start.as_slice() {
        b"PK\x03\x04" => Ok(()),
        [0x80, ..] => Err(Error::file(&file.path, "written in PyTorch's old format, a bare pickle; use safetensors")),
        _ => Err(Error::file(&file.path, "neither a zip archive nor a pickle, so not a PyTorch file; use safetensors")),
    }
}

/// All entries of the archive by name.
fn entries(file: &WeightFile) -> Fault<BTreeMap<String, Entry>> {
    let unreadable = |error| format!("not a readable zip archive, it may be truncated: {error}");
    let mut archive = ZipArchive::new(BufReader::new(&file.file)).map_err(unreadable)?;
    if archive.has_duplicate_names() {
        return Err("its zip archive has two entries with the same name".to_owned());
    }
    let of_a_program = |name: &str| name.split_once('/').is_some_and(|(_, inner)| inner == "constants.pkl" || inner.starts_with("code/"));
    if archive.file_names().flatten().any(|name| of_a_program(&name)) {
        return Err("a TorchScript program, not a state_dict; use safetensors".to_owned());
    }
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(unreadable)?;
        let name = entry.name().map_err(unreadable)?.into_owned();
        let quoted = name.escape_debug();
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() || entry.compressed_size() != entry.size() {
            return Err(format!("its entry `{quoted}` is compressed or encrypted, which PyTorch never does; use safetensors"));
        }
        let start = entry.data_start().ok_or_else(|| format!("its entry `{quoted}` has no data"))?;
        let bytes = entry.size();
        if start.checked_add(bytes).is_none_or(|end| end > file.bytes) {
            return Err(format!("its entry `{quoted}` ends past the end of the file; it may be truncated"));
        }
        entries.insert(name, Entry { start, bytes });
    }
    Ok(entries)
}

/// The bytes of a small entry.
fn content(file: &WeightFile, entry: &Entry, limit: u64) -> Result<Vec<u8>> {
    if entry.bytes > limit {
        return Err(Error::file(&file.path, format!("an entry of {} bytes is over the limit of {limit}; use safetensors", entry.bytes)));
    }
    file.bytes_at(entry.start, entry.bytes as usize)
}

/// Where a tensor lies in the file, all of it inside its storage.
fn place(file: &WeightFile, tensor: PickledTensor<'_>, storage: Option<&Entry>) -> Fault<TensorInfo> {
    let PickledTensor { storage: key, dtype, offset, shape, mut strides } = tensor;
    let storage = storage.ok_or_else(|| format!("its storage `{}` is missing", key.escape_debug()))?;
    let elements = checked_elements(&shape).ok_or_else(|| format!("shape {shape:?} overflows"))?;
    for (stride, &size) in strides.iter_mut().zip(&shape) {
        if size <= 1 {
            *stride = 0; // never stepped along, so PyTorch lets it be anything
        }
    }
    let span = if elements == 0 { Some(0) } else { span(&shape, &strides) };
    let start = offset.checked_mul(dtype.size()).map(|bytes| bytes as u64);
    let end = span.and_then(|span| span.checked_add(offset)?.checked_mul(dtype.size())).map(|bytes| bytes as u64);
    let (Some(span), Some(start), true) = (span, start, end.is_some_and(|end| end <= storage.bytes)) else {
        return Err(format!("shape {shape:?} in {dtype} from element {offset} on ends past its storage of {} bytes", storage.bytes));
    };
    if elements > span {
        return Err(format!(
            "shape {shape:?} with strides {strides:?} repeats the same numbers; save it with `.contiguous()`, best as safetensors"
        ));
    }
    let strides = (elements > 0 && !contiguous(&shape, &strides)).then_some(strides);
    Ok(TensorInfo { shape, dtype, file: file.path.clone(), start: storage.start + start, strides })
}

/// How many elements lie between the first and the last of a view that has any, both included.
fn span(shape: &[usize], strides: &[usize]) -> Option<usize> {
    shape.iter().zip(strides).try_fold(1usize, |span, (size, stride)| span.checked_add((size - 1).checked_mul(*stride)?))
}

fn contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == expected;
        expected *= size;
        fits
    })
}
