//! Figures drawn for a test, and what the runs' tables say by definition.

use std::collections::BTreeMap;

use layerscope_report::figure::{self, Drawing, Settings};
use layerscope_report::{Cell, Run, Table};
use layerscope_testing::made_up_runs::{DECODER, ENCODER, SINKS, Shape, run};

use super::files::Folder;

pub fn draw(runs: &[Run], settings: &Settings, out: &Folder) -> Drawing {
    figure::draw(runs, settings, &out.0, &mut |_| {}).unwrap()
}

pub fn only(figures: &[&str]) -> Settings {
    Settings { only: figures.iter().map(|name| (*name).to_owned()).collect(), ..Settings::default() }
}

pub fn cell<'a>(table: &'a Table, name: &str, row: usize) -> Cell<'a> {
    table.column(name).unwrap().cell(row)
}

/// An encoder, and a decoder with a final norm.
pub fn small() -> Vec<Run> {
    let small = Shape { layers: 4, groups: 120, token_states: 4, ..ENCODER };
    vec![run(&small), run(&Shape { layers: 4, groups: 120, token_states: 4, ..DECODER })]
}

/// One that follows a training.
pub fn trained() -> Run {
    run(&Shape { name: "trained", layers: 3, groups: 40, steps: &[0, 8, 512, 4000], ..DECODER })
}

/// A decoder with massive states in its middle layers.
pub fn sinks() -> Run {
    run(&Shape { layers: 8, groups: 120, token_states: 4, ..SINKS })
}

/// The groups of a run at a point by the definition of the frequency range, of all states.
pub fn groups(run: &Run, layer: i64, point: &str, range: (i64, i64)) -> Vec<(String, i64, f64, f64, f64)> {
    groups_of(run, "all", layer, point, range)
}

/// The same of the states of a selection.
pub fn groups_of(run: &Run, states: &str, layer: i64, point: &str, range: (i64, i64)) -> Vec<(String, i64, f64, f64, f64)> {
    let table = run.groups.as_ref().unwrap();
    let mut found = Vec::new();
    for row in 0..table.rows() {
        if table.text("selection", row).unwrap_or("all") != states {
            continue;
        }
        let (Cell::Integer(n), Cell::Text(name)) = (cell(table, "n", row), cell(table, "group", row)) else { unreachable!() };
        let (Cell::Real(q), Cell::Real(m), Cell::Real(v)) = (cell(table, "q", row), cell(table, "m", row), cell(table, "v", row)) else {
            unreachable!()
        };
        if cell(table, "layer", row) == Cell::Integer(layer)
            && cell(table, "point", row) == Cell::Text(point)
            && n >= range.0
            && n <= range.1
        {
            found.push((name.to_owned(), n, q, m, v));
        }
    }
    found
}

pub fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

/// The one value of the table of layers with these texts; an empty one stands for null.
pub fn value(run: &Run, wanted: &[(&str, &str)]) -> f64 {
    let text = |name: &str, row: usize| match cell(&run.layers, name, row) {
        Cell::Text(text) => text.to_owned(),
        Cell::Integer(number) => number.to_string(),
        _ => String::new(),
    };
    let same = |row: &usize| wanted.iter().all(|(name, value)| text(name, *row) == *value);
    let found: Vec<usize> = (0..run.layers.rows()).filter(same).collect();
    assert_eq!(found.len(), 1, "{wanted:?}");
    let Cell::Real(value) = cell(&run.layers, "value", found[0]) else { panic!("{wanted:?} is null") };
    value
}

/// The groups of these texts as numbers: log10 n, Q, M, V.
pub fn columns(groups: &[(String, i64, f64, f64, f64)]) -> [Vec<f64>; 4] {
    let of = |value: fn(&(String, i64, f64, f64, f64)) -> f64| groups.iter().map(value).collect();
    [of(|group| (group.1 as f64).log10()), of(|group| group.2), of(|group| group.3), of(|group| group.4)]
}

/// Population standard deviation over mean.
pub fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt() / mean
}
