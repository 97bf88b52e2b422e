//! One trajectory over the checkpoints of a training: the same text through each, one complete run a checkpoint, one table of all.

use std::fs;
use std::path::Path;
use std::time::Instant;

use layerscope_error::{line, setting};
use layerscope_model::Model;
use layerscope_report::{Manifest, verify_tables};

use super::alike::FirstCheckpoint;
use super::join::{Outcome, Station, WEIGHTS, folder_name, refuse_single_run, write_trajectory};
use super::revisions::{Revision, Source};
use crate::checkpoint::locate::checkpoints;
use crate::checkpoint::tokenizer::load_tokenizer;
use crate::checkpoint::weights::{PROJECTIONS, embedding_measures, embeddings_table, projections_table};
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::measure::plan::{Plan, SharedText};
use crate::measure::run;
use crate::measure::text::{Text, expect_same_text};
use crate::process::cancel::CancelToken;
use crate::settings::Settings;
use crate::store::facts::ModelFacts;
use crate::store::folder::Folder;
use crate::store::mirror::{self, Finished};
use crate::store::stored::{MANIFEST, STATE, StoredRun, read_manifest};
use crate::store::work::{Work, expect_same};
use crate::store::write::{put_manifest, put_table};

/// Measures a corpus through the checkpoints of a training and puts their tables together.
///
/// `revisions` are names and globs such as `step*`: folders in the model's folder, or branches and tags of a hub model. Missing or broken
/// checkpoints are skipped with a warning. With `evict`, every checkpoint that was fetched is removed from the hub's cache once it is
/// measured.
pub fn track(settings: &Settings, revisions: &str, evict: bool, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Finished<Manifest>> {
    let plan = Plan::new(settings)?;
    if plan.text.split.is_some() {
        return Err(Error::usage(line!["checkpoints of a training are measured on the whole text; leave out ", setting("split")]));
    }
    if plan.revision.is_some() {
        return Err(Error::usage(line![setting("revision"), " names one checkpoint; track takes ", setting("revisions")]));
    }
    let (source, out) = (checkpoints(&plan.model)?, plan.out.clone());
    mirror::into(&out, cancel, show, |here, show| {
        let journey = Journey { plan: Plan { out: here.to_owned(), ..plan }, source, evict };
        journey.travel(revisions, cancel, show)
    })
}

/// What is followed, and how.
struct Journey {
    /// How every checkpoint is measured; `out` is the folder of the whole.
    plan: Plan,
    source: Source,
    evict: bool,
}

impl Journey {
    /// Measures all checkpoints. Returns the manifest of the whole.
    fn travel(&self, revisions: &str, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
        let start = Instant::now();
        let revisions = self.source.select(revisions)?;
        let mut work = Work::open(&self.plan.out)?;
        let store = Folder::create(&self.plan.out)?;
        refuse_single_run(&store)?;
        if self.plan.overwrite {
            work.replace()?;
        }
        let mut traveller = Traveller { journey: self, work: &work, first: FirstCheckpoint::default(), shared: None, estimated: false };
        if let Source::Folder(_) = self.source {
            traveller.compare_all(&revisions)?;
        }
        let mut stations = Vec::with_capacity(revisions.len());
        for (i, revision) in revisions.iter().enumerate() {
            cancel.during(format!("interrupted before checkpoint {} of {}: the same command goes on with it", i + 1, revisions.len()));
            cancel.check()?;
            show(Event::Part { number: i + 1, of: revisions.len() });
            show(Event::note(format!("checkpoint {} of {}: {}", i + 1, revisions.len(), revision.name)));
            let outcome = traveller.visit(revision, cancel, show)?;
            if let Some(warning) = outcome.warning(revision) {
                show(Event::warning(warning));
            }
            stations.push(Station { revision: revision.clone(), outcome });
        }
        work.retire()?;
        let manifest = write_trajectory(&store, &stations, start)?;
        if !self.plan.keep_work {
            work.remove();
        }
        show(Event::Finished(&manifest));
        Ok(manifest)
    }
}

struct Traveller<'a> {
    journey: &'a Journey,
    work: &'a Work,
    first: FirstCheckpoint,
    shared: Option<SharedText>,
    /// Whether the memory was estimated: checkpoints of one training need the same.
    estimated: bool,
}

impl Traveller<'_> {
    /// Looks at the headers of all checkpoints in a folder, so that a stranger is refused before anything is measured.
    fn compare_all(&mut self, revisions: &[Revision]) -> Result<()> {
        for revision in revisions {
            if let Some(Ok(mut model)) = self.journey.source.locate(revision)?.map(|folder| Model::open(&folder)) {
                self.journey.plan.alter(&mut model)?;
                self.compare(revision, &model)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, revision: &Revision, model: &Model) -> Result<()> {
        let facts = ModelFacts::new(&self.journey.plan.model, Some(revision.name.clone()), String::new(), model);
        self.first.compare(&revision.name, &facts)
    }

    /// Measures one checkpoint; one that cannot be used is an outcome, not an error.
    fn visit(&mut self, revision: &Revision, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Outcome> {
        let out = self.journey.plan.out.join("steps").join(folder_name(&revision.name));
        if let Some(outcome) = self.finished(revision, &out, cancel)? {
            return Ok(outcome);
        }
        let ours = self.is_ours(revision)?;
        let folder = match self.journey.source.locate(revision) {
            Ok(Some(folder)) => folder,
            Ok(None) => return Ok(Outcome::missing("it does not exist")),
            Err(error) if is_fault_of(&error, Path::new("")) => return Ok(Outcome::broken(&error)),
            Err(error) => return Err(error),
        };
        let outcome = match self.measure(revision, &folder, &out, cancel, show) {
            Ok(manifest) => Outcome::Measured(out, Box::new(manifest)),
            Err(error) if is_fault_of(&error, &folder) && folder.is_dir() => Outcome::broken(&error),
            Err(error) if is_fault_of(&error, &folder) => Outcome::missing("it disappeared while it was measured"),
            Err(error) => return Err(error),
        };
        if self.journey.evict && ours {
            self.journey.source.evict(revision)?;
        }
        Ok(outcome)
    }

    /// A hub checkpoint that was measured before is not fetched again. (Those in folders are opened and compared anyway.)
    fn finished(&mut self, revision: &Revision, out: &Path, cancel: &CancelToken) -> Result<Option<Outcome>> {
        let complete = [MANIFEST, STATE, WEIGHTS, PROJECTIONS].iter().all(|name| out.join(name).exists());
        if matches!(self.journey.source, Source::Folder(_)) || self.journey.plan.overwrite || !complete {
            return Ok(None);
        }
        // What is damaged is made again.
        let Ok(Some(manifest)) = read_manifest(out) else { return Ok(None) };
        if !has_weights(&manifest, out) || verify_tables(out, &manifest).is_err() {
            return Ok(None);
        }
        let run = StoredRun::open(out)?;
        let mut expected = self.journey.plan.fingerprint();
        for key in ["model", "corpus", "tokenizer", "--window"] {
            expected.remove(key);
            expected.extend(run.state.about().fingerprint.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        expect_same(out, &run.state.about().fingerprint, &expected)?;
        self.first.compare(&revision.name, &run.facts.model)?;
        expect_same_text(&self.journey.plan.out, &run, &self.journey.plan.text.reading(), cancel)?;
        Ok(Some(Outcome::Measured(out.to_owned(), Box::new(manifest))))
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
        self.work.put("fetched", revision.name.as_bytes())?;
        Ok(true)
    }

    fn measure(&mut self, revision: &Revision, folder: &Path, out: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
        let mut model = Model::open(folder)?;
        self.journey.plan.alter(&mut model)?;
        self.compare(revision, &model)?;
        let overwrite = self.journey.plan.overwrite;
        let shared = match (out.join(STATE).exists() && !overwrite, &self.shared) {
            (true, _) => None,
            (false, Some(shared)) => Some(shared.clone()),
            (false, None) => Some(self.text(&model, cancel, show)?),
        };
        let plan = Plan { out: out.to_owned(), revision: Some(revision.name.clone()), ..self.journey.plan.clone() };
        let estimated = &mut self.estimated;
        let mut manifest = run::measure(plan, folder, shared, cancel, &mut |event| {
            let is_estimate = matches!(event, Event::Estimate(_));
            if !(is_estimate && *estimated) {
                *estimated |= is_estimate;
                show(event);
            }
        })?;
        let step = Folder::create(out)?;
        if !has_weights(&manifest, out) || overwrite {
            let matrices = embedding_measures(&model)?;
            let mut files = manifest.files.clone().unwrap_or_default();
            put_table(&step, PROJECTIONS, &projections_table(&matrices)?, &mut files)?;
            let entry = (Some(revision.name.clone()), revision.step, matrices);
            put_table(&step, WEIGHTS, &embeddings_table(manifest.model_name(), &[entry])?, &mut files)?;
            // A run of an older program names no files.
            if manifest.files.is_some() {
                manifest = put_manifest(&step, Manifest { files: Some(files), ..manifest })?;
            }
        }
        Ok(manifest)
    }

    /// The text of all checkpoints, read and tokenized once.
    fn text(&mut self, model: &Model, cancel: &CancelToken, show: &mut Show<'_>) -> Result<SharedText> {
        let plan = &self.journey.plan;
        let corpus = plan.corpus(&model.spec)?;
        let mut fingerprint = plan.fingerprint();
        fingerprint.insert("--window".to_owned(), corpus.window.into());
        fingerprint.insert("--shard".to_owned(), format!("{}/{}", corpus.shard.index, corpus.shard.count).into());
        let tokenizer = self.journey.source.tokenizer();
        let text = Text { out: &plan.out, work: self.work, settings: &corpus, fingerprint, begun: true, corpus: None };
        text.open(|| load_tokenizer(tokenizer.as_deref().unwrap_or(&model.folder), plan.text.wrap), cancel, show)?;
        let shared = SharedText { spool: text.path(), tokenizer };
        self.shared = Some(shared.clone());
        Ok(shared)
    }
}

/// Whether the run of a step has the tables of its weights.
fn has_weights(manifest: &Manifest, step: &Path) -> bool {
    let is_there = |name: &str| manifest.files.as_ref().map_or(step.join(name).exists(), |files| files.contains_key(name));
    [WEIGHTS, PROJECTIONS].into_iter().all(is_there)
}

/// Whether the checkpoint is to blame, and not the hub's network, the text, the disk or the user.
fn is_fault_of(error: &Error, folder: &Path) -> bool {
    let inside = |path: &Path| !folder.as_os_str().is_empty() && path.starts_with(folder);
    match error {
        Error::Model(layerscope_model::Error::Hub { .. }) => false,
        Error::Model(layerscope_model::Error::Io { file, .. }) => inside(file),
        Error::Model(_) | Error::NotFinite { .. } => true,
        Error::Io { path, .. } => inside(path),
        _ => false,
    }
}
