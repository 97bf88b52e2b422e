//! Tables as bytes that a page turns into typed arrays without parsing.
//!
//! A block is the length of its header (u32), the header (JSON: rows, and per column its name, type, offset and, for texts, the
//! different ones), then the columns, each at a multiple of 8; little-endian. Undefined is NaN in `f64` and `f32`, and 2^32 - 1 in
//! `u32` and in the codes of `text`.

use std::collections::HashMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};

use crate::error::Result;
use crate::table::{Column, Table};

/// What stands for undefined among integers and codes.
const NULL: u32 = u32::MAX;

/// Deflated only where that saves a fifth: measures are mantissas, which do not shrink.
const WORTH: f64 = 0.8;

/// Bytes of the page's data.
pub(super) struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// A JSON text.
    pub fn json(value: &Value) -> Block {
        Block { bytes: value.to_string().into_bytes() }
    }

    /// The columns of the table without some of them; those in `single` as f32, for pictures only.
    pub fn table(table: &Table, without: &[&str], single: &[&str]) -> Block {
        let mut columns = Columns::new(table.rows());
        for (name, column) in table.columns().filter(|(name, _)| !without.contains(name)) {
            match column {
                Column::Text(values) => columns.text(name, values.iter().map(Option::as_deref)),
                Column::Integer(values) => columns.integers(name, values.iter().copied()),
                Column::Real(values) if single.contains(&name) => columns.singles(name, values.iter().copied()),
                Column::Real(values) => columns.reals(name, values.iter().copied()),
            }
        }
        columns.finish()
    }

    /// As a server sends them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes the block as an element of the page.
    pub fn write(&self, name: &str, out: &mut dyn Write) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.bytes)?;
        let deflated = encoder.finish()?;
        let worth = (deflated.len() as f64) < WORTH * self.bytes.len() as f64;
        let (coding, bytes) = if worth { ("deflate-raw", &deflated) } else { ("identity", &self.bytes) };
        write!(out, "<script type=\"application/octet-stream\" id=\"{name}\" data-coding=\"{coding}\">")?;
        out.write_all(STANDARD.encode(bytes).as_bytes())?;
        Ok(out.write_all(b"</script>\n")?)
    }
}

/// A block that grows by columns.
pub(super) struct Columns {
    rows: usize,
    header: Vec<Value>,
    data: Vec<u8>,
}

impl Columns {
    pub fn new(rows: usize) -> Columns {
        Columns { rows, header: Vec::new(), data: Vec::new() }
    }

    /// Numbers with all their digits.
    pub fn reals(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.start(name, "f64");
        values.for_each(|value| self.data.extend(value.unwrap_or(f64::NAN).to_le_bytes()));
    }

    /// Numbers that are only drawn.
    pub fn singles(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.start(name, "f32");
        values.for_each(|value| self.data.extend((value.unwrap_or(f64::NAN) as f32).to_le_bytes()));
    }

    /// Counts and indices; as f64 where they are negative or large.
    pub fn integers(&mut self, name: &str, values: impl Iterator<Item = Option<i64>> + Clone) {
        if values.clone().flatten().any(|value| !(0..i64::from(NULL)).contains(&value)) {
            return self.reals(name, values.map(|value| value.map(|number| number as f64)));
        }
        self.start(name, "u32");
        values.for_each(|value| self.data.extend(value.map_or(NULL, |number| number as u32).to_le_bytes()));
    }

    /// Texts: each different one once, in the header.
    pub fn text<'a>(&mut self, name: &str, values: impl Iterator<Item = Option<&'a str>>) {
        self.start(name, "text");
        let mut codes: HashMap<&str, u32> = HashMap::new();
        let mut strings: Vec<&str> = Vec::new();
        for value in values {
            let code = value.map_or(NULL, |text| {
                *codes.entry(text).or_insert_with(|| {
                    strings.push(text);
                    strings.len() as u32 - 1
                })
            });
            self.data.extend(code.to_le_bytes());
        }
        self.header.last_mut().expect("just started")["strings"] = json!(strings);
    }

    pub fn finish(self) -> Block {
        let mut header = json!({"rows": self.rows, "columns": self.header}).to_string();
        while !(header.len() + 4).is_multiple_of(8) {
            header.push(' ');
        }
        let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
        bytes.extend(header.into_bytes());
        bytes.extend(self.data);
        Block { bytes }
    }

    /// The next column begins here, aligned; offsets count from the end of the header.
    fn start(&mut self, name: &str, kind: &str) {
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        self.header.push(json!({"name": name, "type": kind, "at": self.data.len()}));
    }
}
