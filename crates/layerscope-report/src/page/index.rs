//! What the page's data is made of: an index in JSON, and the blocks it names.

use std::collections::HashSet;

use layerscope_stats::measure::MEASURES;
use serde_json::{Value, json};

use super::Settings;
use super::block::Block;
use super::cut::{Groups, PointRows, by_point, by_step};
use super::steps::{KINDS, PROJECTIONS, Parts, evenly, shown_steps};
use crate::error::Result;
use crate::run::Run;
use crate::table::Table;

/// Columns that say where a row belongs; a block of one point does not repeat them.
const POINT: [&str; 2] = ["layer", "point"];

/// Columns that are only drawn.
const SINGLE: [&str; 2] = ["x", "y"];

/// So many steps of projected embedding matrices go into a file.
const PROJECTED: usize = 40;

/// What takes a block and its name.
pub(super) type Emit<'a> = dyn FnMut(&str, Block) -> Result<()> + 'a;

/// One name per run: its model's, and where that is not enough its folder's too.
pub(super) fn labels(runs: &[Run]) -> Vec<String> {
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

/// Emits the index, then the blocks every view needs. `parts` says how much of the steps of trajectories there will be.
pub(super) fn common(runs: &[Run], labels: &[String], title: &str, settings: &Settings, parts: Parts, emit: &mut Emit) -> Result<()> {
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
        entry["steps"] = shown_steps(run, parts).map(|(j, step)| step.entry(&format!("run{i}.step{j}"), &run.manifest)).collect();
        entry["projections"] = projected(run, parts)?
            .iter()
            .map(|(k, step, _)| json!({"step": step, "block": format!("run{i}.{PROJECTIONS}.{k}")}))
            .collect();
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

/// Emits the blocks of single points and steps, or the one of this name.
pub(super) fn points(runs: &[Run], only: Option<&str>, parts: Parts, emit: &mut Emit) -> Result<()> {
    let begins = |prefix: &str| only.is_none_or(|name| name.starts_with(prefix));
    for (i, run) in runs.iter().enumerate().filter(|(i, _)| begins(&format!("run{i}."))) {
        for (kind, table) in per_point(run) {
            let rows = by_point(table).into_iter().map(|(_, _, rows)| rows);
            cut(&format!("run{i}.{kind}"), kind, table, rows, only, emit)?;
        }
        if begins(&format!("run{i}.{PROJECTIONS}."))
            && let Some(table) = run.read_table("projections.parquet")?
        {
            for (k, _, rows) in projected_rows(&table, parts) {
                let name = format!("run{i}.{PROJECTIONS}.{k}");
                if only.is_none_or(|only| only == name) {
                    emit(&name, Block::table(&table, Some(&rows), &["revision", "step"], &SINGLE))?;
                }
            }
        }
        for (j, step) in shown_steps(run, parts) {
            let prefix = format!("run{i}.step{j}");
            for kind in KINDS.into_iter().filter(|kind| begins(&format!("{prefix}.{kind}"))) {
                let Some(table) = step.table(kind)? else { continue };
                if kind == "groups" && only.is_none_or(|only| only == format!("{prefix}.groups")) {
                    emit(&format!("{prefix}.groups"), Groups::new(&table).names())?;
                }
                let found = by_point(&table);
                let places = step.places(&run.manifest);
                let rows = places.iter().map(|at| {
                    let own = found.iter().find(|(layer, point, _)| (*layer, *point) == (at.0, at.1.as_str()));
                    own.map_or(Vec::new(), |(_, _, rows)| rows.clone())
                });
                cut(&format!("{prefix}.{kind}"), kind, &table, rows, only, emit)?;
            }
        }
    }
    Ok(())
}

/// A table cut into blocks, one a point.
fn cut(prefix: &str, kind: &str, table: &Table, rows: impl Iterator<Item = Vec<usize>>, only: Option<&str>, emit: &mut Emit) -> Result<()> {
    if only.is_some_and(|name| !name.starts_with(&format!("{prefix}."))) {
        return Ok(());
    }
    let groups = (kind == "groups").then(|| Groups::new(table));
    for (k, rows) in rows.enumerate() {
        let name = format!("{prefix}.{k}");
        if only.is_none_or(|only| only == name) {
            let block = groups.as_ref().map_or_else(|| Block::table(table, Some(&rows), &POINT, &SINGLE), |groups| groups.point(&rows));
            emit(&name, block)?;
        }
    }
    Ok(())
}

/// The tables that are cut by point, those of small blocks first.
fn per_point(run: &Run) -> impl Iterator<Item = (&'static str, &Table)> {
    let tables = [&run.spectra, &run.components, &run.tokens, &run.groups];
    KINDS.into_iter().zip(tables).filter_map(|(kind, table)| table.as_ref().map(|table| (kind, table)))
}

/// Which steps of the projected embedding matrices are shown.
fn projected(run: &Run, parts: Parts) -> Result<Vec<(usize, Option<i64>, Vec<usize>)>> {
    Ok(run.read_table("projections.parquet")?.map_or(Vec::new(), |table| projected_rows(&table, parts)))
}

/// Number, step and rows of those.
fn projected_rows(table: &Table, parts: Parts) -> Vec<(usize, Option<i64>, Vec<usize>)> {
    let steps: Vec<_> = by_step(table);
    let shown = if parts == Parts::All { steps.len() } else { PROJECTED };
    let chosen: HashSet<usize> = evenly(steps.len(), shown).collect();
    let numbered = steps.into_iter().enumerate().filter(|(k, _)| chosen.contains(k));
    numbered.map(|(k, (step, rows))| (k, step, rows)).collect()
}
