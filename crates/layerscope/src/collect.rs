//! Hidden states into sketches: workers run batches through the model, and batch `b` enters a point only after batch `b - 1` did.
//!
//! So the sketches are bit-identical for any number of threads. A worker waits at a point only while an earlier batch has not
//! passed it; since batches start in order, threads stagger by themselves and rarely wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use layerscope_compute::{Cpu, States};
use layerscope_model::{Batch, Observer, Point, Transformer};
use layerscope_stats::sketch::PointSketch;
use layerscope_stats::{BatchRows, Segments};

use crate::error::{Error, Result};

/// One batch with the group of each of its rows ([`layerscope_stats::NOT_COUNTED`] for rows that are only read).
#[derive(Clone, Debug)]
pub struct GroupedBatch {
    /// What the model reads.
    pub batch: Batch,
    /// What each row counts as.
    pub groups: Vec<u32>,
}

/// The sketches of all points, and how far each has come.
pub struct Collector {
    points: Vec<(Point, Turnstile)>,
}

impl Collector {
    /// Sketches for the given points, with `first` the batch that comes next (0 for a new run).
    pub fn new(sketches: Vec<(Point, PointSketch)>, first: usize) -> Collector {
        Collector { points: sketches.into_iter().map(|(at, sketch)| (at, Turnstile::new(sketch, first))).collect() }
    }

    /// Runs batches `first..` of `batches` on `threads` workers. `batches(i)` gives batch `i`, or none at the end.
    ///
    /// After an error the sketches hold what was committed before it, which may differ from point to point.
    pub fn run(
        &self,
        transformer: &Transformer<Cpu>,
        first: usize,
        threads: usize,
        batches: &(dyn Fn(usize) -> Result<Option<GroupedBatch>> + Sync),
    ) -> Result<()> {
        let next = AtomicUsize::new(first);
        let stopped = AtomicBool::new(false);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let work = || {
            let mut space = transformer.workspace(0);
            let mut one = || -> Result<bool> {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(GroupedBatch { batch, groups }) = batches(index)? else { return Ok(false) };
                let segments = Segments::new(&groups);
                let observer = BatchObserver { collector: self, index, segments: &segments, stopped: &stopped };
                transformer.forward(&batch, &mut space, &observer)?;
                Ok(true)
            };
            while !stopped.load(Ordering::Relaxed) {
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
        };
        std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// The sketches.
    pub fn finish(self) -> Vec<(Point, PointSketch)> {
        self.points.into_iter().map(|(at, turnstile)| (at, turnstile.finish())).collect()
    }
}

/// Carries one batch's states to the sketches.
struct BatchObserver<'a> {
    collector: &'a Collector,
    index: usize,
    segments: &'a Segments,
    stopped: &'a AtomicBool,
}

impl Observer<Cpu> for BatchObserver<'_> {
    type Error = Error;

    fn observe(&self, batch: &Batch, at: Point, states: &States<Cpu>) -> Result<()> {
        let Some((_, turnstile)) = self.collector.points.iter().find(|(point, _)| *point == at) else { return Ok(()) };
        // Norms are taken before the turn: the more is done here, the less others wait.
        let rows = BatchRows::new(states.as_slice(), states.width, self.segments, batch.offsets())?;
        turnstile.pass(self.index, self.stopped, |sketch| Ok(sketch.update(&rows)?))
    }
}

/// A sketch that lets batches in by their number.
struct Turnstile {
    state: Mutex<(usize, PointSketch)>,
    moved: Condvar,
}

impl Turnstile {
    fn new(sketch: PointSketch, first: usize) -> Turnstile {
        Turnstile { state: Mutex::new((first, sketch)), moved: Condvar::new() }
    }

    /// Waits for the turn of batch `index`, lets it in, and calls the next.
    fn pass(&self, index: usize, stopped: &AtomicBool, enter: impl FnOnce(&mut PointSketch) -> Result<()>) -> Result<()> {
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

    fn finish(self) -> PointSketch {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A panic elsewhere is reported where it happened; the data behind a lock is consistent between updates.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
