//! Tables cut where the page looks at them: by point and by step, groups in one order at all points.

use std::collections::{HashMap, HashSet};

use super::block::{Block, Columns};
use crate::table::{Cell, Column, Table};

/// Columns that a group has at every point alike.
const GROUP: [&str; 5] = ["group_id", "group", "raw", "subwords", "n"];

/// A point and its rows in a table.
pub(super) type PointRows<'a> = (Option<i64>, &'a str, Vec<usize>);

/// The points of a table, in the order in which they come.
pub(super) fn by_point(table: &Table) -> Vec<PointRows<'_>> {
    let place = |row| (integer(table, "layer", row), text(table, "point", row).unwrap_or(""));
    apart(table.rows(), place).into_iter().map(|((layer, point), rows)| (layer, point, rows)).collect()
}

/// The steps of a table, in the order in which they come.
pub(super) fn by_step(table: &Table) -> Vec<(Option<i64>, Vec<usize>)> {
    apart(table.rows(), |row| integer(table, "step", row))
}

/// Rows apart by some key, keys in the order in which they come.
fn apart<K: std::hash::Hash + Eq + Copy>(rows: usize, key: impl Fn(usize) -> K) -> Vec<(K, Vec<usize>)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut parts: Vec<(K, Vec<usize>)> = Vec::new();
    for row in 0..rows {
        let own = key(row);
        let place = *places.entry(own).or_insert_with(|| {
            parts.push((own, Vec::new()));
            parts.len() - 1
        });
        parts[place].1.push(row);
    }
    parts
}

/// The groups of a run, each once, rarest first (frequent ones are drawn last, on top).
pub(super) struct Groups<'a> {
    table: &'a Table,
    /// A row that names the group.
    rows: Vec<usize>,
    places: HashMap<(Option<i64>, Option<&'a str>), usize>,
}

impl<'a> Groups<'a> {
    pub fn new(table: &'a Table) -> Self {
        let mut seen = HashSet::new();
        let mut rows: Vec<usize> = (0..table.rows()).filter(|&row| seen.insert(key(table, row))).collect();
        rows.sort_by_key(|&row| integer(table, "n", row));
        let places = rows.iter().enumerate().map(|(place, &row)| (key(table, row), place)).collect();
        Groups { table, rows, places }
    }

    /// What groups are called and how often they occur.
    pub fn names(&self) -> Block {
        let others: Vec<&str> = self.table.columns().map(|(name, _)| name).filter(|name| !GROUP.contains(name)).collect();
        Block::table(self.table, Some(&self.rows), &others, &[])
    }

    /// Their measures at one point, in the same order; and how often they occur there, should that differ.
    pub fn point(&self, rows: &[usize]) -> Block {
        let mut at = vec![None; self.rows.len()];
        for &row in rows {
            at[self.places[&key(self.table, row)]] = Some(row);
        }
        let mut columns = Columns::new(at.len());
        for (name, column) in self.table.columns() {
            match column {
                Column::Real(values) if !GROUP.contains(&name) => columns.reals(name, at.iter().map(|row| row.and_then(|row| values[row]))),
                _ => {}
            }
        }
        let count = |row: &usize| integer(self.table, "n", *row);
        if at.iter().zip(&self.rows).any(|(here, first)| here.as_ref().map_or(Some(0), count) != count(first)) {
            columns.integers("n", at.iter().map(|row| row.as_ref().map_or(Some(0), count)));
        }
        columns.finish()
    }
}

fn key(table: &Table, row: usize) -> (Option<i64>, Option<&str>) {
    (integer(table, "group_id", row), text(table, "group", row))
}

fn integer(table: &Table, column: &str, row: usize) -> Option<i64> {
    match table.column(column)?.cell(row) {
        Cell::Integer(number) => Some(number),
        _ => None,
    }
}

fn text<'a>(table: &'a Table, column: &str, row: usize) -> Option<&'a str> {
    match table.column(column)?.cell(row) {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}
