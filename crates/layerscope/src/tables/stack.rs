//! Tables of several checkpoints as one.

use std::sync::Arc;

use layerscope_report::{Column, Table};

use crate::error::Result;
use crate::training::revisions::Revision;

/// Tables of the same columns below each other, with the revision and step that each is of.
pub fn stacked(parts: &[(&Revision, Table)]) -> Result<Table> {
    fn joined<T: Clone>(parts: &[(&Revision, Table)], values: impl Fn(&Table) -> Vec<Option<T>>) -> Vec<Option<T>> {
        parts.iter().flat_map(|(_, table)| values(table)).collect()
    }
    fn repeated<T: Clone>(parts: &[(&Revision, Table)], value: impl Fn(&Revision) -> Option<T>) -> Vec<Option<T>> {
        parts.iter().flat_map(|(revision, table)| vec![value(revision); table.rows()]).collect()
    }
    let revision = || Column::Text(repeated(parts, |revision| Some(Arc::from(revision.name.as_str()))));
    let step = || Column::Integer(repeated(parts, |revision| revision.step));
    let mut columns: Vec<(String, Column)> = Vec::new();
    for (name, like) in parts.iter().take(1).flat_map(|(_, table)| table.columns()) {
        let column = match (name, like) {
            ("revision", _) => revision(),
            ("step", _) => step(),
            (_, Column::Text(_)) => Column::Text(joined(parts, |table| match table.column(name) {
                Some(Column::Text(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
            (_, Column::Integer(_)) => Column::Integer(joined(parts, |table| match table.column(name) {
                Some(Column::Integer(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
            (_, Column::Real(_)) => Column::Real(joined(parts, |table| match table.column(name) {
                Some(Column::Real(values)) => values.clone(),
                _ => vec![None; table.rows()],
            })),
        };
        columns.push((name.to_owned(), column));
    }
    for (name, column) in [("revision", revision()), ("step", step())] {
        if !columns.iter().any(|(known, _)| known == name) {
            columns.push((name.to_owned(), column));
        }
    }
    Ok(Table::new(columns)?)
}
