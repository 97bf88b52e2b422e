//! The end of a run: from its states to the files a user sees. The manifest comes last.

use std::path::Path;
use std::time::Instant;

use layerscope_error::{line, setting};
use layerscope_report::{Manifest, Table, export};
use serde_json::Value;

use super::facts::Facts;
use super::folder::Folder;
use super::manifest::of_run;
use super::state::{About, Fingerprint, StateFile, join_states, write_state};
use super::stored::{MANIFEST, SAMPLE, STATE, StoredRun, key_tensors};
use super::work::Work;
use crate::checkpoint::weights::norms_table;
use crate::error::{Error, Result};
use crate::measure::kept::Kept;
use crate::process::system;
use crate::tables::make::Resources;

/// Refuses a folder that holds a run, unless it may be overwritten.
pub fn refuse_run(out: &Path, overwrite: bool) -> Result<()> {
    match out.join(STATE).exists() && !overwrite {
        true => Err(Error::refused(line![
            format!("{} holds a run already; choose another ", out.display()),
            setting("out"),
            ", or give ",
            setting("overwrite")
        ])),
        false => Ok(()),
    }
}

/// A run folder for new states and its working folder; the run that it held is gone.
pub fn open_emptied(out: &Path, overwrite: bool) -> Result<(Folder, Work)> {
    let store = Folder::create(out)?;
    refuse_run(out, overwrite)?;
    let work = Work::open(out)?;
    [MANIFEST, STATE].into_iter().try_for_each(|name| store.remove(name))?;
    work.clear()?;
    Ok((store, work))
}

/// Joins the states of all passes into the two files of the run.
pub fn write_states(store: &Folder, fingerprint: &Fingerprint, facts: &Facts, kept: &Kept, passes: &[StateFile]) -> Result<()> {
    let is_kept = |name: &str| name.ends_with(".kept");
    let details = serde_json::to_value(facts).map_err(|error| Error::io(&store.path(STATE), error.into()))?;
    let about = About { fingerprint: fingerprint.clone(), details };
    // The sample goes first: a folder with a state has everything that belongs to it.
    let keys = About { fingerprint: fingerprint.clone(), details: Value::Null };
    write_state(store, "keys.partial.safetensors", &keys, &key_tensors(kept))?;
    let key_file = StateFile::open(&store.path("keys.partial.safetensors"))?;
    let mut parts: Vec<&StateFile> = passes.iter().collect();
    parts.push(&key_file);
    join_states(store, SAMPLE, &keys, &parts, |name| is_kept(name) || name.starts_with("keys."))?;
    store.remove("keys.partial.safetensors")?;
    join_states(store, STATE, &about, &passes.iter().collect::<Vec<_>>(), |name| !is_kept(name))
}

/// What the manifest says of the way a run ended.
pub struct Ending {
    /// Threads and memory for what is computed at the end.
    pub resources: Resources,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Default for Ending {
    fn default() -> Ending {
        Ending { resources: Resources { threads: system::processors(), memory: system::at_hand() }, warnings: Vec::new() }
    }
}

/// Makes the tables of the state in a folder, and the manifest. Can be done again at any time.
pub fn write_run(store: &Folder, ending: &Ending, show: &mut dyn FnMut(usize, usize)) -> Result<Manifest> {
    let start = Instant::now();
    let run = StoredRun::open(&store.path(""))?;
    let tables = run.tables(ending.resources, show)?;
    for (name, table) in [("layers", &tables.layers), ("groups", &tables.groups), ("components", &tables.components)] {
        put_table(store, &format!("{name}.parquet"), table)?;
    }
    put_table(store, "norms.parquet", &norms_table(&run.facts.norms)?)?;
    for (name, table) in [
        ("spectra", &tables.spectra),
        ("tokens", &tables.tokens),
        ("token_components", &tables.token_components),
        ("massive", &tables.massive),
    ] {
        match table {
            Some(table) => put_table(store, &format!("{name}.parquet"), table)?,
            None => store.remove(&format!("{name}.parquet"))?,
        }
    }
    let manifest = of_run(&run.facts, &tables, run.facts.seconds + start.elapsed().as_secs_f64(), &ending.warnings);
    put_manifest(store, &manifest)?;
    Ok(manifest)
}

/// Writes a manifest.
pub fn put_manifest(store: &Folder, manifest: &Manifest) -> Result<()> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|error| Error::io(&store.path(MANIFEST), error.into()))?;
    store.put_atomic(MANIFEST, |out| out.write_all(&text))
}

/// Writes a table as Parquet.
pub fn put_table(store: &Folder, name: &str, table: &Table) -> Result<()> {
    let mut bytes = Vec::new();
    export::parquet::write(table, &mut bytes)?;
    store.put_atomic(name, |out| out.write_all(&bytes))
}
