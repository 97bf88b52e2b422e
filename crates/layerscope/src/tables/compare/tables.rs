//! A comparison as tables: one row a pair for programs, runs side by side for people.

use std::ops::Range;

use layerscope_report::text::distinct;
use layerscope_report::{Cell, Column, Table};

use super::{Comparison, Difference, Key, Row, Value};
use crate::error::Result;
use crate::tables::states::{called, is_of};
use crate::tables::summary::short_real;

/// The measures of the overview: a heading, and what they are called.
const OVERVIEW: [(&str, &str, Option<&str>); 9] = [
    ("Q", "q", None),
    ("M/Q", "m_over_q", None),
    ("V_W/Q", "v_within_over_q", None),
    ("C.V. of Q", "cv_q", None),
    ("slope of V on M", "slope_v_on_m", None),
    ("R^2 of V on M", "r2_v_on_m", None),
    ("mean cosine", "mean_cosine", None),
    ("anisotropy (SVD)", "anisotropy_svd", Some("corpus")),
    ("intrinsic dimension (TwoNN)", "intrinsic_dimension", Some("twonn")),
];

/// Measures that have standard errors only with `--confidence`.
const WITH_CONFIDENCE: [&str; 2] = ["q", "mean_cosine"];

/// A row, and a run that is compared with the first.
struct Pair<'a> {
    row: &'a Row,
    run: usize,
}

impl Pair<'_> {
    fn first(&self) -> Option<&Value> {
        self.row.values[0].as_ref()
    }

    fn value(&self) -> Option<&Value> {
        self.row.values[self.run].as_ref()
    }

    fn difference(&self) -> Option<Difference> {
        self.row.differences[self.run]
    }
}

impl Comparison {
    /// One row a measure, place and run other than the first.
    pub fn tidy(&self) -> Result<Table> {
        let places = self.rows.iter().flat_map(|row| (1..row.values.len()).map(move |run| Pair { row, run }));
        let pairs: Vec<Pair> = places.filter(|pair| pair.value().is_some()).collect();
        let text = |of: &dyn Fn(&Pair) -> Option<String>| Column::text(pairs.iter().map(of));
        let real = |of: &dyn Fn(&Pair) -> Option<f64>| Column::Real(pairs.iter().map(of).collect());
        let integer = |of: &dyn Fn(&Pair) -> Option<i64>| Column::Integer(pairs.iter().map(of).collect());
        Ok(Table::new([
            ("run", text(&|pair| Some(self.labels[pair.run].clone()))),
            ("first", text(&|_| Some(self.labels[0].clone()))),
            ("layer", integer(&|pair| pair.value()?.layer)),
            ("point", text(&|pair| Some(pair.value()?.point.clone()))),
            ("depth", real(&|pair| pair.value()?.depth)),
            ("first_layer", integer(&|pair| pair.first()?.layer)),
            ("first_point", text(&|pair| Some(pair.first()?.point.clone()))),
            ("first_depth", real(&|pair| pair.first()?.depth)),
            ("selection", text(&|pair| Some(pair.row.key.selection.clone()))),
            ("measure", text(&|pair| Some(pair.row.key.measure.clone()))),
            ("variant", text(&|pair| pair.row.key.variant.clone())),
            ("step", integer(&|pair| pair.row.key.step)),
            ("value", real(&|pair| pair.value()?.value)),
            ("se", real(&|pair| pair.value()?.se)),
            ("n", integer(&|pair| pair.value()?.n)),
            ("first_value", real(&|pair| pair.first()?.value)),
            ("first_se", real(&|pair| pair.first()?.se)),
            ("first_n", integer(&|pair| pair.first()?.n)),
            ("difference", real(&|pair| Some(pair.difference()?.value))),
            ("difference_se", real(&|pair| pair.difference()?.se)),
            ("difference_error", text(&|pair| Some(error_name(pair.difference()?)?.to_owned()))),
        ])?)
    }

    /// One row a measure and place; a column a run, a difference and an error. Columns that say nothing are left out.
    pub fn wide(&self) -> Result<Table> {
        let first = |row: &Row| row.values[0].clone();
        let text = |of: &dyn Fn(&Row) -> Option<String>| Column::text(self.rows.iter().map(of));
        let real = |of: &dyn Fn(&Row) -> Option<f64>| Column::Real(self.rows.iter().map(of).collect());
        let integer = |of: &dyn Fn(&Row) -> Option<i64>| Column::Integer(self.rows.iter().map(of).collect());
        let mut columns = vec![
            ("layer".to_owned(), integer(&|row| first(row)?.layer)),
            ("point".to_owned(), text(&|row| Some(first(row)?.point))),
            ("selection".to_owned(), text(&|row| Some(row.key.selection.clone()))),
            ("measure".to_owned(), text(&|row| Some(row.key.measure.clone()))),
            ("variant".to_owned(), text(&|row| row.key.variant.clone())),
            ("step".to_owned(), integer(&|row| row.key.step)),
        ];
        for (run, label) in self.labels.iter().enumerate() {
            let value = |row: &Row| row.values[run].clone();
            if self.rows.iter().any(|row| value(row).is_some_and(|value| Some(value.layer) != first(row).map(|first| first.layer))) {
                columns.push((format!("{label} layer"), integer(&|row| value(row)?.layer)));
            }
            columns.push((label.clone(), real(&|row| value(row)?.value)));
            columns.push((format!("{label} ±"), real(&|row| value(row)?.se)));
        }
        for (run, label) in self.labels.iter().enumerate().skip(1) {
            let name = format!("{label} - {}", self.labels[0]);
            columns.push((name.clone(), real(&|row| Some(row.differences[run]?.value))));
            columns.push((format!("{name} ±"), real(&|row| row.differences[run]?.se)));
        }
        let says = |column: &Column| (0..column.len()).any(|row| column.cell(row) != Cell::Null);
        columns.retain(|(_, column)| says(column));
        let (names, columns): (Vec<String>, Vec<Column>) = columns.into_iter().unzip();
        Ok(Table::new(distinct(names).into_iter().zip(columns))?)
    }

    /// A few measures in lines that fit a terminal; all that there are where `all` is set.
    pub fn overview(&self, all: bool) -> String {
        let letters: Vec<String> = (0..self.labels.len()).map(letter).collect();
        let mut lines: Vec<String> = letters.iter().zip(&self.labels).map(|(letter, label)| format!("{letter}  {label}")).collect();
        lines.extend(self.massive.iter().cloned());
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for row in 0..self.rows.len() {
            match blocks.last_mut() {
                Some(block) if self.rows[block.start].key == self.rows[row].key => block.end = row + 1,
                _ => blocks.push(row..row + 1),
            }
        }
        // What the summary of a run shows comes first, then the rest of the same states.
        blocks.sort_by_key(|block| {
            let key = &self.rows[block.start].key;
            (!self.leads(key), !is_of(&key.selection, self.states))
        });
        for block in blocks {
            let rows = &self.rows[block.clone()];
            let key = &rows[0].key;
            // Errors that were asked for are shown, whatever selection they are of.
            let adds_errors = rows.iter().any(|row| has_paired(&row.differences)) || (has_errors(rows) && !self.leading_has_errors(key));
            let is_shown = self.leads(key) || adds_errors;
            let known =
                OVERVIEW.iter().find(|(_, measure, variant)| (key.measure.as_str(), key.variant.as_deref()) == (*measure, *variant));
            let heading = match known {
                Some((heading, ..)) if is_shown || all => Some(format!("{heading} over {}", called(&key.selection))),
                None if all => {
                    let name = [Some(key.measure.as_str()), key.variant.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
                    Some(format!("{name} over {}", called(&key.selection)))
                }
                _ => None,
            };
            if let Some(heading) = heading {
                let step = key.step.map_or(String::new(), |step| format!(", step {step}"));
                lines.extend([String::new(), format!("{heading}{step}")]);
                lines.extend(self.block(&letters, block));
            }
        }
        lines.extend(self.about_errors(&letters).into_iter().flat_map(|line| [String::new(), line]));
        lines.join("\n")
    }

    /// Which runs have no standard errors of what is shown, and how to get them.
    fn about_errors(&self, letters: &[String]) -> Option<String> {
        let is_shown = self.rows.iter().any(|row| WITH_CONFIDENCE.contains(&row.key.measure.as_str()));
        let without: Vec<&str> = self.without_confidence.iter().map(|run| letters[*run].as_str()).collect();
        let (last, others) = without.split_last().filter(|_| is_shown)?;
        let (runs, have) =
            if others.is_empty() { ((*last).to_owned(), "has") } else { (format!("{} and {last}", others.join(", ")), "have") };
        Some(format!("{runs} {have} no standard errors of Q and the mean cosine: measure with --confidence to get them"))
    }

    /// Whether the rows of a measure that lead have standard errors.
    fn leading_has_errors(&self, key: &Key) -> bool {
        let is = |row: &Row| (&row.key.measure, &row.key.variant) == (&key.measure, &key.variant) && self.leads(&row.key);
        self.rows.iter().filter(|row| is(row)).any(|row| has_errors(std::slice::from_ref(row)))
    }

    /// The lines of one measure.
    fn block(&self, letters: &[String], rows: Range<usize>) -> Vec<String> {
        let rows = &self.rows[rows];
        let mut headings = vec!["layer".to_owned()];
        headings.extend(letters.iter().cloned());
        headings.extend(letters.iter().skip(1).flat_map(|letter| [format!("{letter} - {}", letters[0]), "±".to_owned()]));
        let number = |number: Option<f64>| number.map_or("-".to_owned(), short_real);
        let cells = |row: &Row| {
            let mut cells = vec![place(row)];
            cells.extend(row.values.iter().map(|value| number(value.as_ref().and_then(|value| value.value))));
            let differences = row.differences.iter().skip(1);
            cells.extend(differences.flat_map(|own| [number(own.map(|own| own.value)), number(own.and_then(|own| own.se))]));
            cells
        };
        let table: Vec<Vec<String>> = std::iter::once(headings).chain(rows.iter().map(cells)).collect();
        let first = table.iter().map(|cells| cells[0].chars().count()).max().unwrap_or(0).max(8);
        let line = |cells: &Vec<String>| {
            let rest = cells[1..].iter().map(|cell| format!("{cell:>11}")).collect::<String>();
            format!("{:<first$}{rest}", cells[0])
        };
        table.iter().map(line).collect()
    }
}

fn has_errors(rows: &[Row]) -> bool {
    rows.iter().flat_map(|row| row.differences.iter().flatten()).any(|own| own.se.is_some())
}

fn has_paired(differences: &[Option<Difference>]) -> bool {
    differences.iter().flatten().any(|own| own.paired)
}

/// Where a row is: the first run's layer, and the others' where they are not the same.
fn place(row: &Row) -> String {
    let name = |value: &Value| match (value.layer, value.point.as_str()) {
        (Some(layer), "embedding") => format!("{layer} emb"),
        (Some(layer), "final_norm") => format!("{layer} norm"),
        (Some(layer), "projected") => format!("{layer} proj"),
        (Some(layer), _) => layer.to_string(),
        (None, point) => point.to_owned(),
    };
    let mut names: Vec<String> = row.values.iter().map(|value| value.as_ref().map_or("-".to_owned(), name)).collect();
    if names.iter().all(|name| *name == names[0]) {
        names.truncate(1);
    }
    names.join(" | ")
}

fn error_name(difference: Difference) -> Option<&'static str> {
    difference.se.map(|_| if difference.paired { "paired" } else { "independent" })
}

/// A, B, ..., Z, R27, ...
fn letter(run: usize) -> String {
    u8::try_from(run).ok().filter(|run| *run < 26).map_or_else(|| format!("R{}", run + 1), |run| char::from(b'A' + run).to_string())
}
