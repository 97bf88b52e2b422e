//! What a trajectory's page has beyond its own tables: the runs of its steps, and its embedding matrices on a plane.

use serde_json::{Value, json};

use super::block::Block;
use super::cut::Cut;
use super::index::{TOKEN_COMPONENTS, cuts_in};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::run::{Run, Step};
use crate::table::Table;

/// What the tables of steps may take in a page of one file, in bytes of their Parquet files; a server has no such limit.
const BYTES: u64 = 32_000_000;

/// So many steps of embedding matrices go into a file.
const PROJECTED: usize = 40;

/// How much of the steps a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Every step.
    All,
    /// As many as a file may hold: evenly spaced, the last among them.
    Some,
}

/// A step of a trajectory: its tables stay in its folder.
pub(super) struct StepSource {
    step: Step,
    cuts: Vec<Cut<'static>>,
}

/// The steps that a page has, with some of the large tables.
pub(super) fn steps_of(run: &Run, parts: Parts, kinds: &[&'static str]) -> Result<Vec<StepSource>> {
    let steps = run.steps();
    // The largest table is left to the server: for one of it a file holds several steps of the others.
    let kinds: Vec<&'static str> = kinds.iter().copied().filter(|kind| parts == Parts::All || *kind != TOKEN_COMPONENTS).collect();
    let file = |step: &Step, kind: &&str| Some(step.folder.join(format!("{kind}.parquet")).metadata().ok()?.len());
    let size = |step: &Step| kinds.iter().filter_map(|kind| file(step, kind)).sum::<u64>();
    let largest = steps.iter().map(size).max().unwrap_or(0).max(1);
    let count = if parts == Parts::All { steps.len() } else { (BYTES / largest).max(1) as usize };
    let source = |step: Step| Ok(StepSource { cuts: cuts_in(&step.folder, &Manifest::read(&step.folder)?, &kinds)?, step });
    evenly(steps, count).map(source).collect()
}

/// So many, evenly spaced, the last one among them.
pub(super) fn evenly<T>(all: Vec<T>, count: usize) -> impl Iterator<Item = T> {
    let (count, last) = (count.min(all.len()), all.len().saturating_sub(1));
    let chosen: Vec<usize> = (0..count).map(|i| if count == 1 { last } else { i * last / (count - 1) }).collect();
    all.into_iter().enumerate().filter(move |(i, _)| chosen.contains(i)).map(|(_, one)| one)
}

impl StepSource {
    /// Every large table, and the name of its blocks without their number.
    pub fn cuts(&self, prefix: &str) -> impl Iterator<Item = (String, &Cut<'static>)> {
        self.cuts.iter().map(move |cut| (format!("{prefix}.{}.", cut.kind), cut))
    }

    /// What its groups are called.
    pub fn names(&self) -> Option<Block> {
        self.cuts.iter().find_map(Cut::names)
    }

    /// What the index says of it.
    pub fn entry(&self, prefix: &str, points: Value) -> Value {
        let groups = self.cuts.iter().any(|cut| cut.kind == "groups").then(|| format!("{prefix}.groups"));
        json!({"step": self.step.step, "revision": self.step.revision, "points": points, "groups": groups})
    }
}

/// Embedding matrices at one step: points, ids and places.
pub(super) struct Projection {
    pub step: Option<i64>,
    table: Table,
}

impl Projection {
    /// Those of a run, step by step.
    pub fn all(run: &Run, parts: Parts) -> Result<Vec<Projection>> {
        let Some(table) = run.read_table("projections")? else { return Ok(Vec::new()) };
        let mut steps: Vec<(Option<i64>, Vec<usize>)> = Vec::new();
        for row in 0..table.rows() {
            let step = table.integer("step", row);
            match steps.last_mut().filter(|(last, _)| *last == step) {
                Some((_, rows)) => rows.push(row),
                None => steps.push((step, vec![row])),
            }
        }
        let count = if parts == Parts::All { steps.len() } else { PROJECTED };
        let of = |rows: Vec<usize>| Table::gather(&[&table], &rows.into_iter().map(|row| (0, row)).collect::<Vec<_>>());
        evenly(steps, count).map(|(step, rows)| Ok(Projection { step, table: of(rows)? })).collect()
    }

    pub fn block(&self) -> Block {
        Block::table(&self.table, &["revision", "step"], &["x", "y"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_end_with_the_last() {
        let chosen = |length: usize, count| evenly((0..length).collect(), count).collect::<Vec<usize>>();
        assert_eq!(chosen(9, 4), [0, 2, 5, 8]);
        assert_eq!((chosen(3, 10), chosen(7, 1), chosen(0, 5)), (vec![0, 1, 2], vec![6], vec![]));
    }
}
