//! What is read of finished runs: tables, and manifests with a seal.

use std::path::PathBuf;
use std::sync::OnceLock;

use layerscope_report::manifest::{FileDigest, sha256};
use layerscope_report::{Manifest, Run};
use serde_json::{Map, Value};

use super::files::file;
use super::told;

/// A small finished run.
pub const RUN: [(&str, &[u8]); 8] = [
    ("manifest.json", include_bytes!("../../run/manifest.json")),
    ("layers.parquet", include_bytes!("../../run/layers.parquet")),
    ("groups.parquet", include_bytes!("../../run/groups.parquet")),
    ("components.parquet", include_bytes!("../../run/components.parquet")),
    ("norms.parquet", include_bytes!("../../run/norms.parquet")),
    ("spectra.parquet", include_bytes!("../../run/spectra.parquet")),
    ("tokens.parquet", include_bytes!("../../run/tokens.parquet")),
    ("token_components.parquet", include_bytes!("../../run/token_components.parquet")),
];

/// A folder with that run.
pub fn run_folder(name: &str) -> PathBuf {
    let paths = RUN.map(|(own, content)| file(&format!("{name}/{own}"), content));
    paths[0].parent().expect("a folder").to_owned()
}

/// A table of a run of an older program, which no digest vouches for.
pub fn parquet_table(data: &[u8]) {
    if let Some(table) = told(layerscope_report::export::parquet::read(&file("table.parquet", data))) {
        std::hint::black_box(table.rows());
    }
}

/// A manifest with the tables of a run, a right digest of each, and a right seal over everything.
pub fn manifest(data: &[u8]) {
    told(Manifest::from_sealed(data));
    let Ok(Value::Object(mut keys)) = serde_json::from_slice(data) else { return };
    keys.shift_remove("seal");
    keys.entry("files").or_insert_with(|| digests().clone());
    let seal = sha256(Value::Object(keys.clone()).to_string().as_bytes());
    keys.insert("seal".to_owned(), seal.into());
    let bytes = Value::Object(keys).to_string().into_bytes();
    let Some(manifest) = told(Manifest::from_sealed(&bytes)) else { return };
    let again = serde_json::to_vec(&manifest.sealed().expect("a seal")).expect("JSON");
    Manifest::from_sealed(&again).expect("what was read can be written and read again");
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| run_folder("manifest"));
    file("manifest/manifest.json", &bytes);
    told(layerscope::overview(folder));
    if let Some(run) = told(Run::open(folder)) {
        std::hint::black_box((Run::labels(&[&run, &run]), run.steps()));
    }
}

/// The digests of the run's tables.
fn digests() -> &'static Value {
    static DIGESTS: OnceLock<Value> = OnceLock::new();
    DIGESTS.get_or_init(|| {
        let digest = |(name, content): &(&str, &[u8])| Some((name.to_string(), serde_json::to_value(FileDigest::of(content)).ok()?));
        Value::Object(RUN.iter().skip(1).filter_map(digest).collect::<Map<String, Value>>())
    })
}
