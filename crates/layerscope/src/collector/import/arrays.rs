//! Named arrays in a file: where each lies, and its numbers in pieces.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use layerscope_files::Positioned;

use super::{npy, npz, tensors};
use crate::error::{Error, Result};

/// What one number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dtype {
    F16,
    Bf16,
    F32,
    F64,
    Signed(usize),
    Unsigned(usize),
}

impl Dtype {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
            Dtype::Signed(bytes) | Dtype::Unsigned(bytes) => bytes,
        }
    }

    /// Whether it may be a component of a state.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64)
    }

    fn name(self) -> String {
        match self {
            Dtype::F16 => "float16".to_owned(),
            Dtype::Bf16 => "bfloat16".to_owned(),
            Dtype::F32 => "float32".to_owned(),
            Dtype::F64 => "float64".to_owned(),
            Dtype::Signed(bytes) => format!("int{}", 8 * bytes),
            Dtype::Unsigned(bytes) => format!("uint{}", 8 * bytes),
        }
    }
}

/// An array as the file describes it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub place: Location,
}

/// Where the numbers are.
#[derive(Clone, Debug)]
pub(super) enum Location {
    /// In the file, from this byte on.
    File(u64),
    /// In memory, because they were compressed.
    Memory(Vec<u8>),
}

impl Described {
    /// How many numbers the shape promises.
    pub fn count(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.count()?.checked_mul(self.dtype.bytes())? as u64)
    }
}

/// The arrays of a file.
pub(super) struct Arrays {
    pub path: PathBuf,
    file: File,
    arrays: BTreeMap<String, Described>,
}

impl Arrays {
    /// Reads the headers of a .npy, .npz or .safetensors file. Compressed arrays are unpacked, up to `room` bytes of them.
    pub fn open(path: &Path, room: u64) -> Result<Arrays> {
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let size = file.metadata().map_err(|source| Error::io(path, source))?.len();
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let found = match end {
            "npy" => npy::describe(&file, 0, size).map(|array| BTreeMap::from([(stem(path), array)])),
            "npz" => npz::describe(&file, size, room),
            "safetensors" => tensors::describe(&file, size),
            _ => {
                return Err(Error::usage(format!("{}: give .npy, .npz, .safetensors or .parquet files", path.display())));
            }
        };
        let arrays = found.map_err(|problem| Error::damaged(path, problem))?;
        for (name, array) in &arrays {
            let there = match &array.place {
                Location::File(start) => size.saturating_sub(*start),
                Location::Memory(held) => held.len() as u64,
            };
            if array.bytes().is_none_or(|bytes| bytes > there) {
                let problem = format!("`{name}` of shape {:?} is longer than the file; it may be truncated", array.shape);
                return Err(Error::damaged(path, problem));
            }
        }
        Ok(Arrays { path: path.to_owned(), file, arrays })
    }

    /// The array of this name.
    pub fn get(&self, name: &str) -> Option<Array<'_>> {
        self.arrays.get_key_value(name).map(|(name, described)| Array { of: self, name, described })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = Array<'_>> {
        self.arrays.iter().map(|(name, described)| Array { of: self, name, described })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// One array.
#[derive(Clone, Copy)]
pub(super) struct Array<'a> {
    of: &'a Arrays,
    pub name: &'a str,
    pub described: &'a Described,
}

impl Array<'_> {
    /// Its extents.
    pub fn shape(&self) -> &[usize] {
        &self.described.shape
    }

    /// As ``hidden_states` is float32 [5, 3, 8]`.
    pub fn description(&self) -> String {
        format!("`{}` is {} {:?}", self.name, self.described.dtype.name(), self.described.shape)
    }

    /// The same, with its file.
    pub fn in_file(&self) -> String {
        format!("{}: {}", self.of.path.display(), self.description())
    }

    /// Numbers `start..end` as f32.
    pub fn floats(&self, start: usize, end: usize) -> Result<Vec<f32>> {
        let bytes = self.bytes(start, end)?;
        Ok(match self.described.dtype {
            Dtype::F16 => bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
            Dtype::Bf16 => bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
            Dtype::F32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F64 => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
            _ => return Err(self.refused("whole numbers are no states; give float16, bfloat16, float32 or float64")),
        })
    }

    /// All numbers as ids.
    pub fn ids(&self) -> Result<Vec<u64>> {
        let count = self.described.count().unwrap_or(0);
        let bytes = self.bytes(0, count)?;
        let width = self.described.dtype.bytes();
        let wide = |piece: &[u8], signed: bool| {
            let negative = signed && piece.last().is_some_and(|byte| *byte >= 0x80);
            let mut whole = [if negative { 0xff } else { 0 }; 8];
            whole[..width].copy_from_slice(piece);
            i64::from_le_bytes(whole)
        };
        let signed = match self.described.dtype {
            Dtype::Signed(_) => true,
            Dtype::Unsigned(_) => false,
            _ => return Err(self.refused("ids are whole numbers")),
        };
        let values: Vec<i64> = bytes.chunks_exact(width).map(|piece| wide(piece, signed)).collect();
        match values.iter().position(|value| signed && *value < 0) {
            Some(row) => Err(self.refused(&format!("row {row} is {}; ids are whole numbers from 0 on", values[row]))),
            None => Ok(values.into_iter().map(|value| value as u64).collect()),
        }
    }

    fn bytes(&self, start: usize, end: usize) -> Result<Vec<u8>> {
        let width = self.described.dtype.bytes();
        match &self.described.place {
            Location::Memory(held) => Ok(held[start * width..end * width].to_vec()),
            Location::File(from) => {
                let mut bytes = vec![0; (end - start) * width];
                let read = self.of.file.read_exact_at(&mut bytes, from + (start * width) as u64);
                read.map_err(|source| Error::io(&self.of.path, source))?;
                Ok(bytes)
            }
        }
    }

    fn refused(&self, problem: &str) -> Error {
        Error::usage(format!("{}: {problem}", self.in_file()))
    }
}
