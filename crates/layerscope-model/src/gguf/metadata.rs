//! The entries before the table of tensors: what the file says about its model and tokenizer.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::input::{Fault, Input};
use crate::checkpoint::WeightFile;
use crate::error::{Error, Result};

/// The entries of a file by name.
#[derive(Debug, Default)]
pub struct Metadata {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    /// Where it stands in the file, its kind included.
    bytes: Range<u64>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number that cannot be negative.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// Many values of one kind, still in the file.
    List(List),
}

/// Where a list lies in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    kind: u32,
    /// How many values it has.
    pub count: u64,
    start: u64,
}

const TEXT: u32 = 8;
const LIST: u32 = 9;

/// The bytes of a value of fixed size.
fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

impl Metadata {
    pub(super) fn read(input: &mut Input<'_>, count: u64) -> Result<Metadata, Fault> {
        let mut entries = BTreeMap::new();
        for number in 0..count {
            let name = input.text(&format!("entry {number} of {count} of the metadata"))?;
            let what = format!("`{}` of the metadata", name.escape_debug());
            let start = input.position();
            let kind = input.u32(&what)?;
            let value = read_value(input, kind, &what)?;
            if entries.insert(name, Entry { value, bytes: start..input.position() }).is_some() {
                return Err(Fault::of(format!("{what} appears twice")));
            }
        }
        Ok(Metadata { entries })
    }

    /// The value under a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.get(name).map(|entry| &entry.value)
    }

    /// A whole number that is not negative.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Unsigned(count) => Some(*count),
            Value::Signed(count) => u64::try_from(*count).ok(),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Every entry whose name begins so, with the rest of its name, in the order of the names.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.entries.iter().filter_map(move |(name, entry)| Some((name.strip_prefix(prefix)?, &entry.value)))
    }

    /// Where the entries stand whose names begin so.
    pub fn bytes_below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, Range<u64>)> {
        self.entries.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(name, entry)| (name.as_str(), entry.bytes.clone()))
    }

    /// The texts of a list; None where there is no such entry.
    pub(crate) fn texts(&self, file: &WeightFile, name: &str) -> Result<Option<Vec<String>>> {
        let Some(list) = self.list(file, name, "texts", |kind| kind == TEXT)? else { return Ok(None) };
        let mut input = Input::at(file, list.start);
        let texts = (0..list.count).map(|place| input.text(&format!("value {place} of `{name}`")));
        texts.collect::<Result<_, Fault>>().map(Some).map_err(|fault| told(file, fault))
    }

    /// The numbers of a list; None where there is no such entry.
    pub(crate) fn numbers(&self, file: &WeightFile, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(list) = self.list(file, name, "numbers", |kind| kind != TEXT && kind != 7)? else { return Ok(None) };
        let mut input = Input::at(file, list.start);
        let number = |place| match read_value(&mut input, list.kind, &format!("value {place} of `{name}`"))? {
            Value::Unsigned(number) => Ok(number as f64),
            Value::Signed(number) => Ok(number as f64),
            Value::Real(number) => Ok(number),
            other => Err(Fault::of(format!("`{name}` should be a list of numbers, found {other}"))),
        };
        (0..list.count).map(number).collect::<Result<_, Fault>>().map(Some).map_err(|fault| told(file, fault))
    }

    fn list(&self, file: &WeightFile, name: &str, of: &str, fits: impl Fn(u32) -> bool) -> Result<Option<&List>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::List(list)) if fits(list.kind) => Ok(Some(list)),
            Some(other) => Err(Error::file(&file.path, format!("`{name}` should be a list of {of}, found {other}"))),
        }
    }
}

fn told(file: &WeightFile, fault: Fault) -> Error {
    match fault {
        Fault::Read(error) => error,
        Fault::Malformed(problem) => Error::file(&file.path, problem),
    }
}

fn read_value(input: &mut Input<'_>, kind: u32, what: &str) -> Result<Value, Fault> {
    Ok(match kind {
        0 => Value::Unsigned(input.u8(what)?.into()),
        1 => Value::Signed((input.u8(what)? as i8).into()),
        2 => Value::Unsigned(input.u16(what)?.into()),
        3 => Value::Signed((input.u16(what)? as i16).into()),
        4 => Value::Unsigned(input.u32(what)?.into()),
        5 => Value::Signed((input.u32(what)? as i32).into()),
        6 => Value::Real(f32::from_bits(input.u32(what)?).into()),
        7 => match input.u8(what)? {
            0 => Value::Flag(false),
            1 => Value::Flag(true),
            other => return Err(Fault::of(format!("{what} should be 0 or 1, found {other}"))),
        },
        TEXT => Value::Text(input.text(what)?),
        LIST => Value::List(read_list(input, what)?),
        10 => Value::Unsigned(input.u64(what)?),
        11 => Value::Signed(input.u64(what)? as i64),
        12 => Value::Real(f64::from_bits(input.u64(what)?)),
        other => return Err(Fault::of(format!("{what} has the unknown kind {other}"))),
    })
}

/// Passes over a list, checking that all of it is there.
fn read_list(input: &mut Input<'_>, what: &str) -> Result<List, Fault> {
    let (kind, count) = (input.u32(what)?, input.u64(what)?);
    let start = input.position();
    match (kind, width(kind)) {
        (_, Some(width)) => {
            let bytes = count.checked_mul(width).ok_or_else(|| Fault::of(format!("{what} has {count} values, which overflows")))?;
            input.skip(bytes, what)?;
        }
        (TEXT, _) => (0..count).try_for_each(|_| input.skip_text(what))?,
        (LIST, _) => return Err(Fault::of(format!("{what} is a list of lists, which no model needs"))),
        (other, _) => return Err(Fault::of(format!("{what} is a list of the unknown kind {other}"))),
    }
    Ok(List { kind, count, start })
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(number) => number.fmt(out),
            Value::Signed(number) => number.fmt(out),
            Value::Real(number) => number.fmt(out),
            Value::Flag(flag) => flag.fmt(out),
            Value::Text(text) => write!(out, "`{}`", text.chars().take(40).collect::<String>().escape_debug()),
            Value::List(list) => write!(out, "a list of {}", list.count),
        }
    }
}
