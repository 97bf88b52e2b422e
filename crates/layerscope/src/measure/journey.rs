//! From text to the states of a run: the text is read while the model is, the way is chosen, and the model runs leg by leg.

use std::ops::Range;
use std::thread::{Scope, ScopedJoinHandle};

use layerscope_corpus::{BatchPlan, BatchSize, Spool};
use layerscope_model::{Leg, Transformer, leg_memory};
use layerscope_stats::{Accumulate, PointShape};

use super::choose::Chosen;
use super::device::OnDevice;
use super::estimate::{Estimate, Sizes, fit_disk};
use super::event::{Event, Show};
use super::items::Items;
use super::kept::{KeepSettings, Kept};
use super::leg::{LegRun, Shared, States};
use super::outlook::Outlook;
use super::pilot::Pilot;
use super::plan::BoundPlan;
use super::route::{Order, Route, Way};
use super::run::{open_spool, resources};
use super::text::little_left;
use super::timings::Phase;
use super::waiting::{Loading, hashed};
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::process::system;
use crate::process::threads::{joined, meanwhile};
use crate::store::facts::Facts;
use crate::store::folder::Folder;
use crate::store::fresh::FreshRun;
use crate::store::stamp::InputStamp;
use crate::store::state::Fingerprint;
use crate::store::work::{SavedPlan, Work, massive_of};
use crate::store::write::{Ended, LegStates, being_written};
use crate::text::bytes;

/// Batches are not made smaller than this: what fails with so few rows fails for another reason.
const SMALLEST_BATCH: usize = 128;

/// Text and model into states.
pub struct Journey<'a> {
    /// What is measured.
    pub bound: &'a BoundPlan,
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
    /// Tokens that this process took through legs that are done.
    pub passed: u64,
    /// Rows of the batches of a run that is not planned yet.
    pub sizes: Vec<BatchSize>,
}

impl OnDevice for Journey<'_> {
    type Output = Result<Ended>;

    fn run<D: Accumulate>(mut self, device: D) -> Result<Ended> {
        let way = Way::new(self.bound);
        (self.show)(Event::Ahead(Outlook::of(self.bound, device.workers(self.bound.plan.threads))));
        if device.free_memory().is_some() {
            (self.show)(Event::note(format!("computing on {}", device.describe())));
        }
        std::thread::scope(|scope| {
            let mut loading = self.read_model_early(scope, &device, &way);
            let spool = open_spool(self.bound, self.work, self.cancel, self.show)?;
            if let Some(line) = little_left(&self.bound.plan.choices, spool.counters()) {
                self.warnings.push(line.flags());
                (self.show)(Event::Warning(line));
            }
            loop {
                match self.measure(scope, device.clone(), &way, &spool, loading.take()) {
                    Err(error) if error.is_out_of_memory() => self.shrink_batches(&spool, error)?,
                    outcome => return outcome,
                }
            }
        })
    }
}

impl<'a> Journey<'a> {
    /// The most memory to use: the user's limit, or what the machine has left.
    fn limit(&self) -> Option<u64> {
        self.bound.plan.max_memory.or_else(|| Some(system::available()? + system::resident()?))
    }

    /// Begins to read the whole model while the text is read, where it surely fits.
    fn read_model_early<'scope, D: Accumulate>(&self, scope: &'scope Scope<'scope, '_>, device: &D, way: &Way) -> Option<Loading<'scope, D>>
    where
        'a: 'scope,
    {
        let (model, plan) = (&self.bound.model, &self.bound.plan);
        let whole = Leg::up_to(way.segments.last()?.leg.to);
        let weights = leg_memory(device, &model.spec, &model.plan, whole);
        let fits = |weights: usize, limit: Option<u64>| limit.is_none_or(|limit| 2 * (weights as u64) < limit);
        let fits = plan.order != Order::Block && fits(weights.host, self.limit()) && fits(weights.device, device.free_memory());
        fits.then(|| Loading::begin(scope, self.bound, device, whole))
    }

    fn measure<'scope, D: Accumulate>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        device: D,
        way: &Way,
        spool: &Spool,
        loading: Option<Loading<'scope, D>>,
    ) -> Result<Ended>
    where
        'a: 'scope,
    {
        let bound = self.bound;
        let plan = &bound.plan;
        let sizes = self.work.saved_plan()?.map_or_else(|| self.sizes.clone(), |saved| saved.sizes);
        let batches = spool.plan_sizes(&sizes)?;
        self.work.count(&batches);
        let chosen = Chosen::new(bound, spool)?;
        let keep = KeepSettings {
            seed: bound.corpus.filters.seed,
            sample: plan.sample_states,
            chosen: chosen.groups,
            per_group: plan.token_states,
        };
        let kept = Kept::choose(&keep, plan.threads, batches.len(), |index| Ok(Items::new(spool.batch(&batches, index)?)))?;
        let shapes = shapes(bound, spool, &kept, keep.chosen.len());
        let timings = self.work.timings();
        let mut loaded = timings.time(Phase::Load, || loading.map(|loading| loading.end(self.cancel, self.show)).transpose())?;
        let single_groups = spool.groups().iter().filter(|group| group.count == 1).count();
        let (pilot, isa) = (Pilot::new(spool, device.workers(plan.threads))?, device.describe());
        let estimate = self.estimate(&device, way, &batches, (&kept, single_groups, &pilot), &shapes, loaded.as_ref());
        timings.time(Phase::Load, || hashed(bound, self.cancel, self.show))?;
        let fingerprint: Fingerprint = with_corpus(bound.fingerprint()?, spool);
        let resumable: Fingerprint = fingerprint.clone().into_iter().chain(bound.order()).collect();
        let route = self.route(&estimate, way, &batches, spool, &resumable)?;
        if route.legs.len() > 1 {
            loaded = None;
            system::release_freed();
        }
        let estimate = estimate.with_room(&route.legs, plan.max_memory.or_else(system::at_hand));
        let shared = Shared {
            route: &route,
            estimate: &estimate,
            bound,
            spool,
            batches: &batches,
            kept: &kept,
            chosen: &keep.chosen,
            shapes: &shapes,
            pilot: &pilot,
            resumable: &resumable,
        };
        // From now on there is something to lose, until the states are on the disk.
        let saving = self.cancel.saving();
        let (massive, states) = self.legs(scope, device, way, &shared, loaded)?;
        let facts = Facts::new(bound, isa, &massive, spool, chosen.names, self.work.spent())?;
        let legs = match states {
            Some(states) => LegStates::InMemory(states),
            None => LegStates::OnDisk((0..route.legs.len()).map(|leg| self.work.open_leg(leg)).collect::<Result<_>>()?),
        };
        let fresh = FreshRun::new(facts, fingerprint, kept, legs, estimate.total(&route.legs));
        let bytes: Vec<usize> = shapes.iter().map(PointShape::bytes).collect();
        system::release_freed();
        if fresh.fits(&resources(plan, self.cancel), &bytes) {
            return Ok(Ended::Fresh(Box::new(fresh), saving));
        }
        let (store, show) = (self.store, &mut *self.show);
        let write = || timings.time(Phase::Write, || fresh.write(store, plan.threads));
        let written = meanwhile(write, || show(Event::Writing { bytes: being_written(store) }))?;
        Ok(Ended::Written(written.held(saving)))
    }

    /// Halves the batches from the last checkpoint on, for a device that had no memory for them; with several legs, from the start. Where
    /// they cannot be smaller, it is left at that.
    fn shrink_batches(&mut self, spool: &Spool, error: Error) -> Result<()> {
        let Some(saved) = self.work.saved_plan()? else { return Err(error) };
        let legs = saved.route.legs.len();
        let next = if legs == 1 { self.work.reached() } else { 0 };
        let before = spool.plan_sizes(&saved.sizes)?;
        let (from, largest) = (before.first_sequence(next), before.largest_from(next));
        let mut sizes = saved.sizes.clone();
        sizes.retain(|size| size.from < from);
        sizes.push(BatchSize { from, tokens: largest / 2 });
        let after = spool.plan_sizes(&sizes)?;
        let smaller = after.largest_from(next);
        if smaller >= largest || smaller < SMALLEST_BATCH {
            return Err(error);
        }
        let line = format!("{error}; going on with batches of {smaller} tokens instead of {largest}");
        warn(line, self.warnings, self.show);
        match legs {
            1 => {
                let route = Route { stretches: vec![after.len()], ..saved.route };
                self.work.save_plan(&SavedPlan { sizes, route, ..saved })
            }
            _ => {
                (self.sizes, self.passed) = (sizes, 0);
                self.work.forget_progress(legs)
            }
        }
    }

    /// Memory from what is resident now, less a model that was loaded early.
    fn estimate<D: Accumulate>(
        &self,
        device: &D,
        way: &Way,
        batches: &BatchPlan,
        (kept, single_groups, pilot): (&Kept, usize, &Pilot),
        shapes: &[PointShape],
        loaded: Option<&Transformer<D>>,
    ) -> Estimate {
        system::release_freed();
        let BoundPlan { model, plan, .. } = self.bound;
        let early = loaded.map_or(0, |loaded| leg_memory(device, &model.spec, &model.plan, loaded.leg()).host as u64);
        let dim = shapes.iter().map(|shape| shape.dim).max().unwrap_or(0);
        let state = PointShape { dim, previous: (shapes.len() > 1).then_some(dim), ..shapes[0] };
        let (sample, threads) = (kept.classes[0].len(), device.workers(plan.threads));
        let (tokens, largest_batch) = (kept.len() - sample, batches.largest_from(self.work.reached()));
        let (pilot, has_clusters) = (pilot.tokens() as usize, !plan.clusters.is_empty());
        let sizes = Sizes { state, sample, tokens, single_groups, points: shapes.len(), largest_batch, threads, pilot, has_clusters };
        Estimate::new(device, model, way, &sizes, system::resident().unwrap_or(0).saturating_sub(early))
    }

    /// The way of an earlier start, or a new one, saved.
    fn route(&mut self, estimate: &Estimate, way: &Way, batches: &BatchPlan, spool: &Spool, resumable: &Fingerprint) -> Result<Route> {
        let BoundPlan { plan, model, .. } = self.bound;
        if let Some(saved) = self.work.saved_plan()? {
            estimate.expect_room(&saved.route.legs, plan)?;
            return Ok(saved.route);
        }
        let legs = match (estimate.legs(way, plan.order, self.limit()), plan.max_memory) {
            (Err(_), None) => {
                let finest = way.even_legs(way.segments.len());
                let needed = bytes(estimate.total(&finest) as usize);
                let line = format!("the estimate of {needed} exceeds the memory that is free; the system may stop the run");
                (self.show)(Event::warning(line.clone()));
                self.warnings.push(line);
                finest
            }
            (legs, _) => legs?,
        };
        let stretches = fit_disk(plan, estimate, &legs, batches, model.spec.width)?;
        let route = Route { legs, stretches };
        let inputs = spool.inputs().iter().filter_map(|input| InputStamp::of(input)).collect();
        self.work.save_plan(&SavedPlan { fingerprint: resumable.clone(), inputs, route: route.clone(), sizes: self.sizes.clone() })?;
        (self.show)(Event::Saved);
        Ok(route)
    }

    /// Runs all legs of all stretches; returns the massive threshold of every measured point, and the states where one leg is all.
    ///
    /// While a leg runs, the weights of the next one are read and the states of the last one are written.
    fn legs<'scope, D: Accumulate>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        device: D,
        way: &Way,
        shared: &Shared<'_>,
        loaded: Option<Transformer<D>>,
    ) -> Result<(Vec<Option<f64>>, Option<States>)>
    where
        'a: 'scope,
    {
        let (bound, blocks) = (self.bound, self.bound.model.spec.blocks.len());
        let legs = way.joined(&shared.route.legs);
        let stages: Vec<(Range<usize>, usize)> =
            shared.route.stretches().flat_map(|batches| (0..legs.len()).map(move |leg| (batches.clone(), leg))).collect();
        let timings = self.work.timings();
        let mut massive: Vec<Option<f64>> = Vec::new();
        let (mut ready, mut loading, mut writing) = (loaded, None::<Loading<'scope, D>>, None::<ScopedJoinHandle<'scope, Result<()>>>);
        if legs.len() > 1 {
            (self.show)(Event::Estimate(shared.estimate.line(shared.route, shared.spool)));
        }
        for (stage, (batches, number)) in stages.iter().enumerate() {
            let segment = &legs[*number];
            let finished = {
                let Journey { work, warnings, show, .. } = self;
                work.finished_leg(shared.resumable, *number, &mut |line| warn(line, warnings, *show))?
            };
            if let Some((_, file)) = finished.as_ref().filter(|(next, _)| *next >= batches.end) {
                set_massive(&mut massive, segment.points.clone(), massive_of(file));
                continue;
            }
            let transformer = match (ready.take(), loading.take()) {
                (Some(ready), _) => ready,
                (None, loading) => {
                    let loading = loading.unwrap_or_else(|| Loading::begin(scope, bound, &device, segment.leg));
                    timings.time(Phase::Load, || loading.end(self.cancel, self.show))?
                }
            };
            // A stretch ends before the next one begins: no more than two legs are in memory at any time.
            loading = legs.get(number + 1).map(|next| Loading::begin(scope, bound, &device, next.leg));
            let run = LegRun { number: *number, of: legs.len(), segment, batches: batches.clone(), stage, massive: &massive };
            let (states, leaving) = run.go(self, shared, &transformer, finished.map(|(_, file)| file))?;
            let rows = shared.batches.rows(batches.clone());
            self.passed += rows.end - rows.start;
            set_massive(&mut massive, segment.points.clone(), states.iter().map(|(_, state)| state.moments.massive_threshold()).collect());
            drop(transformer);
            if stages.len() == 1 {
                return Ok((massive, Some(states)));
            }
            if let Some(writing) = writing.take() {
                timings.time(Phase::Write, || joined(writing))?;
            }
            let writer = self.work.leg_writer(shared.resumable, blocks, *number, batches.end);
            // The states that entered this leg are needed until those that leave it are on the disk.
            let handle = scope.spawn(move || leaving.map_or(Ok(()), |stretch| stretch.sync()).and_then(|()| writer.write(&states)));
            match number + 1 < legs.len() {
                true => writing = Some(handle),
                false => timings.time(Phase::Write, || joined(handle))?,
            }
        }
        Ok((massive, None))
    }
}

/// Notes the thresholds of some points, which follow those known or are among them.
fn set_massive(massive: &mut Vec<Option<f64>>, points: Range<usize>, thresholds: Vec<Option<f64>>) {
    massive.resize(massive.len().max(points.end), None);
    points.zip(thresholds).for_each(|(at, threshold)| massive[at] = threshold);
}

/// The shape of every measured point's state.
fn shapes(bound: &BoundPlan, spool: &Spool, kept: &Kept, chosen: usize) -> Vec<PointShape> {
    let widths: Vec<usize> = bound.points.iter().map(|at| bound.model.spec.width_at(*at)).collect();
    let shape = |(at, &dim): (usize, &usize)| PointShape {
        groups: spool.groups().len(),
        dim,
        previous: at.checked_sub(1).map(|before| widths[before]),
        kept: kept.states(),
        chosen,
        sketches: bound.plan.sketches,
    };
    widths.iter().enumerate().map(shape).collect()
}

/// With the text, everything that must be equal in all shards.
fn with_corpus(mut fingerprint: Fingerprint, spool: &Spool) -> Fingerprint {
    fingerprint.insert("corpus".to_owned(), spool.fingerprint().into());
    fingerprint
}

/// Tells a warning and keeps it for the manifest.
pub fn warn(line: String, warnings: &mut Vec<String>, show: &mut Show<'_>) {
    show(Event::warning(line.clone()));
    warnings.push(line);
}
