//! What the page's data is made of: an index in JSON, and the blocks it names.

use std::collections::{HashMap, HashSet};

use layerscope_stats::measure::MEASURES;
use serde_json::{Value, json};

use super::Settings;
use super::block::{Block, Columns};
use crate::error::Result;
use crate::run::Run;
use crate::table::{Cell, Column, Table};

/// Columns that say where a row belongs; a block of one point does not repeat them.
const POINT: [&str; 2] = ["layer", "point"];

/// Columns that a group has at every point alike.
const GROUP: [&str; 5] = ["group_id", "group", "raw", "subwords", "n"];

/// What takes a block and its name.
type Emit<'a> = dyn FnMut(&str, Block) -> Result<()> + 'a;

/// One name per run: its model's, and where that is not enough its folder's too.
pub fn labels(runs: &[Run]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut label = |run: &Run| {
        let shared = runs.iter().filter(|other| other.model() == run.model()).count() > 1;
        let folder = run.folder.file_name().unwrap_or_default().to_string_lossy();
        let name = if shared { format!("{} ({folder})", run.model()) } else { run.model().to_owned() };
        let label = (1..).map(|i| if i == 1 { name.clone() } else { format!("{name} {i}") }).find(|label| !taken.contains(label));
        let label = label.expect("there are more numbers than runs");
        taken.insert(label.clone());
        label
    };
    runs.iter().map(&mut label).collect()
}

/// Emits the index, then the blocks every view needs.
pub(super) fn common(runs: &[Run], labels: &[String], title: &str, settings: &Settings, emit: &mut Emit) -> Result<()> {
    let mut kept = Vec::new();
    let mut entries = Vec::new();
    for (i, (run, label)) in runs.iter().zip(labels).enumerate() {
        let mut entry = json!({"label": label, "manifest": run.manifest});
        let mut small = |kind: &str, block: Block| {
            let name = format!("run{i}.{kind}");
            entry[kind] = json!(name);
            kept.push((name, block));
        };
        small("layers", Block::table(&run.layers, None, &[], &[]));
        if let Some(table) = &run.norms {
            small("norms", Block::table(table, None, &[], &[]));
        }
        if let Some(table) = &run.groups {
            small("groups", Groups::new(table).names());
        }
        let points = |(kind, table): (&str, &Table)| -> (String, Value) {
            let place = |(k, (layer, point, _)): (usize, &PointRows)| json!({"layer": layer, "point": point, "block": format!("run{i}.{kind}.{k}")});
            (kind.to_owned(), by_point(table).iter().enumerate().map(place).collect())
        };
        entry["points"] = Value::Object(per_point(run).map(points).collect());
        entries.push(entry);
    }
    let measures: Vec<Value> = MEASURES
        .iter()
        .map(|m| json!({"name": m.name, "family": m.family.name(), "formula": m.formula, "source": m.source, "counts": m.counts, "variants": m.variants}))
        .collect();
    let index = json!({
        "format": 1, "program": env!("CARGO_PKG_VERSION"), "title": title,
        "frequency": settings.frequency.as_ref().map(|range| [*range.start(), *range.end()]),
        "measures": measures, "runs": entries,
    });
    emit("index", Block::json(&index))?;
    kept.into_iter().try_for_each(|(name, block)| emit(&name, block))
}

/// Emits the blocks of single points, or the one of this name.
pub(super) fn points(runs: &[Run], only: Option<&str>, emit: &mut Emit) -> Result<()> {
    for (i, run) in runs.iter().enumerate() {
        for (kind, table) in per_point(run) {
            let prefix = format!("run{i}.{kind}.");
            if only.is_some_and(|name| !name.starts_with(&prefix)) {
                continue;
            }
            let groups = (kind == "groups").then(|| Groups::new(table));
            for (k, (_, _, rows)) in by_point(table).iter().enumerate() {
                let name = format!("{prefix}{k}");
                if only.is_none_or(|only| only == name) {
                    let block =
                        groups.as_ref().map_or_else(|| Block::table(table, Some(rows), &POINT, &["x", "y"]), |groups| groups.point(rows));
                    emit(&name, block)?;
                }
            }
        }
    }
    Ok(())
}

/// The tables that are cut by point, those of small blocks first.
fn per_point(run: &Run) -> impl Iterator<Item = (&'static str, &Table)> {
    let tables = [("spectra", &run.spectra), ("components", &run.components), ("tokens", &run.tokens), ("groups", &run.groups)];
    tables.into_iter().filter_map(|(kind, table)| table.as_ref().map(|table| (kind, table)))
}

/// A point and its rows in a table.
type PointRows<'a> = (Option<i64>, &'a str, Vec<usize>);

/// The points of a table, in the order in which they come.
fn by_point(table: &Table) -> Vec<PointRows<'_>> {
    let mut places: HashMap<(Option<i64>, &str), usize> = HashMap::new();
    let mut points: Vec<PointRows> = Vec::new();
    for row in 0..table.rows() {
        let layer = match table.column("layer").map(|column| column.cell(row)) {
            Some(Cell::Integer(layer)) => Some(layer),
            _ => None,
        };
        let point = text(table, "point", row).unwrap_or("");
        let place = *places.entry((layer, point)).or_insert_with(|| {
            points.push((layer, point, Vec::new()));
            points.len() - 1
        });
        points[place].2.push(row);
    }
    points
}

/// The groups of a run, each once, rarest first (frequent ones are drawn last, on top).
struct Groups<'a> {
    table: &'a Table,
    /// A row that names the group.
    rows: Vec<usize>,
    places: HashMap<(Option<i64>, Option<&'a str>), usize>,
}

impl<'a> Groups<'a> {
    fn new(table: &'a Table) -> Self {
        let mut seen = HashSet::new();
        let mut rows: Vec<usize> = (0..table.rows()).filter(|&row| seen.insert(key(table, row))).collect();
        rows.sort_by_key(|&row| integer(table, "n", row));
        let places = rows.iter().enumerate().map(|(place, &row)| (key(table, row), place)).collect();
        Groups { table, rows, places }
    }

    /// What groups are called and how often they occur.
    fn names(&self) -> Block {
        let others: Vec<&str> = self.table.columns().map(|(name, _)| name).filter(|name| !GROUP.contains(name)).collect();
        Block::table(self.table, Some(&self.rows), &others, &[])
    }

    /// Their measures at one point, in the same order; and how often they occur there, should that differ.
    fn point(&self, rows: &[usize]) -> Block {
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
