//! The host's sketches as named tensors.

use std::borrow::Cow;

use cudarc::driver::DeviceRepr;
use layerscope_stats::sketch::{Tensor, Tensors, Values};
use layerscope_stats::{Error, Result};

/// The numbers of a tensor of f64.
pub(super) fn f64s<'a>(tensors: &'a Tensors<'_>, name: &str) -> Result<&'a [f64]> {
    match tensors.0.get(name).map(|tensor| &tensor.values) {
        Some(Values::F64(values)) => Ok(values),
        _ => Err(missing(name)),
    }
}

/// The numbers of a tensor of u64.
pub(super) fn u64s<'a>(tensors: &'a Tensors<'_>, name: &str) -> Result<&'a [u64]> {
    match tensors.0.get(name).map(|tensor| &tensor.values) {
        Some(Values::U64(values)) => Ok(values),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> Error {
    Error::Tensor { tensor: name.to_owned(), problem: "is missing or of another type".to_owned() }
}

/// The same with numbers of their own.
pub(super) fn owned(tensors: Tensors<'_>) -> Tensors<'static> {
    Tensors(tensors.0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect())
}

/// Numbers that a tensor may have.
pub(super) trait Number: DeviceRepr + 'static {
    fn values(numbers: Vec<Self>) -> Values<'static>
    where
        Self: Sized;
}

impl Number for f64 {
    fn values(numbers: Vec<f64>) -> Values<'static> {
        Values::F64(Cow::Owned(numbers))
    }
}

impl Number for f32 {
    fn values(numbers: Vec<f32>) -> Values<'static> {
        Values::F32(Cow::Owned(numbers))
    }
}

impl Number for u64 {
    fn values(numbers: Vec<u64>) -> Values<'static> {
        Values::U64(Cow::Owned(numbers))
    }
}

/// Puts a tensor in the place of one of its name, if there is one.
pub(super) fn put<T: Number>(tensors: &mut Tensors<'static>, name: &str, shape: &[usize], numbers: Vec<T>) {
    tensors.0.insert(name.to_owned(), Tensor { shape: shape.to_vec(), values: T::values(numbers) });
}
