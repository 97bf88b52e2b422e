//! A run as it goes on: a bar on a terminal, a line now and then elsewhere, or JSON lines.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use layerscope_error::Line;
use layerscope_report::text::{visible, visible_json};
use serde_json::json;

use crate::measure::event::Event;
use crate::text::{bytes, grouped};

/// How often a bar moves.
const BAR: Duration = Duration::from_millis(200);
/// How often a line appears where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

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
    mode: Mode,
    out: Box<dyn Write + Send>,
    phase: Option<(&'static str, Instant)>,
    drawn: Option<Instant>,
    open_line: bool,
    keywords: bool,
}

impl Display {
    /// On standard error as it is, or as JSON lines on standard output.
    pub fn new(quiet: bool, json: bool) -> Display {
        let mode = match () {
            () if json => Mode::Json,
            () if quiet => Mode::Quiet,
            () if std::io::stderr().is_terminal() => Mode::Bar,
            () => Mode::Lines,
        };
        match mode {
            Mode::Json => Display::to(Box::new(std::io::stdout()), mode),
            _ => Display::to(Box::new(std::io::stderr()), mode),
        }
    }

    /// Wherever the caller wants it; every text comes in one piece.
    pub fn to(out: Box<dyn Write + Send>, mode: Mode) -> Display {
        Display { mode, out, phase: None, drawn: None, open_line: false, keywords: false }
    }

    /// Shows an event, if it is time.
    pub fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Note(line) | Event::Estimate(line) => self.say("note", &self.written(&line)),
            Event::Warning(line) => self.say("warning", &self.written(&line)),
            Event::Stopping => self.say("note", "stopping: finishing the current batches and saving; press Ctrl-C again to stop at once"),
            Event::Saved => {}
            Event::Finished(_) => self.end(),
            Event::Tables { done, of } => self.step("computing tables", Some(done as f64 / of as f64), |_| {
                (format!("{done} of {of} points"), json!({ "done": done, "points": of }))
            }),
            Event::Reading(progress) => {
                let fraction = progress.total_bytes.map(|total| progress.bytes as f64 / total.max(1) as f64);
                self.step("reading", fraction, |rate| {
                    let done = format!("{} documents, {} tokens", grouped(progress.kept as usize), grouped(progress.tokens as usize));
                    (format!("{done}, {}/s", bytes((progress.bytes as f64 * rate) as usize)), json!({
                        "documents": progress.kept, "tokens": progress.tokens, "bytes": progress.bytes, "total_bytes": progress.total_bytes,
                    }))
                });
            }
            Event::Measuring { documents, tokens, total, fresh, leg: (leg, legs) } => {
                let fraction = tokens as f64 / total.max(1) as f64;
                // Time left follows from this process's own work, not from what an earlier one did.
                let left = |rate: f64| if fresh > 0 { Some((total - tokens) as f64 / (fresh as f64 * rate)) } else { None };
                self.measuring(fraction, |rate| {
                    let several = if legs > 1 { format!("leg {leg} of {legs}, ") } else { String::new() };
                    let speed = fresh as f64 * rate;
                    let text = format!("{several}{} documents, {} tokens, {} tokens/s", grouped(documents as usize), grouped(tokens as usize), grouped(speed as usize));
                    let json = json!({
                        "documents": documents, "tokens": tokens, "total_tokens": total, "tokens_per_second": speed, "leg": leg, "legs": legs,
                        "seconds_left": left(rate),
                    });
                    (text, left(rate), json)
                });
            }
        }
    }

    /// A line in the words of whoever reads it.
    fn written(&self, line: &Line) -> String {
        if self.keywords { line.keywords() } else { line.flags() }
    }

    /// Names settings as Python does.
    pub fn with_keywords(self) -> Display {
        Display { keywords: true, ..self }
    }

    /// Ends the line of a bar.
    pub fn end(&mut self) {
        if self.open_line {
            self.open_line = false;
            self.emit("\r\x1b[K");
        }
    }

    fn say(&mut self, kind: &str, text: &str) {
        self.end();
        match (self.mode, kind) {
            (Mode::Json, _) => self.emit(&format!("{}\n", visible_json(&json!({ "event": kind, "text": text }).to_string()))),
            (Mode::Quiet, "note") => {}
            (_, "warning") => self.emit(&format!("layerscope: warning: {}\n", visible(text))),
            _ => self.emit(&format!("layerscope: {}\n", visible(text))),
        }
    }

    fn emit(&mut self, text: &str) {
        // Nobody listening is no reason to stop.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    fn step(&mut self, phase: &'static str, fraction: Option<f64>, describe: impl FnOnce(f64) -> (String, serde_json::Value)) {
        let Some(elapsed) = self.is_time(phase) else { return };
        let rate = 1.0 / elapsed.as_secs_f64().max(1e-9);
        let (text, json) = describe(rate);
        let left = fraction.filter(|done| *done > 0.0).map(|done| elapsed.as_secs_f64() * (1.0 - done).max(0.0) / done);
        self.draw(phase, fraction, left, &text, json);
    }

    fn measuring(&mut self, fraction: f64, describe: impl FnOnce(f64) -> (String, Option<f64>, serde_json::Value)) {
        let Some(elapsed) = self.is_time("measuring") else { return };
        let (text, left, json) = describe(1.0 / elapsed.as_secs_f64().max(1e-9));
        self.draw("measuring", Some(fraction), left, &text, json);
    }

    /// Time since the phase began, if something should be drawn now.
    fn is_time(&mut self, phase: &'static str) -> Option<Duration> {
        let now = Instant::now();
        if self.phase.is_none_or(|(known, _)| known != phase) {
            self.phase = Some((phase, now));
            self.drawn = (self.mode == Mode::Lines).then_some(now);
        }
        let interval = if self.mode == Mode::Bar { BAR } else { LINE };
        let interval = if self.mode == Mode::Json { Duration::from_secs(1) } else { interval };
        let recent = self.drawn.is_some_and(|drawn| now - drawn < interval);
        if self.mode == Mode::Quiet || recent {
            return None;
        }
        self.drawn = Some(now);
        self.phase.map(|(_, start)| now - start)
    }

    fn draw(&mut self, phase: &str, fraction: Option<f64>, left: Option<f64>, text: &str, json: serde_json::Value) {
        let line = line(phase, fraction, left, text);
        match self.mode {
            Mode::Json => self.emit(&format!("{}\n", json!({ "event": phase, "progress": json }))),
            Mode::Bar => {
                self.open_line = true;
                self.emit(&format!("\r\x1b[K{line}"));
            }
            _ => self.emit(&format!("layerscope: {line}\n")),
        }
    }
}

/// `measuring  42 %  1,000 documents, 21,000 tokens, 9,000 tokens/s, 1 min 5 s left`.
fn line(phase: &str, fraction: Option<f64>, left: Option<f64>, text: &str) -> String {
    let percent = fraction.map_or(String::new(), |fraction| format!("{:3.0} %  ", 100.0 * fraction.min(1.0)));
    let left = left.filter(|left| left.is_finite()).map_or(String::new(), |left| format!(", {} left", duration(left)));
    format!("{phase} {percent}{text}{left}")
}

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_rate_and_time_left() {
        assert_eq!(line("measuring", Some(0.421), Some(65.2), "7 tokens"), "measuring  42 %  7 tokens, 1 min 5 s left");
        assert_eq!(line("reading", None, None, "7 tokens"), "reading 7 tokens");
        assert_eq!([59.6, 3599.0, 7261.0].map(duration), ["1 min 0 s", "59 min 59 s", "2 h 1 min"]);
    }
}
