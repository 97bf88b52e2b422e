//! Decoders: from config.json to specification.
//!
//! `configs/published` holds the configurations of well-known checkpoints, `configs/today` what the reference library makes
//! of them (`tools/translate_configs.py`): both must mean the same model.

mod layer_norm;
mod refusals;
mod rms_norm;
mod rotary;

use std::path::{Path, PathBuf};

use layerscope_compute::RotaryPairs;
use layerscope_model::config::ConfigReader;
use layerscope_model::families::Family;
use layerscope_model::spec::{AttentionSpec, ModelSpec, RotaryScaling, RotarySpec};
use serde_json::Value;

/// The specification of a configuration and the keys nobody knew, or the complaint.
fn read(config: &Value) -> Result<(ModelSpec, Vec<String>), String> {
    let mut reader = ConfigReader::parse(Path::new("config.json"), config.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let family = Family::of(&mut reader).map_err(|error| error.to_string())?;
    let spec = (family.spec)(&mut reader);
    let unknown = reader.finish().map_err(|error| error.to_string())?;
    Ok((spec, unknown))
}

fn load(form: &str, checkpoint: &str) -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/configs").join(form).join(format!("{checkpoint}.json"));
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

/// The specification of a well-known checkpoint, equal in both forms and without unknown keys.
fn checkpoint(name: &str) -> ModelSpec {
    let (published, unknown) = read(&load("published", name)).unwrap();
    assert_eq!(unknown, Vec::<String>::new(), "{name}, published");
    let (today, unknown) = read(&load("today", name)).unwrap();
    assert_eq!(unknown, Vec::<String>::new(), "{name}, today");
    assert_eq!(published, today, "{name}");
    published
}

/// A published configuration with some keys replaced; `null` stays null.
fn altered(name: &str, changes: Value) -> Value {
    let mut config = load("published", name);
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn spec_of(name: &str, changes: Value) -> ModelSpec {
    read(&altered(name, changes)).unwrap().0
}

fn refusal(name: &str, changes: Value) -> String {
    let complaint = read(&altered(name, changes)).unwrap_err();
    assert!(!complaint.contains('\n'), "{complaint}");
    complaint
}

#[track_caller]
fn assert_refused(name: &str, changes: Value, words: &[&str]) {
    let complaint = refusal(name, changes);
    for word in words {
        assert!(complaint.contains(word), "`{word}` is not in: {complaint}");
    }
}

/// Layers, width, heads, key heads, width of a head.
fn shape(model: &ModelSpec) -> (usize, usize, usize, usize, usize) {
    let attention = &model.blocks[0].attention;
    assert!(model.blocks.iter().enumerate().all(|(layer, block)| block.weights == layer && block.attention.causal));
    (model.blocks.len(), model.width, attention.heads, attention.kv_heads, attention.head_dim)
}

fn attention(model: &ModelSpec) -> &AttentionSpec {
    &model.blocks[0].attention
}

fn rotary(model: &ModelSpec) -> &RotarySpec {
    attention(model).rotary.as_ref().unwrap()
}

fn plain_rotary(base: f32, dim: usize) -> RotarySpec {
    RotarySpec { base, dim, pairs: RotaryPairs::Halves, scaling: RotaryScaling::None }
}
