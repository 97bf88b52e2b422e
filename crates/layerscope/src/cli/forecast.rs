//! How long a run will still take: one number for all that is left, from what is known of the phases to come.
//!
//! Before a phase begins, its time is guessed from the work in it and from how fast this machine did the work before; once it goes on,
//! from its own rate. Time is given from outside, in seconds.

use crate::measure::event::Event;
use crate::measure::outlook::Outlook;

/// A guess, where nothing was measured yet: bytes a second from the disk and through the hash.
const BYTES: f64 = 5e8;
/// A rate is worth something after so many seconds; that of the pilot, which is all there is then, sooner.
const SOME_TIME: f64 = 0.3;
const LITTLE_TIME: f64 = 0.05;

/// The parts of a run, in their order. Weights are read and hashed while the text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The text.
    Reading,
    /// The weights.
    Loading,
    /// The weights, to know them again.
    Hashing,
    /// The first documents.
    Pilot,
    /// The model.
    Measuring,
    /// States of shards.
    Merging,
    /// States to disk.
    Writing,
    /// Tables of the states.
    Tables,
    /// Numbers of finished runs.
    Computing,
    /// Figures of finished runs.
    Drawing,
}

impl Phase {
    /// What people read.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reading => "reading",
            Phase::Loading => "loading",
            Phase::Hashing => "hashing",
            Phase::Pilot => "pilot",
            Phase::Measuring => "measuring",
            Phase::Merging => "merging",
            Phase::Writing => "writing",
            Phase::Tables => "computing tables",
            Phase::Computing => "computing",
            Phase::Drawing => "drawing",
        }
    }
}

/// The phase that goes on: since when, how much of it was done then and is done now, of all of it where that is known.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    /// Which.
    pub phase: Phase,
    /// When it began, and when something was last done.
    pub begun: f64,
    advanced: f64,
    /// Work that was done by an earlier process.
    first: f64,
    done: f64,
    of: Option<f64>,
}

impl Current {
    /// Which part of it is done.
    pub fn fraction(&self) -> Option<f64> {
        self.of.map(|of| (self.done / of.max(1.0)).clamp(0.0, 1.0))
    }

    /// Work a second of this process, once there is something to say.
    pub fn rate(&self) -> Option<f64> {
        let (seconds, work) = (self.advanced - self.begun, self.done - self.first);
        let enough = if self.phase == Phase::Pilot { LITTLE_TIME } else { SOME_TIME };
        (seconds >= enough && work > 0.0).then(|| work / seconds)
    }

    /// Seconds until its end by its own rate. Work is told piece by piece: while one goes on the time falls, but not to nothing.
    fn left(&self, now: f64) -> Option<f64> {
        let left = (self.of? - self.done).max(0.0) / self.rate()?;
        Some((left - (now - self.advanced)).max(left / 2.0))
    }
}

/// What is known of a run, or of one after the other.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    outlook: Option<Outlook>,
    current: Option<Current>,
    /// When this run began, and which of how many it is.
    begun: f64,
    part: (usize, usize),
    /// Runs that were measured before it, and the time that they took.
    finished: usize,
    spent: f64,
    tokens: Option<f64>,
    seconds_per_token: Option<f64>,
}

impl Forecast {
    /// Hears of an event; returns the phase if the event is one.
    pub fn hear(&mut self, event: &Event<'_>, now: f64) -> Option<Current> {
        let (phase, done, of) = match event {
            Event::Part { number, of } => {
                // What came before the first part, and a part that an earlier process finished, say nothing of the others.
                if self.part.0 > 0 && self.current.is_some() {
                    (self.finished, self.spent) = (self.finished + 1, self.spent + now - self.begun);
                }
                // All of them read the same text.
                (self.part, self.begun, self.current) = ((*number, *of), now, None);
                return None;
            }
            Event::Ahead(outlook) => {
                self.outlook = Some(*outlook);
                return None;
            }
            Event::Reading(progress) => {
                let fraction = progress.fraction();
                if let Some(fraction) = fraction.filter(|fraction| *fraction > 0.0) {
                    self.tokens = Some(progress.tokens as f64 / fraction);
                }
                (Phase::Reading, fraction.unwrap_or(progress.bytes as f64), fraction.map(|_| 1.0))
            }
            Event::Importing { states, of } => (Phase::Reading, *states as f64, Some(*of as f64)),
            Event::Loading { bytes, of } => (Phase::Loading, *bytes as f64, Some(*of as f64)),
            Event::Hashing { bytes, of } => (Phase::Hashing, *bytes as f64, Some(*of as f64)),
            Event::Pilot { tokens, of } => (Phase::Pilot, *tokens as f64, Some(*of as f64)),
            Event::Measuring { tokens, total, .. } => {
                self.tokens = Some(*total as f64);
                (Phase::Measuring, *tokens as f64, Some(*total as f64))
            }
            Event::Merging { done, of } => (Phase::Merging, *done as f64, Some(*of as f64)),
            Event::Writing { bytes } => (Phase::Writing, *bytes as f64, None),
            Event::Tables { done, of } => (Phase::Tables, *done as f64, Some(*of as f64)),
            Event::Computing => (Phase::Computing, 0.0, None),
            Event::Drawing { done, of } => (Phase::Drawing, *done as f64, Some(*of as f64)),
            _ => return None,
        };
        let known = self.current.filter(|known| known.phase == phase);
        let mut current = known.unwrap_or(Current { phase, begun: now, advanced: now, first: done, done, of });
        if done > current.done {
            (current.done, current.advanced) = (done, now);
        }
        current.of = of;
        self.current = Some(current);
        if let (Phase::Pilot | Phase::Measuring, Some(rate)) = (phase, current.rate()) {
            self.seconds_per_token = Some(1.0 / rate);
        }
        self.current
    }

    /// The phase that goes on.
    pub fn current(&self) -> Option<Current> {
        self.current
    }

    /// Seconds until the end of everything, as far as one can say.
    pub fn left(&self, now: f64) -> Option<f64> {
        let own = self.left_of_run(now)?;
        let (number, of) = self.part;
        let each = if self.finished > 0 { self.spent / self.finished as f64 } else { now - self.begun + own };
        Some(own + of.saturating_sub(number) as f64 * each)
    }

    fn left_of_run(&self, now: f64) -> Option<f64> {
        let current = self.current?;
        // Of what nobody knows the size, or the rate: the guess, less the time that it took already. What takes longer will take longer.
        let took = now - current.begun;
        let guessed = || self.expected(current.phase, now).map(|expected| (expected - took).max(took / 2.0));
        let own = current.left(now).or_else(guessed)?;
        let later = [Phase::Loading, Phase::Hashing, Phase::Pilot, Phase::Measuring, Phase::Writing, Phase::Tables];
        let later = later.into_iter().filter(|phase| *phase > current.phase);
        Some(own + later.map(|phase| self.expected(phase, now)).sum::<Option<f64>>()?)
    }

    /// The time that a phase will take which has not begun.
    fn expected(&self, phase: Phase, now: f64) -> Option<f64> {
        // Of a merge nobody knows more than how far it is.
        let Some(outlook) = self.outlook else { return (self.current?.phase != phase).then_some(0.0) };
        let guess = outlook.token_seconds;
        let each = self.seconds_per_token.unwrap_or(guess);
        let beside = |bytes: u64| (bytes as f64 / BYTES - (now - self.begun)).max(0.0);
        match phase {
            Phase::Reading | Phase::Computing | Phase::Drawing => None,
            Phase::Loading => Some(beside(outlook.weights)),
            Phase::Hashing => Some(beside(outlook.hashed)),
            Phase::Pilot | Phase::Merging | Phase::Writing => Some(0.5),
            Phase::Measuring => Some(self.tokens? * each),
            // As much slower than the guess as the model was.
            Phase::Tables => {
                let slower = if guess > 0.0 { (each / guess).clamp(0.2, 20.0) } else { 1.0 };
                let sample = self.tokens?.min(outlook.sample as f64);
                Some((outlook.table_seconds + outlook.pair_seconds * sample * sample) * slower)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 s of weights, 1 s of hashes, 0.7 ms a token, and 1 s of tables where there are 2,000 states of the sample.
    const OUTLOOK: Outlook = Outlook {
        weights: 1_000_000_000,
        hashed: 500_000_000,
        token_seconds: 7e-4,
        table_seconds: 0.5,
        pair_seconds: 1.25e-7,
        sample: 2000,
    };

    fn measuring(tokens: u64) -> Event<'static> {
        Event::Measuring { documents: 0, tokens, total: 10_000, fresh: 0, leg: (1, 1) }
    }

    fn reading(bytes: u64, kept: u64, done: u64, limit: Option<u64>) -> Event<'static> {
        let progress =
            layerscope_corpus::Progress { bytes, kept, done, tokens: 10 * done, total_bytes: Some(1000), limit, ..Default::default() };
        Event::Reading(progress)
    }

    #[track_caller]
    fn near(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-6), "{found:?} is not {expected}");
    }

    #[test]
    fn one_time_covers_all_phases() {
        let mut forecast = Forecast::default();
        forecast.hear(&Event::Ahead(OUTLOOK), 0.0);
        assert_eq!(forecast.left(0.0), None, "nothing is known of the text");
        forecast.hear(&reading(0, 0, 0, None), 0.0);
        forecast.hear(&reading(250, 100, 100, None), 1.0);
        // 3 s of text; 2 s of weights and 1 s of hashes that began with it; 4,000 tokens of 7e-4 s; 1 s of tables; twice half a second.
        near(forecast.left(1.0), 3.0 + 1.0 + 0.0 + 0.5 + 4000.0 * 7e-4 + 0.5 + 1.0);
        forecast.hear(&measuring(0), 5.0);
        forecast.hear(&measuring(1000), 6.4);
        // 1.4 ms a token is twice the guess, so that the tables will take twice as long.
        near(forecast.left(6.4), 9000.0 * 1.4e-3 + 0.5 + 2.0);
        // Nothing new is heard, and time passes.
        near(forecast.left(7.4), 9000.0 * 1.4e-3 + 0.5 + 2.0 - 1.0);
        near(forecast.left(99.0), 9000.0 * 0.7e-3 + 0.5 + 2.0);
        forecast.hear(&Event::Writing { bytes: 7 }, 20.0);
        near(forecast.left(20.3), 0.2 + 2.0);
        forecast.hear(&Event::Tables { done: 0, of: 4 }, 21.0);
        near(forecast.left(21.5), 1.5);
        near(forecast.left(25.0), 2.0);
        forecast.hear(&Event::Tables { done: 1, of: 4 }, 22.0);
        near(forecast.left(22.0), 3.0);
        near(forecast.left(22.9), 2.1);
        forecast.hear(&Event::Tables { done: 4, of: 4 }, 25.0);
        near(forecast.left(25.0), 0.0);
    }

    #[test]
    fn what_an_earlier_process_did_is_no_rate() {
        let mut forecast = Forecast::default();
        forecast.hear(&Event::Ahead(Outlook { table_seconds: 0.0, pair_seconds: 0.0, ..OUTLOOK }), 0.0);
        forecast.hear(&measuring(8000), 10.0);
        let current = forecast.hear(&measuring(8100), 11.0).expect("a phase");
        assert_eq!((current.rate(), current.fraction()), (Some(100.0), Some(0.81)));
        near(forecast.left(11.0), 19.0 + 0.5);
    }

    #[test]
    fn parts_of_the_text_respect_the_limit() {
        let fraction = |event: Event<'_>| Forecast::default().hear(&event, 0.0).and_then(|current| current.fraction());
        assert_eq!(fraction(reading(220, 100, 100, None)), Some(0.22));
        assert_eq!(fraction(reading(220, 100, 100, Some(100))), Some(1.0), "the limit is reached long before the end of the file");
        assert_eq!(fraction(reading(1000, 100, 25, None)), Some(0.25), "what is read waits for the tokenizer");
    }

    #[test]
    fn several_runs_have_one_time() {
        let mut forecast = Forecast::default();
        let tables = |done| Event::Tables { done, of: 10 };
        forecast.hear(&Event::Part { number: 1, of: 3 }, 100.0);
        forecast.hear(&tables(0), 100.0);
        forecast.hear(&tables(5), 110.0);
        // 10 s of this one, and two more of 20 s.
        near(forecast.left(110.0), 10.0 + 40.0);
        forecast.hear(&Event::Part { number: 2, of: 3 }, 130.0);
        forecast.hear(&tables(0), 130.0);
        forecast.hear(&tables(5), 135.0);
        // The first took 30 s.
        near(forecast.left(135.0), 5.0 + 30.0);
        // Parts that are complete take no time, and the next one takes as long as those that were measured.
        let mut resumed = Forecast::default();
        resumed.hear(&reading(10, 1, 1, None), 0.0);
        resumed.hear(&Event::Part { number: 1, of: 3 }, 0.0);
        resumed.hear(&Event::Part { number: 2, of: 3 }, 0.1);
        resumed.hear(&tables(0), 0.1);
        resumed.hear(&tables(5), 10.1);
        near(resumed.left(10.1), 10.0 + 20.0);
    }
}
