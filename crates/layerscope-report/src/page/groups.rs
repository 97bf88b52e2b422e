//! The table of groups: their names once, their measures at every point in the order of the names.

use std::collections::{HashMap, HashSet};

use super::block::{Block, Columns};
use super::cut::{Holder, states_of};
use crate::error::Result;
use crate::states::States;
use crate::table::{Column, Table};

/// Columns that a group has at every point alike.
const GROUP: [&str; 6] = ["group_id", "group", "raw", "subwords", "n", "special"];

/// The groups of a run, each once, rarest first (frequent ones are drawn last, on top).
pub(super) struct Groups {
    names: Table,
    /// Rows of `names` by id; more than one where groups share it.
    places: HashMap<Option<i64>, Vec<usize>>,
}

impl Groups {
    pub fn new(table: &Holder) -> Result<Groups> {
        let mut seen: HashSet<(Option<i64>, Option<String>)> = HashSet::new();
        let mut parts = Vec::new();
        let mut rows: Vec<(usize, usize)> = Vec::new();
        let wanted: Vec<&str> = GROUP.into_iter().chain(["selection"]).collect();
        for at in 0..table.pieces() {
            let piece = table.piece(at, Some(&wanted))?;
            let key = |row: usize| (piece.integer("group_id", row), piece.text("group", row).map(str::to_owned));
            // How often a group occurs is how many of all its states there are.
            let of_all = (0..piece.rows()).filter(|&row| states_of(&piece, row) == States::All);
            let fresh: Vec<(usize, usize)> = of_all.filter(|&row| seen.insert(key(row))).map(|row| (0, row)).collect();
            let others: Vec<&str> = piece.columns().map(|(name, _)| name).filter(|name| !GROUP.contains(name)).collect();
            rows.extend((0..fresh.len()).map(|row| (at, row)));
            parts.push(Table::gather(&[piece.as_ref()], &fresh)?.without(&others));
        }
        rows.sort_by_key(|&(part, row)| parts[part].integer("n", row));
        let names = Table::gather(&parts.iter().collect::<Vec<_>>(), &rows)?;
        let mut places: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
        (0..names.rows()).for_each(|row| places.entry(names.integer("group_id", row)).or_default().push(row));
        Ok(Groups { names, places })
    }

    /// What they are called and how often they occur.
    pub fn names(&self) -> Block {
        Block::table(&self.names, &[], &[])
    }

    /// Their measures at one point, in the same order; and how often they occur there, should that differ.
    pub fn point(&self, table: &Table) -> Block {
        let at = self.rows_of(table);
        let mut columns = Columns::new(at.len());
        reals(table, &at, &mut columns);
        if at.iter().enumerate().any(|(place, row)| count(table, *row) != self.names.integer("n", place)) {
            columns.integers("n", at.iter().map(|row| count(table, *row)));
        }
        columns.finish()
    }

    /// The measures of the groups whose typical states measure otherwise than all of them, their places first. A few sinks are in few
    /// groups, so that most groups are not repeated.
    pub fn difference(&self, typical: &Table, all: &Table) -> Block {
        let (own, whole) = (self.rows_of(typical), self.rows_of(all));
        let differs = |place: &usize| match (own[*place], whole[*place]) {
            (Some(a), Some(b)) => typical.columns().any(|(name, column)| {
                (column.reals().is_some() || name == "n") && Some(column.cell(a)) != all.column(name).map(|other| other.cell(b))
            }),
            (a, b) => a.is_some() != b.is_some(),
        };
        let places: Vec<usize> = (0..own.len()).filter(differs).collect();
        let at: Vec<Option<usize>> = places.iter().map(|&place| own[place]).collect();
        let mut columns = Columns::new(at.len());
        columns.integers("place", places.iter().map(|&place| Some(place as i64)));
        reals(typical, &at, &mut columns);
        columns.integers("n", at.iter().map(|row| count(typical, *row)));
        columns.finish()
    }

    /// The row of each group in a table of one point.
    fn rows_of(&self, table: &Table) -> Vec<Option<usize>> {
        let mut at = vec![None; self.names.rows()];
        for row in 0..table.rows() {
            let name = table.text("group", row);
            let place = self
                .places
                .get(&table.integer("group_id", row))
                .and_then(|places| places.iter().find(|&&place| self.names.text("group", place) == name));
            if let Some(&place) = place {
                at[place] = Some(row);
            }
        }
        at
    }
}

/// How often a group occurs; 0 where it has no row.
fn count(table: &Table, row: Option<usize>) -> Option<i64> {
    row.map_or(Some(0), |row| table.integer("n", row))
}

/// Adds the measures of these rows.
fn reals(table: &Table, rows: &[Option<usize>], columns: &mut Columns) {
    for (name, column) in table.columns() {
        if let Column::Real(values) = column {
            columns.reals(name, rows.iter().map(|row| row.and_then(|row| values[row])));
        }
    }
}
