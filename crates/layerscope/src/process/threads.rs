//! What other threads make.

use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};

/// What another thread made; its panic is ours.
pub fn joined<T, E>(handle: ScopedJoinHandle<'_, std::result::Result<T, E>>) -> Result<T>
where
    Error: From<E>,
{
    Ok(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}

/// The longest time until whoever waits looks up again.
const TICK: Duration = Duration::from_millis(50);

/// Waits until something is done and looks up meanwhile, once at least and often at first: much is done in no time.
pub fn look_until(is_done: impl Fn() -> bool, mut look: impl FnMut() -> Result<()>) -> Result<()> {
    let mut pause = Duration::from_millis(1);
    look()?;
    while !is_done() {
        std::thread::sleep(pause);
        look()?;
        pause = (2 * pause).min(TICK);
    }
    Ok(())
}

/// Does work on another thread, while this one looks up now and then.
pub fn meanwhile<T: Send>(work: impl FnOnce() -> T + Send, mut look: impl FnMut()) -> T {
    std::thread::scope(|scope| {
        let handle = scope.spawn(work);
        let _ = look_until(
            || handle.is_finished(),
            || {
                look();
                Ok(())
            },
        );
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
