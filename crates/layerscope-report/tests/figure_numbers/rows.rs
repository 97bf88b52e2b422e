//! Where a row of a figure's numbers comes from.

use std::collections::BTreeMap;

use layerscope_report::Run;

use crate::support::drawn::value;

/// What names a row of the table of layers, with the texts of a row of a figure's numbers.
const PLACE: [&str; 5] = ["layer", "point", "selection", "measure", "variant"];

pub fn by_place(run: &Run, row: &BTreeMap<String, String>) -> f64 {
    let wanted: Vec<(&str, &str)> = PLACE.iter().filter_map(|name| Some((*name, row.get(*name)?.as_str()))).collect();
    value(run, &wanted)
}

pub fn run_of<'a>(runs: &'a [Run], row: &BTreeMap<String, String>) -> &'a Run {
    runs.iter().find(|run| run.model() == row["model"]).unwrap()
}
