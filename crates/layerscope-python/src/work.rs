//! Long work: on a thread of its own, while the caller's thread shows progress and listens for Ctrl-C.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use layerscope::internals::{caught, remember_command};
use layerscope::{CancelToken, Display, Error, ErrorKind, Event, Mode, Result, Show};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::error::{exception, exception_of};

/// How often the caller's thread looks up.
const TICK: Duration = Duration::from_millis(50);

const STOPPING: &str = "\rlayerscope: stopping: finishing the current batches and saving; press Ctrl-C again to stop at once\n";

/// Runs `work`; `say` takes what is to be shown, as text or (`events`) as a line of JSON each.
///
/// The first Ctrl-C asks the work to save and stop, the second one leaves it alone and returns at once.
pub fn long<T: Send + 'static>(
    py: Python<'_>,
    call: Vec<String>,
    mode: Mode,
    say: &Bound<'_, PyAny>,
    work: impl FnOnce(&CancelToken, &mut Show<'_>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let cancel = CancelToken::default();
    let (sender, mut shown) = channel::<String>();
    let token = cancel.clone();
    let worker = std::thread::spawn(move || {
        remember_command(call);
        let mut display = Display::to(Box::new(Channel(sender)), mode).with_keywords();
        let outcome = caught(|| {
            work(&token, &mut |event| {
                if !matches!(event, Event::Stopping) {
                    display.show(event)
                }
            })
        });
        display.end();
        outcome
    });
    let (mut asked, mut failed) = (false, None);
    loop {
        let channel = &mut shown;
        let heard = match py.detach(move || channel.recv_timeout(TICK)) {
            // Whoever failed to show something is not asked again.
            Ok(text) if failed.is_none() => say.call1((text,)).map(drop),
            Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // Ctrl-C may come while Python shows something, or at any other moment.
        for problem in [heard, py.check_signals()].into_iter().filter_map(Result::err) {
            cancel.cancel();
            match (problem.is_instance_of::<PyKeyboardInterrupt>(py), asked) {
                (false, _) => failed = failed.or(Some(problem)),
                (true, true) => return Err(problem),
                (true, false) => {
                    asked = true;
                    if mode != Mode::Json {
                        say.call1((STOPPING,))?;
                    }
                }
            }
        }
    }
    if let Some(problem) = failed {
        return Err(problem);
    }
    let outcome = py.detach(|| worker.join()).unwrap_or_else(|_| Err(Error::Defect("a worker ended without a word".to_owned())));
    match outcome {
        Ok(_) if asked => Err(exception_of(py, ErrorKind::Interrupted, "interrupted, but the work was done by then: nothing is lost")),
        Ok(result) => Ok(result),
        Err(error) => Err(exception(py, &error)),
    }
}

/// Work that cannot stop half way: the first Ctrl-C is acknowledged, the second one returns at once.
pub fn patient<T: Send + 'static>(py: Python<'_>, call: Vec<String>, work: impl FnOnce() -> Result<T> + Send + 'static) -> PyResult<T> {
    let say = py.import("layerscope._measure")?.getattr("_say")?;
    long(py, call, Mode::Quiet, &say, |_, _| work())
}

/// Text for the thread that may touch Python.
struct Channel(Sender<String>);

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever was told to leave the work alone does not listen any more.
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
