//! State files: bit-exact, checked tensor by tensor, and particular about what they belong to.

use layerscope_stats::sketch::{Mergeable, PointMoments, Tensor, Tensors, Values};
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

/// Groups of one state, of none, and of several; a state of zeros, and groups that were merged.
fn singles() -> PointMoments {
    let (rows, dim) = (90, 12);
    let states: Vec<f32> = (0..rows * dim).map(|i| if i < dim { 0.0 } else { ((i * 7919) % 1013) as f32 / 77.0 - 6.0 }).collect();
    let groups: Vec<u32> = (0..rows as u32).map(|row| if row < 60 { 3 * row } else { row % 7 }).collect();
    let mut sketch = PointMoments::new(200, dim, None);
    sketch.update(&BatchRows::new(&states, dim, &Segments::new(&groups), &[0, 90]).expect("rows")).expect("an update");
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

#[test]
fn groups_of_one_state_are_stored_as_that_state() {
    let (sketch, mut tensors) = (singles(), Tensors::default());
    tensors.nest("point.1", sketch.encode());
    let bytes = encode_state(&About::default(), &tensors).expect("encoded");
    let state = StateFile::decode(bytes, "a state").expect("a state");
    let stored = |name: &str| state.bytes_of(&format!("point.1.groups.{name}")) / 12;
    // 60 groups of one state but for 0, 3 and 6, which have others too; those and 1, 2, 4 and 5 are of several.
    assert_eq!((stored("single_state"), stored("mean"), stored("unit")), (57 * 4, 7 * 8, 7 * 8));
    let restored = PointMoments::decode(&mut state.read("point.1").expect("whole")).expect("a sketch");
    assert_eq!(restored, sketch);
}

/// The numbers of `states` in a file, packed and not.
fn both_ways(name: &str, states: &[f32]) -> (StateFile, StateFile) {
    let store = Folder::create(&empty_folder(name)).expect("a folder");
    let (sketch, mut tensors) = (singles(), Tensors::default());
    tensors.nest("point.1", sketch.encode());
    let shape = vec![states.len() / 16, 16];
    tensors.0.insert("point.2.kept".to_owned(), Tensor { shape, values: Values::F32(states.into()) });
    let about = About { fingerprint: fingerprint(), details: json!({ "of": "a test" }) };
    let write = |name: &str, is_packed: bool| {
        let draft = Draft::of(name, &about, &tensors, 2).expect("a draft");
        let written = if is_packed { draft.write_packed(&store, 2) } else { draft.write(&store) };
        written.and_then(Unsettled::settle).expect("written");
        let file = StateFile::open(&store.path(name)).expect("a state");
        assert_eq!((file.digest(), file.about(), file.is_packed()), (draft.digest().expect("a digest").as_str(), &about, is_packed));
        file
    };
    (write("plain", false), write("packed", true))
}

/// States of one sign and similar size, as models have them: so many that they are several blocks.
fn many_states() -> Vec<f32> {
    (0..16 * 5000).map(|i| 1.0 + ((i * 7919) % 10_007) as f32 / 10_007.0).collect()
}

#[test]
fn packed_bytes_do_not_depend_on_threads() {
    let store = Folder::create(&empty_folder("packed-threads")).expect("a folder");
    let (mut tensors, states) = (Tensors::default(), many_states().repeat(12));
    let shape = vec![states.len() / 16, 16];
    tensors.0.insert("point.1.kept".to_owned(), Tensor { shape, values: Values::F32(states.into()) });
    let bytes = |threads: usize| {
        let draft = Draft::of("state", &About::default(), &tensors, threads).expect("a draft");
        draft.write_packed(&store, threads).and_then(Unsettled::settle).expect("written");
        std::fs::read(store.path("state")).expect("a file")
    };
    assert_eq!(bytes(1), bytes(3));
}

#[test]
fn packed_numbers_come_back_bit_for_bit() {
    let special = [0.0, -0.0, f32::MIN_POSITIVE, f32::MAX, -1.5e-42, 3.0].into_iter().cycle().take(16 * 4096 + 16);
    for (name, states) in [("packed-alike", many_states()), ("packed-special", special.collect()), ("packed-none", Vec::new())] {
        let (plain, packed) = both_ways(name, &states);
        for point in ["point.1", "point.2"] {
            assert_eq!(packed.read(point).expect("whole"), plain.read(point).expect("whole"), "{name} {point}");
            assert_eq!(packed.bytes(point), plain.bytes(point), "what is said of memory is of the numbers");
        }
        packed.verify().expect("whole");
    }
    let (plain, packed) = both_ways("packed-size", &many_states());
    let size = |file: &StateFile| std::fs::metadata(file.path()).expect("a file").len();
    assert!(size(&packed) < size(&plain) * 9 / 10, "{} of {}", size(&packed), size(&plain));
}

#[test]
fn damage_never_changes_packed_numbers() {
    let (plain, packed) = both_ways("packed-damage", &many_states()[..16 * 100]);
    let whole = std::fs::read(packed.path()).expect("bytes");
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
    let points = ["point.1", "point.2"];
    let numbers = points.map(|point| plain.read(point).expect("whole"));
    let read_all = |bytes: Vec<u8>| {
        let state = StateFile::decode(bytes, "a damaged state")?;
        points.iter().map(|prefix| state.read(prefix)).collect::<crate::error::Result<Vec<_>>>()
    };
    assert_eq!(read_all(whole.clone()).expect("whole"), numbers);
    let padding = whole[..header].trim_ascii_end().len()..header;
    for at in (0..whole.len()).filter(|at| !padding.contains(at)).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        // A few bits of a frame say nothing of its content.
        let found = read_all(bytes);
        assert!(found.map_or(true, |found| at >= header && found == numbers), "byte {at} of {} (header {header})", whole.len());
    }
    for length in [header, header + 3, whole.len() - 1] {
        assert!(read_all(whole[..length].to_vec()).is_err(), "cut at {length}");
    }
}

/// What the first version of the format looked like: all vectors of all groups.
#[test]
fn states_of_older_programs_are_read() {
    let (sketch, mut tensors) = (singles(), Tensors::default());
    tensors.nest("point.1", sketch.encode());
    let (mut header, mut data, mut checksums) = (serde_json::Map::new(), Vec::new(), serde_json::Map::new());
    for (name, tensor) in &tensors.0 {
        let start = data.len();
        super::numbers::for_each_chunk(&tensor.values, &mut |bytes| {
            data.extend(bytes);
            Ok(())
        })
        .expect("bytes");
        checksums.insert(name.clone(), crc32fast::hash(&data[start..]).into());
        let (dtype, shape) = (super::numbers::dtype(&tensor.values), &tensor.shape);
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let sealed = |sum: &str, version: &str| {
        let (fingerprint, checksums) = (json!({}).to_string(), json!(checksums).to_string());
        let about =
            json!({ "version": version, "fingerprint": fingerprint, "details": "null", "checksums": checksums, "header_checksum": sum });
        let entries: Vec<String> = header
            .iter()
            .map(|(name, entry)| {
                let (dtype, shape, offsets) = (&entry["dtype"], &entry["shape"], &entry["data_offsets"]);
                format!("{}:{{\"dtype\":{dtype},\"shape\":{shape},\"data_offsets\":{offsets}}}", json!(name))
            })
            .collect();
        let keys = ["version", "fingerprint", "details", "checksums", "header_checksum"];
        let about: Vec<String> = keys.iter().map(|key| format!("{}:{}", json!(key), about[*key])).collect();
        format!("{{\"__metadata__\":{{{}}},{}}}", about.join(","), entries.join(","))
    };
    let whole = |version: &str| {
        let sum = format!("{:08x}", crc32fast::hash(sealed("00000000", version).as_bytes()));
        let header = sealed(&sum, version);
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    };
    let state = StateFile::decode(whole("1"), "an older state").expect("a state");
    assert_eq!(PointMoments::decode(&mut state.read("point.1").expect("whole")).expect("a sketch"), sketch);
    let line = StateFile::decode(whole("4"), "a newer state").expect_err("refused").to_string();
    assert!(line.contains("state of version `4`; this program reads versions 1, 2 and 3"), "{line}");
}
