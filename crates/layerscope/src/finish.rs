//! The end of a run: from its state to the files a user sees. The manifest comes last.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use layerscope_corpus::DocumentId;
use layerscope_model::Model;
use layerscope_report::{Cell, Column, Table, export};
use layerscope_stats::sketch::{HashSample, Lenses, Sketch, Tensor, Tensors, TokenSamples, Values};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::facts::{Facts, ModelFacts, PointFacts, model_fingerprint};
use crate::items::{ItemId, document_number};
use crate::kept::{Kept, KeptKey};
use crate::point_state::PointState;
use crate::state::{About, Fingerprint, StateFile, join_states, write_state};
use crate::store::Store;
use crate::system;
use crate::tables::{PointSource, Tables, norm_tables, tables};
use crate::weights::{MatrixMeasures, norms_table, projections_table};
use crate::work::Work;

/// Everything needed to merge or to recompute the tables.
pub const STATE: &str = "state.safetensors";
/// The kept states.
pub const SAMPLE: &str = "sample.safetensors";
/// Embedding matrices, projected.
pub const PROJECTIONS: &str = "projections.parquet";
/// Written last.
pub const MANIFEST: &str = "manifest.json";

/// An identity that is further off than this is a defect of the program or of the machine.
const SUSPICIOUS: f64 = 1e-9;

/// Refuses a folder that holds a run, unless it may be overwritten.
pub fn refuse_run(out: &Path, overwrite: bool) -> Result<()> {
    match out.join(STATE).exists() && !overwrite {
        true => Err(Error::Refused(format!("{} holds a run already; choose another --out, or give --overwrite", out.display()))),
        false => Ok(()),
    }
}

/// A run folder for new states and its working folder; the run that it held is gone.
pub fn open_emptied(out: &Path, overwrite: bool) -> Result<(Store, Work)> {
    let store = Store::create(out)?;
    refuse_run(out, overwrite)?;
    let work = Work::open(out)?;
    [MANIFEST, STATE].into_iter().try_for_each(|name| store.remove(name))?;
    work.clear()?;
    Ok((store, work))
}

/// Joins the states of all passes into the two files of the run.
pub fn write_states(store: &Store, fingerprint: &Fingerprint, facts: &Facts, kept: &Kept, passes: &[StateFile]) -> Result<()> {
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

/// Who the kept states are, column by column.
fn key_tensors(kept: &Kept) -> Tensors<'static> {
    let mut tensors = Tensors::default();
    let keys: Vec<(usize, &KeptKey)> =
        kept.classes.iter().enumerate().flat_map(|(class, keys)| keys.iter().map(move |key| (class, key))).collect();
    let mut put = |name: &str, of: &dyn Fn(usize, &KeptKey) -> u64| {
        let values: Vec<u64> = keys.iter().map(|(class, key)| of(*class, key)).collect();
        tensors.0.insert(format!("keys.{name}"), Tensor { shape: vec![values.len()], values: Values::U64(Cow::Owned(values)) });
    };
    put("class", &|class, _| class as u64);
    put("hash", &|_, key| key.hash);
    put("file", &|_, key| u64::from(key.item.document.file));
    put("record", &|_, key| key.item.document.record);
    put("chunk", &|_, key| u64::from(key.item.document.chunk));
    put("position", &|_, key| u64::from(key.item.position));
    put("token", &|_, key| u64::from(key.item.token));
    tensors
}

/// A finished or finishing run, read back.
pub struct StoredRun {
    /// The sketches.
    pub state: StateFile,
    /// The kept states.
    pub sample: StateFile,
    /// Everything else.
    pub facts: Facts,
}

impl StoredRun {
    /// Opens the two state files of a run.
    pub fn open(folder: &Path) -> Result<StoredRun> {
        let path = folder.join(STATE);
        if !path.exists() {
            return Err(Error::Refused(format!(
                "{}: no finished run here; run `layerscope measure` into it first, or resume it",
                folder.display()
            )));
        }
        let state = StateFile::open(&path)?;
        let sample = StateFile::open(&folder.join(SAMPLE))?;
        sample.expect(&state.about().fingerprint)?;
        let facts = serde_json::from_value(state.about().details.clone())
            .map_err(|error| Error::damaged(&path, format!("its details are not readable ({error})")))?;
        Ok(StoredRun { state, sample, facts })
    }

    /// The state of one point; its kept states are left on disk.
    pub fn point(&self, name: &str) -> Result<PointState> {
        PointState::from_tensors(&mut self.state.read(name)?)
    }

    /// The kept states of one point.
    pub fn kept_states(&self, name: &str) -> Result<Vec<f32>> {
        match self.sample.read(name)?.0.remove("kept").map(|tensor| tensor.values) {
            Some(Values::F32(values)) => Ok(values.into_owned()),
            _ => Err(Error::damaged(self.sample.path(), format!("no kept states of {name}"))),
        }
    }

    /// Who the kept states are.
    pub fn kept(&self) -> Result<Kept> {
        let mut tensors = self.sample.read("keys")?;
        let mut column = |name: &str| match tensors.0.remove(name).map(|tensor| tensor.values) {
            Some(Values::U64(values)) => Ok(values.into_owned()),
            _ => Err(Error::damaged(self.sample.path(), format!("no column `keys.{name}`"))),
        };
        let (class, hash, file, record) = (column("class")?, column("hash")?, column("file")?, column("record")?);
        let (chunk, position, token) = (column("chunk")?, column("position")?, column("token")?);
        let mut classes: Vec<Vec<KeptKey>> = vec![Vec::new(); self.facts.chosen.len() + 1];
        for (i, &class) in class.iter().enumerate() {
            let document = DocumentId { file: file[i] as u32, record: record[i], chunk: chunk[i] as u32 };
            let item = ItemId { document, position: position[i] as u32, token: token[i] as u32 };
            let place = classes.get_mut(class as usize).ok_or_else(|| Error::damaged(self.sample.path(), "a kept state of no class"))?;
            place.push(KeptKey { hash: hash[i], item });
        }
        Ok(Kept::from_classes(classes))
    }

    /// All tables, computed from the state.
    pub fn tables(&self, threads: usize, show: &mut dyn FnMut(usize, usize)) -> Result<Tables> {
        tables(&self.facts, &StoredPoints::new(self)?, threads, show)
    }

    /// The tables of norms and cosines alone.
    pub fn norm_tables(&self) -> Result<Tables> {
        norm_tables(&self.facts, &StoredPoints::new(self)?)
    }
}

/// The points of a stored run.
struct StoredPoints<'a> {
    run: &'a StoredRun,
    kept: Kept,
    /// Numbers of the chosen groups.
    chosen: Vec<u32>,
    /// The documents of kept states, by number.
    documents: HashMap<u64, DocumentId>,
}

impl<'a> StoredPoints<'a> {
    fn new(run: &'a StoredRun) -> Result<StoredPoints<'a>> {
        let number = |raw: &String| run.facts.groups.iter().position(|group| group.raw == *raw).map_or(u32::MAX, |at| at as u32);
        let kept = run.kept()?;
        let documents = kept.classes.iter().flatten().map(|key| (document_number(key.item.document), key.item.document)).collect();
        Ok(StoredPoints { run, kept, chosen: run.facts.chosen.iter().map(number).collect(), documents })
    }
}

impl PointSource for StoredPoints<'_> {
    fn state(&self, point: &PointFacts) -> Result<PointState> {
        self.run.point(&point.name())
    }

    fn lenses(&self, point: &PointFacts) -> Result<Lenses> {
        Ok(Lenses::from_tensors(&mut self.run.state.read(&format!("{}.lenses", point.name()))?)?)
    }

    fn kept(&self, point: &PointFacts) -> Result<(HashSample, TokenSamples)> {
        let (states, dim) = (self.run.kept_states(&point.name())?, self.run.facts.model.width);
        Ok((self.kept.sample(&states, dim)?, self.kept.tokens(&states, dim, self.run.facts.token_states, &self.chosen)?))
    }

    fn document(&self, number: u64) -> Option<String> {
        self.documents.get(&number).map(DocumentId::to_string)
    }
}

/// What the manifest says of the way a run ended.
pub struct Ending {
    /// Threads for what is computed at the end.
    pub threads: usize,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Makes the tables of the state in a folder, and the manifest. Can be done again at any time.
pub fn write_run(store: &Store, ending: &Ending, show: &mut dyn FnMut(usize, usize)) -> Result<Value> {
    let start = Instant::now();
    let run = StoredRun::open(&store.path(""))?;
    let tables = run.tables(ending.threads, show)?;
    for (name, table) in [("layers", &tables.layers), ("groups", &tables.groups), ("components", &tables.components)] {
        put_table(store, &format!("{name}.parquet"), table)?;
    }
    put_table(store, "norms.parquet", &norms_table(&run.facts.norms)?)?;
    for (name, table) in [("spectra", &tables.spectra), ("tokens", &tables.tokens)] {
        match table {
            Some(table) => put_table(store, &format!("{name}.parquet"), table)?,
            None => store.remove(&format!("{name}.parquet"))?,
        }
    }
    let manifest = manifest(&run.facts, &tables, run.facts.seconds + start.elapsed().as_secs_f64(), &ending.warnings);
    put_json(store, &manifest)?;
    Ok(manifest)
}

/// The folder of a checkpoint's weights: tables of matrices and norms, and a manifest.
pub fn write_weights(
    out: &Path,
    model: &Model,
    name: &str,
    revision: Option<String>,
    matrices: &[MatrixMeasures],
    embeddings: &Table,
    norms: &Table,
) -> Result<()> {
    let store = Store::create(out)?;
    put_table(&store, "layers.parquet", embeddings)?;
    put_table(&store, "norms.parquet", norms)?;
    let ranks = |matrix: &MatrixMeasures| {
        matrix.tables.spectrum.iter().enumerate().map(|(i, &value)| (matrix.point, i as i64 + 1, value)).collect::<Vec<_>>()
    };
    let spectra: Vec<(&str, i64, f64)> = matrices.iter().flat_map(ranks).collect();
    let table = Table::new([
        ("layer", Column::Integer(vec![None; spectra.len()])),
        ("point", Column::Text(spectra.iter().map(|(point, ..)| Some((*point).to_owned())).collect())),
        ("rank", Column::Integer(spectra.iter().map(|(_, rank, _)| Some(*rank)).collect())),
        ("eigenvalue", Column::Real(spectra.iter().map(|(.., value)| Some(*value)).collect())),
    ])?;
    put_table(&store, "spectra.parquet", &table)?;
    put_table(&store, PROJECTIONS, &projections_table(matrices)?)?;
    let facts = ModelFacts::new(name, revision, model_fingerprint(model)?, model);
    let manifest = json!({ "format": 1, "program": env!("CARGO_PKG_VERSION"), "command": crate::command::words(), "model": facts, "weights_only": true });
    put_json(&store, &manifest)
}

pub(crate) fn put_json(store: &Store, manifest: &Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|error| Error::io(&store.path(MANIFEST), error.into()))?;
    store.put_atomic(MANIFEST, |out| out.write_all(&text))
}

pub(crate) fn put_table(store: &Store, name: &str, table: &Table) -> Result<()> {
    let mut bytes = Vec::new();
    export::parquet::write(table, &mut bytes)?;
    store.put_atomic(name, |out| out.write_all(&bytes))
}

/// What was measured, how, on what, and whether the numbers can be trusted.
fn manifest(facts: &Facts, tables: &Tables, wall_seconds: f64, warnings: &[String]) -> Value {
    let identities = rows(&tables.identities);
    let mut warnings = warnings.to_vec();
    let off = identities.iter().filter(|row| row["residual"].as_f64().is_none_or(|residual| residual > SUSPICIOUS)).count();
    if off > 0 {
        warnings.push(format!("{off} identities do not hold to {SUSPICIOUS}: see `layerscope show --table identities`"));
    }
    if tables.excluded > 0 {
        warnings.push(format!("{} states were not finite and were left out", tables.excluded));
    }
    warnings.extend(facts.corpus.skipped.iter().map(|(reason, count)| format!("{count} documents were left out: {reason}")));
    let points: Vec<Value> = facts.points.iter().map(|point| json!({ "layer": point.layer, "point": point.point })).collect();
    let states = facts.corpus.states * facts.points.len() as u64;
    json!({
        "format": 1,
        "program": env!("CARGO_PKG_VERSION"),
        "command": facts.command,
        "model": facts.model,
        "points": points,
        "corpus": {
            "fingerprint": facts.corpus.fingerprint, "inputs": facts.corpus.inputs, "records": facts.corpus.records,
            "documents": facts.corpus.documents, "sequences": facts.corpus.sequences, "tokens": facts.corpus.tokens,
            "states": facts.corpus.states, "groups": facts.groups.len(), "skipped": facts.corpus.skipped,
        },
        "shard": { "index": facts.shard.0, "count": facts.shard.1 },
        "grouping": facts.grouping,
        "frequency": facts.frequency.as_ref().map(|range| json!({ "minimum": range.start(), "maximum": range.end() })),
        "sentence_words": facts.corpus.sentence_words,
        "settings": facts.settings,
        "massive_thresholds": facts.points.iter().map(|point| point.massive).collect::<Vec<_>>(),
        "host": {
            "name": std::fs::read_to_string("/etc/hostname").map(|name| name.trim().to_owned()).unwrap_or_default(),
            "cores": std::thread::available_parallelism().map_or(1, |count| count.get()),
            "isa": format!("{:?}", layerscope_compute::cpu::Isa::detect()),
        },
        "wall_seconds": wall_seconds,
        "states_per_second": if wall_seconds > 0.0 { states as f64 / wall_seconds } else { 0.0 },
        "peak_memory_bytes": system::peak(),
        "identities": identities,
        "notes": tables.notes,
        "warnings": warnings,
    })
}

/// The rows of a table as JSON objects.
fn rows(table: &Table) -> Vec<Value> {
    let names: Vec<&str> = table.columns().map(|(name, _)| name).collect();
    let value = |cell: Cell<'_>| match cell {
        Cell::Null => Value::Null,
        Cell::Text(text) => text.into(),
        Cell::Integer(number) => number.into(),
        Cell::Real(number) => number.into(),
    };
    (0..table.rows()).map(|row| names.iter().map(|name| (*name).to_owned()).zip(table.row(row).map(value)).collect()).collect()
}
