//! The command that a run remembers: what the process was started with, unless a caller knows better.

use std::cell::RefCell;

thread_local! {
    static REMEMBERED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// From now on this is the command of everything that begins on this thread.
pub fn remember(words: Vec<String>) {
    REMEMBERED.with(|remembered| *remembered.borrow_mut() = Some(words));
}

/// The words of the command, its name first.
pub fn words() -> Vec<String> {
    REMEMBERED.with(|remembered| remembered.borrow().clone()).unwrap_or_else(|| std::env::args().collect())
}
