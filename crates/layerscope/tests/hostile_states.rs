//! State files whose checksums are right and whose contents are not: one line, and never a panic or wrong tables.

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::measure::{corpus, differing, measure, measured, model, sentences};
use support::{Outcome, empty_folder, layerscope};

/// Every so many tensors are tried; 1 takes a minute and a half.
const STEP: usize = 7;

const FLAGS: &str = "--quiet --measures all --frequency 2:1000 --token-states 20 --threads 1 --group cluster:3 --confidence";

/// A state file in pieces.
struct Parts {
    header: Value,
    data: Vec<u8>,
}

impl Parts {
    fn read(path: &Path) -> Parts {
        let bytes = std::fs::read(path).expect("a state");
        let end = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        Parts { header: serde_json::from_slice(&bytes[8..end]).expect("a header"), data: bytes[end..].to_vec() }
    }

    fn details(&self) -> Value {
        serde_json::from_str(self.header["__metadata__"]["details"].as_str().expect("details")).expect("JSON")
    }

    fn tensors(&self) -> Vec<String> {
        self.header.as_object().expect("an object").keys().filter(|name| *name != "__metadata__").cloned().collect()
    }

    /// Sets the first number of a tensor, with its checksum.
    fn set(&mut self, name: &str, number: [u8; 8]) {
        let place = |at: usize| self.header[name]["data_offsets"][at].as_u64().expect("an offset") as usize;
        let (start, end) = (place(0), place(1));
        self.data[start..start + 8].copy_from_slice(&number);
        let mut sums: Value = serde_json::from_str(self.header["__metadata__"]["checksums"].as_str().expect("sums")).expect("JSON");
        sums[name] = crc32fast::hash(&self.data[start..end]).into();
        self.header["__metadata__"]["checksums"] = sums.to_string().into();
    }

    /// Writes it with the checksum of its header.
    fn write(mut self, path: &Path, details: Option<Value>) {
        if let Some(details) = details {
            self.header["__metadata__"]["details"] = details.to_string().into();
        }
        self.header["__metadata__"]["header_checksum"] = "00000000".into();
        let sum = crc32fast::hash(self.header.to_string().as_bytes());
        self.header["__metadata__"]["header_checksum"] = format!("{sum:08x}").into();
        let mut header = self.header.to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &self.data].concat();
        std::fs::write(path, bytes).expect("written");
    }
}

/// A run that has its states only, as if it were killed before its tables.
fn states_of(run: &Path, name: &str) -> PathBuf {
    let folder = empty_folder(name);
    for file in ["state.safetensors", "sample.safetensors"] {
        std::fs::copy(run.join(file), folder.join(file)).expect("copied");
    }
    folder
}

#[track_caller]
fn one_line(what: &str, outcome: &Outcome) {
    assert!([1, 5].contains(&outcome.status), "{what}: {} {:.500}", outcome.status, outcome.stderr);
    assert!(outcome.stderr.lines().count() == 1 && outcome.stderr.len() < 3000, "{what}: {:.3000}", outcome.stderr);
    assert!(!outcome.stderr.contains("internal error"), "{what}: {:.500}", outcome.stderr);
}

#[test]
fn hostile_contents_are_errors() {
    let (model, corpus) = (model("bert/base", "hostile-states-model"), corpus("hostile-states-text", &sentences(80, 7)));
    let run = empty_folder("hostile-states").join("run");
    measured(&model, &corpus, &run, FLAGS);
    let tables = |folder: &Path| measure(&model, &corpus, folder, FLAGS);
    let merged = |folder: &Path| {
        let out = empty_folder("hostile-states-merged");
        let words = ["merge", folder.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8"), "--quiet"];
        layerscope(&words)
    };
    // As it is, re-sealed.
    let folder = states_of(&run, "hostile-states-same");
    let whole = Parts::read(&folder.join("state.safetensors"));
    let details = whole.details();
    whole.write(&folder.join("state.safetensors"), Some(details.clone()));
    assert_eq!(tables(&folder).status, 0);
    assert_eq!(differing(&folder, &run), None);

    // Details that no run has, or that do not fit the numbers.
    let changes: [(&str, Value); 9] = [
        ("/groups", json!([])),
        ("/chosen", json!(["a", "b", "c"])),
        ("/points/0/width", json!(1u64 << 40)),
        ("/points", json!([])),
        ("/model/width", json!(3)),
        ("/shard", json!([0, 4_294_967_295u32])),
        ("/shards", json!([7, 9])),
        ("/points/1/layer", json!(77)),
        ("/sample", json!("00")),
    ];
    for (place, value) in changes {
        let folder = states_of(&run, "hostile-states-details");
        let mut changed = details.clone();
        match changed.pointer_mut(place) {
            Some(found) => *found = value,
            None => changed["points"][0]["width"] = value,
        }
        Parts::read(&folder.join("state.safetensors")).write(&folder.join("state.safetensors"), Some(changed));
        let (made, merged) = (tables(&folder), merged(&folder));
        assert!(made.status != 0 || merged.status != 0, "{place} is not noticed");
        [made, merged].iter().filter(|outcome| outcome.status != 0).for_each(|outcome| one_line(place, outcome));
    }
    // Sizes that would fill the memory change nothing.
    for (key, value) in [("token_states", json!(1u64 << 60)), ("sample_states", json!(1u64 << 60))] {
        let folder = states_of(&run, "hostile-states-sizes");
        let mut changed = details.clone();
        changed[key] = value;
        Parts::read(&folder.join("state.safetensors")).write(&folder.join("state.safetensors"), Some(changed));
        assert_eq!(tables(&folder).status, 0);
        assert_eq!(differing(&folder, &run), None);
    }

    // Numbers: of every tensor of the first point and of the sample.
    let numbers = [f64::NAN.to_le_bytes(), f64::INFINITY.to_le_bytes(), u64::MAX.to_le_bytes(), (1u64 << 62).to_le_bytes(), [0; 8]];
    let (mut tried, mut refused) = (0, 0);
    for file in ["state.safetensors", "sample.safetensors"] {
        let names = Parts::read(&run.join(file)).tensors();
        for name in names.iter().filter(|name| name.starts_with("layer1.") || name.starts_with("keys.")).step_by(STEP) {
            for number in numbers {
                let folder = states_of(&run, "hostile-states-numbers");
                let mut parts = Parts::read(&folder.join(file));
                let bytes = parts.header[name]["data_offsets"].clone();
                if bytes[1].as_u64() < bytes[0].as_u64().map(|start| start + 8) {
                    continue;
                }
                parts.set(name, number);
                parts.write(&folder.join(file), None);
                let outcome = tables(&folder);
                tried += 1;
                if outcome.status != 0 {
                    one_line(&format!("{name} {number:?}"), &outcome);
                    refused += 1;
                }
            }
        }
    }
    println!("{tried} numbers changed, {refused} refused");
    assert!(refused > tried / 4, "{refused} of {tried}");
}
