//! Sketches as named flat tensors, ready to be stored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values<'a> {
    /// Sums and means.
    F64(Cow<'a, [f64]>),
    /// States.
    F32(Cow<'a, [f32]>),
    /// Counts and ids.
    U64(Cow<'a, [u64]>),
}

impl Values<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::F64(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::U64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Numbers with a shape, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub values: Values<'a>,
}

impl Tensor<'_> {
    /// The same with numbers of its own.
    pub fn into_owned(self) -> Tensor<'static> {
        let values = match self.values {
            Values::F64(values) => Values::F64(Cow::Owned(values.into_owned())),
            Values::F32(values) => Values::F32(Cow::Owned(values.into_owned())),
            Values::U64(values) => Values::U64(Cow::Owned(values.into_owned())),
        };
        Tensor { shape: self.shape, values }
    }
}

/// A sketch's tensors by name, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors<'a>(pub BTreeMap<String, Tensor<'a>>);

impl<'a> Tensors<'a> {
    /// Adds all of `inner` under `prefix.`.
    pub fn nest(&mut self, prefix: &str, inner: Tensors<'a>) {
        self.0.extend(inner.0.into_iter().map(|(name, tensor)| (format!("{prefix}.{name}"), tensor)));
    }

    /// Takes out everything under `prefix.`, without the prefix.
    pub fn take_nested(&mut self, prefix: &str) -> Tensors<'a> {
        let prefix = format!("{prefix}.");
        let names: Vec<String> = self.0.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
        let taken = names.into_iter().filter_map(|name| self.0.remove(&name).map(|tensor| (name[prefix.len()..].to_owned(), tensor)));
        Tensors(taken.collect())
    }

    /// The name of a tensor with a number that no sum or mean can be; what lies beyond a limit may be infinite.
    pub fn not_finite(&self) -> Option<&str> {
        let is_limit = |name: &str| name.ends_with("massive_threshold");
        let is_wrong = |name: &str, value: &f64| if is_limit(name) { value.is_nan() } else { !value.is_finite() };
        let wrong = |(name, tensor): &(&String, &Tensor<'_>)| match &tensor.values {
            Values::F64(values) => values.iter().any(|value| is_wrong(name, value)),
            Values::F32(_) | Values::U64(_) => false,
        };
        self.0.iter().find(wrong).map(|(name, _)| name.as_str())
    }

    pub(crate) fn put_f64(&mut self, name: &str, shape: &[usize], values: &'a [f64]) {
        self.put(name, shape, Values::F64(Cow::Borrowed(values)));
    }

    pub(crate) fn put_u64(&mut self, name: &str, shape: &[usize], values: impl Into<Cow<'a, [u64]>>) {
        self.put(name, shape, Values::U64(values.into()));
    }

    pub(crate) fn put_f32(&mut self, name: &str, shape: &[usize], values: impl Into<Cow<'a, [f32]>>) {
        self.put(name, shape, Values::F32(values.into()));
    }

    /// Numbers that a sketch keeps beside its vectors.
    pub(crate) fn put_numbers(&mut self, name: &str, values: &[f64]) {
        self.put(name, &[values.len()], Values::F64(Cow::Owned(values.to_vec())));
    }

    fn put(&mut self, name: &str, shape: &[usize], values: Values<'a>) {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        self.0.insert(name.to_owned(), Tensor { shape: shape.to_vec(), values });
    }

    /// The extents of a tensor that must have `N` of them.
    pub(crate) fn shape<const N: usize>(&self, name: &str) -> Result<[usize; N]> {
        let tensor = self.0.get(name).ok_or_else(|| Error::tensor(name, "is missing"))?;
        let shape = tensor.shape.as_slice();
        shape.try_into().map_err(|_| Error::tensor(name, format!("has shape {shape:?} instead of {N} extents")))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether there is anything under `prefix.`.
    pub(crate) fn has_nested(&self, prefix: &str) -> bool {
        self.0.keys().any(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
    }

    pub(crate) fn take_f64(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        match self.take(name, shape)? {
            Values::F64(values) => Ok(values.into_owned()),
            _ => Err(Error::tensor(name, "is not of type F64")),
        }
    }

    pub(crate) fn take_u64(&mut self, name: &str, shape: &[usize]) -> Result<Vec<u64>> {
        match self.take(name, shape)? {
            Values::U64(values) => Ok(values.into_owned()),
            _ => Err(Error::tensor(name, "is not of type U64")),
        }
    }

    pub(crate) fn take_f32(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.take(name, shape)? {
            Values::F32(values) => Ok(values.into_owned()),
            _ => Err(Error::tensor(name, "is not of type F32")),
        }
    }

    /// Rows of `dim` numbers each, however many.
    pub(crate) fn take_states(&mut self, name: &str, dim: usize) -> Result<Vec<f32>> {
        let [rows, _] = self.shape(name)?;
        self.take_f32(name, &[rows, dim])
    }

    /// Ids that fit 32 bits.
    pub(crate) fn take_u32(&mut self, name: &str, shape: &[usize]) -> Result<Vec<u32>> {
        let values = self.take_u64(name, shape)?;
        values.into_iter().map(|id| u32::try_from(id).map_err(|_| Error::tensor(name, format!("{id} exceeds 32 bits")))).collect()
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Values<'a>> {
        let tensor = self.0.remove(name).ok_or_else(|| Error::tensor(name, "is missing"))?;
        if tensor.shape != shape || tensor.shape.iter().product::<usize>() != tensor.values.len() {
            let found = format!("{} numbers of shape {:?}", tensor.values.len(), tensor.shape);
            return Err(Error::tensor(name, format!("has {found} instead of shape {shape:?}")));
        }
        Ok(tensor.values)
    }
}
