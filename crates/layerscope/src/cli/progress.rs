//! A run as it goes on: a bar on a terminal, a line now and then elsewhere, or JSON lines.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::screen::Screen;
use crate::measure::event::Event;
use crate::process::terminal;

/// How often a bar is looked at where nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// Where events are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Warnings alone.
    Quiet,
    /// A bar that is drawn again and again.
    Bar,
    /// A line now and then.
    Lines,
    /// JSON lines.
    Json,
}

/// Shows the events of a run.
pub struct Display {
    shared: Arc<Mutex<Shared>>,
    /// Keeps a bar moving; it ends when nobody holds the other end.
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    screen: Screen,
    out: Box<dyn Write + Send>,
    begun: Instant,
}

impl Shared {
    fn show(&mut self, change: impl FnOnce(&mut Screen, f64) -> String) {
        let text = change(&mut self.screen, self.begun.elapsed().as_secs_f64());
        if !text.is_empty() {
            // Nobody listening is no reason to stop.
            let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        }
    }
}

impl Display {
    /// On standard error as it is, or as JSON lines on standard output.
    pub fn new(quiet: bool, json: bool) -> Display {
        let mode = match () {
            () if json => Mode::Json,
            () if quiet => Mode::Quiet,
            () if terminal::can_redraw() => Mode::Bar,
            () => Mode::Lines,
        };
        match mode {
            Mode::Json => Display::to(Box::new(std::io::stdout()), mode),
            _ => Display::to(Box::new(std::io::stderr()), mode),
        }
    }

    /// Wherever the caller wants it; every text comes in one piece.
    pub fn to(out: Box<dyn Write + Send>, mode: Mode) -> Display {
        let mut screen = Screen::new(mode);
        screen.width = terminal::columns();
        let shared = Arc::new(Mutex::new(Shared { screen, out, begun: Instant::now() }));
        let ticker = (mode == Mode::Bar).then(|| {
            let ((sender, ended), shared) = (channel(), Arc::clone(&shared));
            let tick = move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
                    lock(&shared).show(|screen, now| screen.tick(now));
                }
            };
            (sender, std::thread::spawn(tick))
        });
        Display { shared, ticker }
    }

    /// Shows an event, if it is time.
    pub fn show(&mut self, event: Event<'_>) {
        lock(&self.shared).show(|screen, now| screen.hear(&event, now));
    }

    /// Names settings as Python does.
    pub fn with_keywords(self) -> Display {
        lock(&self.shared).screen.keywords = true;
        self
    }

    /// Ends the line of a bar.
    pub fn end(&mut self) {
        lock(&self.shared).show(|screen, _| screen.end());
    }
}

impl Drop for Display {
    /// Whoever reads what is shown waits until nobody can write any more.
    fn drop(&mut self) {
        if let Some((sender, ticker)) = self.ticker.take() {
            drop(sender);
            let _ = ticker.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
