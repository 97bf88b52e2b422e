//! One trajectory over the checkpoints of a training: the same text through each, one complete run a checkpoint, one table of all.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use layerscope_corpus::{Spool, Tokenizer, write_spool};
use layerscope_model::Model;
use layerscope_report::export::parquet;
use layerscope_report::{Column, Table};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::facts::ModelFacts;
use crate::finish::{MANIFEST, PROJECTIONS, STATE, StoredRun, put_json, put_table};
use crate::plan::{Plan, Shared};
use crate::revisions::{Revision, Source};
use crate::run::{Event, measure, settings_fingerprint};
use crate::state::Fingerprint;
use crate::store::Store;
use crate::weights::{embedding_measures, embeddings_table, projections_table};
use crate::work::{InputStamp, Work, expect_same};

/// Measures of the embedding matrices of one checkpoint, in its own folder.
const WEIGHTS: &str = "weights.parquet";

/// What is to be followed.
pub struct Journey {
    /// How every checkpoint is measured; `out` is the folder of the whole.
    pub plan: Plan,
    /// Where the checkpoints are.
    pub source: Source,
    /// Globs and names.
    pub revisions: String,
    /// Whether fetched checkpoints are removed again, one by one.
    pub evict: bool,
}

/// Measures all checkpoints and puts their tables together. Returns the manifest of the whole.
pub fn track(journey: Journey, cancel: &CancelToken, show: &mut dyn FnMut(Event<'_>)) -> Result<Value> {
    let start = Instant::now();
    let revisions = journey.source.select(&journey.revisions)?;
    let out = journey.plan.out.clone();
    let store = Store::create(&out)?;
    if store.path(STATE).exists() {
        return Err(Error::Refused(format!("{} holds a run of one checkpoint; choose another --out", out.display())));
    }
    let work = Work::open(&out)?;
    if journey.plan.overwrite {
        store.remove(MANIFEST)?;
        work.clear()?;
    }
    let mut traveller = Traveller { journey: &journey, work: &work, reference: Reference::default(), shared: None, estimated: false };
    if let Source::Folder(_) = journey.source {
        traveller.compare_all(&revisions)?;
    }
    let mut stations = Vec::with_capacity(revisions.len());
    for (i, revision) in revisions.iter().enumerate() {
        show(Event::Note(format!("checkpoint {} of {}: {}", i + 1, revisions.len(), revision.name)));
        let outcome = traveller.visit(revision, cancel, show)?;
        if let Outcome::Absent { status, reason } = &outcome {
            show(Event::Warning(format!("{} is {status} and left out: {reason}", revision.name)));
        }
        stations.push(Station { revision: revision.clone(), outcome });
    }
    let manifest = write_trajectory(&store, &stations, start)?;
    if !journey.plan.keep_work {
        work.remove()?;
    }
    show(Event::Finished(&manifest));
    Ok(manifest)
}

/// A checkpoint and what became of it.
struct Station {
    revision: Revision,
    outcome: Outcome,
}

enum Outcome {
    /// Its folder and manifest.
    Measured(PathBuf, Box<Value>),
    Absent {
        /// `missing` or `broken`.
        status: &'static str,
        reason: String,
    },
}

/// The text that all checkpoints share, as a resumed trajectory must find it.
#[derive(Serialize, Deserialize)]
struct SavedText {
    fingerprint: Fingerprint,
    inputs: Vec<InputStamp>,
    corpus: String,
}

struct Traveller<'a> {
    journey: &'a Journey,
    work: &'a Work,
    reference: Reference,
    shared: Option<Shared>,
    /// Whether the memory was estimated: checkpoints of one training need the same.
    estimated: bool,
}

impl Traveller<'_> {
    /// Looks at the headers of all checkpoints in a folder, so that a stranger is refused before anything is measured.
    fn compare_all(&mut self, revisions: &[Revision]) -> Result<()> {
        for revision in revisions {
            if let Some(Ok(mut model)) = self.journey.source.locate(revision)?.map(|folder| Model::open(&folder)) {
                self.journey.plan.alter(&mut model)?;
                self.compare(revision, &self.facts(revision, &model))?;
            }
        }
        Ok(())
    }

    fn facts(&self, revision: &Revision, model: &Model) -> ModelFacts {
        ModelFacts::new(&self.journey.plan.model, Some(revision.name.clone()), String::new(), model)
    }

    fn compare(&mut self, revision: &Revision, facts: &ModelFacts) -> Result<()> {
        self.reference.compare(&revision.name, facts)
    }

    /// Measures one checkpoint; one that cannot be used is an outcome, not an error.
    fn visit(&mut self, revision: &Revision, cancel: &CancelToken, show: &mut dyn FnMut(Event<'_>)) -> Result<Outcome> {
        let out = self.journey.plan.out.join("steps").join(folder_name(&revision.name));
        if let Some(outcome) = self.finished(revision, &out)? {
            return Ok(outcome);
        }
        let ours = self.is_ours(revision)?;
        let broken = |error: &Error| Outcome::Absent { status: "broken", reason: error.to_string() };
        let missing = |reason: &str| Outcome::Absent { status: "missing", reason: reason.to_owned() };
        let folder = match self.journey.source.locate(revision) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Ok(missing("it does not exist")),
            Err(error) if is_fault_of(&error, Path::new("")) => return Ok(broken(&error)),
            Err(error) => return Err(error),
        };
        let outcome = match self.measure(revision, &folder, &out, cancel, show) {
            Ok(manifest) => Outcome::Measured(out, Box::new(manifest)),
            Err(error) if is_fault_of(&error, &folder) && folder.is_dir() => broken(&error),
            Err(error) if is_fault_of(&error, &folder) => missing("it disappeared while it was measured"),
            Err(error) => return Err(error),
        };
        if self.journey.evict && ours {
            self.journey.source.evict(revision)?;
        }
        Ok(outcome)
    }

    /// A hub checkpoint that was measured before is not fetched again. (Those in folders are opened and compared anyway.)
    fn finished(&mut self, revision: &Revision, out: &Path) -> Result<Option<Outcome>> {
        let complete = [MANIFEST, STATE, WEIGHTS, PROJECTIONS].iter().all(|name| out.join(name).exists());
        if matches!(self.journey.source, Source::Folder(_)) || self.journey.plan.overwrite || !complete {
            return Ok(None);
        }
        let run = StoredRun::open(out)?;
        let mut expected = settings_fingerprint(&self.journey.plan, "");
        for key in ["model", "corpus", "tokenizer", "--window"] {
            expected.remove(key);
            expected.extend(run.state.about().fingerprint.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        expect_same(out, &run.state.about().fingerprint, &expected)?;
        self.compare(revision, &run.facts.model)?;
        let path = out.join(MANIFEST);
        let text = fs::read(&path).map_err(|source| Error::io(&path, source))?;
        let manifest = serde_json::from_slice(&text).map_err(|_| Error::damaged(&path, "not readable; start again with --overwrite"))?;
        Ok(Some(Outcome::Measured(out.to_owned(), manifest)))
    }

    /// Whether a checkpoint was fetched by this trajectory, now or before it was interrupted; only such are evicted.
    fn is_ours(&self, revision: &Revision) -> Result<bool> {
        let path = self.work.path("fetched");
        if fs::read_to_string(&path).is_ok_and(|name| name == revision.name) {
            return Ok(true);
        }
        if self.journey.source.is_here(revision) {
            return Ok(false);
        }
        fs::write(&path, &revision.name).map_err(|source| Error::io(&path, source))?;
        Ok(true)
    }

    fn measure(
        &mut self,
        revision: &Revision,
        folder: &Path,
        out: &Path,
        cancel: &CancelToken,
        show: &mut dyn FnMut(Event<'_>),
    ) -> Result<Value> {
        let mut model = Model::open(folder)?;
        self.journey.plan.alter(&mut model)?;
        self.compare(revision, &self.facts(revision, &model))?;
        let finished = out.join(STATE).exists() && !self.journey.plan.overwrite;
        let shared = match (finished, &self.shared) {
            (true, _) => None,
            (false, Some(shared)) => Some(shared.clone()),
            (false, None) => Some(self.text(&model, cancel, show)?),
        };
        let plan = Plan { out: out.to_owned(), revision: Some(revision.name.clone()), shared, ..self.journey.plan.clone() };
        let estimated = &mut self.estimated;
        let manifest = measure(plan, folder, cancel, &mut |event| {
            let is_estimate = matches!(event, Event::Estimate(_));
            if !(is_estimate && *estimated) {
                *estimated |= is_estimate;
                show(event);
            }
        })?;
        let step = Store::create(out)?;
        let written = [WEIGHTS, PROJECTIONS].iter().all(|name| step.path(name).exists());
        if !written || self.journey.plan.overwrite {
            let matrices = embedding_measures(&model)?;
            put_table(&step, PROJECTIONS, &projections_table(&matrices)?)?;
            let entry = (Some(revision.name.clone()), revision.step, matrices);
            put_table(&step, WEIGHTS, &embeddings_table(manifest["model"]["name"].as_str().unwrap_or_default(), &[entry])?)?;
        }
        Ok(manifest)
    }

    /// The text of all checkpoints, read and tokenized once.
    fn text(&mut self, model: &Model, cancel: &CancelToken, show: &mut dyn FnMut(Event<'_>)) -> Result<Shared> {
        let mut plan = self.journey.plan.clone();
        plan.complete(&model.spec)?;
        let tokenizer = self.journey.source.tokenizer();
        let mut fingerprint = settings_fingerprint(&plan, "");
        fingerprint.insert("--shard".to_owned(), format!("{}/{}", plan.corpus.shard.index, plan.corpus.shard.count).into());
        let (path, saved_at) = (self.work.path("spool"), self.work.path("text.json"));
        let saved: Option<SavedText> = fs::read(&saved_at).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(saved) = &saved {
            expect_same(&plan.out, &saved.fingerprint, &fingerprint)?;
        }
        let unchanged = |saved: &SavedText| saved.inputs.iter().all(|stamp| InputStamp::of(&stamp.path).as_ref() == Some(stamp));
        if !(path.exists() && saved.as_ref().is_some_and(unchanged)) {
            let again = self.work.path("spool.again");
            let loaded = Tokenizer::load(tokenizer.as_deref().unwrap_or(&model.folder), plan.wrap)?;
            let spool = write_spool(&plan.corpus, &loaded, &again, &mut |progress| show(Event::Reading(*progress)), cancel.flag())?;
            if saved.is_some_and(|saved| saved.corpus != spool.fingerprint()) {
                let _ = fs::remove_file(&again);
                return Err(Error::Changed(format!(
                    "the corpus changed since the trajectory in {} began; start again with --overwrite",
                    plan.out.display()
                )));
            }
            fs::rename(&again, &path).map_err(|source| Error::io(&path, source))?;
            let inputs = spool.inputs().iter().filter_map(|input| InputStamp::of(input)).collect();
            let saved = SavedText { fingerprint, inputs, corpus: spool.fingerprint() };
            let text = serde_json::to_vec_pretty(&saved).map_err(|error| Error::io(&saved_at, error.into()))?;
            Store::create(&self.work.path(""))?.put_atomic("text.json", |out| out.write_all(&text))?;
        }
        Spool::open(&path)?;
        let shared = Shared { spool: path, tokenizer };
        self.shared = Some(shared.clone());
        Ok(shared)
    }
}

/// The first checkpoint of a training: every other must be like it.
#[derive(Default)]
pub struct Reference(Option<(String, ModelFacts)>);

impl Reference {
    /// Refuses a checkpoint of another architecture or vocabulary than the first.
    pub fn compare(&mut self, revision: &str, facts: &ModelFacts) -> Result<()> {
        let Some((first, reference)) = &self.0 else {
            self.0 = Some((revision.to_owned(), facts.clone()));
            return Ok(());
        };
        let differing = architecture(reference).into_iter().zip(architecture(facts)).find(|((_, there), (_, here))| there != here);
        let Some(((what, there), (_, here))) = differing else { return Ok(()) };
        Err(Error::Mismatch(format!(
            "{revision} is not of the same model as {first}: its {what} is {here}, not {there}; leave it out of --revisions"
        )))
    }
}

/// What must be equal in all checkpoints.
fn architecture(facts: &ModelFacts) -> [(&'static str, String); 7] {
    [
        ("family", facts.family.clone()),
        ("vocabulary", facts.vocabulary.to_string()),
        ("number of layers", facts.layers.to_string()),
        ("width", facts.width.to_string()),
        ("number of heads", facts.heads.to_string()),
        ("number of parameters", facts.parameters.to_string()),
        ("block", facts.norms.clone()),
    ]
}

/// Whether the checkpoint is to blame, and not the hub's network, the text, the disk or the user.
fn is_fault_of(error: &Error, folder: &Path) -> bool {
    match error {
        Error::Model(layerscope_model::Error::Hub { .. }) => false,
        Error::Model(_) | Error::NotFinite { .. } => true,
        Error::Io { path, .. } => !folder.as_os_str().is_empty() && path.starts_with(folder),
        _ => false,
    }
}

/// A revision as the name of a folder.
fn folder_name(revision: &str) -> String {
    revision.replace('/', "--")
}

/// Puts complete runs in `out/steps`, one a checkpoint, together as a trajectory. Returns its manifest.
pub fn join_steps(out: &Path, names: &[String]) -> Result<Value> {
    let start = Instant::now();
    let store = Store::create(out)?;
    if store.path(STATE).exists() {
        return Err(Error::Refused(format!("{} holds a run of one checkpoint; choose another --out", out.display())));
    }
    let mut stations = Vec::with_capacity(names.len());
    for name in names {
        let folder = out.join("steps").join(folder_name(name));
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).map_err(|source| Error::io(&path, source))?;
        let manifest = serde_json::from_slice(&text).map_err(|_| Error::damaged(&path, "not readable; measure this step again"))?;
        stations.push(Station { revision: Revision::new(name), outcome: Outcome::Measured(folder, Box::new(manifest)) });
    }
    write_trajectory(&store, &stations, start)
}

/// The tables over all steps, and the manifest last.
fn write_trajectory(store: &Store, stations: &[Station], start: Instant) -> Result<Value> {
    let measured: Vec<(&Revision, &Path, &Value)> = stations
        .iter()
        .filter_map(|station| match &station.outcome {
            Outcome::Measured(folder, manifest) => Some((&station.revision, folder.as_path(), manifest.as_ref())),
            Outcome::Absent { .. } => None,
        })
        .collect();
    let Some(&(last, _, manifest)) = measured.last() else {
        let reasons = stations.iter().filter_map(|station| match &station.outcome {
            Outcome::Absent { reason, .. } => Some(format!("{}: {reason}", station.revision.name)),
            Outcome::Measured(..) => None,
        });
        let first = reasons.into_iter().next().unwrap_or_default();
        return Err(Error::Refused(format!("none of the {} checkpoints could be measured; {first}", stations.len())));
    };
    if let Some((other, ..)) = measured.iter().find(|(.., one)| one["corpus"]["fingerprint"] != manifest["corpus"]["fingerprint"]) {
        return Err(Error::Changed(format!(
            "{} was measured on other text than {}: the corpus changed; start again with --overwrite",
            other.name, last.name
        )));
    }
    let mut layers = Vec::new();
    let (mut norms, mut projections) = (Vec::new(), Vec::new());
    for (revision, folder, _) in &measured {
        // States that came from elsewhere have no weights.
        for path in ["layers.parquet", WEIGHTS].map(|name| folder.join(name)).iter().filter(|path| path.exists()) {
            layers.push((*revision, parquet::read(path)?));
        }
        norms.push((*revision, parquet::read(&folder.join("norms.parquet"))?));
        // A step of a training in memory has no matrices of its own.
        if folder.join(PROJECTIONS).exists() {
            projections.push((*revision, parquet::read(&folder.join(PROJECTIONS))?));
        }
    }
    put_table(store, "layers.parquet", &stacked(&layers)?)?;
    put_table(store, "norms.parquet", &stacked(&norms)?)?;
    if !projections.is_empty() {
        put_table(store, PROJECTIONS, &stacked(&projections)?)?;
    }
    let manifest = trajectory_manifest(stations, &measured, manifest, start.elapsed().as_secs_f64());
    put_json(store, &manifest)?;
    Ok(manifest)
}

/// Tables of the same columns below each other, with the revision and step that each is of.
pub(crate) fn stacked(parts: &[(&Revision, Table)]) -> Result<Table> {
    fn joined<T: Clone>(parts: &[(&Revision, Table)], values: impl Fn(&Table) -> Vec<Option<T>>) -> Vec<Option<T>> {
        parts.iter().flat_map(|(_, table)| values(table)).collect()
    }
    fn repeated<T: Clone>(parts: &[(&Revision, Table)], value: impl Fn(&Revision) -> Option<T>) -> Vec<Option<T>> {
        parts.iter().flat_map(|(revision, table)| vec![value(revision); table.rows()]).collect()
    }
    let revision = || Column::Text(repeated(parts, |revision| Some(revision.name.clone())));
    let step = || Column::Integer(repeated(parts, |revision| revision.step));
    let mut columns: Vec<(String, Column)> = Vec::new();
    for (name, like) in parts.iter().take(1).flat_map(|(_, table)| table.columns()) {
        let column = match (name, like) {
            ("revision", _) => revision(),
            ("step", _) => step(),
            (_, Column::Text(_)) => Column::Text(joined(parts, |table| match table.column(name) {
                Some(Column::Text(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
            (_, Column::Integer(_)) => Column::Integer(joined(parts, |table| match table.column(name) {
                Some(Column::Integer(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
            (_, Column::Real(_)) => Column::Real(joined(parts, |table| match table.column(name) {
                Some(Column::Real(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
        };
        columns.push((name.to_owned(), column));
    }
    for (name, column) in [("revision", revision()), ("step", step())] {
        if !columns.iter().any(|(known, _)| known == name) {
            columns.push((name.to_owned(), column));
        }
    }
    Ok(Table::new(columns)?)
}

/// What is common to all checkpoints, and what became of each.
fn trajectory_manifest(stations: &[Station], measured: &[(&Revision, &Path, &Value)], like: &Value, seconds: f64) -> Value {
    let mut manifest = like.clone();
    let of_one = ["identities", "massive_thresholds", "states_per_second", "peak_memory_bytes", "notes"];
    if let Some(fields) = manifest.as_object_mut() {
        fields.retain(|name, _| !of_one.contains(&name.as_str()));
    }
    manifest["command"] = json!(crate::command::words());
    manifest["model"]["revision"] = Value::Null;
    manifest["model"]["fingerprint"] = Value::Null;
    manifest["wall_seconds"] = json!(seconds);
    let mut warnings = Vec::new();
    for (revision, _, one) in measured {
        let own = one["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        warnings.extend(own.map(|warning| format!("{}: {warning}", revision.name)));
    }
    let entry = |Station { revision, outcome }: &Station| {
        let (status, reason, fingerprint) = match outcome {
            Outcome::Measured(_, one) => ("measured", None, Some(one["model"]["fingerprint"].clone())),
            Outcome::Absent { status, reason } => (*status, Some(reason), None),
        };
        json!({
            "revision": revision.name, "step": revision.step, "status": status, "reason": reason,
            "folder": format!("steps/{}", folder_name(&revision.name)), "fingerprint": fingerprint,
        })
    };
    for Station { revision, outcome } in stations {
        if let Outcome::Absent { status, reason } = outcome {
            warnings.push(format!("{} is {status} and left out: {reason}", revision.name));
        }
    }
    manifest["warnings"] = json!(warnings);
    manifest["trajectory"] = stations.iter().map(entry).collect();
    manifest
}
