//! Tables built row by row: the numbers of a figure.

use crate::error::Result;
use crate::table::{Cell, Column, Table};

/// What a column holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Integer,
    Real,
}

pub(crate) struct Rows {
    columns: Vec<(String, Column)>,
}

impl Rows {
    pub fn new(columns: &[(&str, Kind)]) -> Rows {
        let empty = |kind: Kind| match kind {
            Kind::Text => Column::Text(Vec::new()),
            Kind::Integer => Column::Integer(Vec::new()),
            Kind::Real => Column::Real(Vec::new()),
        };
        Rows { columns: columns.iter().map(|(name, kind)| ((*name).to_owned(), empty(*kind))).collect() }
    }

    /// One row; a cell of another kind than its column is null, as are numbers that are not finite.
    pub fn push(&mut self, cells: &[Cell]) {
        for (i, (_, column)) in self.columns.iter_mut().enumerate() {
            match (column, cells.get(i)) {
                (Column::Text(values), cell) => values.push(if let Some(Cell::Text(text)) = cell { Some((*text).into()) } else { None }),
                (Column::Integer(values), cell) => values.push(if let Some(Cell::Integer(number)) = cell { Some(*number) } else { None }),
                (Column::Real(values), cell) => values.push(match cell {
                    Some(Cell::Real(number)) if number.is_finite() => Some(*number),
                    _ => None,
                }),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.columns.iter().all(|(_, column)| column.is_empty())
    }

    pub fn table(self) -> Result<Table> {
        Table::new(self.columns)
    }
}

/// An optional number as a cell.
pub(crate) fn real(value: Option<f64>) -> Cell<'static> {
    value.map_or(Cell::Null, Cell::Real)
}

/// An optional count as a cell.
pub(crate) fn integer(value: Option<i64>) -> Cell<'static> {
    value.map_or(Cell::Null, Cell::Integer)
}
