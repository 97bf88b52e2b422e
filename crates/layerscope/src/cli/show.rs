//! `layerscope show`: the tables of a run.

use std::path::{Path, PathBuf};

use layerscope_report::export::Format;
use layerscope_report::{Cell, Run, Table};

use super::{print, write_table};
use crate::error::{Error, Result};
use crate::finish::StoredRun;
use crate::mirror;
use crate::plan::parse_frequency;
use crate::summary::summary_table;
use crate::text::grouped;
use crate::trajectory::{final_norm_summary, final_norm_table, trajectory_summary};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder of a finished run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// layers, groups, components, spectra, tokens, weights, norms, final-norm (before, after, difference) or identities; an overview without it
    #[arg(long, value_name = "T")]
    table: Option<String>,
    /// md, csv, json, jsonl or latex
    #[arg(long, value_name = "F", default_value = "md")]
    format: String,
    /// MIN:MAX of n_t for the selected groups, in place of the run's own
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let format: Format = arguments.format.parse()?;
    let folder = mirror::fetch(&arguments.folder)?;
    let Some(name) = &arguments.table else {
        return match &arguments.frequency {
            Some(frequency) => print(&summary_table(&with_frequency(&folder, frequency, "layers")?)),
            None => print(&overview(&folder)?),
        };
    };
    let table = match &arguments.frequency {
        Some(frequency) => with_frequency(&folder, frequency, name)?,
        None => stored(&folder, name)?,
    };
    write_table(&table, format)
}

/// A table as the run wrote it.
fn stored(folder: &Path, name: &str) -> Result<Table> {
    let run = Run::open(folder)?;
    let absent = || Error::Usage(format!("{}: this run has no table `{name}`", folder.display()));
    match name {
        "layers" => Ok(run.layers),
        "groups" => run.groups.ok_or_else(absent),
        "components" => run.components.ok_or_else(absent),
        "spectra" => run.spectra.ok_or_else(absent),
        "tokens" => run.tokens.ok_or_else(absent),
        "norms" => run.norms.ok_or_else(absent),
        "weights" => weights(&run.layers)?.ok_or_else(absent),
        "final-norm" => final_norm_table(&run.layers)?.ok_or_else(absent),
        "identities" => Ok(StoredRun::open(folder)?.norm_tables()?.identities),
        _ => Err(Error::Usage(format!(
            "--table `{name}` is unknown; give layers, groups, components, spectra, tokens, weights, norms, final-norm or identities"
        ))),
    }
}

/// The rows of embedding matrices; None where they were not measured.
fn weights(layers: &Table) -> Result<Option<Table>> {
    let of_weights = |row: &usize| matches!(layers.text("point", *row), Some("input_embedding" | "output_embedding"));
    let rows: Vec<(usize, usize)> = (0..layers.rows()).filter(of_weights).map(|row| (0, row)).collect();
    Ok((!rows.is_empty()).then(|| Table::gather(&[layers], &rows)).transpose()?)
}

/// A table computed again for other frequencies.
pub(super) fn with_frequency(folder: &Path, frequency: &str, name: &str) -> Result<Table> {
    let mut run = StoredRun::open(folder)?;
    if run.facts.frequency.is_none() {
        return Err(Error::Usage(format!("--frequency has no meaning for a run grouped by {}", run.facts.grouping)));
    }
    run.facts.frequency = Some(parse_frequency(frequency)?);
    let tables = run.norm_tables()?;
    match name {
        "layers" => reselected(&Run::open(folder)?.layers, &tables.layers),
        "identities" => Ok(tables.identities),
        _ => Err(Error::Usage(format!("--frequency does not change the table `{name}`; give layers or identities"))),
    }
}

/// The stored table with the rows of the selected groups taken from another one.
fn reselected(stored: &Table, fresh: &Table) -> Result<Table> {
    let key = |table: &Table, row: usize| {
        ["layer", "point", "selection"].map(|name| format!("{:?}", table.column(name).map(|column| column.cell(row))))
    };
    let selected =
        |table: &Table, row: usize| matches!(table.column("selection").map(|column| column.cell(row)), Some(Cell::Text("selected")));
    let mut rows = Vec::new();
    for row in 0..stored.rows() {
        if !selected(stored, row) {
            rows.push((0, row));
        } else if row == 0 || key(stored, row - 1) != key(stored, row) {
            let wanted = key(stored, row);
            rows.extend((0..fresh.rows()).filter(|&other| key(fresh, other) == wanted).map(|other| (1, other)));
        }
    }
    Ok(Table::gather(&[stored, fresh], &rows)?)
}

/// What was measured, in a few lines, and the summary of all layers.
pub fn overview(folder: &Path) -> Result<String> {
    let run = Run::open(folder)?;
    let number = |key: &str| grouped(run.manifest["corpus"][key].as_u64().unwrap_or(0) as usize);
    let text = |key: &str| run.manifest["model"][key].as_str().unwrap_or("").to_owned();
    let mut lines = vec![
        format!(
            "{} ({}), {} layers of width {}",
            run.model(),
            text("family"),
            run.manifest["model"]["layers"],
            run.manifest["model"]["width"]
        ),
        format!(
            "{} documents, {} states in {} groups by {}",
            number("documents"),
            number("states"),
            number("groups"),
            run.manifest["grouping"].as_str().unwrap_or("")
        ),
    ];
    let warnings = run.manifest["warnings"].as_array().into_iter().flatten().filter_map(|warning| warning.as_str());
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.push(String::new());
    match run.manifest["trajectory"].is_array() {
        true => lines.push(trajectory_summary(&run.layers)),
        false => lines.push(summary_table(&run.layers)),
    }
    if let Some(norm) = final_norm_summary(&run.layers)? {
        lines.extend([String::new(), norm]);
    }
    Ok(lines.join("\n"))
}
