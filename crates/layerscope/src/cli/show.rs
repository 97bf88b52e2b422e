//! `layerscope show`: the tables of a run.

use std::path::PathBuf;

use layerscope_report::export::Format;

use super::{print, under_way, write_table};
use crate::error::Result;
use crate::measure::event::Event;
use crate::process::cancel::CancelToken;
use crate::store::mirror;
use crate::tables::overview::{overview_of, overview_with_frequency};
use crate::tables::select::{stored, with_frequency_of};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folder of a finished run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Table to print: layers, groups, components, spectra, tokens, token-components, massive, weights, norms, final-norm (before, after, difference) or identities [default: an overview]
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Output format: md, csv, json, jsonl or latex
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: String,
    /// Select groups that occur between MIN and MAX times, instead of the run's own range
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Show all states, or typical ones: without the few massive states that may hide the others [default: every row of a table; an
    /// overview of typical states where massive ones carry more than a tenth of Q]
    #[arg(long, value_name = "STATES")]
    states: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: the same command shows it")?;
    let format: Format = arguments.format.parse()?;
    let folder = mirror::fetch(&arguments.folder)?;
    let states = arguments.states.as_deref();
    match (&arguments.table, &arguments.frequency) {
        (None, Some(frequency)) => print(&under_way(Event::Computing, || overview_with_frequency(&folder, frequency, states))?),
        (None, None) => print(&overview_of(&folder, states)?),
        (Some(name), Some(frequency)) => {
            write_table(&under_way(Event::Computing, || with_frequency_of(&folder, frequency, name, states))?, format)
        }
        (Some(name), None) => write_table(&stored(&folder, name, states)?, format),
    }
}
