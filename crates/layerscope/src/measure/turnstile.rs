//! A state that lets batches in by their number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// A point's state, which batch comes next, and what later batches left here.
pub struct Turnstile<S, W> {
    massive: Option<f64>,
    inside: Mutex<Inside<S, W>>,
    moved: Condvar,
}

/// What is behind the lock.
pub struct Inside<S, W> {
    next: usize,
    state: S,
    early: BTreeMap<usize, W>,
}

impl<S, W> Inside<S, W> {
    /// The state.
    pub fn state(&self) -> &S {
        &self.state
    }
}

impl<S, W> Turnstile<S, W> {
    /// With `first` the batch that comes next. `massive` is the norm beyond which states are massive here.
    pub fn new(state: S, massive: Option<f64>, first: usize) -> Turnstile<S, W> {
        let inside = Inside { next: first, state, early: BTreeMap::new() };
        Turnstile { massive, inside: Mutex::new(inside), moved: Condvar::new() }
    }

    /// The norm beyond which states are massive here.
    pub fn massive(&self) -> Option<f64> {
        self.massive
    }

    /// The state at the end.
    pub fn into_state(self) -> S {
        self.inside.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }

    /// Whether it is the turn of batch `index`. What is not true now may be true soon; what is true stays so.
    pub fn is_turn_of(&self, index: usize) -> bool {
        self.lock().next == index
    }

    /// Waits for the turn of batch `index`, lets it in, then what later batches left and whose turn follows, and calls the next.
    ///
    /// `enter` is given what was left, and nothing for the batch itself.
    pub fn pass(&self, index: usize, stopped: &AtomicBool, mut enter: impl FnMut(&mut S, Option<W>) -> Result<()>) -> Result<()> {
        let mut inside = self.lock();
        while inside.next != index {
            if stopped.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            inside = self.moved.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        enter(&mut inside.state, None)?;
        inside.next += 1;
        self.let_in(inside, |state, left| enter(state, Some(left)))
    }

    /// Leaves what batch `index` brings until its turn; should that have come meanwhile, it enters at once.
    pub fn leave(&self, index: usize, brought: W, enter: impl FnMut(&mut S, W) -> Result<()>) -> Result<()> {
        let mut inside = self.lock();
        inside.early.insert(index, brought);
        self.let_in(inside, enter)
    }

    /// Lets in what was left and whose turn it is.
    fn let_in(&self, mut inside: MutexGuard<'_, Inside<S, W>>, mut enter: impl FnMut(&mut S, W) -> Result<()>) -> Result<()> {
        let Inside { next, state, early } = &mut *inside;
        while let Some(left) = early.remove(next) {
            enter(state, left)?;
            *next += 1;
        }
        drop(inside);
        self.moved.notify_all();
        Ok(())
    }

    /// Wakes whoever waits, to see that the run was stopped.
    pub fn wake(&self) {
        // Taking the lock makes sure that nobody is between looking at the flag and falling asleep.
        drop(self.lock());
        self.moved.notify_all();
    }

    /// Looks inside between two runs. A panic elsewhere is reported where it happened; the state is consistent between batches.
    pub fn lock(&self) -> MutexGuard<'_, Inside<S, W>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_early_enters_in_turn() {
        let turnstile = Turnstile::<Vec<usize>, usize>::new(Vec::new(), None, 4);
        let early = |entered: &mut Vec<usize>, left: usize| {
            entered.push(left);
            Ok(())
        };
        assert!(turnstile.is_turn_of(4) && !turnstile.is_turn_of(6));
        turnstile.leave(6, 6, early).expect("room");
        turnstile.leave(5, 5, early).expect("room");
        turnstile.leave(8, 8, early).expect("room");
        assert!(turnstile.lock().state().is_empty(), "nobody enters before its turn");
        let stopped = AtomicBool::new(false);
        let pass = |index: usize| {
            turnstile.pass(index, &stopped, |entered, left| {
                entered.push(left.unwrap_or(index));
                Ok(())
            })
        };
        pass(4).expect("its turn");
        assert_eq!(*turnstile.lock().state(), [4, 5, 6]);
        // Its turn came between looking and leaving.
        turnstile.leave(7, 7, early).expect("room");
        assert_eq!(turnstile.into_state(), [4, 5, 6, 7, 8]);
    }

    #[test]
    fn whoever_waits_hears_that_all_is_stopped() {
        let turnstile = Turnstile::<(), ()>::new((), None, 0);
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turnstile.pass(1, &stopped, |(), _| Ok(())));
            stopped.store(true, Ordering::Relaxed);
            turnstile.wake();
            assert!(matches!(waiting.join().expect("no panic"), Err(Error::Stopped)));
        });
    }
}
