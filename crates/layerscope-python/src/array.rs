//! Arrays of any library: through a buffer, through DLPack, or through `__array__`.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};

use half::{bf16, f16};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::usage;

/// What one number of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Floating point of so many bits.
    Float(u8),
    /// Brain floating point, 16 bits.
    Brain,
    /// Signed, of so many bits.
    Signed(u8),
    /// Unsigned, of so many bits.
    Unsigned(u8),
    /// True or false, a byte each.
    Truth,
}

impl Number {
    fn name(self) -> String {
        match self {
            Number::Float(bits) => format!("float{bits}"),
            Number::Brain => "bfloat16".to_owned(),
            Number::Signed(bits) => format!("int{bits}"),
            Number::Unsigned(bits) => format!("uint{bits}"),
            Number::Truth => "bool".to_owned(),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Number::Float(bits) | Number::Signed(bits) | Number::Unsigned(bits) => usize::from(bits) / 8,
            Number::Brain => 2,
            Number::Truth => 1,
        }
    }
}

/// Keeps an array's memory where it is.
#[allow(dead_code)] // held, never looked at
enum Owner {
    Buffer(PyUntypedBuffer),
    Capsule(Py<PyCapsule>),
}

/// The memory of an array, borrowed from whoever owns it.
pub struct Array {
    data: *const u8,
    number: Number,
    shape: Vec<usize>,
    /// Bytes from one number to the next along each axis.
    strides: Vec<isize>,
    _owner: Owner,
}

// SAFETY: the memory is only read, and `_owner` keeps it alive; whoever writes to it meanwhile races with themselves, as with numpy.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}

impl Array {
    /// Of any object that has numbers; None for one that has none.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
        if let Some(array) = Array::of_buffer(object) {
            return Ok(Some(array));
        }
        if object.hasattr("__dlpack__")? {
            match Array::of_tensor(object) {
                Err(problem) if problem.is_instance_of::<PyBufferError>(object.py()) => {} // texts, and others that are no numbers
                Err(problem) => {
                    let line = problem.value(object.py()).to_string();
                    return Err(usage(object.py(), format!("an array cannot be read: {}", line.lines().next().unwrap_or_default())));
                }
                array => return array,
            }
        }
        match object.hasattr("__array__")? {
            true => Ok(Array::of_buffer(&object.call_method0("__array__")?)),
            false => Ok(None),
        }
    }

    fn of_buffer(object: &Bound<'_, PyAny>) -> Option<Array> {
        let buffer = PyUntypedBuffer::get(object).ok()?;
        let number = of_format(buffer.format(), buffer.item_size())?;
        let (shape, strides) = (buffer.shape().to_vec(), buffer.strides().to_vec());
        if buffer.suboffsets().is_some() {
            return None;
        }
        Some(Array { data: buffer.buf_ptr().cast::<u8>().cast_const(), number, shape, strides, _owner: Owner::Buffer(buffer) })
    }

    /// Through DLPack, on the host; another device's numbers are copied there first.
    fn of_tensor(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
        let py = object.py();
        let mut object = object.clone();
        if object.hasattr("requires_grad")? && object.getattr("requires_grad")?.is_truthy()? {
            object = object.call_method0("detach")?;
        }
        let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
        if !matches!(device, CPU | CUDA_HOST) {
            object = on_host(&object)?;
            if let Some(array) = Array::of_buffer(&object) {
                return Ok(Some(array));
            }
        }
        let capsule = object.call_method0("__dlpack__")?;
        let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| usage(py, "an array's __dlpack__ gave no capsule"))?;
        let pointer = capsule.pointer_checked(Some(c"dltensor"))?;
        // SAFETY: a capsule of this name holds a DLManagedTensor, which begins with a DLTensor and lives as long as the capsule, since
        // nobody takes it over.
        let tensor = unsafe { pointer.cast::<DlTensor>().as_ref() };
        Ok(tensor.array(capsule.unbind()))
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many axes there are.
    pub fn axes(&self) -> usize {
        self.shape.len()
    }

    /// As `float32 [4, 7, 768]`.
    pub fn description(&self) -> String {
        format!("{} {:?}", self.number.name(), self.shape)
    }

    /// Rows of `dim` numbers, all axes but the last flattened; refuses other shapes and what are no floating-point numbers.
    pub fn check_rows(&self, py: Python<'_>, dim: usize) -> PyResult<()> {
        if !matches!(self.number, Number::Brain | Number::Float(16 | 32 | 64)) {
            return Err(usage(py, format!("states are {}; give float16, bfloat16, float32 or float64", self.description())));
        }
        match self.shape.last() {
            Some(&last) if last == dim => Ok(()),
            _ => Err(usage(py, format!("states are {}; the last axis must have {dim} components (dim)", self.description()))),
        }
    }

    /// All numbers as f32, row after row: the memory itself where that is what it holds, else a copy, each number rounded once.
    pub fn floats(&self) -> Cow<'_, [f32]> {
        if self.number == Number::Float(32) && self.is_contiguous() && self.data.cast::<f32>().is_aligned() && self.len() > 0 {
            // SAFETY: contiguous, aligned and kept alive by `_owner`; any bits are an f32.
            return Cow::Borrowed(unsafe { std::slice::from_raw_parts(self.data.cast(), self.len()) });
        }
        Cow::Owned(match self.number {
            Number::Float(16) => self.collect(|bytes| f16::from_le_bytes(bytes).to_f32()),
            Number::Brain => self.collect(|bytes| bf16::from_le_bytes(bytes).to_f32()),
            Number::Float(32) => self.collect(f32::from_le_bytes),
            _ => self.collect(|bytes| f64::from_le_bytes(bytes) as f32),
        })
    }

    /// All numbers as ids: None where they are no whole numbers; the row and value of one below 0.
    pub fn ids(&self) -> Option<Result<Vec<u64>, (usize, i64)>> {
        fn checked(values: Vec<i64>) -> Result<Vec<u64>, (usize, i64)> {
            let negative = values.iter().position(|value| *value < 0);
            match negative {
                Some(row) => Err((row, values[row])),
                None => Ok(values.into_iter().map(|value| value as u64).collect()),
            }
        }
        Some(match self.number {
            Number::Signed(8) => checked(self.collect(|bytes| i64::from(i8::from_le_bytes(bytes)))),
            Number::Signed(16) => checked(self.collect(|bytes| i64::from(i16::from_le_bytes(bytes)))),
            Number::Signed(32) => checked(self.collect(|bytes| i64::from(i32::from_le_bytes(bytes)))),
            Number::Signed(64) => checked(self.collect(i64::from_le_bytes)),
            Number::Unsigned(8) => Ok(self.collect(|bytes| u64::from(u8::from_le_bytes(bytes)))),
            Number::Unsigned(16) => Ok(self.collect(|bytes| u64::from(u16::from_le_bytes(bytes)))),
            Number::Unsigned(32) => Ok(self.collect(|bytes| u64::from(u32::from_le_bytes(bytes)))),
            Number::Unsigned(64) => Ok(self.collect(u64::from_le_bytes)),
            _ => return None,
        })
    }

    /// All numbers as truths; None for floating point.
    pub fn truths(&self) -> Option<Vec<bool>> {
        match self.number {
            Number::Truth => Some(self.collect(|[byte]: [u8; 1]| byte != 0)),
            _ => Some(self.ids()?.ok()?.into_iter().map(|value| value != 0).collect()),
        }
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = self.number.bytes() as isize;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent != 1 && stride != expected {
                return false;
            }
            expected *= extent as isize;
        }
        true
    }

    /// Every number in order, made from its bytes.
    fn collect<T, const W: usize>(&self, make: impl Fn([u8; W]) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.len());
        if self.len() == 0 {
            return values;
        }
        let (extent, stride) = match (self.shape.last(), self.strides.last()) {
            (Some(&extent), Some(&stride)) => (extent, stride),
            _ => (1, 0), // a single number without axes
        };
        let outer = self.shape.len().saturating_sub(1);
        let mut index = vec![0; outer];
        loop {
            let start: isize = index.iter().zip(&self.strides).map(|(&i, stride)| i as isize * stride).sum();
            for i in 0..extent as isize {
                // SAFETY: within the extents that the owner states, whose memory is alive.
                let bytes = unsafe { self.data.offset(start + i * stride).cast::<[u8; W]>().read_unaligned() };
                values.push(make(bytes));
            }
            let mut axis = outer;
            loop {
                if axis == 0 {
                    return values;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

/// An array of another device on this one.
fn on_host<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.hasattr("cpu")? {
        return object.call_method0("cpu");
    }
    if object.hasattr("__array__")? {
        return object.call_method0("__array__");
    }
    let py = object.py();
    let options = PyDict::new(py);
    options.set_item("device", "cpu")?;
    object.call_method("to_device", ("cpu",), None).or_else(|_| object.call_method("to", (), Some(&options)))
}

/// The kind of number that a buffer's format names.
fn of_format(format: &CStr, size: usize) -> Option<Number> {
    let format = format.to_str().ok()?;
    let code = match format.as_bytes() {
        [b'@' | b'=' | b'<' | b'|', code] | [code] => *code,
        _ => return None,
    };
    let bits = u8::try_from(size * 8).ok()?;
    Some(match code {
        b'e' | b'f' | b'd' => Number::Float(bits),
        b'?' => Number::Truth,
        b'b' | b'h' | b'i' | b'l' | b'q' | b'n' => Number::Signed(bits),
        b'B' | b'H' | b'I' | b'L' | b'Q' | b'N' => Number::Unsigned(bits),
        _ => return None,
    })
}

const CPU: i32 = 1;
const CUDA_HOST: i32 = 3;

/// A tensor as DLPack describes it (version 0.8 of its structures, which every library still gives unless asked for more).
#[repr(C)]
struct DlTensor {
    data: *const c_void,
    device: [i32; 2],
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

impl DlTensor {
    fn array(&self, capsule: Py<PyCapsule>) -> Option<Array> {
        let number = match (self.code, self.bits, self.lanes) {
            (0, bits, 1) => Number::Signed(bits),
            (1, bits, 1) => Number::Unsigned(bits),
            (2, bits, 1) => Number::Float(bits),
            (4, 16, 1) => Number::Brain,
            (6, 8, 1) => Number::Truth,
            _ => return None,
        };
        let axes = usize::try_from(self.axes).ok()?;
        let extents = |pointer: *const i64| {
            // SAFETY: DLPack: shape and strides, unless null, have one number for each axis.
            if axes == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(pointer, axes) }.to_vec() }
        };
        let shape: Vec<usize> = extents(self.shape).into_iter().map(|extent| usize::try_from(extent).unwrap_or(0)).collect();
        let item = number.bytes() as isize;
        let strides = match self.strides.is_null() {
            true => {
                let mut strides = vec![item; axes];
                (0..axes.saturating_sub(1)).rev().for_each(|axis| strides[axis] = strides[axis + 1] * shape[axis + 1] as isize);
                strides
            }
            false => extents(self.strides).into_iter().map(|stride| stride as isize * item).collect(),
        };
        let data = self.data.cast::<u8>().wrapping_add(self.byte_offset as usize);
        Some(Array { data, number, shape, strides, _owner: Owner::Capsule(capsule) })
    }
}
