//! The second phase of a measurement: the model over all batches, pass by pass, into the state files of the run.

use std::ops::Range;
use std::time::Instant;

use layerscope_corpus::{BatchPlan, Spool};
use layerscope_error::{line, setting};
use layerscope_model::Transformer;
use layerscope_stats::{Accumulate, PointShape, PointState};

use super::choose::Chosen;
use super::device::OnDevice;
use super::estimate::{Estimate, Sizes, check_disk};
use super::event::{Event, Show};
use super::items::Items;
use super::kept::{KeepSettings, Kept};
use super::massive::massive_thresholds;
use super::plan::BoundPlan;
use super::timings::Phase;
use super::workers::{Progress, WorkSettings, Workers};
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::process::system;
use crate::store::facts::Facts;
use crate::store::folder::Folder;
use crate::store::state::{Fingerprint, StateFile};
use crate::store::work::{InputStamp, SavedPlan, Work};
use crate::store::write::write_states;

/// Text and model into states.
pub struct Passes<'a> {
    /// What is measured.
    pub bound: &'a BoundPlan,
    /// The text.
    pub spool: &'a Spool,
    /// Where the states go.
    pub store: &'a Folder,
    /// Where checkpoints go.
    pub work: &'a mut Work,
    /// What the user should know.
    pub warnings: &'a mut Vec<String>,
    /// Asks to stop.
    pub cancel: &'a CancelToken,
    /// Is told what happens.
    pub show: &'a mut Show<'a>,
}

impl OnDevice for Passes<'_> {
    type Output = Result<()>;

    fn run<D: Accumulate>(mut self, device: D) -> Result<()> {
        let Passes { bound, spool, .. } = self;
        let plan = &bound.plan;
        let batches = spool.plan(plan.batch_tokens)?;
        let chosen = Chosen::new(bound, spool)?;
        let keep = KeepSettings {
            seed: bound.corpus.filters.seed,
            sample: plan.sample_states,
            chosen: chosen.groups,
            per_group: plan.token_states,
        };
        let kept = Kept::choose(&keep, (0..batches.len()).map(|index| Ok(Items::new(spool.batch(&batches, index)?))))?;
        system::release_freed();
        let before_model = system::resident().unwrap_or(0);
        let timings = self.work.timings();
        let transformer = timings.time(Phase::Load, || bound.model.load(device))?;
        system::release_freed();
        let widths: Vec<usize> = bound.points.iter().map(|at| bound.model.spec.width_at(*at)).collect();
        let shape = |dim, previous| PointShape {
            groups: spool.groups().len(),
            dim,
            previous,
            kept: kept.len(),
            chosen: keep.chosen.len(),
            sketches: plan.sketches,
        };
        let shapes: Vec<PointShape> =
            widths.iter().enumerate().map(|(at, &dim)| shape(dim, at.checked_sub(1).map(|before| widths[before]))).collect();
        let widest = widths.iter().copied().max().unwrap_or(0);
        let sizes = Sizes {
            state: shape(widest, (widths.len() > 1).then_some(widest)),
            sample: kept.classes[0].len(),
            points: bound.points.len(),
            largest_batch: batches.largest(),
            threads: plan.threads,
        };
        let estimate = Estimate::new(transformer.backend(), &bound.model.spec, &sizes, before_model);
        let fingerprint: Fingerprint = with_corpus(timings.time(Phase::Load, || bound.fingerprint())?, spool);
        let resumable: Fingerprint = fingerprint.clone().into_iter().chain(bound.order()).collect();
        let saved = self.saved_plan(&transformer, &estimate, &resumable)?;
        let estimate = estimate.with_massive(saved.massive_points);
        (self.show)(Event::Estimate(estimate.line(&saved.passes, spool)));
        let mut first = 0;
        for (number, &count) in saved.passes.iter().enumerate() {
            let range = first..first + count;
            first += count;
            let pass = Pass {
                number,
                of: saved.passes.len(),
                range,
                batches: &batches,
                kept: &kept,
                chosen: &keep.chosen,
                massive: &saved.massive,
                resumable: &resumable,
            };
            if !self.is_finished(&pass)? {
                self.pass(&transformer, &pass, &shapes)?;
            }
        }
        let files: Vec<StateFile> = (0..saved.passes.len()).map(|pass| self.work.open_pass(pass)).collect::<Result<_>>()?;
        let facts = Facts::new(bound, &saved.massive, spool, chosen.names, self.work.spent())?;
        timings.time(Phase::Write, || write_states(self.store, &fingerprint, &facts, &kept, &files))
    }
}

/// With the text, everything that must be equal in all shards.
fn with_corpus(mut fingerprint: Fingerprint, spool: &Spool) -> Fingerprint {
    fingerprint.insert("corpus".to_owned(), spool.fingerprint().into());
    fingerprint
}

/// One pass over the text.
struct Pass<'a> {
    number: usize,
    of: usize,
    /// The measured points that it fills.
    range: Range<usize>,
    batches: &'a BatchPlan,
    kept: &'a Kept,
    /// Numbers of the chosen groups; one that this shard never meets has none.
    chosen: &'a [u32],
    massive: &'a [Option<f64>],
    resumable: &'a Fingerprint,
}

impl Passes<'_> {
    /// The plan of an earlier start, or a new one, saved.
    fn saved_plan<D: Accumulate>(
        &mut self,
        transformer: &Transformer<D>,
        estimate: &Estimate,
        resumable: &Fingerprint,
    ) -> Result<SavedPlan> {
        let BoundPlan { plan, points, .. } = self.bound;
        if let Some(saved) = self.work.saved_plan()? {
            estimate.with_massive(saved.massive_points).expect_room(&saved.passes, plan)?;
            return Ok(saved);
        }
        // Whatever can be refused is, before the model runs for the first time.
        check_disk(&plan.out, estimate, &estimate.passes(plan.max_memory)?)?;
        let timings = self.work.timings();
        let pilot = timings.time(Phase::Pilot, || massive_thresholds(transformer, self.spool, plan, points))?;
        let massive_points = pilot.iter().filter(|point| point.has_massive).count();
        let estimate = &estimate.with_massive(massive_points);
        let passes = estimate.passes(plan.max_memory)?;
        check_disk(&plan.out, estimate, &passes)?;
        let massive = pilot.into_iter().map(|point| point.threshold).collect();
        let inputs = self.spool.inputs().iter().filter_map(|input| InputStamp::of(input)).collect();
        let saved = SavedPlan { fingerprint: resumable.clone(), inputs, massive, massive_points, passes };
        self.work.save_plan(&saved)?;
        (self.show)(Event::Saved);
        Ok(saved)
    }

    fn is_finished(&mut self, pass: &Pass<'_>) -> Result<bool> {
        let Passes { work, warnings, show, .. } = self;
        Ok(work.finished_pass(pass.resumable, pass.number, &mut |line| warn(line, warnings, *show))?.is_some())
    }

    /// Runs a pass, with a checkpoint now and then.
    fn pass<D: Accumulate>(&mut self, transformer: &Transformer<D>, pass: &Pass<'_>, shapes: &[PointShape]) -> Result<()> {
        let Passes { bound, spool, work, warnings, cancel, show, .. } = self;
        let (plan, blocks) = (&bound.plan, bound.model.spec.blocks.len());
        let points = &bound.points[pass.range.clone()];
        let restored = work.restore(pass.resumable, blocks, pass.number, points, &mut |line| warn(line, warnings, *show))?;
        let empty = |at: usize| {
            let shape = &shapes[at];
            let mut state = PointState::new(shape, pass.massive[at]);
            pass.chosen.iter().filter(|group| (**group as usize) < shape.groups).for_each(|&group| state.moments.choose(group));
            (bound.points[at], state)
        };
        let (mut next, states) =
            restored.map_or_else(|| (0, pass.range.clone().map(empty).collect()), |restored| (restored.next, restored.states));
        let (done, total) = (tokens_before(spool, pass.batches, next)?, spool.counters().tokens);
        let workers = Workers::new(transformer, states, next, bound.work_settings(pass))?;
        while next < pass.batches.len() {
            let mut told = false;
            let mut pause = |progress: &Progress| {
                let fresh = progress.tokens();
                let (documents, tokens) = (done.0 + progress.documents(), done.1 + fresh);
                show(Event::Measuring { documents, tokens, total, fresh, pass: (pass.number + 1, pass.of) });
                if cancel.is_cancelled() && !told {
                    told = true;
                    show(Event::Stopping);
                }
                cancel.is_cancelled() || work.is_due(plan.checkpoint)
            };
            let batch = |index: usize| match index < pass.batches.len() {
                true => Ok(Some(Items::new(spool.batch(pass.batches, index)?))),
                false => Ok(None),
            };
            let begun = Instant::now();
            next = workers.run(next, &batch, &mut pause).map_err(|error| located(error, spool))?;
            work.timings().add_batches(begun.elapsed().as_secs_f64(), workers.progress().take_times());
            if next == pass.batches.len() {
                break; // whoever asked to stop is heard in the next pass; the end of this one is worth more than a checkpoint
            }
            workers.with_states(|states| work.save(pass.resumable, blocks, pass.number, next, states))?;
            show(Event::Saved);
            if cancel.is_cancelled() {
                let line =
                    format!("interrupted after batch {next} of {}: everything is saved; the same command resumes", pass.batches.len());
                return Err(Error::Interrupted(line.into()));
            }
        }
        workers.with_states(|states| work.finish_pass(pass.resumable, blocks, pass.number, states))
    }
}

impl BoundPlan {
    fn work_settings<'a>(&self, pass: &Pass<'a>) -> WorkSettings<'a> {
        let paired = self.plan.sketches.contains(layerscope_stats::sketch::SketchKind::Pairs);
        let before = pass.range.start.checked_sub(1).filter(|_| paired).map(|at| (self.points[at], pass.massive[at]));
        WorkSettings {
            kept: pass.kept,
            sketches: self.plan.sketches,
            before,
            on_error: self.corpus.on_error,
            threads: self.plan.threads,
            rows: pass.batches.largest(),
        }
    }
}

fn warn(line: String, warnings: &mut Vec<String>, show: &mut Show<'_>) {
    show(Event::warning(line.clone()));
    warnings.push(line);
}

/// Names the file and the line of a document whose states are not finite.
fn located(error: Error, spool: &Spool) -> Error {
    let Error::NotFinite { at, document, position } = error else { return error };
    let input = spool.inputs().get(document.file as usize).cloned().unwrap_or_default();
    let unit = if input.contains(".parquet") { "row" } else { "line" };
    let problem =
        line![format!("the states of its token {position} are not finite at {at}; skip such states with "), setting("on-error").to("skip")];
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
