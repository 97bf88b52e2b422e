//! What is shown of a run and when, as text: a line that is drawn again and again, a line now and then, or JSON. Time is given from outside.

use layerscope_error::Line;
use layerscope_report::text::{visible, visible_json};
use serde_json::{Value, json};

use super::forecast::{Current, Forecast};
use super::progress::Mode;
use crate::measure::event::Event;
use crate::text::{bytes, counted, grouped};

/// Seconds until something is shown again: a bar, a line where there is no terminal, JSON.
const BAR: f64 = 0.2;
const LINE: f64 = 30.0;
const JSON: f64 = 1.0;

/// A bar that moves is alive.
const SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

/// What is on the screen.
#[derive(Debug)]
pub struct Screen {
    mode: Mode,
    /// Whether settings are named as Python does.
    pub keywords: bool,
    /// Characters of a line.
    pub width: Option<usize>,
    forecast: Forecast,
    /// The last bar: its phase and details.
    bar: Option<(Current, Vec<String>)>,
    drawn: f64,
    turns: usize,
    open_line: bool,
}

impl Screen {
    /// An empty one.
    pub fn new(mode: Mode) -> Screen {
        let drawn = f64::NEG_INFINITY;
        Screen { mode, keywords: false, width: None, forecast: Forecast::default(), bar: None, drawn, turns: 0, open_line: false }
    }

    /// What an event changes on the screen; empty if nothing.
    pub fn hear(&mut self, event: &Event<'_>, now: f64) -> String {
        match event {
            Event::Note(line) | Event::Estimate(line) => self.say("note", &self.written(line)),
            Event::Warning(line) => self.say("warning", &self.written(line)),
            // On a terminal, whoever heard the request has said so.
            Event::Stopping if self.mode == Mode::Json => self.say("note", "stopping: what is under way is finished and saved"),
            Event::Stopping => String::new(),
            Event::Finished(_) => self.end(),
            _ => {
                let before = self.forecast.current().map(|current| current.phase);
                let Some(current) = self.forecast.hear(event, now) else { return String::new() };
                let is_new = before != Some(current.phase);
                // Whoever reads lines in a log wants to see a phase only if it takes its time.
                if is_new {
                    self.drawn = if self.mode == Mode::Lines { now } else { f64::NEG_INFINITY };
                }
                let (details, facts) = told(event, current, now);
                self.bar = Some((current, details));
                self.draw(&facts, now)
            }
        }
    }

    /// What the passing of time changes on the screen: only a bar is drawn again when nothing happened.
    pub fn tick(&mut self, now: f64) -> String {
        if self.mode == Mode::Bar && self.open_line { self.draw(&Value::Null, now) } else { String::new() }
    }

    /// Ends the line of a bar.
    pub fn end(&mut self) -> String {
        self.bar = None;
        if std::mem::take(&mut self.open_line) { "\r\x1b[K".to_owned() } else { String::new() }
    }

    /// A line in the words of whoever reads it.
    fn written(&self, line: &Line) -> String {
        if self.keywords { line.keywords() } else { line.flags() }
    }

    fn say(&mut self, kind: &str, text: &str) -> String {
        let bar = self.bar.take();
        let start = self.end();
        // The bar comes again with the next tick.
        (self.open_line, self.bar) = (bar.is_some() && self.mode == Mode::Bar, bar);
        self.drawn = f64::NEG_INFINITY;
        match (self.mode, kind) {
            (Mode::Json, _) => format!("{}\n", visible_json(&json!({ "event": kind, "text": text }).to_string())),
            (Mode::Quiet, "note") => String::new(),
            (_, "warning") => format!("{start}layerscope: warning: {}\n", visible(text)),
            _ => format!("{start}layerscope: {}\n", visible(text)),
        }
    }

    fn draw(&mut self, facts: &Value, now: f64) -> String {
        let interval = match self.mode {
            Mode::Quiet => return String::new(),
            Mode::Bar => BAR,
            Mode::Lines => LINE,
            Mode::Json => JSON,
        };
        let Some((current, details)) = self.bar.as_ref().filter(|_| now - self.drawn >= interval) else { return String::new() };
        self.drawn = now;
        let left = self.forecast.left(now);
        let line = |head: &str| line(head, current, details, left, self.width);
        match self.mode {
            Mode::Json => {
                let mut progress = facts.clone();
                progress["fraction"] = current.fraction().into();
                progress["seconds_left"] = left.into();
                format!("{}\n", json!({ "event": current.phase.name(), "progress": progress }))
            }
            Mode::Bar => {
                (self.turns, self.open_line) = (self.turns + 1, true);
                format!("\r\x1b[K{}", line(&format!("{} ", SPINNER[self.turns % SPINNER.len()])))
            }
            _ => format!("layerscope: {}\n", line("")),
        }
    }
}

/// What there is to say of a phase, in words and as data.
fn told(event: &Event<'_>, current: Current, now: f64) -> (Vec<String>, Value) {
    let rate = current.rate();
    let per_second = |count: Option<f64>, unit: &str| count.map(|rate| format!("{} {unit}/s", grouped(rate as usize)));
    let bytes_per_second = |rate: Option<f64>| rate.map(|rate| format!("{}/s", bytes(rate as usize)));
    let of_bytes = |done: u64, of: u64| {
        let details = [Some(format!("{} of {}", bytes(done as usize), bytes(of as usize))), bytes_per_second(rate)];
        (details.into_iter().flatten().collect(), json!({ "bytes": done, "total_bytes": of }))
    };
    match event {
        Event::Loading { bytes, of } | Event::Hashing { bytes, of } => of_bytes(*bytes, *of),
        Event::Reading(progress) => {
            let seconds = (now - current.begun).max(1e-9);
            let rate = rate.map(|_| progress.bytes as f64 / seconds);
            let (documents, tokens) = (counted(progress.done, "document"), counted(progress.tokens, "token"));
            let details = [Some(documents), Some(tokens), bytes_per_second(rate)].into_iter().flatten().collect();
            let (documents, tokens, bytes, total) = (progress.kept, progress.tokens, progress.bytes, progress.total_bytes);
            (details, json!({ "documents": documents, "tokens": tokens, "bytes": bytes, "total_bytes": total }))
        }
        Event::Importing { states, of } => {
            let details = [Some(format!("{} of {}", grouped(*states as usize), counted(*of, "state"))), per_second(rate, "states")];
            (details.into_iter().flatten().collect(), json!({ "states": states, "total_states": of }))
        }
        Event::Pilot { tokens, of } => {
            let details = [Some(counted(*tokens, "token")), per_second(rate, "tokens")].into_iter().flatten().collect();
            (details, json!({ "tokens": tokens, "total_tokens": of }))
        }
        Event::Measuring { documents, tokens, total, leg: (leg, legs), .. } => {
            let several = (*legs > 1).then(|| format!("leg {leg} of {legs}"));
            let details = [several, Some(counted(*documents, "document")), Some(counted(*tokens, "token")), per_second(rate, "tokens")];
            let facts = json!({
                "documents": documents, "tokens": tokens, "total_tokens": total, "tokens_per_second": rate, "leg": leg, "legs": legs,
            });
            (details.into_iter().flatten().collect(), facts)
        }
        Event::Writing { bytes: done } => {
            let done_so_far = (*done > 0).then(|| bytes(*done as usize));
            (done_so_far.into_iter().chain(bytes_per_second(rate)).collect(), json!({ "bytes": done }))
        }
        Event::Merging { done, of } | Event::Tables { done, of } => {
            (vec![format!("{done} of {}", counted(*of as u64, "point"))], json!({ "done": done, "points": of }))
        }
        Event::Drawing { done, of } => {
            (vec![format!("{done} of {}", counted(*of as u64, "figure"))], json!({ "done": done, "figures": of }))
        }
        _ => (Vec::new(), json!({})),
    }
}

/// `measuring  42 %  1,000 documents, 21,000 tokens, 9,000 tokens/s, about 1 min left`; where it is too long, with less.
fn line(head: &str, current: &Current, details: &[String], left: Option<f64>, width: Option<usize>) -> String {
    let percent = current.fraction().map_or(String::new(), |fraction| format!(" {:3.0} % ", (100.0 * fraction).floor()));
    let left = left.filter(|left| left.is_finite()).map(|left| format!("about {} left", duration(left)));
    let whole = |count: usize| {
        let parts: Vec<&str> = details[..count].iter().chain(&left).map(String::as_str).collect();
        format!("{head}{}{percent} {}", current.phase.name(), parts.join(", "))
    };
    let fitting = (0..=details.len()).rev().map(whole).find(|line| width.is_none_or(|width| line.chars().count() < width));
    fitting.unwrap_or_else(|| whole(0).chars().take(width.unwrap_or(0).saturating_sub(1)).collect())
}

/// Seconds as people say them, no finer than one can know.
fn duration(seconds: f64) -> String {
    let seconds = (seconds.ceil() as u64).max(1);
    let to = |step: u64| seconds.div_ceil(step) * step;
    match seconds {
        0..20 => format!("{seconds} s"),
        20..60 if to(5) < 60 => format!("{} s", to(5)),
        20..120 if to(10).is_multiple_of(60) => format!("{} min", to(10) / 60),
        20..600 => format!("{} min {} s", to(10) / 60, to(10) % 60).replace(" 0 s", ""),
        600..3600 if to(60) < 3600 => format!("{} min", to(60) / 60),
        _ => format!("{} h {} min", to(60) / 3600, to(60) % 3600 / 60).replace(" 0 min", ""),
    }
}

#[cfg(test)]
mod tests {
    use layerscope_error::{line, setting};

    use super::*;

    fn measuring(tokens: u64) -> Event<'static> {
        Event::Measuring { documents: tokens / 20, tokens, total: 10_000, fresh: tokens, leg: (1, 1) }
    }

    #[test]
    fn times_are_as_fine_as_one_can_know() {
        let times = [0.0, 19.5, 33.0, 57.0, 62.0, 119.0, 340.0, 3541.0, 7261.0, 10_800.0];
        let said = ["1 s", "20 s", "35 s", "1 min", "1 min 10 s", "2 min", "5 min 40 s", "1 h", "2 h 2 min", "3 h"];
        assert_eq!(times.map(duration), said);
    }

    #[test]
    fn a_bar_lives_whether_or_not_something_happens() {
        let mut screen = Screen::new(Mode::Bar);
        assert_eq!(screen.hear(&Event::Loading { bytes: 0, of: 438 << 20 }, 0.0), "\r\x1b[K/ loading   0 %  0 B of 438.0 MiB");
        assert_eq!(screen.hear(&Event::Loading { bytes: 1 << 20, of: 438 << 20 }, 0.1), "", "it was drawn a moment ago");
        let drawn = screen.hear(&Event::Loading { bytes: 219 << 20, of: 438 << 20 }, 0.5);
        assert_eq!(drawn, "\r\x1b[K- loading  50 %  219.0 MiB of 438.0 MiB, 438.0 MiB/s, about 1 s left");
        assert_eq!(screen.tick(0.6), "");
        let later = screen.tick(10.5);
        assert_eq!(later, "\r\x1b[K\\ loading  50 %  219.0 MiB of 438.0 MiB, 438.0 MiB/s, about 1 s left");
        // A phase is shown as soon as it begins, and a note does not end it.
        assert!(screen.hear(&measuring(0), 10.51).starts_with("\r\x1b[K| measuring   0 %  0 documents, 0 tokens"));
        let note = screen.hear(&Event::note(line!["see ", setting("overwrite")]), 10.52);
        assert_eq!(note, "\r\x1b[Klayerscope: see --overwrite\n");
        assert!(screen.tick(10.6).contains("measuring   0 %"));
        assert!(screen.hear(&measuring(20), 11.01).contains("1 document, 20 tokens, 40 tokens/s, about 4 min 10 s left"));
        assert_eq!((screen.end(), screen.end(), screen.tick(20.0)), ("\r\x1b[K".into(), String::new(), String::new()));
    }

    #[test]
    fn figures_are_counted() {
        let mut screen = Screen::new(Mode::Bar);
        assert_eq!(screen.hear(&Event::Drawing { done: 0, of: 31 }, 0.0), "\r\x1b[K/ drawing   0 %  0 of 31 figures");
        let later = screen.hear(&Event::Drawing { done: 10, of: 31 }, 2.0);
        assert_eq!(later, "\r\x1b[K- drawing  32 %  10 of 31 figures, about 5 s left");
    }

    #[test]
    fn lines_of_a_log_are_few() {
        let mut screen = Screen::new(Mode::Lines);
        assert_eq!(screen.hear(&measuring(0), 0.0), "");
        assert_eq!(screen.hear(&measuring(500), 20.0), "");
        let line = screen.hear(&measuring(5000), 30.0);
        assert_eq!(line, "layerscope: measuring  50 %  250 documents, 5,000 tokens, 166 tokens/s, about 30 s left\n");
        assert_eq!(screen.tick(100.0), "", "where nobody looks nothing moves");
    }

    #[test]
    fn json_has_the_same_numbers() {
        let mut screen = Screen::new(Mode::Json);
        screen.hear(&measuring(0), 0.0);
        let line = screen.hear(&measuring(5000), 10.0);
        let found: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&found["event"], &found["progress"]["fraction"]), (&json!("measuring"), &json!(0.5)));
        assert_eq!((&found["progress"]["seconds_left"], &found["progress"]["tokens_per_second"]), (&json!(10.0), &json!(500.0)));
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let mut screen = Screen::new(Mode::Bar);
        for (width, expected) in [
            (90, "measuring  50 %  250 documents, 5,000 tokens, 500 tokens/s, about 10 s left"),
            (60, "measuring  50 %  250 documents, about 10 s left"),
            (36, "measuring  50 %  about 10 s left"),
            (12, "measuring"),
        ] {
            screen = Screen { width: Some(width), ..Screen::new(Mode::Bar) };
            screen.hear(&measuring(0), 0.0);
            let drawn = screen.hear(&measuring(5000), 10.0);
            assert_eq!(drawn.trim_start_matches("\r\x1b[K")[2..], *expected, "{width}");
        }
        assert!(screen.open_line);
    }
}
