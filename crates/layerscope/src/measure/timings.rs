//! Where the time of a run goes: seconds of each phase, added up from any thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use layerscope_report::manifest::Timings;

/// A part of a run whose time is told. Tables are told by family, when they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the text, as far as tokenizing did not hide it.
    Read,
    /// Text to tokens.
    Tokenize,
    /// Weights from disk into memory.
    Load,
    /// The first documents.
    Pilot,
    /// The model.
    Forward,
    /// States into sketches.
    Sketches,
    /// Files of the run.
    Write,
}

/// The clock of a run. Resumed runs begin with what the processes before them took.
#[derive(Debug, Default)]
pub struct Stopwatch {
    /// Nanoseconds of each phase in this process.
    phases: [AtomicU64; 7],
    before: Mutex<Timings>,
}

impl Stopwatch {
    /// Adds seconds to a phase.
    pub fn add(&self, phase: Phase, seconds: f64) {
        self.phases[phase as usize].fetch_add((1e9 * seconds).round() as u64, Ordering::Relaxed);
    }

    /// Does work that belongs to a phase.
    pub fn time<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add(phase, start.elapsed().as_secs_f64());
        result
    }

    /// Adds seconds in which workers ran batches at the same time: together they spent `whole` on them, `sketches` of it on what became
    /// of the states. The clock's seconds are shared alike.
    pub fn add_batches(&self, seconds: f64, (whole, sketches): (Duration, Duration)) {
        let share = if whole.is_zero() { 0.0 } else { sketches.as_secs_f64() / whole.as_secs_f64() };
        self.add(Phase::Sketches, seconds * share);
        self.add(Phase::Forward, seconds * (1.0 - share));
    }

    /// Begins with what earlier processes took.
    pub fn resume(&self, before: Timings) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
    }

    /// The seconds so far.
    pub fn timings(&self) -> Timings {
        let of = |phase: Phase| self.phases[phase as usize].load(Ordering::Relaxed) as f64 / 1e9;
        let mut timings = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        timings.add(&Timings {
            read: of(Phase::Read),
            tokenize: of(Phase::Tokenize),
            load: of(Phase::Load),
            pilot: of(Phase::Pilot),
            forward: of(Phase::Forward),
            sketches: of(Phase::Sketches),
            write: of(Phase::Write),
            ..Timings::default()
        });
        timings
    }
}

/// The time of all tables, shared among families as their own seconds are: families of several points are computed at the same time,
/// so that their seconds may come to more. Where nobody told any, everything is `all`.
pub fn shared_among(seconds: f64, families: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let sum: f64 = families.values().sum();
    match sum > 0.0 {
        true => families.iter().map(|(family, own)| (family.clone(), seconds * own / sum)).collect(),
        false => BTreeMap::from([("all".to_owned(), seconds)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_all_threads_and_processes_add_up() {
        let watch = Stopwatch::default();
        watch.resume(Timings { load: 2.0, forward: 1.0, tables: [("norm".to_owned(), 5.0)].into(), ..Timings::default() });
        watch.add(Phase::Load, 0.5);
        watch.add(Phase::Write, 0.25);
        watch.add_batches(3.0, (Duration::from_secs(6), Duration::from_secs(2)));
        watch.add_batches(0.0, (Duration::ZERO, Duration::ZERO));
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| watch.add(Phase::Read, 0.25)))));
        let timings = watch.timings();
        assert_eq!((timings.load, timings.write, timings.read), (2.5, 0.25, 1.0));
        assert_eq!((timings.forward, timings.sketches), (3.0, 1.0), "a third of what the workers did");
        assert_eq!(timings.tables["norm"], 5.0);
        assert_eq!(watch.time(Phase::Read, || 7), 7);
    }

    #[test]
    fn families_share_the_time_of_the_tables() {
        let families = [("norm".to_owned(), 3.0), ("dimension".to_owned(), 9.0)].into();
        assert_eq!(shared_among(4.0, &families), [("norm".to_owned(), 1.0), ("dimension".to_owned(), 3.0)].into());
        assert_eq!(shared_among(4.0, &BTreeMap::new()), [("all".to_owned(), 4.0)].into());
    }
}
