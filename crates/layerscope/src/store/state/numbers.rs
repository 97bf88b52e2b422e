//! The numbers of tensors as bytes, little-endian.

use std::borrow::Cow;
use std::io;

use half::f16;
use layerscope_model::checkpoint::Dtype;
use layerscope_stats::sketch::Values;

/// The name of their kind in a header.
pub fn dtype(values: &Values<'_>) -> &'static str {
    match values {
        Values::F64(_) => "F64",
        Values::F32(_) => "F32",
        Values::U64(_) => "U64",
    }
}

/// Bytes of one.
pub fn width(values: &Values<'_>) -> usize {
    match values {
        Values::F64(_) | Values::U64(_) => 8,
        Values::F32(_) => 4,
    }
}

/// Room for the numbers of a tensor.
pub fn empty(dtype: Dtype, bytes: usize) -> Option<Values<'static>> {
    match dtype {
        Dtype::F64 => Some(Values::F64(Cow::Owned(Vec::with_capacity(bytes / size_of::<f64>())))),
        Dtype::U64 => Some(Values::U64(Cow::Owned(Vec::with_capacity(bytes / size_of::<u64>())))),
        Dtype::F32 | Dtype::F16 => Some(Values::F32(Cow::Owned(Vec::with_capacity(bytes / dtype.size())))),
        _ => None,
    }
}

/// Appends little-endian numbers of a kind.
pub fn extend(values: &mut Values<'static>, dtype: Dtype, bytes: &[u8]) -> io::Result<()> {
    match values {
        Values::F32(values) if dtype == Dtype::F16 => {
            values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()));
        }
        Values::F64(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes))),
        Values::U64(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))),
        Values::F32(values) => values.to_mut().extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
    }
    Ok(())
}

/// The bytes of f32 numbers as those of the nearest f16 numbers.
pub fn to_f16(bytes: &[u8]) -> Vec<u8> {
    bytes.as_chunks().0.iter().flat_map(|bytes| f16::from_f32(f32::from_le_bytes(*bytes)).to_le_bytes()).collect()
}

/// The bytes of a tensor in pieces, little-endian.
pub fn for_each_chunk(values: &Values<'_>, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
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
        Values::F64(values) => pieces(values, f64::to_le_bytes, take),
        Values::F32(values) => pieces(values, f32::to_le_bytes, take),
        Values::U64(values) => pieces(values, u64::to_le_bytes, take),
    }
}
