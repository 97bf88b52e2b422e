//! Tables through Arrow's C data interface: one record batch a table, handed over in PyCapsules.
//!
//! The structures are those of the Arrow specification (C data interface and C stream interface), written out here because a table has
//! only three kinds of columns.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use layerscope_report::{Column, Table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NULLABLE: i64 = 2;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: the structures own everything they point to, and nothing of it belongs to a thread.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}
// SAFETY: as above.
unsafe impl Send for ArrowArrayStream {}

/// A capsule that gives the table once.
pub fn stream_capsule<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyCapsule>> {
    let fields: Vec<Field> = table.columns().map(|(name, column)| Field::of(name, column)).collect();
    let batch = table_array(table);
    let held = Box::new(Stream { fields, batch: Some(batch) });
    let stream = ArrowArrayStream {
        get_schema: Some(stream_schema),
        get_next: Some(stream_next),
        get_last_error: Some(stream_error),
        release: Some(release_stream),
        private_data: Box::into_raw(held).cast(),
    };
    PyCapsule::new_with_value_and_destructor(py, stream, c"arrow_array_stream", |mut stream: ArrowArrayStream, _| {
        if let Some(release) = stream.release {
            // SAFETY: the stream was not released: whoever takes it over sets `release` to null.
            unsafe { release(&mut stream) };
        }
    })
}

/// A capsule with the columns' names and types.
pub fn schema_capsule<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyCapsule>> {
    let fields: Vec<Field> = table.columns().map(|(name, column)| Field::of(name, column)).collect();
    PyCapsule::new_with_value_and_destructor(py, table_schema(&fields), c"arrow_schema", |mut schema: ArrowSchema, _| {
        if let Some(release) = schema.release {
            // SAFETY: the schema was not released: whoever takes it over sets `release` to null.
            unsafe { release(&mut schema) };
        }
    })
}

/// A column's name and type.
#[derive(Clone)]
struct Field {
    name: CString,
    format: &'static CStr,
}

impl Field {
    fn of(name: &str, column: &Column) -> Field {
        let format = match column {
            Column::Text(_) => c"U", // 64-bit offsets: no table is too large
            Column::Integer(_) => c"l",
            Column::Real(_) => c"g",
        };
        // No column of ours has a zero byte in its name.
        Field { name: CString::new(name.replace('\0', "")).unwrap_or_default(), format }
    }
}

struct Stream {
    fields: Vec<Field>,
    batch: Option<ArrowArray>,
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the caller gives a stream of ours that is not released, and room for a schema.
    unsafe {
        let held = &*(*stream).private_data.cast::<Stream>();
        out.write(table_schema(&held.fields));
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the caller gives a stream of ours that is not released, and room for an array.
    unsafe {
        let held = &mut *(*stream).private_data.cast::<Stream>();
        out.write(held.batch.take().unwrap_or_else(released_array));
    }
    0
}

unsafe extern "C" fn stream_error(_: *mut ArrowArrayStream) -> *const c_char {
    null() // nothing here fails
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: called once, by whoever owns the stream.
    unsafe {
        let mut held = Box::from_raw((*stream).private_data.cast::<Stream>());
        if let Some(mut batch) = held.batch.take()
            && let Some(release) = batch.release
        {
            release(&mut batch);
        }
        (*stream).release = None;
    }
}

/// What a schema points to.
struct SchemaParts {
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

fn schema(name: CString, format: &'static CStr, flags: i64, children: Vec<ArrowSchema>) -> ArrowSchema {
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let parts = Box::into_raw(Box::new(SchemaParts { name, children }));
    // SAFETY: just made; it lives until the schema is released.
    let held = unsafe { &mut *parts };
    ArrowSchema {
        format: format.as_ptr(),
        name: held.name.as_ptr(),
        metadata: null(),
        flags,
        n_children: held.children.len() as i64,
        children: held.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: parts.cast(),
    }
}

fn table_schema(fields: &[Field]) -> ArrowSchema {
    let children = fields.iter().map(|field| schema(field.name.clone(), field.format, NULLABLE, Vec::new())).collect();
    schema(CString::default(), c"+s", 0, children)
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, by whoever owns the schema; children that were moved out have no `release` any more.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for &child in &parts.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&mut *child);
            }
        }
        (*schema).release = None;
    }
}

/// What an array points to.
struct ArrayParts {
    /// Validity, numbers or offsets, bytes of text: as 64-bit words, so that they are aligned.
    _held: Vec<Vec<u64>>,
    _text: Vec<u8>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

fn array(length: usize, null_count: usize, held: Vec<Vec<u64>>, text: Option<Vec<u8>>, children: Vec<ArrowArray>) -> ArrowArray {
    let mut buffers: Vec<*const c_void> = held.iter().map(|words| words.as_ptr().cast()).collect();
    if null_count == 0 {
        buffers[0] = null();
    }
    buffers.extend(text.as_ref().map(|text| text.as_ptr().cast::<c_void>()));
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
    let parts = ArrayParts { _held: held, _text: text.unwrap_or_default(), buffers, children };
    let parts = Box::into_raw(Box::new(parts));
    // SAFETY: just made; it lives until the array is released.
    let held = unsafe { &mut *parts };
    ArrowArray {
        length: length as i64,
        null_count: null_count as i64,
        offset: 0,
        n_buffers: held.buffers.len() as i64,
        n_children: held.children.len() as i64,
        buffers: held.buffers.as_mut_ptr(),
        children: held.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: parts.cast(),
    }
}

fn table_array(table: &Table) -> ArrowArray {
    let children = table.columns().map(|(_, column)| column_array(column)).collect();
    array(table.rows(), 0, vec![Vec::new()], None, children)
}

fn column_array(column: &Column) -> ArrowArray {
    fn numbers<T: Copy>(values: &[Option<T>], bits: impl Fn(T) -> u64) -> ArrowArray {
        let (validity, nulls) = validity(values);
        let words = values.iter().map(|value| value.map_or(0, &bits)).collect();
        array(values.len(), nulls, vec![validity, words], None, Vec::new())
    }
    match column {
        Column::Integer(values) => numbers(values, |number| number as u64),
        Column::Real(values) => numbers(values, f64::to_bits),
        Column::Text(values) => {
            let (validity, nulls) = validity(values);
            let mut text = Vec::new();
            let mut offsets = vec![0];
            for value in values {
                text.extend_from_slice(value.as_deref().unwrap_or_default().as_bytes());
                offsets.push(text.len() as u64);
            }
            text.reserve(1); // an empty buffer must not be null
            array(values.len(), nulls, vec![validity, offsets], Some(text), Vec::new())
        }
    }
}

/// One bit a value, and how many are missing.
fn validity<T>(values: &[Option<T>]) -> (Vec<u64>, usize) {
    let mut words = vec![0u64; values.len().div_ceil(64)];
    for (place, _) in values.iter().enumerate().filter(|(_, value)| value.is_some()) {
        words[place / 64] |= (1u64 << (place % 64)).to_le();
    }
    (words, values.iter().filter(|value| value.is_none()).count())
}

fn released_array() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: null_mut(),
        children: null_mut(),
        dictionary: null_mut(),
        release: None,
        private_data: null_mut(),
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once, by whoever owns the array; children that were moved out have no `release` any more.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for &child in &parts.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&mut *child);
            }
        }
        (*array).release = None;
    }
}
