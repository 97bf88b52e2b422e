//! One flag that asks long work to stop at the next good moment, and whoever hears Ctrl-C.
//!
//! Work looks at the flag where it can stop cleanly. Whatever does not look for a while is ended: files are written so that a process may be
//! killed at any moment. Only what is being saved is waited for.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use layerscope_error::Line;
use layerscope_report::text::visible;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{temporary, terminal};
use crate::error::{Error, Result};

/// The exit status of a run that was interrupted and can be resumed.
const INTERRUPTED: i32 = 6;
/// Work that ends so soon needs no word of acknowledgement beside its last.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Work that has not looked at the flag by then is ended.
const PATIENCE: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(10);

/// Set once, seen by all workers.
#[derive(Clone, Debug)]
pub struct CancelToken(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    asked: Arc<AtomicBool>,
    /// How many are saving something now.
    saving: AtomicUsize,
    /// What was interrupted, and what a repetition of the command does.
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    line: Line,
    is_fixed: bool,
}

impl Default for CancelToken {
    fn default() -> CancelToken {
        let told = Told { line: "interrupted: the same command starts again".into(), is_fixed: false };
        CancelToken(Arc::new(Shared { asked: Arc::default(), saving: AtomicUsize::new(0), told: Mutex::new(told) }))
    }
}

impl CancelToken {
    /// Asks to stop.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.asked
    }

    /// What is said of work that is stopped from now on: what was interrupted, and what a repetition does.
    pub(crate) fn during(&self, told: impl Into<Line>) {
        let mut known = self.lock();
        if !known.is_fixed {
            known.line = told.into();
        }
    }

    /// The same whatever comes: for work that begins anew however far it came.
    pub(crate) fn throughout(&self, told: impl Into<Line>) {
        *self.lock() = Told { line: told.into(), is_fixed: true };
    }

    /// Stops work that somebody asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(self.interrupted()) } else { Ok(()) }
    }

    /// The end of work that is stopped now.
    pub(crate) fn interrupted(&self) -> Error {
        Error::Interrupted(self.told())
    }

    fn told(&self) -> Line {
        self.lock().line.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While this is held something is being saved, and the process is not ended.
    pub fn saving(&self) -> Saving {
        self.0.saving.fetch_add(1, Ordering::SeqCst);
        Saving(self.clone())
    }

    /// The same where signals end the process: once one was heard, nothing new is saved and this does not return.
    pub(crate) fn saving_unless_ended(&self) -> Saving {
        let saving = self.saving();
        if self.0.asked.load(Ordering::SeqCst) {
            drop(saving);
            loop {
                std::thread::park();
            }
        }
        saving
    }

    fn is_saving(&self) -> bool {
        self.0.saving.load(Ordering::SeqCst) > 0
    }

    /// A token set by Ctrl-C and by a scheduler's request to end. The request is acknowledged at once, and work that does not stop soon is
    /// ended; a second request ends the process at once. What was saved before stays valid.
    pub fn on_signals() -> Result<CancelToken> {
        let token = CancelToken::default();
        token.listen(CancelToken::end_soon).map_err(|source| Error::io("signals".as_ref(), source))?;
        Ok(token)
    }

    /// For work that never looks: Ctrl-C and a scheduler's request end the process, with these words, as soon as nothing is being saved.
    pub(crate) fn end_on_signals(told: &'static str) -> Result<CancelToken> {
        let token = CancelToken::default();
        token.during(told);
        token.listen(CancelToken::end_when_saved).map_err(|source| Error::io("signals".as_ref(), source))?;
        Ok(token)
    }

    fn listen(&self, heard: fn(&CancelToken)) -> std::io::Result<()> {
        // Not the flag itself: the program asks to stop with it, too.
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, the second finds it up.
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&self.0.asked))?;
            flag::register(signal, Arc::clone(&self.0.asked))?;
            flag::register(signal, Arc::clone(&signalled))?;
        }
        let token = self.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while !signalled.load(Ordering::Relaxed) {
                sleep(TICK);
            }
            heard(&token);
        })?;
        Ok(())
    }

    /// Acknowledges a request to stop, and ends the process where the work does not.
    fn end_soon(&self) {
        let asked = Instant::now();
        sleep(AT_ONCE);
        let first = if self.is_saving() { ": what is under way is finished and saved" } else { "" };
        say(&format!("stopping{first}; press Ctrl-C again to stop at once"));
        while asked.elapsed() < PATIENCE || self.is_saving() {
            sleep(TICK);
        }
        self.end();
    }

    fn end_when_saved(&self) {
        while self.is_saving() {
            sleep(TICK);
        }
        self.end();
    }

    /// Ends the process with what is to be said, unless its work has just done so.
    fn end(&self) {
        if LAST_WORD.compare_exchange(NOBODY, SIGNAL, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            say(&self.told().flags());
            temporary::remove_all();
            signal_hook::low_level::exit(INTERRUPTED);
        }
    }
}

/// Who ends the process with a line: its work, or whoever heard a signal.
static LAST_WORD: AtomicU8 = AtomicU8::new(NOBODY);
const NOBODY: u8 = 0;
const WORK: u8 = 1;
const SIGNAL: u8 = 2;

/// Work that is about to end with a line of its own says so; where the process is being ended already, it says nothing any more.
pub(crate) fn take_last_word() {
    if LAST_WORD.compare_exchange(NOBODY, WORK, Ordering::SeqCst, Ordering::SeqCst) == Err(SIGNAL) {
        loop {
            std::thread::park();
        }
    }
}

/// Something is being saved.
#[derive(Debug)]
pub struct Saving(CancelToken);

impl Drop for Saving {
    fn drop(&mut self) {
        self.0.0.saving.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A line of its own, whatever was drawn on the terminal's last one.
fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    let start = if terminal::can_redraw() { "\r\x1b[K" } else { "" };
    // In one piece: a bar may be drawn at the same moment.
    let _ = out.write_all(format!("{start}layerscope: {}\n", visible(text)).as_bytes());
}
