//! The numbers of one tensor out of its file: read in pieces, put in order, checked.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use layerscope_compute::HostValues;

use super::{Dtype, TensorInfo, WeightFile, blocks};
use crate::error::{Error, Result};

/// Bytes converted at a time on the way from a file.
const CHUNK: usize = 64 * 1024;

/// The numbers as they are stored: f32, f16 or bf16; those in blocks of few bits as f32.
pub(super) fn stored(file: &WeightFile, name: &str, info: &TensorInfo) -> Result<HostValues> {
    Ok(match info.dtype {
        Dtype::F16 => HostValues::F16(numbers(file, name, info, decode_f16, f16::to_f32)?),
        Dtype::Bf16 => HostValues::Bf16(numbers(file, name, info, decode_bf16, bf16::to_f32)?),
        _ => HostValues::F32(widened(file, name, info)?),
    })
}

/// The numbers as f32, which is exact. Halves are widened piece by piece, so that the file's own numbers never fill the memory too.
pub(super) fn widened(file: &WeightFile, name: &str, info: &TensorInfo) -> Result<Vec<f32>> {
    let mut halves: Vec<f16> = Vec::new();
    match info.dtype {
        Dtype::F16 => {
            let decode = |bytes: &[u8], values: &mut Vec<f32>| {
                halves.clear();
                decode_f16(bytes, &mut halves);
                let done = values.len();
                values.resize(done + halves.len(), 0.0);
                halves.convert_to_f32_slice(&mut values[done..]);
            };
            numbers(file, name, info, decode, f32::from)
        }
        Dtype::Bf16 => {
            let decode = |bytes: &[u8], values: &mut Vec<f32>| {
                values.extend(bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()));
            };
            numbers(file, name, info, decode, f32::from)
        }
        dtype if dtype.is_quantized() => {
            numbers(file, name, info, |bytes: &[u8], values: &mut Vec<f32>| blocks::decode(dtype, bytes, values), f32::from)
        }
        _ => numbers(file, name, info, decode_f32, f32::from),
    }
}

fn decode_f32(bytes: &[u8], values: &mut Vec<f32>) {
    values.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
}

fn decode_f16(bytes: &[u8], values: &mut Vec<f16>) {
    values.extend(bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes)));
}

fn decode_bf16(bytes: &[u8], values: &mut Vec<bf16>) {
    values.extend(bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes)));
}

/// The numbers of a tensor in their logical order, all of them finite.
fn numbers<T: Copy>(
    file: &WeightFile,
    name: &str,
    info: &TensorInfo,
    decode: impl FnMut(&[u8], &mut Vec<T>),
    to_f32: impl Fn(T) -> f32 + Copy,
) -> Result<Vec<T>> {
    let span = read_span(file, name, info, decode)?;
    let values = match &info.strides {
        None => span,
        Some(strides) => gather(&span, &info.shape, strides),
    };
    match first_not_finite(&values, to_f32) {
        Some(index) => {
            let problem = format!("value {index} is {}; weights must be finite", to_f32(values[index]));
            Err(Error::tensor(&info.file, name, problem))
        }
        None => Ok(values),
    }
}

/// The numbers of the file from the first to the last of a tensor.
fn read_span<T>(file: &WeightFile, name: &str, info: &TensorInfo, mut decode: impl FnMut(&[u8], &mut Vec<T>)) -> Result<Vec<T>> {
    let (block, count) = (info.dtype.block(), info.span());
    let mut values: Vec<T> = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::tensor(&info.file, name, format!("not enough memory for {count} numbers")));
    }
    let bytes = |numbers: usize| numbers / block.numbers * block.bytes;
    let most = CHUNK / block.bytes * block.bytes;
    let mut buffer = vec![0u8; most.min(bytes(count))];
    while values.len() < count {
        let done = values.len();
        let chunk = &mut buffer[..most.min(bytes(count - done))];
        file.read_at(chunk, info.start + bytes(done) as u64)?;
        decode(chunk, &mut values);
    }
    Ok(values)
}

/// The elements of a strided view in their logical order.
fn gather<T: Copy>(span: &[T], shape: &[usize], strides: &[usize]) -> Vec<T> {
    let count = if span.is_empty() { 0 } else { shape.iter().product() };
    let mut position = vec![0; shape.len()];
    let mut at = 0;
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        values.push(span[at]);
        // Step the last dimension, carrying into those before it.
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            at += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            at -= position[axis] * strides[axis];
            position[axis] = 0;
        }
    }
    values
}

/// The index of the first NaN or infinity; sound stretches are passed over without a branch per value.
fn first_not_finite<T: Copy>(values: &[T], to_f32: impl Fn(T) -> f32) -> Option<usize> {
    let sound = |stretch: &[T]| stretch.iter().fold(true, |sound, &value| sound & to_f32(value).is_finite());
    let stretch = values.chunks(4096).position(|stretch| !sound(stretch))?;
    values[stretch * 4096..].iter().position(|&value| !to_f32(value).is_finite()).map(|index| stretch * 4096 + index)
}
