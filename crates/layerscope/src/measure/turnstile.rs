//! A state that lets batches in by their number.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// A point's state, and which batch comes next.
pub struct Turnstile<S> {
    massive: Option<f64>,
    inside: Mutex<Inside<S>>,
    moved: Condvar,
}

/// What is behind the lock.
pub struct Inside<S> {
    next: usize,
    state: S,
}

impl<S> Inside<S> {
    /// The state.
    pub fn state(&self) -> &S {
        &self.state
    }
}

impl<S> Turnstile<S> {
    /// With `first` the batch that comes next. `massive` is the norm beyond which states are massive here.
    pub fn new(state: S, massive: Option<f64>, first: usize) -> Turnstile<S> {
        Turnstile { massive, inside: Mutex::new(Inside { next: first, state }), moved: Condvar::new() }
    }

    /// The norm beyond which states are massive here.
    pub fn massive(&self) -> Option<f64> {
        self.massive
    }

    /// The state at the end.
    pub fn into_state(self) -> S {
        self.inside.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }

    /// Waits for the turn of batch `index`, lets it in, and calls the next.
    pub fn pass(&self, index: usize, stopped: &AtomicBool, enter: impl FnOnce(&mut S) -> Result<()>) -> Result<()> {
        let mut inside = self.lock();
        while inside.next != index {
            if stopped.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            inside = self.moved.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        enter(&mut inside.state)?;
        inside.next += 1;
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
    pub fn lock(&self) -> MutexGuard<'_, Inside<S>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
