//! Hidden states into sketches: workers run batches through the model, and batch `b` enters a point only after batch `b - 1` did.
//!
//! So the sketches are bit-identical for any number of threads. A worker whose batch comes to a point before its turn leaves there what
//! it brings and goes on; it waits only where too much was left already. So a slow core does not slow the others down.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use layerscope_compute::States;
use layerscope_compute::parallel::in_order;
use layerscope_corpus::OnError;
use layerscope_model::{Batch, Observer, Point, Transformer, Workspace};
use layerscope_stats::sketch::{SketchKind, SketchSet};
use layerscope_stats::{Accumulate, PointState, Wanted};

use super::items::Items;
use super::kept::Kept;
use super::passage::Passage;
use super::turnstile::Turnstile;
use crate::error::{Error, Result};
use crate::process::system;

/// Points that are taken off a device at the same time.
const FETCHED: usize = 8;

/// How often whoever waits for the workers looks up.
pub const TICK: Duration = Duration::from_millis(50);

/// The states of some points on a device, and the workers that fill them.
pub struct Workers<'a, D: Accumulate> {
    transformer: &'a Transformer<D>,
    points: Vec<(Point, PointTurnstile<D>)>,
    settings: WorkSettings<'a>,
    progress: Progress,
    /// Memory of workers that are done: runs follow each other, with a checkpoint between them.
    spaces: Mutex<Vec<D::Space>>,
}

/// A point's state on a device.
type PointTurnstile<D> = Turnstile<<D as Accumulate>::Resident, Early<D>>;

/// What a batch left at a point before its turn.
struct Early<D: Accumulate> {
    brought: D::Waiting,
    info: Arc<D::Info>,
}

/// What the workers collect, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct WorkSettings<'a> {
    /// The states that are kept.
    pub kept: &'a Kept,
    /// Sketches beside the moments.
    pub sketches: SketchSet,
    /// The point before the first one, whose states are only paired with it, and the norm beyond which they are massive.
    pub before: Option<(Point, Option<f64>)>,
    /// What to do with states that are not finite.
    pub on_error: OnError,
    /// Threads.
    pub threads: usize,
    /// Rows of the largest batch: buffers are made once.
    pub rows: usize,
    /// Where states come from and go to.
    pub passage: Passage<'a>,
}

/// What the workers have finished, readable at any moment.
#[derive(Debug, Default)]
pub struct Progress {
    documents: AtomicU64,
    tokens: AtomicU64,
    /// Nanoseconds of all workers: whole batches, and their states into sketches.
    working: AtomicU64,
    sketching: AtomicU64,
}

impl Progress {
    /// Documents whose first sequence went through the model.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Tokens that went through the model.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Time that all workers together spent on batches, and on their states alone, since it was last asked.
    pub fn take_times(&self) -> (Duration, Duration) {
        let take = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.swap(0, Ordering::Relaxed));
        (take(&self.working), take(&self.sketching))
    }
}

impl<'a, D: Accumulate> Workers<'a, D> {
    /// For the given states of points in the model's order, with `first` the batch that comes next (0 for a new run).
    pub fn new(
        transformer: &'a Transformer<D>,
        states: Vec<(Point, PointState)>,
        first: usize,
        settings: WorkSettings<'a>,
    ) -> Result<Workers<'a, D>> {
        let turnstile = |(at, state): (Point, PointState)| {
            let massive = state.moments.massive_threshold();
            Ok((at, Turnstile::new(transformer.backend().load(state)?, massive, first)))
        };
        let points = states.into_iter().map(turnstile).collect::<Result<_>>()?;
        Ok(Workers { transformer, points, settings, progress: Progress::default(), spaces: Mutex::default() })
    }

    /// Runs batches from `first` on until there is none left, `time` is over or `pause` says so; returns the batch that comes next, before
    /// which every point has all batches and none has more.
    ///
    /// `batches(i)` gives batch `i`, or none at the end. However short the time is, every worker does a batch. `pause` is asked a few
    /// times a second on the calling thread. After an error the states hold what was committed before it, which may differ from point to
    /// point.
    pub fn run(
        &self,
        first: usize,
        batches: &(dyn Fn(usize) -> Result<Option<Items>> + Sync),
        time: Duration,
        pause: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<usize> {
        let shift = Shift {
            workers: self,
            batches,
            next: AtomicUsize::new(first),
            begun: Instant::now(),
            time,
            stopped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            room: AtomicUsize::new(left_early(self.settings.threads)),
            failure: Mutex::new(None),
        };
        std::thread::scope(|scope| {
            let (alive, ended) = channel::<()>();
            for _ in 0..self.settings.threads.max(1) {
                let alarm = Alarm { _alive: alive.clone(), shift: &shift };
                scope.spawn(move || {
                    alarm.shift.work();
                    drop(alarm);
                });
            }
            drop(alive);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
                if !shift.paused.load(Ordering::Relaxed) && pause(&self.progress) {
                    shift.paused.store(true, Ordering::Relaxed);
                }
            }
        });
        let failure = shift.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(shift.next.into_inner()), Err)
    }

    /// Looks at the states between two runs.
    pub fn with_states<T>(&self, look: impl FnOnce(&[(Point, &PointState)]) -> Result<T>) -> Result<T> {
        let guards: Vec<_> = self.points.iter().map(|(at, turnstile)| (*at, turnstile.lock())).collect();
        let device = self.transformer.backend();
        let fetched = guards.iter().map(|(at, guard)| Ok((*at, device.fetch(guard.state())?))).collect::<Result<Vec<_>>>()?;
        look(&fetched.iter().map(|(at, state)| (*at, &**state)).collect::<Vec<_>>())
    }

    /// What was done so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The states at the end.
    pub fn into_states(self) -> Result<Vec<(Point, PointState)>> {
        let device = self.transformer.backend();
        let residents: Vec<_> = self.points.into_iter().map(|(at, turnstile)| Mutex::new(Some((at, turnstile.into_state())))).collect();
        let take = |place: usize| lock(&residents[place]).take().map(|(at, resident)| Ok((at, device.take(resident)?)));
        in_order(FETCHED, residents.len(), take).into_iter().flatten().collect()
    }

    fn wanted(&self, sketches: SketchSet, massive: Option<f64>) -> Wanted {
        Wanted { sketches, massive, skip_bad: self.settings.on_error == OnError::Skip }
    }
}

/// How many contributions may be left at points before their turn. A worker alone is never early; among sixteen, of which one took twice
/// as long as another, three each left nobody waiting.
pub fn left_early(threads: usize) -> usize {
    if threads > 1 { 3 * threads } else { 0 }
}

/// One run of the workers.
struct Shift<'a, D: Accumulate> {
    workers: &'a Workers<'a, D>,
    batches: &'a (dyn Fn(usize) -> Result<Option<Items>> + Sync),
    next: AtomicUsize,
    begun: Instant,
    /// After this time no worker begins another batch.
    time: Duration,
    stopped: AtomicBool,
    paused: AtomicBool,
    /// How much more may be left at points before its turn.
    room: AtomicUsize,
    failure: Mutex<Option<Error>>,
}

impl<D: Accumulate> Shift<'_, D> {
    /// A worker's work: batch after batch.
    fn work(&self) {
        let outcome = self.work_until_stopped();
        if let Err(error) = outcome {
            // The first to fail names the cause; those it woke up only report that they were stopped.
            if !self.stopped.swap(true, Ordering::Relaxed) {
                *lock(&self.failure) = Some(error);
            }
            self.wake_all();
        }
    }

    fn work_until_stopped(&self) -> Result<()> {
        let Workers { transformer, settings, spaces, .. } = self.workers;
        let mut buffers = transformer.workspace(settings.rows)?;
        let known = lock(spaces).pop();
        let mut space = known.map_or_else(|| transformer.backend().space(), Ok)?;
        while !self.stopped.load(Ordering::Relaxed) && !self.paused.load(Ordering::Relaxed) {
            if !self.one_batch(&mut buffers, &mut space)? || self.begun.elapsed() >= self.time {
                break;
            }
        }
        lock(spaces).push(space);
        Ok(())
    }

    /// Runs the next batch; false if there is none.
    fn one_batch(&self, buffers: &mut Workspace<D>, space: &mut D::Space) -> Result<bool> {
        let Workers { transformer, settings, progress, .. } = self.workers;
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(items) = (self.batches)(index)? else {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return Ok(false);
        };
        let start = Instant::now();
        let device = transformer.backend();
        let info = items.info().with_slots(settings.kept.slots(&items));
        let info = if settings.sketches.contains(SketchKind::Blocks) { info.with_documents(items.document_numbers()) } else { info };
        let info = Arc::new(device.info(buffers.stream(), info)?);
        device.start_batch(space);
        let entering = settings.passage.entering(index)?;
        let mut observer =
            BatchObserver { shift: self, index, items: &items, info: &info, space, prepared: Vec::new(), time: Duration::ZERO };
        match settings.passage.known(index) {
            Some(known) => {
                let before = settings.before.zip(entering.as_deref()).map(|((at, _), states)| (at, states));
                let points = self.workers.points.iter().zip(&known).map(|((at, _), states)| (*at, states.as_slice()));
                before.into_iter().chain(points).try_for_each(|states| transformer.show(states, &items.batch, buffers, &mut observer))?;
                // The states take their place now.
                drop(known);
                system::release_freed();
            }
            None => transformer.forward_from(entering.as_deref(), &items.batch, buffers, &mut observer)?,
        }
        let (sketching, prepared) = (observer.time, observer.prepared);
        if let Some(late) = device.finish_batch(buffers.stream(), space)? {
            return Err(located(layerscope_stats::Error::NotFinite { row: late.row }, &items, prepared[late.point]));
        }
        progress.sketching.fetch_add(sketching.as_nanos() as u64, Ordering::Relaxed);
        progress.working.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        progress.documents.fetch_add(items.documents() as u64, Ordering::Relaxed);
        progress.tokens.fetch_add(items.batch.tokens() as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Whether something may be left at a point before its turn; if so, it takes the place.
    fn take_room(&self) -> bool {
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(1)).is_ok()
    }

    fn give_room(&self) {
        self.room.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets in what a batch left at a point.
    fn let_in(&self, stream: &mut D::Stream, resident: &mut D::Resident, left: Early<D>) -> Result<()> {
        self.workers.transformer.backend().commit_waiting(stream, left.brought, &left.info, resident)?;
        self.give_room();
        Ok(())
    }

    fn wake_all(&self) {
        self.workers.points.iter().for_each(|(_, turnstile)| turnstile.wake());
    }
}

/// Ends with its worker; should that panic, the others must not wait for its batch for ever.
struct Alarm<'a, D: Accumulate> {
    _alive: Sender<()>,
    shift: &'a Shift<'a, D>,
}

impl<D: Accumulate> Drop for Alarm<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shift.stopped.store(true, Ordering::Relaxed);
            self.shift.wake_all();
        }
    }
}

/// Carries one batch's states to the points.
struct BatchObserver<'a, D: Accumulate> {
    shift: &'a Shift<'a, D>,
    index: usize,
    items: &'a Items,
    info: &'a Arc<D::Info>,
    space: &'a mut D::Space,
    /// The points that were prepared so far.
    prepared: Vec<Point>,
    /// How long all of it took, waiting for turns included.
    time: Duration,
}

impl<D: Accumulate> Observer<D> for BatchObserver<'_, D> {
    type Error = Error;

    fn observe(&mut self, _: &Batch, at: Point, states: &mut States<D>) -> Result<()> {
        let start = Instant::now();
        let outcome = self.carry(at, states);
        self.time += start.elapsed();
        outcome
    }
}

impl<D: Accumulate> BatchObserver<'_, D> {
    fn carry(&mut self, at: Point, states: &mut States<D>) -> Result<()> {
        let workers = self.shift.workers;
        workers.settings.passage.leave(self.index, at, states)?;
        let known = workers.points.iter().find(|(point, _)| *point == at).map(|(_, turnstile)| turnstile);
        let wanted = match (known, workers.settings.before) {
            (Some(turnstile), _) => workers.wanted(workers.settings.sketches, turnstile.massive()),
            (None, Some((before, massive))) if before == at => workers.wanted(SketchSet::of(&[SketchKind::Pairs]), massive),
            (None, _) => return Ok(()),
        };
        let device = states.backend;
        // As much as possible is done before the turn: the less others wait.
        let items = self.items;
        self.prepared.push(at);
        let prepared = device.prepare(states, self.info, &wanted, self.space).map_err(|error| located(error, items, at))?;
        let Some(turnstile) = known else { return Ok(()) };
        let stream = &mut *states.stream;
        let (index, shift) = (self.index, self.shift);
        let prepared = match turnstile.is_turn_of(index) || !shift.take_room() {
            true => prepared,
            false => match device.set_aside(prepared) {
                Ok(brought) => {
                    let early = Early { brought, info: Arc::clone(self.info) };
                    return turnstile.leave(index, early, |resident, left| shift.let_in(stream, resident, left));
                }
                Err(prepared) => {
                    shift.give_room();
                    prepared
                }
            },
        };
        turnstile.pass(index, &shift.stopped, |resident, left| match left {
            None => Ok(device.commit(stream, &prepared, resident)?),
            Some(left) => shift.let_in(stream, resident, left),
        })
    }
}

/// Says of which document a state is that is not finite.
fn located(error: layerscope_stats::Error, items: &Items, at: Point) -> Error {
    let layerscope_stats::Error::NotFinite { row } = error else { return error.into() };
    match items.id(row as usize) {
        Some(item) => Error::NotFinite { at, document: item.document, position: item.position },
        None => error.into(),
    }
}

/// A panic elsewhere is reported where it happened; the data behind a lock is consistent between updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
