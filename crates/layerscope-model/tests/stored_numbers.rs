//! Weights stored as f16, bf16 or mixed give the same bits as the same weights stored as f32.

mod support;

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use layerscope_compute::{ComputeDtype, Cpu};
use layerscope_model::{Model, weight_memory};
use support::{Golden, fixtures, states_of};

/// One of each way to store weights: transposed, in groups, in one matrix, apart, gated.
const VARIANTS: [&str; 5] = ["gpt2/published", "bloom/560m", "gpt_neox/pythia", "bert/base", "llama/llama2"];

/// A number in some kind: the format's name of the kind, its bytes, and its value.
type Stored = (&'static str, Vec<u8>, f32);

/// How to store a number, by the place of its tensor and its value.
type Store = fn(usize, f32) -> Stored;

fn as_f16(x: f32) -> Stored {
    let half = f16::from_f32(x);
    ("F16", half.to_le_bytes().to_vec(), half.to_f32())
}

fn as_bf16(x: f32) -> Stored {
    let half = bf16::from_f32(x);
    ("BF16", half.to_le_bytes().to_vec(), half.to_f32())
}

/// Writes a copy of a checkpoint whose tensors are stored as `store` says.
fn rewrite(variant: &Path, name: &str, store: impl Fn(usize, f32) -> Stored) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stored-numbers").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    std::fs::copy(variant.join("config.json"), folder.join("config.json")).expect("copied");
    let model = Model::open(variant).expect("a fixture");
    let checkpoint = &model.checkpoint;
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (place, tensor) in model.plan.read().enumerate() {
        let shape = &checkpoint.info(tensor).expect("listed").shape;
        let numbers = checkpoint.read(tensor, shape).expect("readable").into_iter().map(|x| store(place, x));
        let (start, mut dtype) = (data.len(), "F32");
        for (kind, bytes, _) in numbers {
            dtype = kind;
            data.extend(bytes);
        }
        header.insert(tensor.to_owned(), serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = serde_json::to_vec(&header).expect("JSON");
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    std::fs::write(folder.join("model.safetensors"), file).expect("written");
    folder
}

#[test]
fn the_kind_of_numbers_does_not_change_a_bit() {
    let wide = |(_, _, value): Stored| ("F32", value.to_le_bytes().to_vec(), value);
    let mixed = |place: usize, x: f32| match place % 3 {
        0 => as_f16(x),
        1 => as_bf16(x),
        _ => ("F32", x.to_le_bytes().to_vec(), x),
    };
    for variant in VARIANTS {
        let path = fixtures().join(variant);
        let sequences = Golden::open(&path).sequences;
        let states = |folder: PathBuf| states_of(&Model::open(&folder).expect("sound").load(Cpu::new()).expect("weights"), &sequences);
        let name = variant.replace('/', "-");
        let kinds: [(&str, Store); 3] = [("f16", |_, x| as_f16(x)), ("bf16", |_, x| as_bf16(x)), ("mixed", mixed)];
        for (kind, store) in kinds {
            let narrow = states(rewrite(&path, &format!("{name}-{kind}"), store));
            let reference = states(rewrite(&path, &format!("{name}-{kind}-wide"), |place, x| wide(store(place, x))));
            if kind != "mixed" {
                let memory = |folder: &str| {
                    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stored-numbers").join(folder);
                    let model = Model::open(&path).expect("sound");
                    [ComputeDtype::F32, ComputeDtype::Bf16]
                        .map(|dtype| weight_memory(&Cpu::with_dtype(dtype).expect("on processors"), &model.plan).host)
                };
                let (halves, floats) = (memory(&format!("{name}-{kind}")), memory(&format!("{name}-{kind}-wide")));
                // Vectors are f32 in any case; products in bf16 leave only tables in the numbers of the file.
                assert!(halves[0] > floats[0] / 2 && halves[0] < floats[0] * 6 / 10, "{variant}: {halves:?} {floats:?}");
                assert!(halves[1] == halves[0] && floats[1] > halves[1] && floats[1] < floats[0], "{variant}: {halves:?} {floats:?}");
            }
            for (at, states) in &narrow {
                let same = states.iter().zip(&reference[at]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{variant} in {kind}: {at:?} differs");
            }
        }
    }
}
