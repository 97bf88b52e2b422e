//! Rows of layers.parquet, and safetensors by name.

use std::collections::BTreeMap;
use std::path::Path;

use layerscope_report::{Cell, Table};

/// Layer and point, selection, measure, variant: what names a value.
pub type Name = (Option<i64>, String, String, String, Option<String>);

/// A value with its standard error and count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub value: Option<f64>,
    pub se: Option<f64>,
    pub n: i64,
}

/// All rows by name; a name that occurs twice fails.
pub fn rows(table: &Table) -> BTreeMap<Name, Row> {
    let mut rows = BTreeMap::new();
    for row in 0..table.rows() {
        let text = |name| text(table, name, row);
        let required = |name| text(name).unwrap_or_else(|| panic!("{name} of row {row} is null"));
        let name = (integer(table, "layer", row), required("point"), required("selection"), required("measure"), text("variant"));
        let found = Row { value: real(table, "value", row), se: real(table, "se", row), n: integer(table, "n", row).expect("n") };
        assert!(rows.insert(name.clone(), found).is_none(), "{name:?} occurs twice");
    }
    rows
}

/// The rows of layers.parquet in a folder.
pub fn layers(folder: &Path) -> BTreeMap<Name, Row> {
    rows(&parquet(folder, "layers"))
}

/// A table of a run.
pub fn parquet(folder: &Path, name: &str) -> Table {
    layerscope_report::export::parquet::read(&folder.join(format!("{name}.parquet"))).expect("a table")
}

fn cell<'a>(table: &'a Table, column: &str, row: usize) -> Cell<'a> {
    table.column(column).unwrap_or_else(|| panic!("no column {column}")).cell(row)
}

pub fn text(table: &Table, column: &str, row: usize) -> Option<String> {
    match cell(table, column, row) {
        Cell::Text(text) => Some(text.to_owned()),
        _ => None,
    }
}

pub fn integer(table: &Table, column: &str, row: usize) -> Option<i64> {
    match cell(table, column, row) {
        Cell::Integer(number) => Some(number),
        _ => None,
    }
}

pub fn real(table: &Table, column: &str, row: usize) -> Option<f64> {
    match cell(table, column, row) {
        Cell::Real(number) => Some(number),
        _ => None,
    }
}

/// How many units a deviation of 1 is worth: 1 for cosines, ratios, R^2 and isoscore, the value itself elsewhere.
pub fn scale(measure: &str, value: f64) -> f64 {
    const OF_ONE: &[&str] = &[
        "mean_cosine",
        "self_similarity",
        "intra_sentence_similarity",
        "max_explainable_variance",
        "anisotropy_svd",
        "isoscore",
        "top_variance",
        "partition",
        "matrix_entropy",
        "linear_cka_next",
        "linearity_next",
        "v_within_over_v",
        "silhouette",
        "adjusted_mutual_information",
        "r2_",
        "cv_q",
    ];
    let ratio = measure.contains("_over_") || OF_ONE.iter().any(|name| measure.starts_with(name));
    if ratio { 1.0 } else { value.abs() }
}

/// A safetensors file in memory.
pub struct Tensors {
    bytes: Vec<u8>,
    start: usize,
    header: serde_json::Value,
}

impl Tensors {
    pub fn open(path: &Path) -> Tensors {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let start = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let header = serde_json::from_slice(&bytes[8..start]).expect("a header");
        Tensors { bytes, start, header }
    }

    fn data(&self, name: &str, kind: &str) -> &[u8] {
        let entry = &self.header[name];
        assert_eq!(entry["dtype"], kind, "{name}");
        let at = |i: usize| self.start + entry["data_offsets"][i].as_u64().expect("an offset") as usize;
        &self.bytes[at(0)..at(1)]
    }

    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.data(name, "F32").as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// A tensor of any kind of floating-point number that the fixtures have.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        match self.header[name]["dtype"].as_str() {
            Some("F16") => self.data(name, "F16").as_chunks().0.iter().map(|bytes| half(u16::from_le_bytes(*bytes))).collect(),
            _ => self.f32(name).into_iter().map(f64::from).collect(),
        }
    }

    pub fn width(&self, name: &str) -> usize {
        self.header[name]["shape"].as_array().and_then(|shape| shape.last()?.as_u64()).expect("a shape") as usize
    }

    pub fn u64(&self, name: &str) -> Vec<u64> {
        self.data(name, "U64").as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    }
}

/// IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    assert!(exponent < 31, "a finite number");
    let size = if exponent == 0 { fraction * 2f64.powi(-24) } else { (1024.0 + fraction) * 2f64.powi(exponent - 25) };
    if sign == 1 { -size } else { size }
}
