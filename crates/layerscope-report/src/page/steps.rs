//! The steps of a trajectory on its page: each is a run of its own, in its own folder, read when its blocks are asked for.

use serde_json::{Value, json};

use crate::error::Result;
use crate::export::parquet;
use crate::run::{Run, Step};
use crate::table::Table;

/// The tables that are cut by point, those of small blocks first.
pub(super) const KINDS: [&str; 4] = ["spectra", "components", "tokens", "groups"];

/// The kind of block of embedding matrices on a plane.
pub(super) const PROJECTIONS: &str = "projections";

/// What the tables of steps may take in a page of one file, in bytes of their Parquet files; a server has no such limit.
const BYTES: u64 = 32_000_000;

/// How much of the steps of a trajectory a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Every step.
    All,
    /// As many as a file may hold: evenly spaced, the last among them.
    Some,
}

/// The steps that the page has, with their numbers among all of them.
pub(super) fn shown_steps(run: &Run, parts: Parts) -> impl Iterator<Item = (usize, Step)> {
    let steps = run.steps();
    let size = |step: &Step| KINDS.iter().filter_map(|kind| step.path(kind).metadata().ok()).map(|file| file.len()).sum::<u64>();
    let largest = steps.iter().map(size).max().unwrap_or(0).max(1);
    let count = if parts == Parts::All { steps.len() } else { (BYTES / largest).max(1) as usize };
    let chosen: Vec<usize> = evenly(steps.len(), count).collect();
    steps.into_iter().enumerate().filter(move |(j, _)| chosen.contains(j))
}

/// So many of 0..length, evenly spaced, the last one among them.
pub(super) fn evenly(length: usize, count: usize) -> impl Iterator<Item = usize> {
    let count = count.min(length);
    let last = length.saturating_sub(1);
    (0..count).map(move |i| if count == 1 { last } else { i * last / (count - 1) })
}

impl Step {
    fn path(&self, kind: &str) -> std::path::PathBuf {
        self.folder.join(format!("{kind}.parquet"))
    }

    /// A table of its run.
    pub(super) fn table(&self, kind: &str) -> Result<Option<Table>> {
        let path = self.path(kind);
        path.exists().then(|| parquet::read(&path)).transpose()
    }

    /// The points that every step has: those of the whole.
    pub(super) fn places(&self, manifest: &Value) -> Vec<(Option<i64>, String)> {
        let place = |entry: &Value| Some((entry["layer"].as_i64(), entry["point"].as_str()?.to_owned()));
        manifest["points"].as_array().into_iter().flatten().filter_map(place).collect()
    }

    /// What the index says of it: no table is read for that.
    pub(super) fn entry(&self, prefix: &str, manifest: &Value) -> Value {
        let has = |kind: &str| self.path(kind).exists();
        let blocks = |kind: &str| -> Value {
            let place = |(k, (layer, point)): (usize, &(Option<i64>, String))| json!({"layer": layer, "point": point, "block": format!("{prefix}.{kind}.{k}")});
            self.places(manifest).iter().enumerate().map(place).collect()
        };
        let points: serde_json::Map<String, Value> = KINDS.iter().filter(|kind| has(kind)).map(|kind| ((*kind).to_owned(), blocks(kind))).collect();
        json!({"step": self.step, "revision": self.revision, "points": points, "groups": has("groups").then(|| format!("{prefix}.groups"))})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_end_with_the_last() {
        let chosen = |length, count| evenly(length, count).collect::<Vec<usize>>();
        assert_eq!(chosen(9, 4), [0, 2, 5, 8]);
        assert_eq!((chosen(3, 10), chosen(7, 1), chosen(0, 5)), (vec![0, 1, 2], vec![6], vec![]));
    }
}
