//! The table of the chosen tokens' components, which has layers times tokens times width rows.
//!
//! A block has mean and variance as f32, for pictures; the page adds up q = mean^2 + variance itself.

use std::collections::HashMap;

use super::block::{Block, Columns};
use crate::table::Table;

/// So many rows go into a page of one file, 8 bytes each; a server has no such limit.
pub(super) const ROWS: usize = 2_000_000;

/// All rows of one point.
pub(super) fn block(table: &Table) -> Block {
    written(table, table, &(0..table.rows()).map(|row| (row, Some(row))).collect::<Vec<_>>())
}

/// The rows of the tokens whose typical states measure otherwise than all of them. A token of which no state is typical has one row
/// without a component.
pub(super) fn difference(typical: &Table, all: &Table) -> Block {
    let own: HashMap<Option<i64>, Vec<usize>> = by_token(typical).into_iter().collect();
    let same = |a: usize, b: usize| ["component", "mean", "variance"].iter().all(|name| typical.real(name, a) == all.real(name, b));
    let mut rows = Vec::new();
    for (id, of_all) in by_token(all) {
        match own.get(&id) {
            None => rows.push((of_all[0], None)),
            Some(of_typical) if of_typical.len() == of_all.len() && of_typical.iter().zip(&of_all).all(|(&a, &b)| same(a, b)) => {}
            Some(of_typical) => rows.extend(of_typical.iter().map(|&row| (of_all[0], Some(row)))),
        }
    }
    written(all, typical, &rows)
}

/// The tokens of a table, in the order in which they come, with the rows of each.
fn by_token(table: &Table) -> Vec<(Option<i64>, Vec<usize>)> {
    let mut tokens: Vec<(Option<i64>, Vec<usize>)> = Vec::new();
    let mut places: HashMap<Option<i64>, usize> = HashMap::new();
    for row in 0..table.rows() {
        let id = table.integer("group_id", row);
        let place = *places.entry(id).or_insert_with(|| {
            tokens.push((id, Vec::new()));
            tokens.len() - 1
        });
        tokens[place].1.push(row);
    }
    tokens
}

/// Rows as a block: each has a row of `names`, which says whose it is, and one of `values`.
fn written(names: &Table, values: &Table, rows: &[(usize, Option<usize>)]) -> Block {
    let mut columns = Columns::new(rows.len());
    columns.integers("group_id", rows.iter().map(|(name, _)| names.integer("group_id", *name)));
    columns.text("token", rows.iter().map(|(name, _)| names.text("token", *name)));
    columns.integers("component", rows.iter().map(|(_, row)| values.integer("component", (*row)?)));
    for name in ["mean", "variance"] {
        columns.singles(name, rows.iter().map(|(_, row)| values.real(name, (*row)?)));
    }
    columns.finish()
}
