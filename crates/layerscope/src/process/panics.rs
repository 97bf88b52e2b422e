//! A defect of the program is one line too. Panics that a reader of files catches and reports by itself print nothing.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// The last panic that says something: what, and where.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// What the thread that waits for others says when one of them panicked; the other one said more.
const SECOND_HAND: &str = "a scoped thread panicked";

/// Runs a command; a panic that nobody catches becomes an error.
pub fn caught<T>(command: impl FnOnce() -> Result<T>) -> Result<T> {
    set_hook(Box::new(remember));
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let what = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(Error::Defect(what.unwrap_or_else(|| "a panic without a message".to_owned())))
    })
}

fn remember(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("a panic without a message");
    if what != SECOND_HAND {
        let place = panic.location().map_or(String::new(), |place| format!(" ({}:{})", place.file(), place.line()));
        let line: Vec<&str> = what.split_whitespace().collect();
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{}{place}", line.join(" ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_one_line_and_a_caught_one_none() {
        let before = std::panic::take_hook();
        let quiet = caught(|| {
            assert!(catch_unwind(|| panic!("a damaged file")).is_err());
            Ok(())
        });
        let defect = caught(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| panic!("row\n  7"));
            });
            Ok(())
        });
        set_hook(before);
        assert!(quiet.is_ok());
        let error = defect.expect_err("a panic");
        let line = error.to_string();
        assert!(line.starts_with("internal error: row 7 (") && line.contains("panics.rs:") && !line.contains('\n'), "{line}");
        assert_eq!(error.exit_status(), 1);
    }
}
