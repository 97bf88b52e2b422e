//! One leg of the way: the pilot sets its thresholds, workers carry the batches of a stretch through it, with a checkpoint now and then.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use layerscope_corpus::{BatchPlan, Spool};
use layerscope_error::{line, setting};
use layerscope_model::{Point, Transformer};
use layerscope_stats::sketch::SketchKind;
use layerscope_stats::{Accumulate, PointShape, PointState};

use super::ahead::{Ahead, shared_batches};
use super::estimate::{Estimate, STREAMS};
use super::event::Event;
use super::items::Items;
use super::journey::{Journey, warn};
use super::kept::Kept;
use super::passage::Passage;
use super::pilot::Pilot;
use super::plan::BoundPlan;
use super::route::{Route, Segment};
use super::stretch::{Stretch, StretchRows};
use super::timings::Phase;
use super::workers::{Progress, WorkSettings, Workers};
use crate::error::{Error, Result};
use crate::process::system;
use crate::process::threads::meanwhile;
use crate::store::state::{Fingerprint, StateFile};
use crate::store::work::{Work, read_points};

/// The states of points.
pub type States = Vec<(Point, PointState)>;

/// What all legs share.
pub struct Shared<'a> {
    /// What is measured.
    pub bound: &'a BoundPlan,
    /// The text.
    pub spool: &'a Spool,
    /// Its batches.
    pub batches: &'a BatchPlan,
    /// The states that are kept.
    pub kept: &'a Kept,
    /// Numbers of the chosen groups; one that this shard never meets has none.
    pub chosen: &'a [u32],
    /// The shape of every measured point's state.
    pub shapes: &'a [PointShape],
    /// The first documents.
    pub pilot: &'a Pilot,
    /// What a continuation must find unchanged.
    pub resumable: &'a Fingerprint,
    /// The way through model and text.
    pub route: &'a Route,
    /// What it takes.
    pub estimate: &'a Estimate,
}

/// One stretch of text through one leg.
pub struct LegRun<'a> {
    /// The leg, and how many there are.
    pub number: usize,
    /// All legs.
    pub of: usize,
    /// What it computes and measures.
    pub segment: &'a Segment,
    /// The stretch.
    pub batches: Range<usize>,
    /// Its place among the legs of all stretches.
    pub stage: usize,
    /// The massive thresholds of the points before.
    pub massive: &'a [Option<f64>],
}

impl LegRun<'_> {
    /// Runs it and returns the states of its points, and what it leaves for the next leg, which may not be on the disk yet. `finished` has
    /// the states of the stretches before.
    pub fn go<D: Accumulate>(
        &self,
        journey: &mut Journey<'_>,
        shared: &Shared<'_>,
        transformer: &Transformer<D>,
        finished: Option<StateFile>,
    ) -> Result<(States, Option<Stretch>)> {
        let Shared { bound, spool, resumable, .. } = *shared;
        let (plan, blocks) = (&bound.plan, bound.model.spec.blocks.len());
        let points = &bound.points[self.segment.points.clone()];
        let rows = StretchRows::of_plan(shared.batches, self.batches.clone());
        let entering = self.entering(journey.work, "stream", &rows, bound)?;
        let leaving = self.leaving(journey.work, "stream", &rows, bound)?;
        let passage = self.passage(entering.as_ref(), leaving.as_ref());
        let restored = {
            let Journey { work, warnings, show, .. } = journey;
            work.restore(resumable, blocks, self.number, self.batches.start, points, &mut |line| warn(line, warnings, *show))?
        };
        let (mut next, (mut states, ahead)) = match (restored, finished) {
            (Some(restored), _) => (restored.next, (restored.states, None)),
            (None, Some(file)) => (self.batches.start, (read_points(&file, blocks, points)?, None)),
            (None, None) => (0, self.empty_states(journey, shared, transformer)?),
        };
        let passage = Passage { ahead: ahead.as_ref(), ..passage };
        for (_, state) in &mut states {
            state.kept = shared.kept.stored(std::mem::take(&mut state.kept), state.dim());
        }
        let done = |batch: usize| (shared.batches.documents_before(batch), shared.batches.rows(0..batch).end);
        let (before, total) = (done(next), done(shared.batches.len()));
        let workers = Workers::new(
            transformer,
            states,
            next,
            self.work_settings(shared, passage, next, transformer.backend().workers(plan.threads)),
        )?;
        let of = shared.batches.len();
        while next < self.batches.end {
            let until_due = journey.work.until_due(plan.checkpoint);
            let mut told = false;
            let mut pause = |progress: &Progress| {
                let Journey { cancel, show, passed, .. } = journey;
                let (documents, tokens) = (before.0 + progress.documents(), before.1 + progress.tokens());
                show(Event::Measuring {
                    documents: self.share(documents, total.0),
                    tokens: self.share(tokens, total.1),
                    total: total.1,
                    fresh: (*passed + progress.tokens()) / self.of as u64,
                    leg: (self.number + 1, self.of),
                });
                if cancel.is_cancelled() && !told {
                    told = true;
                    show(Event::Stopping);
                }
                cancel.is_cancelled()
            };
            let batch = |index: usize| match index < self.batches.end {
                true => Ok(Some(Items::new(spool.batch(shared.batches, index)?))),
                false => Ok(None),
            };
            // A stretch so short that nobody looks up while it runs is told of, too.
            pause(workers.progress());
            let begun = Instant::now();
            next = workers.run(next, &batch, until_due, &mut pause).map_err(|error| located(error, spool))?;
            journey.work.timings().add_batches(begun.elapsed().as_secs_f64(), workers.progress().take_times());
            // Whoever asked to stop is heard in the next leg: the end of this one is worth more than a checkpoint. But a run that is replaced
            // stays until the new one has states on disk.
            if next == self.batches.end && !journey.work.is_replacing() {
                break;
            }
            leaving.as_ref().map_or(Ok(()), Stretch::sync)?;
            let Journey { work, cancel, show, .. } = journey;
            workers.with_states(|states| work.save(resumable, blocks, self.number, next, states))?;
            show(Event::Saved);
            cancel.during(format!("interrupted after batch {next} of {of}: everything is saved; the same command resumes"));
            cancel.check()?;
        }
        Ok((workers.into_states()?, leaving))
    }

    /// Empty states, with the thresholds that the pilot finds, and the states of the first batches where they are the pilot's.
    fn empty_states<D: Accumulate>(
        &self,
        journey: &mut Journey<'_>,
        shared: &Shared<'_>,
        transformer: &Transformer<D>,
    ) -> Result<(States, Option<Ahead>)> {
        let bound = shared.bound;
        let points = &bound.points[self.segment.points.clone()];
        let rows = shared.pilot.rows();
        let entering = self.entering(journey.work, "pilot", &rows, bound)?;
        let leaving = self.leaving(journey.work, "pilot", &rows, bound)?;
        let passage = self.passage(entering.as_ref(), leaving.as_ref());
        journey.cancel.during("interrupted before the first batch: the text is kept; the same command goes on from there");
        let done = AtomicU64::new(0);
        let timings = journey.work.timings();
        let (cancel, show) = (journey.cancel, &mut *journey.show);
        let widths: Vec<usize> = points.iter().map(|at| bound.model.spec.width_at(*at)).collect();
        let leaves_known = leaving.is_none() || points.last() == Some(&self.segment.leg.to);
        let keeps = leaves_known && shared.estimate.keeps_pilot;
        let (batches, row_bytes) = (shared.batches, widths.iter().sum::<usize>() * size_of::<f32>());
        let batch = |at: usize| (at < batches.len()).then(|| Ok(Items::new(shared.spool.batch(batches, at)?))).transpose();
        let known = if keeps { shared_batches(shared.pilot.batches(), row_bytes, batch)? } else { Vec::new() };
        let keep = known.last().map_or(0, |rows| rows.end as u64);
        let run = || timings.time(Phase::Pilot, || shared.pilot.run(transformer, passage, points, &bound.plan, keep, (cancel, &done)));
        let (pilot, parts) = meanwhile(run, || show(Event::Pilot { tokens: done.load(Ordering::Relaxed), of: shared.pilot.tokens() }))?;
        leaving.as_ref().map_or(Ok(()), Stretch::sync)?;
        if self.of == 1 {
            let massive = pilot.iter().filter(|point| point.has_massive).count();
            (journey.show)(Event::Estimate(shared.estimate.clone().with_massive(massive).line(shared.route, shared.spool)));
        }
        let state = |((&at, shape), pilot): ((&Point, &PointShape), super::pilot::PilotPoint)| {
            let mut state = PointState::new(shape, pilot.threshold);
            shared.chosen.iter().filter(|group| (**group as usize) < shape.groups).for_each(|&group| state.moments.choose(group));
            (at, state)
        };
        let ahead = (!known.is_empty()).then(|| Ahead::new(&known, &parts, &widths));
        drop(parts);
        system::release_freed();
        Ok((points.iter().zip(&shared.shapes[self.segment.points.clone()]).zip(pilot).map(state).collect(), ahead))
    }

    /// What the leg before left, if there is one.
    fn entering(&self, work: &Work, name: &str, rows: &StretchRows, bound: &BoundPlan) -> Result<Option<Stretch>> {
        let before = (self.number > 0).then(|| self.stage - 1);
        before.map(|stage| stream(work, name, stage, rows, bound)).transpose()
    }

    /// Where the next leg will find what this one leaves, if there is one.
    fn leaving(&self, work: &Work, name: &str, rows: &StretchRows, bound: &BoundPlan) -> Result<Option<Stretch>> {
        let own = (self.number + 1 < self.of).then_some(self.stage);
        own.map(|stage| stream(work, name, stage, rows, bound)).transpose()
    }

    fn passage<'p>(&self, entering: Option<&'p Stretch>, leaving: Option<&'p Stretch>) -> Passage<'p> {
        Passage { entering, leaving: leaving.map(|stretch| (self.segment.leg.to, stretch)), ahead: None }
    }

    fn work_settings<'w>(&self, shared: &Shared<'w>, passage: Passage<'w>, next: usize, threads: usize) -> WorkSettings<'w> {
        let bound = shared.bound;
        let paired = bound.plan.sketches.contains(SketchKind::Pairs);
        let before = self.segment.points.start.checked_sub(1).filter(|_| paired).map(|at| (bound.points[at], self.massive[at]));
        WorkSettings {
            kept: shared.kept,
            sketches: bound.plan.sketches,
            before,
            on_error: bound.corpus.on_error,
            threads,
            rows: shared.batches.largest_from(next),
            passage,
        }
    }

    /// What so many of all documents or tokens at this leg are of the whole way.
    fn share(&self, done: u64, all: u64) -> u64 {
        (self.number as u64 * all + done) / self.of as u64
    }
}

/// The states that a leg leaves: in one of a few files, by turns.
fn stream(work: &Work, name: &str, stage: usize, rows: &StretchRows, bound: &BoundPlan) -> Result<Stretch> {
    Stretch::create(&work.path(&format!("{name}-{}", stage % STREAMS)), rows.clone(), bound.model.spec.width, stage as u64)
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
