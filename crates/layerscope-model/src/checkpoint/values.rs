//! The numbers of one tensor out of its file: read in pieces, put in order, checked.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use layerscope_compute::HostValues;

use super::{Dtype, TensorInfo, WeightFile, blocks};
use crate::error::{Error, Result};

/// Bytes converted at a time on the way from a file: few calls, and what was read is still in the cache when it is checked.
const CHUNK: usize = 1 << 20;

/// The numbers as they are stored: f32, f16 or bf16; those in blocks of few bits as f32.
pub(super) fn stored(file: &WeightFile, name: &str, info: &TensorInfo) -> Result<HostValues> {
    Ok(match info.dtype {
        Dtype::F16 => HostValues::F16(numbers(file, name, info, decode_f16)?),
        Dtype::Bf16 => HostValues::Bf16(numbers(file, name, info, decode_bf16)?),
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
            numbers(file, name, info, decode)
        }
        Dtype::Bf16 => {
            let decode = |bytes: &[u8], values: &mut Vec<f32>| {
                values.extend(bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()));
            };
            numbers(file, name, info, decode)
        }
        dtype if dtype.is_quantized() => {
            numbers(file, name, info, |bytes: &[u8], values: &mut Vec<f32>| blocks::decode(dtype, bytes, values))
        }
        _ => numbers(file, name, info, decode_f32),
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

/// A number that weights are read as.
trait Number: Copy + Into<f32> {
    /// Whether it is no NaN and no infinity; a look at its bits.
    fn is_sound(self) -> bool;
}

impl Number for f32 {
    fn is_sound(self) -> bool {
        self.is_finite()
    }
}

impl Number for f16 {
    fn is_sound(self) -> bool {
        self.is_finite()
    }
}

impl Number for bf16 {
    fn is_sound(self) -> bool {
        self.is_finite()
    }
}

/// The numbers of a tensor in their logical order, all of them finite.
fn numbers<T: Number>(file: &WeightFile, name: &str, info: &TensorInfo, decode: impl FnMut(&[u8], &mut Vec<T>)) -> Result<Vec<T>> {
    let (values, sound) = read_span(file, name, info, decode)?;
    let values = match &info.strides {
        None => values,
        Some(strides) => gather(&values, &info.shape, strides),
    };
    // A view may leave out the number that is not finite, and its index counts in the view.
    let bad = if sound { None } else { values.iter().position(|value| !value.is_sound()) };
    match bad {
        Some(index) => {
            let value: f32 = values[index].into();
            Err(Error::tensor(&info.file, name, format!("value {index} is {value}; weights must be finite")))
        }
        None => Ok(values),
    }
}

/// The numbers of the file from the first to the last of a tensor, and whether all of them are finite.
fn read_span<T: Number>(
    file: &WeightFile,
    name: &str,
    info: &TensorInfo,
    mut decode: impl FnMut(&[u8], &mut Vec<T>),
) -> Result<(Vec<T>, bool)> {
    let (block, count) = (info.dtype.block(), info.span());
    let mut values: Vec<T> = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::tensor(&info.file, name, format!("not enough memory for {count} numbers")));
    }
    let bytes = |numbers: usize| numbers / block.numbers * block.bytes;
    let most = CHUNK / block.bytes * block.bytes;
    let mut buffer = vec![0u8; most.min(bytes(count))];
    let mut sound = true;
    while values.len() < count {
        let done = values.len();
        let chunk = &mut buffer[..most.min(bytes(count - done))];
        file.read_at(chunk, info.start + bytes(done) as u64)?;
        decode(chunk, &mut values);
        sound &= values[done..].iter().fold(true, |sound, value| sound & value.is_sound()); // no branch per value
    }
    Ok((values, sound))
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
