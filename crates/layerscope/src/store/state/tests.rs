//! State files: bit-exact, checked tensor by tensor, and particular about what they belong to.

use layerscope_stats::sketch::{Mergeable, PointMoments, Tensors};
use layerscope_stats::{BatchRows, Segments};
use serde_json::json;

use super::*;
use crate::store::folder::{Folder, Unsettled};

fn empty_folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("layerscope-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn sketch(seed: usize) -> PointMoments {
    let (rows, dim) = (200, 12);
    let states: Vec<f32> = (0..rows * dim).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 100.0 - 5.0).collect();
    let groups: Vec<u32> = (0..rows as u32).map(|row| row % 17).collect();
    let mut sketch = PointMoments::new(17, dim, Some(15.0));
    let segments = Segments::new(&groups);
    sketch.update(&BatchRows::new(&states, dim, &segments, &[0, 100, 200]).expect("rows")).expect("an update");
    sketch
}

fn fingerprint() -> Fingerprint {
    json!({ "model": "abc", "corpus": "def", "frequency": [10, 100_000] }).as_object().expect("an object").clone()
}

/// Two points in one file, in a folder of its own.
fn write(name: &str) -> (Folder, std::path::PathBuf) {
    let store = Folder::create(&empty_folder(name)).expect("a folder");
    let (first, second) = (sketch(1), sketch(2));
    let mut tensors = Tensors::default();
    tensors.nest("point.1", first.encode());
    tensors.nest("point.10", second.encode());
    write_state(&store, "state.safetensors", &About { fingerprint: fingerprint(), ..About::default() }, &tensors)
        .and_then(Unsettled::settle)
        .expect("written");
    let path = store.path("state.safetensors");
    (store, path)
}

#[test]
fn sketches_come_back_bit_for_bit_one_point_at_a_time() {
    let (_, path) = write("state-round-trip");
    let state = StateFile::open(&path).expect("a state");
    state.expect(&fingerprint()).expect("the same run");
    for (prefix, seed) in [("point.1", 1), ("point.10", 2)] {
        let restored = PointMoments::decode(&mut state.read(prefix).expect("whole")).expect("a sketch");
        assert_eq!(restored, sketch(seed), "{prefix}");
    }
}

#[test]
fn it_is_an_ordinary_safetensors_file() {
    let (store, path) = write("state-format");
    std::fs::rename(path, store.path("model.safetensors")).expect("renamed");
    let folder = store.path("");
    let checkpoint = layerscope_model::checkpoint::Checkpoint::open(&folder).expect("readable by the format's rules");
    assert!(checkpoint.names().any(|name| name == "point.1.corpus.mean"));
}

#[test]
fn a_stranger_is_refused_with_what_differs() {
    let (_, path) = write("state-stranger");
    let mut other = fingerprint();
    other.insert("corpus".into(), "xyz".into());
    other.remove("model");
    let line = StateFile::open(&path).expect("a state").expect(&other).expect_err("another run").to_string();
    assert!(line.contains("corpus is \"def\" there and \"xyz\" here"), "{line}");
    assert!(line.contains("model is \"abc\" there and nothing here"), "{line}");
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (_, path) = write("state-damage");
    let whole = std::fs::read(&path).expect("bytes");
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
    let read_all = |bytes: &[u8]| -> Result<(), String> {
        std::fs::write(&path, bytes).expect("writable");
        let state = StateFile::open(&path).map_err(|error| error.to_string())?;
        ["point.1", "point.10"].iter().try_for_each(|prefix| state.read(prefix).map(drop).map_err(|error| error.to_string()))
    };
    assert_eq!(read_all(&whole), Ok(()));
    for at in (0..whole.len()).step_by(13) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        // The padding at the header's end is the only place that carries nothing.
        if whole[..header].trim_ascii_end().len() <= at && at < header {
            continue;
        }
        assert!(read_all(&bytes).is_err(), "byte {at} of {} (header {header})", whole.len());
    }
    for length in [0, 7, 8, header - 1, header, whole.len() - 1] {
        assert!(read_all(&whole[..length]).is_err(), "cut at {length}");
    }
    let mut damaged = whole.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(read_all(&damaged).expect_err("damaged").contains("tensor `point.10."), "the tensor is named");
}
