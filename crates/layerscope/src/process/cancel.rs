//! One flag that asks long work to stop at the next good moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{Error, Result};

/// The exit status of a run that was interrupted and can be resumed.
const INTERRUPTED: i32 = 6;

/// Set once, seen by all workers.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// A token set by Ctrl-C and by a scheduler's request to end. A second request ends the process at once; what was saved before
    /// stays valid.
    pub fn on_signals() -> Result<CancelToken> {
        CancelToken::registered().map_err(|source| Error::io("signals".as_ref(), source))
    }

    fn registered() -> std::io::Result<CancelToken> {
        let token = CancelToken::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, the second finds it up.
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&token.0))?;
            flag::register(signal, Arc::clone(&token.0))?;
        }
        Ok(token)
    }
}
