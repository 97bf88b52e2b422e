//! What a trajectory and a final norm show, computed from the table of layers.

use std::collections::HashMap;
use std::fmt::Write;

use layerscope_report::lead::Measured;
use layerscope_report::{Cell, Column, States, Table};

use crate::error::Result;
use crate::tables::states::{WIDTH, called};
use crate::tables::summary::short_real;
use crate::text::wrapped;

/// Headings of a trajectory's overview, and the measures under them: name, variant.
const COLUMNS: [(&str, &str, Option<&str>); 7] = [
    ("Q", "q", None),
    ("M/Q", "m_over_q", None),
    ("cosine", "mean_cosine", None),
    ("slope", "slope_v_on_m", None),
    ("R^2", "r2_v_on_m", None),
    ("SVD", "anisotropy_svd", Some("corpus")),
    ("TwoNN", "intrinsic_dimension", Some("twonn")),
];

/// The rows of a table of layers, by what they say.
struct Rows<'a>(&'a Table);

impl<'a> Rows<'a> {
    fn text(&self, name: &str, row: usize) -> Option<&'a str> {
        match self.0.column(name).map(|column| column.cell(row)) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn integer(&self, name: &str, row: usize) -> Option<i64> {
        match self.0.column(name).map(|column| column.cell(row)) {
            Some(Cell::Integer(number)) => Some(number),
            _ => None,
        }
    }

    fn value(&self, row: usize) -> Option<f64> {
        match self.0.column("value").map(|column| column.cell(row)) {
            Some(Cell::Real(number)) => Some(number),
            _ => None,
        }
    }

    /// The names of revisions in the order of the table, and the rows of each.
    fn by_revision(&self) -> Vec<(Option<&'a str>, Vec<usize>)> {
        let mut parts: Vec<(Option<&'a str>, Vec<usize>)> = Vec::new();
        for row in 0..self.0.rows() {
            let revision = self.text("revision", row);
            match parts.last_mut() {
                Some((last, rows)) if *last == revision => rows.push(row),
                _ => parts.push((revision, vec![row])),
            }
        }
        parts
    }
}

/// One line a checkpoint: means over the embedding and all blocks (the final norm apart), for people. Every measure is of the selection
/// that leads, and the first lines name it.
pub fn trajectory_summary(layers: &Table, states: States) -> String {
    let rows = Rows(layers);
    let measured = Measured::of(&[layers]);
    let selections = COLUMNS.map(|(_, measure, variant)| measured.selection(states, measure, variant));
    let mut lines = wrapped(&format!("means over the embedding and all blocks, {}", over(&selections)), WIDTH);
    lines.push([format!("{:<12}", "revision")].into_iter().chain(COLUMNS.iter().map(|(heading, ..)| format!("{heading:>10}"))).collect());
    for (revision, own) in rows.by_revision() {
        let mut line = format!("{:<12}", revision.unwrap_or("-"));
        for ((_, measure, variant), selection) in COLUMNS.into_iter().zip(selections) {
            let wanted = |row: &&usize| {
                matches!(rows.text("point", **row), Some("embedding" | "block"))
                    && rows.text("selection", **row) == selection
                    && rows.text("measure", **row) == Some(measure)
                    && rows.text("variant", **row) == variant
            };
            let values: Vec<f64> = own.iter().filter(wanted).filter_map(|row| rows.value(*row)).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            let _ = write!(line, "{:>10}", mean.map_or("-".to_owned(), short_real));
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// What the columns are over: the selection of the first, and each that is over another.
fn over(selections: &[Option<&'static str>; COLUMNS.len()]) -> String {
    let lead = selections.iter().flatten().next().copied().unwrap_or("all");
    let others = COLUMNS.iter().zip(selections).filter_map(|((heading, ..), own)| own.filter(|own| *own != lead).map(|own| (heading, own)));
    let others = others.map(|(heading, own)| format!("; {heading} over {}", called(own)));
    [format!("over {}", called(lead))].into_iter().chain(others).collect()
}

/// Every measure just before the final norm (`block` of the last layer), just after it, and the difference; None without such a norm.
pub fn final_norm_table(layers: &Table) -> Result<Option<Table>> {
    let rows = Rows(layers);
    let after: Vec<usize> = (0..layers.rows()).filter(|row| rows.text("point", *row) == Some("final_norm")).collect();
    type Key<'a> = (Option<&'a str>, Option<i64>, Option<&'a str>, Option<&'a str>, Option<&'a str>);
    let key = |row: usize| -> Key<'_> {
        let text = |name: &str| rows.text(name, row);
        (text("revision"), rows.integer("layer", row), text("selection"), text("measure"), text("variant"))
    };
    let before: HashMap<Key<'_>, usize> =
        (0..layers.rows()).filter(|row| rows.text("point", *row) == Some("block")).map(|row| (key(row), row)).collect();
    let pairs: Vec<(usize, usize)> = after.iter().filter_map(|&row| before.get(&key(row)).map(|&earlier| (earlier, row))).collect();
    if pairs.is_empty() {
        return Ok(None);
    }
    let text = |name: &str| Column::text(pairs.iter().map(|(_, row)| rows.text(name, *row).map(str::to_owned)));
    let difference = |(before, after): &(usize, usize)| Some(rows.value(*after)? - rows.value(*before)?);
    Ok(Some(Table::new([
        ("model", text("model")),
        ("revision", text("revision")),
        ("layer", Column::Integer(pairs.iter().map(|(_, row)| rows.integer("layer", *row)).collect())),
        ("selection", text("selection")),
        ("measure", text("measure")),
        ("variant", text("variant")),
        ("before", Column::Real(pairs.iter().map(|(before, _)| rows.value(*before)).collect())),
        ("after", Column::Real(pairs.iter().map(|(_, after)| rows.value(*after)).collect())),
        ("difference", Column::Real(pairs.iter().map(difference).collect())),
        ("step", Column::Integer(pairs.iter().map(|(_, row)| rows.integer("step", *row)).collect())),
    ])?))
}

/// What the final norm does, in a few lines; nothing for models without one.
pub fn final_norm_summary(layers: &Table, states: States) -> Result<Option<String>> {
    let Some(table) = final_norm_table(layers)? else { return Ok(None) };
    let rows = Rows(&table);
    let real = |name: &str, row: usize| match table.column(name).map(|column| column.cell(row)) {
        Some(Cell::Real(number)) => short_real(number),
        _ => "-".to_owned(),
    };
    let several = rows.by_revision().len() > 1;
    let measured = Measured::of(&[layers]);
    // A trajectory's lines begin with the revision, and are of one short name.
    let width = if several { 14 } else { 28 };
    let mut out = format!(
        "{}{:<width$}{:<17}{:>10}{:>10}{:>12}",
        if several { format!("{:<12}", "revision") } else { String::new() },
        "final norm",
        "selection",
        "before",
        "after",
        "difference"
    );
    for (revision, own) in rows.by_revision() {
        for (_, measure, variant) in COLUMNS {
            let selection = measured.selection(states, measure, variant);
            let wanted = |row: &&usize| {
                (rows.text("selection", **row), rows.text("measure", **row), rows.text("variant", **row))
                    == (selection, Some(measure), variant)
            };
            // A trajectory is told by its cosines alone; `show --table final-norm` has everything.
            if let Some(&row) = own.iter().find(wanted).filter(|_| !several || measure == "mean_cosine") {
                let name = variant.map_or(measure.to_owned(), |variant| format!("{measure} {variant}"));
                let first = if several { format!("{:<12}", revision.unwrap_or("-")) } else { String::new() };
                let values = format!("{:>10}{:>10}{:>12}", real("before", row), real("after", row), real("difference", row));
                let _ = write!(out, "\n{first}{name:<width$}{:<17}{values}", selection.unwrap_or_default());
            }
        }
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = [
            ("step0", 0, "embedding", 0.5, 0),
            ("step0", 1, "block", 0.75, 0),
            ("step0", 1, "final_norm", 0.25, 0),
            ("step8", 0, "embedding", 0.1, 8),
            ("step8", 1, "block", 0.3, 8),
            ("step8", 1, "final_norm", 0.9, 8),
        ];
        let text = |of: &dyn Fn(usize) -> &'static str| Column::text((0..rows.len()).map(|row| Some(of(row))));
        Table::new([
            ("model", text(&|_| "m")),
            ("revision", text(&|row| rows[row].0)),
            ("layer", Column::Integer(rows.iter().map(|row| Some(row.1)).collect())),
            ("point", text(&|row| rows[row].2)),
            ("selection", text(&|_| "all")),
            ("measure", text(&|_| "mean_cosine")),
            ("variant", Column::Text(vec![None; rows.len()])),
            ("value", Column::Real(rows.iter().map(|row| Some(row.3)).collect())),
            ("step", Column::Integer(rows.iter().map(|row| Some(row.4)).collect())),
        ])
        .expect("a table")
    }

    #[test]
    fn the_final_norm_is_one_subtraction() {
        let norm = final_norm_table(&table()).expect("a table").expect("a norm");
        assert_eq!(norm.column("before"), Some(&Column::Real(vec![Some(0.75), Some(0.3)])));
        assert_eq!(norm.column("after"), Some(&Column::Real(vec![Some(0.25), Some(0.9)])));
        assert_eq!(norm.column("difference"), Some(&Column::Real(vec![Some(-0.5), Some(0.9 - 0.3)])));
        assert_eq!(norm.column("step"), Some(&Column::Integer(vec![Some(0), Some(8)])));
        let shown = final_norm_summary(&table(), States::All).expect("a table").expect("a norm");
        assert!(
            shown.lines().nth(1).expect("a line").split_whitespace().eq(["step0", "mean_cosine", "all", "0.7500", "0.2500", "-0.5000"]),
            "{shown}"
        );
    }

    #[test]
    fn a_checkpoints_line_has_means_over_its_layers() {
        let shown = trajectory_summary(&table(), States::All);
        let line =
            |name: &str| shown.lines().find(|line| line.starts_with(name)).expect("a line").split_whitespace().nth(3).map(str::to_owned);
        assert_eq!((line("step0"), line("step8")), (Some("0.6250".to_owned()), Some("0.2000".to_owned())), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= 82), "{shown}");
    }
}
