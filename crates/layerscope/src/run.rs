//! A measurement from text to tables, on one page.

use std::ops::Range;
use std::path::Path;

use layerscope_compute::Cpu;
use layerscope_corpus::{BatchPlan, Shard, Spool, Tokenizer, write_spool};
use layerscope_model::{Model, Point, Transformer};
use serde_json::{Value, json};

use crate::cancel::CancelToken;
use crate::choose::chosen_groups;
use crate::collect::{CollectSettings, Collector, Workers};
use crate::error::{Error, Result};
use crate::estimate::{Estimate, Sizes, check_disk};
use crate::facts::{Facts, model_fingerprint, tokenizer_fingerprint};
use crate::finish::{Ending, MANIFEST, STATE, StoredRun, write_run, write_states};
use crate::items::Items;
use crate::kept::{KeepSettings, Kept};
use crate::massive::massive_thresholds;
use crate::plan::{Plan, TokenChoice, ignored_scheduler};
use crate::point_state::{PointState, StateShape};
use crate::settings::Origin;
use crate::state::{Fingerprint, StateFile};
use crate::store::Store;
use crate::system;
use crate::text::bytes;
use crate::work::{InputStamp, SavedPlan, Work, expect_same};

/// Settings that may differ between a run and its continuation, or between shards of one run.
const NOT_SEMANTIC: &[&str] = &["threads", "max-memory", "checkpoint-seconds", "shard", "batch-tokens", "device"];

/// What happens while a run goes on, for whoever shows it.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Something to know: what a preset set, a resume.
    Note(String),
    /// What there is to do, and the memory it will take.
    Estimate(String),
    /// Something to worry about.
    Warning(String),
    /// The text is being read.
    Reading(layerscope_corpus::Progress),
    /// The model runs: done and all, of this pass.
    Measuring {
        /// Documents done before and in this leg.
        documents: u64,
        /// Tokens done likewise.
        tokens: u64,
        /// All tokens of the pass.
        total: u64,
        /// Tokens done since the process began, for the rate.
        fresh: u64,
        /// This pass and their number.
        pass: (usize, usize),
    },
    /// The tables are being made: points done, and all.
    Tables {
        /// Points done.
        done: usize,
        /// All points.
        of: usize,
    },
    /// The run can be resumed from here.
    Saved,
    /// Stopping was asked for and is under way.
    Stopping,
    /// The run is complete; its manifest.
    Finished(&'a Value),
}

/// Carries out a plan: text, spool, model, sketches, tables. Returns the manifest.
pub fn measure(mut plan: Plan, folder: &Path, cancel: &CancelToken, show: &mut dyn FnMut(Event<'_>)) -> Result<Value> {
    tell_choices(&plan, show);
    let mut model = Model::open(folder)?;
    plan.alter(&mut model)?;
    plan.complete(&model.spec)?;
    plan.tokenizer = tokenizer_fingerprint(folder)?;
    let points = plan.points(&model)?;
    let store = Store::create(&plan.out)?;
    let mut work = Work::open(&plan.out)?;
    if plan.overwrite {
        [MANIFEST, STATE].into_iter().try_for_each(|name| store.remove(name))?;
        work.clear()?;
    }
    let model_hash = model_fingerprint(&model)?;
    let mut warnings = Vec::new();
    if store.path(STATE).exists() {
        expect_finished(&store, &plan, &model_hash)?;
        if let Some(manifest) = read_manifest(&store)? {
            show(Event::Note(format!("{} is complete already; start again with --overwrite", plan.out.display())));
            work.remove()?;
            return Ok(manifest);
        }
    } else {
        let spool = open_spool(&plan, &model, &model_hash, &work, cancel, show)?;
        let fingerprint = fingerprint(&plan, &model_hash, &spool);
        let mut run = Run { plan: &plan, model: &model, points: &points, spool: &spool, fingerprint: &fingerprint, warnings };
        run.collect(&model_hash, &store, &mut work, cancel, show)?;
        warnings = run.warnings;
    }
    let ending = Ending { threads: plan.threads, warnings };
    let manifest = write_run(&store, &ending, &mut |done, of| show(Event::Tables { done, of }))?;
    if !plan.keep_work {
        work.remove()?;
    }
    show(Event::Finished(&manifest));
    Ok(manifest)
}

/// Says what a preset chose, and what a scheduler's variables would do.
fn tell_choices(plan: &Plan, show: &mut dyn FnMut(Event<'_>)) {
    let by_preset = plan.settings.by_preset();
    let preset = plan.settings.iter().find_map(|(_, setting)| match setting.from {
        Origin::Preset(name) => Some(name),
        _ => None,
    });
    if let Some(name) = preset {
        show(Event::Note(format!("preset {name}: {}", by_preset.join(" "))));
    }
    if let (None, Some(variable)) = (plan.settings.text("shard"), ignored_scheduler()) {
        show(Event::Note(format!("{variable} is set but ignored: give --shard auto to measure this task's part alone")));
    }
}

/// Everything that decides the numbers: equal in all shards and for every resume.
fn fingerprint(plan: &Plan, model: &str, spool: &Spool) -> Fingerprint {
    let mut fingerprint = settings_fingerprint(plan, model);
    fingerprint.insert("corpus".to_owned(), spool.fingerprint().into());
    fingerprint
}

pub(crate) fn settings_fingerprint(plan: &Plan, model: &str) -> Fingerprint {
    let semantic = plan.settings.iter().filter(|(name, _)| !NOT_SEMANTIC.contains(name));
    let mut fingerprint: Fingerprint = semantic.map(|(name, setting)| (format!("--{name}"), json!(setting.value))).collect();
    fingerprint.insert("--window".to_owned(), plan.corpus.window.into());
    fingerprint.insert("model".to_owned(), model.into());
    fingerprint.insert("tokenizer".to_owned(), plan.tokenizer.clone().into());
    fingerprint
}

/// Refuses a folder that holds the finished state of another run.
fn expect_finished(store: &Store, plan: &Plan, model_hash: &str) -> Result<()> {
    let run = StoredRun::open(&store.path(""))?;
    let mut expected = settings_fingerprint(plan, model_hash);
    let mut found = run.state.about().fingerprint.clone();
    // The text is not read again only to learn that there is nothing to do: its name stands for it.
    found.insert("corpus".to_owned(), json!(run.facts.corpus.asked_for));
    expected.insert("corpus".to_owned(), json!(plan.corpus.inputs));
    found.insert("--shard".to_owned(), json!(run.facts.shard));
    expected.insert("--shard".to_owned(), json!((plan.corpus.shard.index, plan.corpus.shard.count)));
    expect_same(&plan.out, &found, &expected)
}

/// The manifest, if the run got so far.
fn read_manifest(store: &Store) -> Result<Option<Value>> {
    let path = store.path(MANIFEST);
    match std::fs::read(&path) {
        Ok(text) => {
            serde_json::from_slice(&text).map(Some).map_err(|_| Error::damaged(&path, "not readable; start again with --overwrite"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&path, error)),
    }
}

/// The spool of an earlier start, or a new one.
fn open_spool(
    plan: &Plan,
    model: &Model,
    model_hash: &str,
    work: &Work,
    cancel: &CancelToken,
    show: &mut dyn FnMut(Event<'_>),
) -> Result<Spool> {
    let path = plan.shared.as_ref().map_or_else(|| work.path("spool"), |shared| shared.spool.clone());
    let saved = work.saved_plan()?;
    let tokenizer = || Tokenizer::load(plan.tokenizer_folder(model), plan.wrap);
    if let Some(saved) = &saved {
        let mut expected = settings_fingerprint(plan, model_hash);
        expected.insert("corpus".to_owned(), saved.fingerprint.get("corpus").cloned().unwrap_or_default());
        expected.extend(resume_only(plan));
        expect_same(&plan.out, &saved.fingerprint, &expected)?;
        let unchanged = saved.inputs.iter().all(|stamp| InputStamp::of(&stamp.path).as_ref() == Some(stamp));
        if path.exists() && unchanged {
            let spool = Spool::open(&path)?;
            // A pattern may match other files by now.
            spool.check_corpus(&plan.corpus, cancel.flag())?;
            show(Event::Note("resuming".to_owned()));
            return Ok(spool);
        }
        let again = write_spool(
            &plan.corpus,
            &tokenizer()?,
            &work.path("spool.again"),
            &mut |progress| show(Event::Reading(*progress)),
            cancel.flag(),
        )?;
        let (was, is) = (saved.fingerprint.get("corpus").and_then(Value::as_str).unwrap_or_default(), again.fingerprint());
        if was != is {
            let _ = std::fs::remove_file(work.path("spool.again"));
            let changed = saved.inputs.iter().find(|stamp| InputStamp::of(&stamp.path).as_ref() != Some(stamp));
            let what = changed.map_or("the corpus".to_owned(), |stamp| stamp.path.clone());
            return Err(Error::Changed(format!(
                "{what} changed since the run in {} began; start again with --overwrite",
                plan.out.display()
            )));
        }
        show(Event::Note("resuming: the corpus was touched but says the same".to_owned()));
        std::fs::rename(work.path("spool.again"), &path).map_err(|source| Error::io(&path, source))?;
        return Ok(again);
    }
    if plan.shared.is_some() {
        return Ok(Spool::open(&path)?);
    }
    Ok(write_spool(&plan.corpus, &tokenizer()?, &path, &mut |progress| show(Event::Reading(*progress)), cancel.flag())?)
}

/// What must also be equal to continue with the very same batches.
fn resume_only(plan: &Plan) -> Fingerprint {
    let Shard { index, count } = plan.corpus.shard;
    [("--shard".to_owned(), format!("{index}/{count}").into()), ("--batch-tokens".to_owned(), plan.batch_tokens.into())]
        .into_iter()
        .collect()
}

/// What the second phase works with.
struct Run<'a> {
    plan: &'a Plan,
    model: &'a Model,
    points: &'a [Point],
    spool: &'a Spool,
    fingerprint: &'a Fingerprint,
    warnings: Vec<String>,
}

impl Run<'_> {
    /// The second phase: the model over all batches, pass by pass, into the state files of the run.
    fn collect(
        &mut self,
        model_hash: &str,
        store: &Store,
        work: &mut Work,
        cancel: &CancelToken,
        show: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let Run { plan, model, points, spool, .. } = *self;
        let batches = spool.plan(plan.batch_tokens)?;
        let chosen = self.choose_tokens(cancel)?;
        let keep = KeepSettings {
            seed: plan.corpus.filters.seed,
            sample: plan.sample_states,
            chosen: chosen.groups,
            per_group: plan.token_states,
        };
        let kept = Kept::choose(&keep, (0..batches.len()).map(|index| Ok(Items::new(spool.batch(&batches, index)?))))?;
        system::release_freed();
        let before_model = system::resident().unwrap_or(0);
        let transformer = model.load(Cpu::new())?;
        system::release_freed();
        let shape = StateShape { groups: spool.groups().len(), dim: model.spec.width, kept: kept.len(), sketches: plan.sketches };
        let sizes = Sizes {
            state: shape,
            sample: kept.classes[0].len(),
            points: points.len(),
            largest_batch: batches.largest(),
            threads: plan.threads,
        };
        let estimate = Estimate::new(&model.spec, &sizes, before_model);
        let resumable: Fingerprint = self.fingerprint.clone().into_iter().chain(resume_only(plan)).collect();
        let saved = match work.saved_plan()? {
            Some(saved) => {
                expect_room(&estimate, &saved.passes, plan)?;
                saved
            }
            None => {
                let passes = estimate.passes(plan.max_memory)?;
                check_disk(&plan.out, &estimate, &passes)?;
                let massive = massive_thresholds(&transformer, spool, plan, points)?;
                let inputs = spool.inputs().iter().filter_map(|input| InputStamp::of(input)).collect();
                let saved = SavedPlan { fingerprint: resumable.clone(), inputs, massive, passes };
                work.save_plan(&saved)?;
                show(Event::Saved);
                saved
            }
        };
        tell_estimate(&estimate, &saved.passes, spool, show);
        let mut first = 0;
        for (pass, &count) in saved.passes.iter().enumerate() {
            let range = first..first + count;
            first += count;
            let finished = work.finished_pass(&resumable, pass, &mut |line| {
                show(Event::Warning(line.clone()));
                self.warnings.push(line);
            })?;
            if finished.is_none() {
                let leg = Leg {
                    pass,
                    of: saved.passes.len(),
                    range,
                    shape: &shape,
                    batches: &batches,
                    kept: &kept,
                    massive: &saved.massive,
                    resumable: &resumable,
                };
                self.pass(&transformer, &leg, work, cancel, show)?;
            }
        }
        let files: Vec<StateFile> = (0..saved.passes.len()).map(|pass| work.open_pass(pass)).collect::<Result<_>>()?;
        let mut facts = Facts::new(plan, model, model_hash.to_owned(), points, &saved.massive, spool, chosen.names)?;
        facts.seconds = work.seconds();
        write_states(store, self.fingerprint, &facts, &kept, &files)
    }

    /// Appendix A's choice needs the frequencies of the whole corpus, which a shard must count first.
    fn choose_tokens(&self, cancel: &CancelToken) -> Result<Chosen> {
        let Run { plan, model, spool, .. } = *self;
        let (seed, frequency) = (plan.corpus.filters.seed, plan.frequency.as_ref());
        if plan.tokens == TokenChoice::None || plan.corpus.shard.count == 1 {
            let groups = chosen_groups(&plan.tokens, spool.groups(), frequency, seed)?;
            return Ok(Chosen { names: groups.iter().map(|&group| spool.groups()[group as usize].raw.clone()).collect(), groups });
        }
        let path = plan.out.join(".work/whole-corpus");
        let whole = layerscope_corpus::Settings { shard: Shard::default(), ..plan.corpus.clone() };
        let tokenizer = Tokenizer::load(plan.tokenizer_folder(model), plan.wrap)?;
        let counted = write_spool(&whole, &tokenizer, &path, &mut |_| {}, cancel.flag())?;
        let chosen = chosen_groups(&plan.tokens, counted.groups(), frequency, seed)?;
        std::fs::remove_file(&path).map_err(|source| Error::io(&path, source))?;
        let names: Vec<String> = chosen.iter().map(|&group| counted.groups()[group as usize].raw.clone()).collect();
        // A group this shard never meets keeps its place, so that shards agree on who is who.
        let own = |raw: &String| spool.groups().iter().position(|group| group.raw == *raw).map_or(u32::MAX, |at| at as u32);
        Ok(Chosen { groups: names.iter().map(own).collect(), names })
    }

    /// One pass over the text, with a checkpoint now and then.
    fn pass(
        &mut self,
        transformer: &Transformer<Cpu>,
        leg: &Leg<'_>,
        work: &mut Work,
        cancel: &CancelToken,
        show: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let Run { plan, spool, .. } = *self;
        let points = &self.points[leg.range.clone()];
        let blocks = self.model.spec.blocks.len();
        let restored = work.restore(leg.resumable, blocks, leg.pass, points, &mut |line| {
            show(Event::Warning(line.clone()));
            self.warnings.push(line);
        })?;
        let (mut next, states) = match restored {
            Some(restored) => (restored.next, restored.states),
            None => (0, self.empty_states(leg)),
        };
        let (done, total) = (tokens_before(spool, leg.batches, next)?, spool.counters().tokens);
        let before = leg.range.start.checked_sub(1).filter(|_| plan.sketches.pairs).map(|at| self.points[at]);
        let settings = CollectSettings { kept: leg.kept, sketches: plan.sketches, before, on_error: plan.corpus.on_error };
        let collector = Collector::new(states, next, settings);
        let workers = Workers { threads: plan.threads, rows: leg.batches.largest() };
        while next < leg.batches.len() {
            let mut told = false;
            let mut pause = |progress: &crate::collect::Progress| {
                let fresh = progress.tokens();
                let (documents, tokens) = (done.0 + progress.documents(), done.1 + fresh);
                show(Event::Measuring { documents, tokens, total, fresh, pass: (leg.pass + 1, leg.of) });
                if cancel.is_cancelled() && !told {
                    told = true;
                    show(Event::Stopping);
                }
                cancel.is_cancelled() || work.is_due(plan.checkpoint)
            };
            let batch = |index: usize| match index < leg.batches.len() {
                true => Ok(Some(Items::new(spool.batch(leg.batches, index)?))),
                false => Ok(None),
            };
            next = collector.run(transformer, next, workers, &batch, &mut pause).map_err(|error| located(error, spool))?;
            if next == leg.batches.len() {
                break; // whoever asked to stop is heard in the next pass; the end of this one is worth more than a checkpoint
            }
            collector.with_states(|states| work.save(leg.resumable, blocks, leg.pass, next, states))?;
            show(Event::Saved);
            if cancel.is_cancelled() {
                let line = format!(
                    "interrupted after batch {next} of {}: everything up to it is saved; the same command goes on",
                    leg.batches.len()
                );
                return Err(Error::Interrupted(line));
            }
        }
        collector.with_states(|states| work.finish_pass(leg.resumable, blocks, leg.pass, states))
    }

    fn empty_states(&self, leg: &Leg<'_>) -> Vec<(Point, PointState)> {
        let state = |at: usize| (self.points[at], PointState::new(leg.shape, at == 0, leg.massive[at]));
        leg.range.clone().map(state).collect()
    }
}

/// The groups whose states are kept: their raw names, and their numbers in this spool.
struct Chosen {
    names: Vec<String>,
    groups: Vec<u32>,
}

/// One pass.
struct Leg<'a> {
    pass: usize,
    of: usize,
    range: Range<usize>,
    shape: &'a StateShape,
    batches: &'a BatchPlan,
    kept: &'a Kept,
    massive: &'a [Option<f64>],
    resumable: &'a Fingerprint,
}

/// Refuses to go on with passes that a smaller limit would not have allowed.
fn expect_room(estimate: &Estimate, passes: &[usize], plan: &Plan) -> Result<()> {
    let needed = estimate.total(passes.iter().copied().max().unwrap_or(0));
    match plan.max_memory {
        Some(limit) if needed > limit => Err(Error::Refused(format!(
            "--max-memory {} is not enough: the run in {} was begun in passes of {}; give so much, or start again with --overwrite",
            bytes(limit as usize),
            plan.out.display(),
            bytes(needed as usize)
        ))),
        _ => Ok(()),
    }
}

fn tell_estimate(estimate: &Estimate, passes: &[usize], spool: &Spool, show: &mut dyn FnMut(Event<'_>)) {
    let counters = spool.counters();
    let largest = passes.iter().copied().max().unwrap_or(0);
    let several = if passes.len() > 1 { format!(" in {} passes over the layers", passes.len()) } else { String::new() };
    show(Event::Estimate(format!(
        "{} documents, {} tokens, {} groups; memory estimate {}{several}",
        crate::text::grouped(counters.documents as usize),
        crate::text::grouped(counters.tokens as usize),
        crate::text::grouped(spool.groups().len()),
        bytes(estimate.total(largest) as usize),
    )));
}

/// Names the file and the line of a document whose states are not finite.
fn located(error: Error, spool: &Spool) -> Error {
    let Error::NotFinite { at, document, position } = error else { return error };
    let input = spool.inputs().get(document.file as usize).cloned().unwrap_or_default();
    let unit = if input.contains(".parquet") { "row" } else { "line" };
    let problem = format!("the states of its token {position} are not finite at {at}; leave such states out with --on-error skip");
    layerscope_corpus::Error::Record { input, place: format!("{unit} {}", document.record + 1), problem }.into()
}

/// Documents and tokens in the batches before this one.
fn tokens_before(spool: &Spool, batches: &BatchPlan, next: usize) -> Result<(u64, u64)> {
    let end = if next == 0 { 0 } else { batches.sequences(next - 1).end };
    let (mut documents, mut tokens) = (0, 0);
    for sequence in spool.sequences().take(end as usize) {
        let sequence = sequence?;
        documents += u64::from(sequence.row == 0);
        tokens += u64::from(sequence.length);
    }
    Ok((documents, tokens))
}
