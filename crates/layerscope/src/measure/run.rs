//! A measurement from text to tables, on one page.

use std::path::Path;

use layerscope_corpus::{BatchSize, Spool};
use layerscope_error::{Line, line, setting};
use layerscope_report::manifest::Timings;
use layerscope_report::{Manifest, verify_tables};

use super::event::{Event, Show};
use super::journey::{Journey, warn};
use super::plan::{BoundPlan, Plan, SharedText};
use super::text::{Found, Text, expect_same_text};
use super::waiting::hashed;
use super::{several, split};
use crate::checkpoint::tokenizer::load_tokenizer;
use crate::error::{Error, ErrorKind, Result};
use crate::process::cancel::CancelToken;
use crate::process::system;
use crate::settings::parse::ignored_scheduler;
use crate::store::folder::Folder;
use crate::store::state::Fingerprint;
use crate::store::stored::{STATE, StoredRun, read_manifest};
use crate::store::work::{Work, expect_same};
use crate::store::write::{Ended, Ending, write_run};
use crate::tables::make::Resources;

/// Carries out a plan on the model in `folder`: text, spool, model, sketches, tables. Returns the manifest.
pub fn measure(plan: Plan, folder: &Path, shared: Option<SharedText>, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
    tell_choices(&plan, show);
    cancel.during("interrupted before anything was measured: the same command starts again");
    if plan.text.split.is_some() {
        return split::measure(plan, folder, cancel, show);
    }
    if plan.devices.len() > 1 {
        return match shared {
            None => several::measure(plan, folder, cancel, show),
            Some(_) => Err(Error::usage(line!["checkpoints of a training are measured on one ", setting("device")])),
        };
    }
    measure_whole(plan, folder, shared, cancel, show)
}

/// The same for all of its text, or for one part of it.
pub fn measure_whole(plan: Plan, folder: &Path, shared: Option<SharedText>, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Manifest> {
    let bound = BoundPlan::new(plan, folder, shared)?;
    let plan = &bound.plan;
    let Measured { store, work, ended, mut warnings, timings } = states_of(&bound, cancel, show)?;
    if ended.is_none() {
        match complete(&plan.out) {
            Ok(Some(manifest)) => {
                show(Event::note(line![format!("{} is complete; to measure it again, give ", plan.out.display()), setting("overwrite")]));
                work.remove();
                return Ok(manifest);
            }
            Ok(None) => {}
            Err(error) => warn(format!("{error}: done now, from the state"), &mut warnings, show),
        }
    }
    let ending = Ending { resources: resources(plan, cancel), warnings, timings };
    let manifest = write_run(&store, ended, &ending, &mut |done, of| show(Event::Tables { done, of }))?;
    if !plan.keep_work {
        work.remove();
    }
    show(Event::Finished(&manifest));
    Ok(manifest)
}

/// What the tables may use: without a limit, no more memory than the run has taken already.
pub fn resources(plan: &Plan, cancel: &CancelToken) -> Resources {
    let memory = plan.max_memory.unwrap_or_else(|| system::peak().unwrap_or(0));
    Resources { threads: plan.threads, memory, cancel: cancel.clone() }
}

/// The states of a run alone, to be merged with others.
pub fn measure_states(plan: Plan, folder: &Path, cancel: &CancelToken, show: &mut Show<'_>) -> Result<()> {
    let bound = BoundPlan::new(plan, folder, None)?;
    let Measured { store, work, ended, .. } = states_of(&bound, cancel, show)?;
    ended.map_or(Ok(()), |ended| ended.settle(&store, bound.plan.threads))?;
    work.remove();
    Ok(())
}

/// What a measurement leaves for the tables.
struct Measured {
    store: Folder,
    work: Work,
    /// None if they were there already.
    ended: Option<Ended>,
    warnings: Vec<String>,
    timings: Option<Timings>,
}

/// Text and model into states, unless an earlier start came so far.
fn states_of(bound: &BoundPlan, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Measured> {
    let plan = &bound.plan;
    let mut work = Work::open(&plan.out)?;
    let store = Folder::create(&plan.out)?;
    let mut warnings = Vec::new();
    if plan.overwrite {
        work.replace()?;
    }
    if store.path(STATE).exists() && !plan.overwrite {
        expect_finished(&store, bound, cancel, show)?;
        return Ok(Measured { store, work, ended: None, warnings, timings: None });
    }
    work.mend(&mut |line| warn(line, &mut warnings, show))?;
    let sizes = vec![BatchSize::everywhere(plan.batch_tokens)];
    let journey = Journey { bound, store: &store, work: &mut work, warnings: &mut warnings, cancel, show, passed: 0, sizes };
    let ended = plan.device().run(plan.dtype, journey).flatten();
    if ended.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Model)) {
        work.abandon();
    }
    let ended = Some(ended?);
    let timings = Some(work.timings().timings());
    work.retire()?;
    Ok(Measured { store, work, ended, warnings, timings })
}

/// Says what a preset chose, and what a scheduler's variables would do.
fn tell_choices(plan: &Plan, show: &mut Show<'_>) {
    if let Some((name, set)) = plan.choices.preset() {
        let set = set.into_iter().flat_map(|choice| [Line::from(" "), choice]);
        show(Event::Note(Line::join([Line::from(format!("preset {name}:"))].into_iter().chain(set))));
    }
    if let (None, Some(variable)) = (plan.choices.text("shard"), ignored_scheduler()) {
        let line = line![format!("{variable} is set but ignored; measure this task's part alone with "), setting("shard").to("auto")];
        show(Event::Note(line));
    }
}

/// The manifest of a finished run, if all its tables are what it says.
fn complete(out: &Path) -> Result<Option<Manifest>> {
    let manifest = read_manifest(out)?;
    manifest.as_ref().map_or(Ok(()), |manifest| verify_tables(out, manifest))?;
    Ok(manifest)
}

/// Refuses a folder that holds the finished state of another run, or of another text.
fn expect_finished(store: &Folder, bound: &BoundPlan, cancel: &CancelToken, show: &mut Show<'_>) -> Result<()> {
    hashed(bound, cancel, show)?;
    let run = StoredRun::open(&store.path(""))?;
    let shard = bound.corpus.shard;
    // The text is not read again only to learn that there is nothing to do: its name stands for it, unless it was touched.
    let with = |mut of: Fingerprint, corpus: &[String], shard: (u32, u32)| {
        of.insert("corpus".to_owned(), serde_json::json!(corpus));
        of.insert("--shard".to_owned(), serde_json::json!(shard));
        of
    };
    let found = with(run.state.about().fingerprint.clone(), &run.facts.corpus.asked_for, run.facts.shard);
    expect_same(&bound.plan.out, &found, &with(bound.fingerprint()?, &bound.corpus.inputs, (shard.index, shard.count)))?;
    expect_same_text(&bound.plan.out, &run, &bound.corpus, cancel)
}

/// The text as tokens: of an earlier start, of the training this checkpoint belongs to, or new.
pub fn open_spool(bound: &BoundPlan, work: &Work, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Spool> {
    let out = &bound.plan.out;
    let saved = work.saved_plan()?;
    if saved.is_none() && bound.plan.resume {
        let line = line![format!("{}: no unfinished run to resume; leave out ", out.display()), setting("resume"), " to begin one"];
        return Err(Error::refused(line));
    }
    let known = saved.as_ref().and_then(|saved| saved.fingerprint.get("corpus"));
    if let Some(saved) = &saved {
        hashed(bound, cancel, show)?;
        let mut expected: Fingerprint = bound.fingerprint()?.into_iter().chain(bound.order()).collect();
        expected.extend(known.map(|corpus| ("corpus".to_owned(), corpus.clone())));
        expect_same(out, &saved.fingerprint, &expected)?;
    }
    if let Some(shared) = &bound.shared {
        return Ok(Spool::open(&shared.spool)?);
    }
    let corpus = known.and_then(|corpus| corpus.as_str()).map(str::to_owned);
    let fingerprint = bound.text_fingerprint();
    cancel.during("interrupted while reading the corpus: the same command reads it again");
    let text = Text { out, work, settings: &bound.corpus, fingerprint, begun: saved.is_some(), corpus };
    let (spool, found) = text.open(|| load_tokenizer(bound.tokenizer_folder(), bound.plan.text.wrap), cancel, show)?;
    match found {
        Found::Unchanged if saved.is_some() => show(Event::note("resuming")),
        Found::Touched => show(Event::note("resuming: the corpus was touched, and its text is the same")),
        _ => {}
    }
    Ok(spool)
}
