//! Where a model is: a folder, a pocket model, or the hub. A download draws a bar on standard error if that is a terminal.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use layerscope_model::hub::{Hub, Progress};

use crate::demo::embedded;
use crate::error::Result;
use crate::process::temporary::Located;
use crate::process::terminal;
use crate::text::bytes;
use crate::training::revisions::Source;

/// The folder of a model, fetched from the hub where it is not one; shows what arrives.
pub fn locate(model: &str, revision: Option<&str>) -> Result<Located> {
    if revision.is_none()
        && !Path::new(model).exists()
        && let Some(pocket) = embedded::locate(model)?
    {
        return Ok(pocket);
    }
    Ok(hub().locate(model, revision)?.into())
}

/// Where the checkpoints of a model are: its folder, or the hub.
pub fn checkpoints(model: &str) -> Result<Source> {
    let pocket = if Path::new(model).exists() { None } else { embedded::locate(model)? };
    match (pocket, Path::new(model).is_dir()) {
        (Some(folder), _) => Ok(Source::Folder(folder.to_path_buf())),
        (None, true) => Ok(Source::Folder(model.into())),
        (None, false) => Ok(Source::hub(hub(), model)),
    }
}

/// The hub of the environment; shows what arrives.
fn hub() -> Hub {
    let hub = Hub::from_env();
    if !terminal::can_redraw() {
        return hub;
    }
    let bar = Mutex::new(Bar::default());
    hub.on_progress(move |progress| bar.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).show(&progress))
}

/// One line per file, rewritten a few times a second.
#[derive(Default)]
struct Bar {
    file: String,
    started: Option<(Instant, u64)>,
    drawn: Option<Instant>,
}

impl Bar {
    fn show(&mut self, progress: &Progress<'_>) {
        let now = Instant::now();
        if self.file != progress.file || self.started.is_none() {
            *self = Bar { file: progress.file.to_owned(), started: Some((now, progress.done)), drawn: None };
        }
        let finished = progress.done == progress.total;
        let recent = self.drawn.is_some_and(|drawn| now - drawn < Duration::from_millis(200));
        if recent && !finished {
            return;
        }
        self.drawn = Some(now);
        let (start, before) = self.started.unwrap_or((now, progress.done));
        let line = line(progress, progress.done - before.min(progress.done), now - start);
        // A terminal that went away is no reason to stop a download.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}{}", if finished { "\n" } else { "" });
    }
}

/// `model.safetensors  12.0 MiB of 90.0 MiB, 6.0 MiB/s, 13 s left`.
fn line(progress: &Progress<'_>, arrived: u64, elapsed: Duration) -> String {
    let amounts = format!(
        "{}  {} of {}",
        layerscope_report::text::visible(progress.file),
        bytes(progress.done as usize),
        bytes(progress.total as usize)
    );
    let rate = arrived as f64 / elapsed.as_secs_f64();
    if arrived == 0 || !rate.is_finite() {
        return amounts;
    }
    let left = (progress.total - progress.done.min(progress.total)) as f64 / rate;
    format!("{amounts}, {}/s, {left:.0} s left", bytes(rate as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_amount_rate_and_time_left() {
        let progress = Progress { file: "model.safetensors", done: 12 << 20, total: 90 << 20 };
        assert_eq!(line(&progress, 6 << 20, Duration::from_secs(1)), "model.safetensors  12.0 MiB of 90.0 MiB, 6.0 MiB/s, 13 s left");
        assert_eq!(line(&progress, 0, Duration::ZERO), "model.safetensors  12.0 MiB of 90.0 MiB");
    }
}
