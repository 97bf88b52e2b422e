//! State files that were changed and sealed again: every checksum and digest is right, whatever the numbers are.
//!
//! An input is a list of changes to the state of a small run.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use layerscope::internals::fuzzing::tables_of;
use layerscope_report::manifest::sha256;
use serde_json::{Map, Value, json};

use super::told;

/// Numbers that break things.
const NUMBERS: [u64; 12] = [
    0,
    1,
    u64::MAX,
    1 << 32,
    1 << 62,
    i64::MAX as u64,
    0x7ff8_0000_0000_0000, // not a number
    0x7ff0_0000_0000_0000, // infinity
    0xbff0_0000_0000_0000, // -1
    0x7fef_ffff_ffff_ffff, // the largest f64
    0x0000_0000_0000_0001, // the smallest
    0x47ef_ffff_e000_0000, // the largest f32
];

/// Numbers of a tensor that is given another shape.
const MOST: usize = 4096;

/// Changes the state of a run, seals it and makes its tables.
pub fn state(data: &[u8]) {
    static ORIGINAL: OnceLock<[Parts; 2]> = OnceLock::new();
    let original = ORIGINAL.get_or_init(|| {
        [Parts::read(include_bytes!("../../run/state.safetensors")), Parts::read(include_bytes!("../../run/sample.safetensors"))]
    });
    let [mut state, mut sample] = original.clone();
    let mut input = Input(data);
    while let Some(change) = input.byte() {
        let parts = if change & 0x80 == 0 { &mut state } else { &mut sample };
        if parts.change(change & 0x7f, &mut input).is_none() {
            break;
        }
    }
    let (sample, digest) = sample.sealed();
    if state.details.get("sample").is_some() {
        state.details["sample"] = digest.into();
    }
    told(tables_of(state.sealed().0, sample));
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn below(&mut self, count: usize) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.take()?)) % count.max(1))
    }
}

#[derive(Clone)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn width(&self) -> usize {
        if self.dtype == "F32" { 4 } else { 8 }
    }
}

/// A state file in pieces.
#[derive(Clone)]
struct Parts {
    tensors: BTreeMap<String, Tensor>,
    fingerprint: String,
    details: Value,
}

impl Parts {
    fn read(bytes: &[u8]) -> Parts {
        let end = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let header: Map<String, Value> = serde_json::from_slice(&bytes[8..end]).expect("a header");
        let text = |name: &str| header["__metadata__"][name].as_str().expect("a text");
        let tensor = |(name, entry): (&String, &Value)| {
            let number = |value: &Value| value.as_u64().expect("a number") as usize;
            let shape = entry["shape"].as_array().expect("a shape").iter().map(number).collect();
            let place = end + number(&entry["data_offsets"][0])..end + number(&entry["data_offsets"][1]);
            (name.clone(), Tensor { dtype: entry["dtype"].as_str().expect("a dtype").to_owned(), shape, bytes: bytes[place].to_vec() })
        };
        let tensors = header.iter().filter(|(name, _)| *name != "__metadata__").map(tensor).collect();
        Parts { tensors, fingerprint: text("fingerprint").to_owned(), details: serde_json::from_str(text("details")).expect("details") }
    }

    /// Makes one change; None at the end of the input.
    fn change(&mut self, kind: u8, input: &mut Input<'_>) -> Option<()> {
        match kind % 8 {
            0 => {
                let (tensor, at) = self.number(input)?;
                tensor.bytes[at..at + 8].copy_from_slice(&input.take::<8>()?);
            }
            1 => {
                let (tensor, at) = self.number(input)?;
                let number = NUMBERS[usize::from(input.byte()?) % NUMBERS.len()];
                tensor.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            2 => {
                let tensor = self.tensor(input)?;
                let dimensions = usize::from(input.byte()?) % 4;
                tensor.shape = (0..dimensions).map(|_| input.byte().map(usize::from)).collect::<Option<_>>()?;
                let count = tensor.shape.iter().product::<usize>();
                if count > MOST {
                    tensor.shape = vec![MOST];
                }
                tensor.bytes.resize(count.min(MOST) * tensor.width(), 0);
            }
            3 => {
                let name = self.name(input)?;
                self.tensors.remove(&name);
            }
            4 => {
                let from = self.tensor(input)?.clone();
                *self.tensor(input)? = from;
            }
            5 => {
                let value = match input.byte()? % 8 {
                    0 => json!(u64::from_le_bytes(input.take()?)),
                    1 => json!(f64::from_le_bytes(input.take()?)),
                    2 => json!(NUMBERS[usize::from(input.byte()?) % NUMBERS.len()]),
                    3 => json!(input.byte()?),
                    4 => json!(null),
                    5 => json!(["norm", "spectrum", "layer1", "", "all"][usize::from(input.byte()?) % 5]),
                    6 => json!([]),
                    _ => json!(input.byte()? % 2 == 0),
                };
                *self.detail(input, |value| !value.is_object() && !value.is_array())? = value;
            }
            6 => {
                let list = self.detail(input, Value::is_array)?.as_array_mut()?;
                match input.byte()? % 3 {
                    0 => drop(list.pop()),
                    1 => list.extend(list.last().cloned()),
                    _ => list.reverse(),
                }
            }
            _ => {
                let at = input.byte()?;
                let object = self.detail(input, Value::is_object)?.as_object_mut()?;
                let name = object.keys().nth(usize::from(at) % object.len().max(1))?.clone();
                object.shift_remove(&name);
            }
        }
        Some(())
    }

    fn name(&self, input: &mut Input<'_>) -> Option<String> {
        let place = input.below(self.tensors.len())?;
        self.tensors.keys().nth(place).cloned()
    }

    fn tensor(&mut self, input: &mut Input<'_>) -> Option<&mut Tensor> {
        let name = self.name(input)?;
        self.tensors.get_mut(&name)
    }

    /// A number of a tensor, as the place of eight bytes.
    fn number(&mut self, input: &mut Input<'_>) -> Option<(&mut Tensor, usize)> {
        let tensor = self.tensor(input)?;
        let at = input.below(tensor.bytes.len() / tensor.width())? * tensor.width();
        (at + 8 <= tensor.bytes.len()).then_some((tensor, at))
    }

    /// A value of the details.
    fn detail(&mut self, input: &mut Input<'_>, wanted: fn(&Value) -> bool) -> Option<&mut Value> {
        let mut found = Vec::new();
        collect(&mut self.details, wanted, &mut found);
        let place = input.below(found.len())?;
        found.into_iter().nth(place)
    }

    /// Its bytes, and the digest of its header.
    fn sealed(&self) -> (Vec<u8>, String) {
        let (mut entries, mut sums, mut numbers) = (Map::new(), Map::new(), Vec::new());
        for (name, tensor) in &self.tensors {
            let start = numbers.len();
            numbers.extend(&tensor.bytes);
            sums.insert(name.clone(), crc32fast::hash(&tensor.bytes).into());
            let offsets = [start, numbers.len()];
            entries.insert(name.clone(), json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets }));
        }
        let sums = Value::Object(sums).to_string();
        let mut header = Map::new();
        let facts = [("version", "1".to_owned()), ("fingerprint", self.fingerprint.clone()), ("details", self.details.to_string())];
        let facts = facts.into_iter().chain([("checksums", sums), ("header_checksum", "00000000".to_owned())]);
        header.insert("__metadata__".to_owned(), Value::Object(facts.map(|(name, text)| (name.to_owned(), text.into())).collect()));
        header.extend(entries);
        let sum = crc32fast::hash(Value::Object(header.clone()).to_string().as_bytes());
        header["__metadata__"]["header_checksum"] = format!("{sum:08x}").into();
        let mut header = Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let digest = sha256(&header);
        ([&(header.len() as u64).to_le_bytes()[..], &header, &numbers].concat(), digest)
    }
}

/// The values of some kind, from the outside in.
fn collect<'a>(value: &'a mut Value, wanted: fn(&Value) -> bool, found: &mut Vec<&'a mut Value>) {
    if wanted(value) {
        return found.push(value);
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| collect(item, wanted, found)),
        Value::Object(items) => items.values_mut().for_each(|item| collect(item, wanted, found)),
        _ => {}
    }
}
