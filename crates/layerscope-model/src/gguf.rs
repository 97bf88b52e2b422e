//! GGUF files: metadata, a table of tensors, then their numbers, often in blocks of few bits.
//!
//! The header is walked with positioned reads and every count in it is checked against the file, so no header can make the
//! program allocate more than it is long. Long lists (a vocabulary) stay in the file until somebody asks for them.

mod input;
mod metadata;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::checkpoint::{Dtype, WeightFile, checked_elements};
use crate::error::{Error, Result};
use input::{Fault, Input};
pub use metadata::{List, Metadata, Value};

/// Versions that this reader knows; they differ in nothing it looks at.
const VERSIONS: [u32; 2] = [2, 3];
/// What the format aligns tensors to unless `general.alignment` says otherwise.
const ALIGNMENT: u64 = 32;
/// The format's limit on dimensions.
const MAX_DIMENSIONS: u32 = 4;

/// A header that was found sound: every tensor lies inside the file and overlaps no other.
#[derive(Debug)]
pub struct Header {
    /// What the file says about the model and its tokenizer.
    pub metadata: Metadata,
    /// The tensors, in the order of the table.
    pub tensors: Vec<TensorEntry>,
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name, which no other tensor of the file has.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: Dtype,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its bytes in the file.
    pub bytes: Range<u64>,
}

/// Reads the header of an open file.
pub(crate) fn header(file: &WeightFile) -> Result<Header> {
    let mut input = Input::new(file);
    read(&mut input).map_err(|fault| match fault {
        Fault::Read(error) => error,
        Fault::Malformed(problem) => Error::file(&file.path, problem),
    })
}

fn read(input: &mut Input<'_>) -> Result<Header, Fault> {
    check_version(input)?;
    let tensors = input.u64("the number of tensors")?;
    let entries = input.u64("the number of metadata entries")?;
    let metadata = Metadata::read(input, entries)?;
    if let Some(parts) = metadata.count("split.count").filter(|parts| *parts > 1) {
        return Err(Fault::of(format!("one of {parts} parts of a split model; join them with `gguf-split --merge`")));
    }
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT,
        Some(Value::Unsigned(bytes)) if bytes.is_power_of_two() && *bytes <= 1 << 20 => *bytes,
        Some(other) => return Err(Fault::of(format!("`general.alignment` should be a power of two, found {other}"))),
    };
    let table = read_table(input, tensors)?;
    let data_start = input.position().next_multiple_of(alignment);
    let size = input.file_size();
    let mut names = BTreeSet::new();
    let mut found = Vec::with_capacity(table.len());
    for row in table {
        if !names.insert(row.name.clone()) {
            return Err(Fault::of(of_tensor(&row.name, "appears twice")));
        }
        found.push(row.place(data_start, alignment, size)?);
    }
    check_overlaps(&found)?;
    Ok(Header { metadata, tensors: found })
}

fn check_version(input: &mut Input<'_>) -> Result<(), Fault> {
    let magic = input.u32("the magic number")?.to_le_bytes();
    if magic != *b"GGUF" {
        return Err(Fault::of("does not begin with `GGUF`, so not a GGUF file".into()));
    }
    let version = input.u32("the version")?;
    match version {
        known if VERSIONS.contains(&known) => Ok(()),
        1 => Err(Fault::of("GGUF version 1, of August 2023 only; convert the model again, to version 3".into())),
        swapped if VERSIONS.contains(&swapped.swap_bytes()) => {
            Err(Fault::of("a big-endian GGUF file; convert the model again on a little-endian machine".into()))
        }
        other => Err(Fault::of(format!("GGUF version {other}; Layerscope reads versions 2 and 3"))),
    }
}

/// A row of the table of tensors, as it stands in the file.
struct Row {
    name: String,
    dimensions: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn read_table(input: &mut Input<'_>, tensors: u64) -> Result<Vec<Row>, Fault> {
    let mut table = Vec::new();
    for number in 0..tensors {
        let what = || format!("tensor {number} of {tensors} in the table");
        let name = input.text(&what())?;
        let count = input.u32(&what())?;
        if count > MAX_DIMENSIONS {
            return Err(Fault::of(of_tensor(&name, &format!("{count} dimensions, more than the {MAX_DIMENSIONS} that the format has"))));
        }
        let dimensions = (0..count).map(|_| input.u64(&what())).collect::<Result<_, _>>()?;
        table.push(Row { name, dimensions, kind: input.u32(&what())?, offset: input.u64(&what())? });
    }
    Ok(table)
}

impl Row {
    /// Where the tensor lies in a file of `size` bytes whose numbers begin at `data_start`.
    fn place(self, data_start: u64, alignment: u64, size: u64) -> Result<TensorEntry, Fault> {
        let fault = |problem: String| Fault::of(of_tensor(&self.name, &problem));
        let dtype = dtype(self.kind).map_err(fault)?;
        let shape: Option<Vec<usize>> = self.dimensions.iter().rev().map(|&size| usize::try_from(size).ok()).collect();
        let sized = shape.and_then(|shape| Some((checked_elements(&shape)?, shape)));
        let (elements, shape) = sized.ok_or_else(|| fault(format!("shape {:?} overflows", self.dimensions)))?;
        let (block, row) = (dtype.block(), shape.last().copied().unwrap_or(1));
        if !row.is_multiple_of(block.numbers) {
            return Err(fault(format!("rows of {row} numbers are no whole blocks of {} in {dtype}", block.numbers)));
        }
        if !self.offset.is_multiple_of(alignment) {
            return Err(fault(format!("begins at byte {} of the data, not a multiple of {alignment}", self.offset)));
        }
        let begin = data_start.checked_add(self.offset);
        let bytes = (elements / block.numbers).checked_mul(block.bytes).and_then(|bytes| u64::try_from(bytes).ok());
        let range = begin.and_then(|begin| Some(begin..begin.checked_add(bytes?)?));
        match range {
            Some(bytes) if bytes.end <= size => Ok(TensorEntry { name: self.name, dtype, shape, bytes }),
            _ => Err(fault(format!("shape {shape:?} in {dtype} ends past the {size} bytes of the file, which may be truncated"))),
        }
    }
}

fn check_overlaps(tensors: &[TensorEntry]) -> Result<(), Fault> {
    let mut order: Vec<&TensorEntry> = tensors.iter().filter(|tensor| !tensor.bytes.is_empty()).collect();
    order.sort_by_key(|tensor| tensor.bytes.start);
    match order.windows(2).find(|pair| pair[1].bytes.start < pair[0].bytes.end) {
        Some(pair) => {
            let problem = format!("overlaps `{}`, which ends at byte {}", pair[0].name.escape_debug(), pair[0].bytes.end);
            Err(Fault::of(of_tensor(&pair[1].name, &problem)))
        }
        None => Ok(()),
    }
}

fn of_tensor(name: &str, problem: &str) -> String {
    format!("tensor `{}`: {problem}", name.escape_debug())
}

/// The kinds of numbers by the format's numbers for them.
const DTYPES: [(u32, Dtype); 16] = [
    (0, Dtype::F32),
    (1, Dtype::F16),
    (2, Dtype::Q4_0),
    (3, Dtype::Q4_1),
    (6, Dtype::Q5_0),
    (7, Dtype::Q5_1),
    (8, Dtype::Q8_0),
    (12, Dtype::Q4K),
    (13, Dtype::Q5K),
    (14, Dtype::Q6K),
    (24, Dtype::I8),
    (25, Dtype::I16),
    (26, Dtype::I32),
    (27, Dtype::I64),
    (28, Dtype::F64),
    (30, Dtype::Bf16),
];

/// Kinds that exist and that Layerscope does not read.
const OTHERS: [(u32, &str); 19] = [
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (4, "Q4_2"),
    (5, "Q4_3"),
    (40, "NVFP4"),
];

fn dtype(kind: u32) -> Result<Dtype, String> {
    if let Some((_, dtype)) = DTYPES.iter().find(|(number, _)| *number == kind) {
        return Ok(*dtype);
    }
    let name = OTHERS.iter().find(|(number, _)| *number == kind).map_or(format!("the unknown kind {kind}"), |(_, name)| (*name).to_owned());
    Err(format!("stored as {name}; Layerscope reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K"))
}
