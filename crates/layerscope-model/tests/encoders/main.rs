//! The encoder families read published `config.json` files and those of today's reference library.

mod configurations;
mod modernbert;
mod post_norm;
mod refusals;

use std::path::Path;

use layerscope_model::config::ConfigReader;
use layerscope_model::families::Family;
use layerscope_model::spec::ModelSpec;
use serde_json::Value;

/// The specification and the unknown keys, or the one line that says what is wrong.
fn read(config: &Value) -> Result<(ModelSpec, Vec<String>), String> {
    let mut reader = ConfigReader::parse(Path::new("config.json"), config.to_string().as_bytes()).unwrap();
    let family = Family::of(&mut reader).map_err(|error| error.to_string())?;
    let spec = (family.spec)(&mut reader);
    Ok((spec, reader.finish().map_err(|error| error.to_string())?))
}

/// The specification of a configuration whose every key is known.
fn accepted(config: &Value) -> ModelSpec {
    let (spec, unknown) = read(config).unwrap();
    assert_eq!(unknown, Vec::<String>::new());
    spec
}

fn refused(config: &Value) -> String {
    let problem = read(config).unwrap_err();
    assert!(!problem.contains('\n'), "{problem}");
    problem
}

fn with(mut config: Value, changes: Value) -> Value {
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config
}

fn without(mut config: Value, keys: &[&str]) -> Value {
    config.as_object_mut().unwrap().retain(|key, _| !keys.contains(&key.as_str()));
    config
}
