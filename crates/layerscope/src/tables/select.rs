//! Tables of a run by name, and tables for other frequencies.

use std::collections::HashSet;
use std::path::Path;

use layerscope_error::{line, not_one_of, setting};
use layerscope_report::{Run, States, Table, verify_tables};

use super::states::{rows_of, rows_of_run};
use super::trajectory::final_norm_table;
use crate::error::{Error, Result};
use crate::settings::parse;
use crate::store::stored::StoredRun;

/// The tables that a run can show, by name.
pub const NAMES: [&str; 11] =
    ["layers", "groups", "components", "spectra", "tokens", "token-components", "massive", "weights", "norms", "final-norm", "identities"];

/// A run with its small tables. All of its tables are compared with their digests, whichever are shown.
pub fn open_verified(folder: &Path) -> Result<Run> {
    let run = Run::open_small(folder)?;
    verify_tables(folder, &run.manifest)?;
    Ok(run)
}

/// A table as the run wrote it; only its rows of some states, where they are named.
pub fn stored(folder: &Path, name: &str, states: Option<&str>) -> Result<Table> {
    let run = open_verified(folder)?;
    let states = states.map(parse::states).transpose()?;
    let table = stored_whole(&run, folder, name)?;
    states.map_or(Ok(table.clone()), |states| rows_of_run(&run, name, &table, states))
}

fn stored_whole(run: &Run, folder: &Path, name: &str) -> Result<Table> {
    let absent = || Error::usage(format!("{}: this run has no table `{name}`", folder.display()));
    match name {
        "layers" => Ok(run.layers.clone()),
        "groups" | "components" | "spectra" | "tokens" | "massive" => run.read_table(name)?.ok_or_else(absent),
        "token-components" => run.read_table("token_components")?.ok_or_else(absent),
        "norms" => run.norms.clone().ok_or_else(absent),
        "weights" => weights(&run.layers)?.ok_or_else(absent),
        "final-norm" => final_norm_table(&run.layers)?.ok_or_else(absent),
        "identities" => Ok(StoredRun::open(folder)?.norm_tables()?.identities),
        _ => Err(Error::usage(not_one_of("table", name, &NAMES))),
    }
}

/// The rows of embedding matrices; None where they were not measured.
fn weights(layers: &Table) -> Result<Option<Table>> {
    let of_weights = |row: &usize| matches!(layers.text("point", *row), Some("input_embedding" | "output_embedding"));
    let rows: Vec<(usize, usize)> = (0..layers.rows()).filter(of_weights).map(|row| (0, row)).collect();
    Ok((!rows.is_empty()).then(|| Table::gather(&[layers], &rows)).transpose()?)
}

/// A table computed again for other frequencies; only its rows of some states, where they are named.
pub fn with_frequency_of(folder: &Path, frequency: &str, name: &str, states: Option<&str>) -> Result<Table> {
    let states = states.map(parse::states).transpose()?;
    let table = with_frequency(folder, frequency, name)?;
    states.map_or(Ok(table.clone()), |states| rows_of(&table, states))
}

/// A table computed again for other frequencies.
pub fn with_frequency(folder: &Path, frequency: &str, name: &str) -> Result<Table> {
    let mut run = StoredRun::open(folder)?;
    if run.facts.frequency.is_none() {
        return Err(Error::usage(line![setting("frequency"), format!(" has no meaning for a run grouped by {}", run.facts.grouping)]));
    }
    run.facts.frequency = Some(parse::frequency(frequency)?);
    let tables = run.norm_tables()?;
    match name {
        "layers" => reselected(&open_verified(folder)?.layers, &tables.layers),
        "identities" => Ok(tables.identities),
        _ => Err(Error::usage(line![setting("frequency"), format!(" does not change the table `{name}`; give layers or identities")])),
    }
}

/// The stored table with the rows of the selected groups, of all states and of the typical ones, taken from another one.
fn reselected(stored: &Table, fresh: &Table) -> Result<Table> {
    let key = |table: &Table, row: usize| {
        ["layer", "point", "selection"].map(|name| format!("{:?}", table.column(name).map(|column| column.cell(row))))
    };
    let is_selected = |row: usize| {
        let own = stored.text("selection", row);
        [States::All, States::Typical].iter().any(|states| own == Some(states.of("selected")))
    };
    let (mut rows, mut taken) = (Vec::new(), HashSet::new());
    for row in 0..stored.rows() {
        if !is_selected(row) {
            rows.push((0, row));
        } else if taken.insert(key(stored, row)) {
            let wanted = key(stored, row);
            rows.extend((0..fresh.rows()).filter(|&other| key(fresh, other) == wanted).map(|other| (1, other)));
        }
    }
    Ok(Table::gather(&[stored, fresh], &rows)?)
}
