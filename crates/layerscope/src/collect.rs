//! Hidden states into sketches: workers run batches through the model, and batch `b` enters a point only after batch `b - 1` did.
//!
//! So the sketches are bit-identical for any number of threads. A worker waits at a point only while an earlier batch has not
//! passed it; since batches start in order, threads stagger by themselves and rarely wait.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use layerscope_compute::{Cpu, States};
use layerscope_corpus::OnError;
use layerscope_model::{Batch, Observer, Point, Transformer};
use layerscope_stats::BatchRows;
use layerscope_stats::sketch::{LensSpace, SketchSet};

use crate::error::{Error, Result};
use crate::items::Items;
use crate::kept::Kept;
use crate::point_state::{PointState, not_finite, without};

/// How often whoever waits for the workers looks up.
const TICK: Duration = Duration::from_millis(50);

/// The sketches of some points, and how far each has come.
pub struct Collector<'a> {
    points: Vec<(Point, Turnstile)>,
    settings: CollectSettings<'a>,
    progress: Progress,
    /// Memory of workers that are done: runs follow each other, with a checkpoint between them.
    spaces: Mutex<Vec<LensSpace>>,
}

/// What is collected beside the moments, and what happens to bad states.
#[derive(Clone, Copy, Debug)]
pub struct CollectSettings<'a> {
    /// The states that are kept.
    pub kept: &'a Kept,
    /// Sketches beside the moments.
    pub sketches: SketchSet,
    /// The point before the first one, whose states are only paired with it.
    pub before: Option<Point>,
    /// What to do with states that are not finite.
    pub on_error: OnError,
}

/// How many run, and what each is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// Threads.
    pub threads: usize,
    /// Rows of the largest batch: buffers are made once.
    pub rows: usize,
}

/// What the workers have finished, readable at any moment.
#[derive(Debug, Default)]
pub struct Progress {
    documents: AtomicU64,
    tokens: AtomicU64,
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
}

impl<'a> Collector<'a> {
    /// States for the given points, in the model's order, with `first` the batch that comes next (0 for a new run).
    pub fn new(states: Vec<(Point, PointState)>, first: usize, settings: CollectSettings<'a>) -> Collector<'a> {
        let points = states.into_iter().map(|(at, state)| (at, Turnstile::new(state, first))).collect();
        Collector { points, settings, progress: Progress::default(), spaces: Mutex::default() }
    }

    /// What was done since this collector was made.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Runs batches from `first` on until there is none left or `pause` says so; returns the batch that comes next, before which
    /// every point has all batches and none has more.
    ///
    /// `batches(i)` gives batch `i`, or none at the end. `pause` is asked a few times a second on the calling thread. After an error
    /// the states hold what was committed before it, which may differ from point to point.
    pub fn run(
        &self,
        transformer: &Transformer<Cpu>,
        first: usize,
        workers: Workers,
        batches: &(dyn Fn(usize) -> Result<Option<Items>> + Sync),
        pause: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<usize> {
        let Some(&(last, _)) = self.points.last() else { return Ok(first) };
        let next = AtomicUsize::new(first);
        let (stopped, paused) = (AtomicBool::new(false), AtomicBool::new(false));
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let work = || {
            let mut space = transformer.workspace(workers.rows);
            let lens_space = Mutex::new(lock(&self.spaces).pop().unwrap_or_default());
            let mut one = || -> Result<bool> {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(items) = batches(index)? else {
                    next.fetch_sub(1, Ordering::Relaxed);
                    return Ok(false);
                };
                let slots = self.settings.kept.slots(&items);
                let documents = self.settings.sketches.blocks.then(|| items.document_numbers());
                lock(&lens_space).start_batch();
                let observer = BatchObserver {
                    collector: self,
                    index,
                    items: &items,
                    slots: &slots,
                    documents: documents.as_deref(),
                    space: &lens_space,
                    stopped: &stopped,
                };
                transformer.forward_to(last, &items.batch, &mut space, &observer)?;
                self.progress.documents.fetch_add(items.documents() as u64, Ordering::Relaxed);
                self.progress.tokens.fetch_add(items.batch.tokens() as u64, Ordering::Relaxed);
                Ok(true)
            };
            while !stopped.load(Ordering::Relaxed) && !paused.load(Ordering::Relaxed) {
                match one() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        // The first to fail names the cause; those it woke up only report that they were stopped.
                        if !stopped.swap(true, Ordering::Relaxed) {
                            *lock(&failure) = Some(error);
                        }
                        self.points.iter().for_each(|(_, turnstile)| turnstile.wake());
                    }
                }
            }
            lock(&self.spaces).push(lens_space.into_inner().unwrap_or_else(PoisonError::into_inner));
        };
        std::thread::scope(|scope| {
            let (alive, ended) = channel::<()>();
            for _ in 0..workers.threads.max(1) {
                let alarm = Alarm { _alive: alive.clone(), collector: self, stopped: &stopped };
                let work = &work;
                scope.spawn(move || {
                    let _alarm = alarm;
                    work();
                });
            }
            drop(alive);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
                if !paused.load(Ordering::Relaxed) && pause(&self.progress) {
                    paused.store(true, Ordering::Relaxed);
                }
            }
        });
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(next.into_inner()), Err)
    }

    /// Looks at the states between two runs.
    pub fn with_states<T>(&self, look: impl FnOnce(&[(Point, &PointState)]) -> T) -> T {
        let guards: Vec<_> = self.points.iter().map(|(at, turnstile)| (*at, lock(&turnstile.state))).collect();
        let states: Vec<_> = guards.iter().map(|(at, guard)| (*at, &guard.1)).collect();
        look(&states)
    }

    /// The states.
    pub fn finish(self) -> Vec<(Point, PointState)> {
        self.points.into_iter().map(|(at, turnstile)| (at, turnstile.finish())).collect()
    }
}

/// Ends with its worker; should that panic, the others must not wait for its batch for ever.
struct Alarm<'a> {
    _alive: Sender<()>,
    collector: &'a Collector<'a>,
    stopped: &'a AtomicBool,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stopped.store(true, Ordering::Relaxed);
            self.collector.points.iter().for_each(|(_, turnstile)| turnstile.wake());
        }
    }
}

/// Carries one batch's states to the sketches.
struct BatchObserver<'a> {
    collector: &'a Collector<'a>,
    index: usize,
    items: &'a Items,
    slots: &'a [(u32, u32)],
    documents: Option<&'a [u64]>,
    /// The worker's own; observers must be shareable, though nobody shares this one.
    space: &'a Mutex<LensSpace>,
    stopped: &'a AtomicBool,
}

impl BatchObserver<'_> {
    /// Prepares a batch at a point, then waits for its turn and enters it.
    fn enter(&self, turnstile: &Turnstile, rows: &BatchRows<'_>, excluded: u64) -> Result<()> {
        let mut space = lock(self.space);
        if excluded > 0 {
            // The point before has other rows: this batch is no pair.
            space.start_batch();
        }
        space.prepare(self.collector.settings.sketches, turnstile.massive, rows)?;
        turnstile.pass(self.index, self.stopped, |state| {
            state.excluded += excluded;
            state.update(rows, &space, self.slots, self.documents)
        })
    }
}

impl Observer<Cpu> for BatchObserver<'_> {
    type Error = Error;

    fn observe(&self, _: &Batch, at: Point, states: &States<Cpu>) -> Result<()> {
        let settings = &self.collector.settings;
        let known = self.collector.points.iter().find(|(point, _)| *point == at).map(|(_, turnstile)| turnstile);
        if known.is_none() && settings.before != Some(at) {
            return Ok(());
        }
        let (items, dim) = (self.items, states.width);
        let states = items.states(states.as_slice(), dim);
        // Norms and products are taken before the turn: the more is done here, the less others wait.
        let rows = BatchRows::new(&states, dim, &items.segments, &items.offsets)?;
        let bad = not_finite(&rows);
        if !bad.is_empty() && settings.on_error == OnError::Fail {
            let item = items.id(bad[0] as usize);
            return Err(Error::NotFinite { at, document: item.document, position: item.position });
        }
        match known {
            Some(turnstile) if bad.is_empty() => self.enter(turnstile, &rows, 0),
            Some(turnstile) => {
                let segments = without(items, &bad);
                self.enter(turnstile, &BatchRows::new(&states, dim, &segments, &items.offsets)?, bad.len() as u64)
            }
            None if bad.is_empty() => Ok(lock(self.space).prepare(SketchSet { pairs: true, ..SketchSet::default() }, None, &rows)?),
            None => Ok(()),
        }
    }
}

/// A state that lets batches in by their number.
struct Turnstile {
    massive: Option<f64>,
    state: Mutex<(usize, PointState)>,
    moved: Condvar,
}

impl Turnstile {
    fn new(state: PointState, first: usize) -> Turnstile {
        Turnstile { massive: state.moments.massive_threshold(), state: Mutex::new((first, state)), moved: Condvar::new() }
    }

    /// Waits for the turn of batch `index`, lets it in, and calls the next.
    fn pass(&self, index: usize, stopped: &AtomicBool, enter: impl FnOnce(&mut PointState) -> Result<()>) -> Result<()> {
        let mut state = lock(&self.state);
        while state.0 != index {
            if stopped.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        enter(&mut state.1)?;
        state.0 += 1;
        drop(state);
        self.moved.notify_all();
        Ok(())
    }

    /// Wakes whoever waits, to see that the run was stopped.
    fn wake(&self) {
        // Taking the lock makes sure that nobody is between looking at the flag and falling asleep.
        drop(lock(&self.state));
        self.moved.notify_all();
    }

    fn finish(self) -> PointState {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A panic elsewhere is reported where it happened; the data behind a lock is consistent between updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
