//! What the targets in `fuzz_targets/` share: see `targets`.

mod memory;
pub mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{Mutex, Once, PoisonError};

/// The last panic, which matters only if nobody caught it.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Gives an input to a target. A panic that comes out of it ends the process, after which the fuzzer keeps the input.
///
/// The fuzzer's own hook would also count panics that the program catches, as it does around libraries that panic on bad files.
pub fn run(target: fn(&[u8]), data: &[u8]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        set_hook(Box::new(|panic| *LAST.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string()));
    });
    if catch_unwind(AssertUnwindSafe(|| target(data))).is_err() {
        eprintln!("{}", LAST.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
}
