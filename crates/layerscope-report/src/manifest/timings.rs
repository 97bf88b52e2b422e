//! Where the time of a run went.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Seconds that the parts of a run took, over all interruptions and shards. What several threads do at once counts once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timings {
    /// Reading, filtering and writing the text, as far as tokenizing did not hide it.
    pub read: f64,
    /// Text to tokens, the tokenizer's own start included.
    pub tokenize: f64,
    /// Weights from disk into memory.
    pub load: f64,
    /// The first documents, for the norm beyond which states are massive.
    pub pilot: f64,
    /// The model.
    pub forward: f64,
    /// States into sketches.
    pub sketches: f64,
    /// Sketches into tables, by family of measures.
    pub tables: BTreeMap<String, f64>,
    /// Files of the run, as far as the tables did not hide it.
    pub write: f64,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Timings {
    /// All tables together.
    pub fn all_tables(&self) -> f64 {
        self.tables.values().sum()
    }

    /// Adds the seconds of another process or shard.
    pub fn add(&mut self, other: &Timings) {
        let pairs = [
            (&mut self.read, other.read),
            (&mut self.tokenize, other.tokenize),
            (&mut self.load, other.load),
            (&mut self.pilot, other.pilot),
            (&mut self.forward, other.forward),
            (&mut self.sketches, other.sketches),
            (&mut self.write, other.write),
        ];
        pairs.into_iter().for_each(|(sum, seconds)| *sum += seconds);
        other.tables.iter().for_each(|(family, seconds)| *self.tables.entry(family.clone()).or_default() += seconds);
    }
}

/// `read 0.3 s, tokenize 0.5 s, model 21 s`: what took no time worth telling is left out.
impl fmt::Display for Timings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("read", self.read),
            ("tokenize", self.tokenize),
            ("load", self.load),
            ("pilot", self.pilot),
            ("model", self.forward),
            ("sketches", self.sketches),
            ("tables", self.all_tables()),
            ("write", self.write),
        ];
        let told: Vec<String> = parts
            .into_iter()
            .filter(|(_, seconds)| *seconds >= 0.05)
            .map(|(name, seconds)| format!("{name} {}", duration(seconds)))
            .collect();
        out.write_str(&told.join(", "))
    }
}

/// Seconds as people say them, with a digit more where there are few.
fn duration(seconds: f64) -> String {
    match seconds.round() as u64 {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        whole @ 0..60 => format!("{whole} s"),
        whole @ 60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings() -> Timings {
        let tables = [("dimension".to_owned(), 2.25), ("norm".to_owned(), 1.0)].into();
        Timings { read: 0.26, load: 9.96, pilot: 0.01, forward: 75.4, sketches: 3661.0, tables, ..Timings::default() }
    }

    #[test]
    fn what_takes_time_is_told() {
        assert_eq!(timings().to_string(), "read 0.3 s, load 10 s, model 1 min 15 s, sketches 1 h 1 min, tables 3.2 s");
        assert_eq!(Timings::default().to_string(), "");
    }

    #[test]
    fn seconds_add_up() {
        let mut sum = timings();
        sum.add(&Timings { read: 1.0, write: 2.0, tables: [("norm".to_owned(), 3.0)].into(), ..Timings::default() });
        assert_eq!((sum.read, sum.load, sum.write), (1.26, 9.96, 2.0));
        assert_eq!(sum.tables, [("dimension".to_owned(), 2.25), ("norm".to_owned(), 4.0)].into());
    }

    #[test]
    fn newer_parts_are_kept() {
        let text = r#"{"read":0.0,"tokenize":0.0,"load":1.5,"pilot":0.0,"forward":0.0,"sketches":0.0,"tables":{"norm":2.0},"write":0.0,"upload":4}"#;
        let timings: Timings = serde_json::from_str(text).unwrap();
        assert_eq!((timings.load, timings.all_tables(), &timings.other["upload"]), (1.5, 2.0, &Value::from(4)));
        assert_eq!(serde_json::to_string(&timings).unwrap(), text);
    }
}
