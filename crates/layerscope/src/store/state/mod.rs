//! Sketches on disk: a safetensors file with a version, a fingerprint and a checksum for every tensor.
//!
//! A shard, a checkpoint and a finished result are all such a file. Reading takes one prefix (one point of the network) at
//! a time, so that merging many large states needs the memory of one point.
//!
//! A file may be packed without loss. Its checksums and its digest are those of its numbers, so that packing it changes nothing else.

mod file;
mod numbers;
mod packed;
mod planes;
#[cfg(test)]
mod tests;
mod write;

use serde_json::{Map, Value, json};

use crate::settings::table::Row;

pub use file::StateFile;
pub use planes::packing_bytes;
pub use write::{Draft, encode_state, write_state};

/// The version of the format, raised whenever older programs could misread what newer ones write.
const PLAIN: &str = "2";
/// The same, with some tensors packed. Where nothing is, older programs read it too.
const PACKED: &str = "3";
/// Those that this program reads. In the first one, all vectors of all groups are stored, and kept states once for every class.
const READABLE: [&str; 3] = ["1", PLAIN, PACKED];

/// Everything that must be equal for two states to be merged or continued, as a flat object.
pub type Fingerprint = Map<String, Value>;

/// What a state file says beside its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// What the numbers were computed from.
    pub fingerprint: Fingerprint,
    /// Anything else that belongs to them.
    pub details: Value,
}

/// How two fingerprints differ, in words; empty when they are equal. What an older program did not know has its default there.
pub fn differences(there: &Fingerprint, here: &Fingerprint) -> String {
    let keys: std::collections::BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let value = |of: &Fingerprint, key: &str| {
        let default = || key.strip_prefix("--").and_then(Row::named).map(|row| json!(row.default));
        of.get(key).cloned().or_else(default)
    };
    let shown = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
    let differing = keys.into_iter().filter(|key| value(here, key) != value(there, key));
    let lines: Vec<String> =
        differing.map(|key| format!("{key} is {} there and {} here", shown(value(there, key)), shown(value(here, key)))).collect();
    lines.join("; ")
}
