//! The pickle inside a PyTorch file, interpreted without ever running anything.
//!
//! A pickle is a program for a stack machine that may import and call any Python function. This machine knows the dozen
//! globals of [`globals`] that describe tensors, treats calls to them as descriptions, and refuses every other name. Objects
//! live in one list and refer to each other by number: cycles and deep nesting cost nothing, and each instruction makes at
//! most one object, so the limit on instructions bounds memory and time.

mod globals;
mod input;
mod machine;

use self::machine::{Machine, Object};
use crate::checkpoint::Dtype;

/// What went wrong, to be completed with the file's name.
pub(crate) type Fault<T> = std::result::Result<T, String>;

/// A tensor as the pickle describes it: a view of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PickledTensor<'a> {
    /// Names the storage's entry in the archive.
    pub storage: &'a str,
    pub dtype: Dtype,
    /// In elements, like the strides.
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The tensors of a state dict, in its order. Entries that are numbers or None are skipped.
pub(crate) fn state_dict(pickle: &[u8]) -> Fault<Vec<(&str, PickledTensor<'_>)>> {
    let mut machine = Machine::new(pickle);
    let top = machine.run()?;
    let Object::Dict(entries) = &machine.objects[top] else {
        return Err(format!("holds {} instead of a mapping from names to tensors; use safetensors", machine.objects[top].kind()));
    };
    let mut tensors = Vec::new();
    for &(key, value) in entries {
        let Object::Text(name) = machine.objects[key] else {
            return Err(format!("holds a mapping with {} as a key, not a tensor's name; use safetensors", machine.objects[key].kind()));
        };
        match &machine.objects[value] {
            Object::Tensor(tensor) => tensors.push((name, tensor.clone())),
            Object::None | Object::Bool | Object::Int(_) => {}
            other => {
                return Err(format!(
                    "its entry `{}` is {}, not a tensor; save the state_dict alone, best as safetensors",
                    name.escape_debug(),
                    other.kind()
                ));
            }
        }
    }
    Ok(tensors)
}

fn broken(what: &str) -> String {
    format!("its pickle is broken: {what}")
}

#[cfg(test)]
mod tests;
