//! The tables of weights as people read them: a row a matrix, and a row a norm.

use layerscope_report::{Column, Table};

use crate::error::Result;

/// The measures that fit a terminal; the long table has them all.
const MEASURES: [(&str, Option<&str>); 5] = [
    ("mean_cosine", None),
    ("partition", Some("default")),
    ("anisotropy_svd", Some("corpus")),
    ("isoscore", None),
    ("effective_rank", None),
];

/// The statistics that fit a terminal.
const STATISTICS: [&str; 5] = ["gamma_mean", "gamma_std", "gamma_norm", "beta_std", "beta_norm"];

/// A row a matrix and revision, from the table of measures.
pub(crate) fn wide_embeddings(long: &Table) -> Result<Table> {
    let key = |row: usize| (long.text("revision", row), long.text("point", row));
    let rows = firsts(long, key);
    let text = |name: &str| Column::text(rows.iter().map(|row| long.text(name, *row).map(str::to_owned)));
    let mut columns = vec![("revision", text("revision")), ("matrix", text("point")), ("rows", integers(long, "n", &rows))];
    for (measure, variant) in MEASURES {
        let is = |row: usize| long.text("measure", row) == Some(measure) && long.text("variant", row) == variant;
        columns.push((measure, values(long, &rows, key, is)));
    }
    said(columns)
}

/// A row a norm and revision, from the table of statistics.
pub(crate) fn wide_norms(long: &Table) -> Result<Table> {
    let key = |row: usize| (long.text("revision", row), long.integer("layer", row), long.text("norm", row));
    let rows = firsts(long, key);
    let text = |name: &str| Column::text(rows.iter().map(|row| long.text(name, *row).map(str::to_owned)));
    let mut columns = vec![("revision", text("revision")), ("layer", integers(long, "layer", &rows)), ("norm", text("norm"))];
    for statistic in STATISTICS {
        columns.push((statistic, values(long, &rows, key, |row| long.text("statistic", row) == Some(statistic))));
    }
    said(columns)
}

/// The first row of each key.
fn firsts<K: PartialEq>(table: &Table, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut rows: Vec<usize> = Vec::new();
    for row in 0..table.rows() {
        if !rows.iter().any(|first| key(*first) == key(row)) {
            rows.push(row);
        }
    }
    rows
}

fn integers(table: &Table, name: &str, rows: &[usize]) -> Column {
    Column::Integer(rows.iter().map(|row| table.integer(name, *row)).collect())
}

/// The value of each key in the row that `is` says.
fn values<K: PartialEq>(table: &Table, rows: &[usize], key: impl Fn(usize) -> K, is: impl Fn(usize) -> bool) -> Column {
    let value = |first: &usize| (0..table.rows()).find(|row| key(*row) == key(*first) && is(*row)).and_then(|row| table.real("value", row));
    Column::Real(rows.iter().map(value).collect())
}

/// The columns that say something.
fn said(columns: Vec<(&str, Column)>) -> Result<Table> {
    let says = |column: &Column| match column {
        Column::Text(cells) => cells.iter().any(Option::is_some),
        Column::Integer(cells) => cells.iter().any(Option::is_some),
        Column::Real(cells) => cells.iter().any(Option::is_some),
    };
    Ok(Table::new(columns.into_iter().filter(|(_, column)| says(column)))?)
}
