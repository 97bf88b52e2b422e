//! Named columns of equal length.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::text::visible;

/// The values of one column; undefined values are `None`.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Names: rows may share one.
    Text(Vec<Option<Arc<str>>>),
    /// Counts and indices.
    Integer(Vec<Option<i64>>),
    /// Measures: finite, or `None`.
    Real(Vec<Option<f64>>),
}

/// One value of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Undefined.
    Null,
    /// A name.
    Text(&'a str),
    /// A count or an index.
    Integer(i64),
    /// A finite number.
    Real(f64),
}

impl Column {
    /// A column of names. Equal ones that follow each other share their memory.
    pub fn text<N: AsRef<str>>(names: impl IntoIterator<Item = Option<N>>) -> Column {
        let mut last: Arc<str> = Arc::default();
        let shared = |name: N| {
            if *last != *name.as_ref() {
                last = Arc::from(name.as_ref());
            }
            Arc::clone(&last)
        };
        Column::Text(names.into_iter().scan(shared, |shared, name| Some(name.map(shared))).collect())
    }

    /// Number of values, including nulls.
    pub fn len(&self) -> usize {
        match self {
            Column::Text(values) => values.len(),
            Column::Integer(values) => values.len(),
            Column::Real(values) => values.len(),
        }
    }

    /// Whether there are no values at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value in this row; null beyond the end.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        fn at<T>(values: &[Option<T>], row: usize) -> Option<&T> {
            values.get(row).and_then(Option::as_ref)
        }
        let cell = match self {
            Column::Text(values) => at(values, row).map(|text| Cell::Text(text)),
            Column::Integer(values) => at(values, row).map(|&number| Cell::Integer(number)),
            Column::Real(values) => at(values, row).map(|&number| Cell::Real(number)),
        };
        cell.unwrap_or(Cell::Null)
    }

    /// Its names, if it is a column of text.
    pub fn texts(&self) -> Option<&[Option<Arc<str>>]> {
        if let Column::Text(values) = self { Some(values) } else { None }
    }

    /// Its integers, if it is a column of them.
    pub fn integers(&self) -> Option<&[Option<i64>]> {
        if let Column::Integer(values) = self { Some(values) } else { None }
    }

    /// Its numbers, if it is a column of reals.
    pub fn reals(&self) -> Option<&[Option<f64>]> {
        if let Column::Real(values) = self { Some(values) } else { None }
    }

    /// Whether its values are numbers.
    pub fn is_numeric(&self) -> bool {
        !matches!(self, Column::Text(_))
    }

    /// The first row whose number is NaN or infinite.
    fn not_finite(&self) -> Option<usize> {
        let Column::Real(values) = self else { return None };
        values.iter().position(|value| value.is_some_and(|number| !number.is_finite()))
    }
}

/// Columns of equal length and with distinct names. All numbers are finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

impl Table {
    /// A table of these columns, in this order.
    ///
    /// It is an error if there is no column, if columns differ in length, if a name is empty or repeated, or if a number is not finite:
    /// undefined values must be null.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Column)>) -> Result<Self> {
        let columns: Vec<(String, Column)> = columns.into_iter().map(|(name, column)| (name.into(), column)).collect();
        let Some((first, model)) = columns.first() else {
            return Err(Error::table("a table needs at least one column"));
        };
        for (i, (name, column)) in columns.iter().enumerate() {
            let shown = visible(name);
            if name.is_empty() {
                return Err(Error::table(format!("column {} has no name", i + 1)));
            }
            if columns[..i].iter().any(|(other, _)| other == name) {
                return Err(Error::table(format!("two columns are named `{shown}`")));
            }
            if column.len() != model.len() {
                let first = visible(first);
                return Err(Error::table(format!("column `{shown}` has {} rows, `{first}` has {}", column.len(), model.len())));
            }
            if let Some(row) = column.not_finite() {
                return Err(Error::table(format!("column `{shown}`, row {}: not a finite number; undefined must be null", row + 1)));
            }
        }
        Ok(Table { columns })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// The names and columns, in order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&str, &Column)> {
        self.columns.iter().map(|(name, column)| (name.as_str(), column))
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, column)| column)
    }

    /// Rows of several tables with the same columns. A row is given by the index of its table and its index there.
    pub fn gather(tables: &[&Table], rows: &[(usize, usize)]) -> Result<Table> {
        fn taken<T: Clone>(rows: &[(usize, usize)], columns: Vec<Option<&[Option<T>]>>) -> Option<Vec<Option<T>>> {
            let columns: Vec<&[Option<T>]> = columns.into_iter().collect::<Option<_>>()?;
            rows.iter().map(|&(table, row)| columns.get(table)?.get(row).cloned()).collect()
        }
        let Some(first) = tables.first() else { return Err(Error::table("no tables to gather rows from")) };
        let column = |(name, model): &(String, Column)| {
            let own = || tables.iter().map(|table| table.column(name));
            let gathered = match model {
                Column::Text(_) => taken(rows, own().map(|column| column?.texts()).collect()).map(Column::Text),
                Column::Integer(_) => taken(rows, own().map(|column| column?.integers()).collect()).map(Column::Integer),
                Column::Real(_) => taken(rows, own().map(|column| column?.reals()).collect()).map(Column::Real),
            };
            gathered
                .map(|column| (name.clone(), column))
                .ok_or_else(|| Error::table(format!("column `{}` differs between tables", visible(name))))
        };
        Table::new(first.columns.iter().map(column).collect::<Result<Vec<_>>>()?)
    }

    /// The text of a cell; `None` if it is undefined, of another type or missing.
    pub fn text(&self, column: &str, row: usize) -> Option<&str> {
        self.column(column)?.texts()?.get(row)?.as_deref()
    }

    /// The integer of a cell; `None` if it is undefined, of another type or missing.
    pub fn integer(&self, column: &str, row: usize) -> Option<i64> {
        self.column(column)?.integers()?.get(row).copied().flatten()
    }

    /// The number of a cell, real or integer; `None` if it is undefined, of another type or missing.
    pub fn real(&self, column: &str, row: usize) -> Option<f64> {
        match self.column(column)?.cell(row) {
            Cell::Real(number) => Some(number),
            Cell::Integer(number) => Some(number as f64),
            _ => None,
        }
    }

    /// The table without some columns; at least one must remain.
    pub fn without(&self, names: &[&str]) -> Table {
        Table { columns: self.columns.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect() }
    }

    /// The cells of one row, in the order of the columns.
    pub fn row(&self, row: usize) -> impl ExactSizeIterator<Item = Cell<'_>> {
        self.columns.iter().map(move |(_, column)| column.cell(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(columns: Vec<(&str, Column)>) -> String {
        Table::new(columns).unwrap_err().to_string()
    }

    #[test]
    fn cells_are_found_by_name_and_row() {
        let layers = Column::Integer(vec![Some(0), None]);
        let table = Table::new([("layer", layers.clone()), ("q", Column::Real(vec![Some(0.5), Some(-0.0)]))]).unwrap();
        assert_eq!(table.rows(), 2);
        assert_eq!(table.column("layer"), Some(&layers));
        assert_eq!(table.column("Layer"), None);
        assert_eq!(table.row(0).collect::<Vec<_>>(), [Cell::Integer(0), Cell::Real(0.5)]);
        assert_eq!(table.row(1).collect::<Vec<_>>(), [Cell::Null, Cell::Real(0.0)]);
        assert_eq!(table.row(2).collect::<Vec<_>>(), [Cell::Null, Cell::Null]);
        assert_eq!(table.columns().map(|(name, _)| name).collect::<Vec<_>>(), ["layer", "q"]);
        assert_eq!((table.integer("layer", 0), table.integer("layer", 1), table.integer("q", 0)), (Some(0), None, None));
        assert_eq!((table.real("q", 0), table.real("layer", 0), table.text("layer", 0)), (Some(0.5), Some(0.0), None));
    }

    #[test]
    fn rows_are_gathered_from_several_tables() {
        let table = |values: [i64; 2]| Table::new([("n", Column::Integer(values.map(Some).to_vec()))]).unwrap();
        let (a, b) = (table([1, 2]), table([3, 4]));
        let gathered = Table::gather(&[&a, &b], &[(1, 1), (0, 0)]).unwrap();
        assert_eq!(gathered, table([4, 1]));
        assert!(Table::gather(&[&a, &b], &[(0, 2)]).is_err());
        assert!(Table::gather(&[&a, &Table::new([("m", Column::Real(vec![]))]).unwrap()], &[]).is_err());
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let two = || Column::Integer(vec![Some(1), None]);
        assert_eq!(problem(vec![]), "a table needs at least one column");
        assert_eq!(problem(vec![("a", two()), ("", two())]), "column 2 has no name");
        assert_eq!(problem(vec![("a", two()), ("a", two())]), "two columns are named `a`");
        assert_eq!(problem(vec![("a", two()), ("b\n", Column::Text(vec![]))]), "column `b\\u{a}` has 0 rows, `a` has 2");
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let reals = Column::Real(vec![None, Some(1.0), Some(number)]);
            assert_eq!(problem(vec![("q", reals)]), "column `q`, row 3: not a finite number; undefined must be null");
        }
    }
}
