//! States in files of others.

use layerscope::{CollectorSettings, ImportOptions, import};

use super::files::file;
use super::told;
use super::zip::{Entry, archive};

/// A `.npy` array of states.
pub fn npy(data: &[u8]) {
    read("states.npy", data);
}

/// What the entries of an archive are called.
const NAMES: [&str; 8] =
    ["hidden_states.npy", "token_ids.npy", "documents.npy", "positions.npy", "layer1.npy", "layer2.npy", "groups.npy", "x"];

/// A `.npz` archive: as it is where the first byte is `P`, otherwise made of entries. An entry is a byte for its name and whether it
/// is compressed, two for its length, and its content.
pub fn npz(data: &[u8]) {
    if data.first() == Some(&b'P') {
        return read("states.npz", data);
    }
    let (mut rest, mut entries) = (data, Vec::new());
    while let Some((&[kind, low, high], content)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(content.len());
        entries.push(Entry { name: NAMES[usize::from(kind % 8)], content: &content[..length], deflated: kind >= 128 });
        rest = &content[length..];
    }
    read("states.npz", &archive(&entries));
}

/// A Parquet file of states.
pub fn parquet_states(data: &[u8]) {
    read("states.parquet", data);
}

fn read(name: &str, data: &[u8]) {
    let path = file(name, data);
    // As much as the machine of a user might have: what the files claim must not come near.
    let options = ImportOptions { max_memory: Some("64G".to_owned()), ..ImportOptions::default() };
    let measures = ["norm", "cosine"].map(str::to_owned).to_vec();
    let settings = CollectorSettings { measures, ..CollectorSettings::new(1) };
    told(import(&[path], &options, &settings, &mut |_| {}));
}
