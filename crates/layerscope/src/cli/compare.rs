//! `layerscope compare`: several runs side by side.

use std::path::PathBuf;

use layerscope_report::Run;
use layerscope_report::export::{self, Format};
use layerscope_report::text::{shortened, visible};

use super::figures::Look;
use super::show::with_frequency;
use super::{print, write_table};
use crate::compare::Comparison;
use crate::error::{Error, Result};
use crate::mirror;
use crate::store::Store;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs; the others are compared with the first
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    folders: Vec<PathBuf>,
    /// text (an overview), or the whole table as md, csv, json, jsonl or latex
    #[arg(long, value_name = "F", default_value = "text")]
    format: String,
    /// Only these measures, such as q,slope_v_on_m
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    measures: Vec<String>,
    /// MIN:MAX of n_t for the selected groups, in place of each run's own
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Also draw the figures of all runs there, and write differences.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let format = if arguments.format == "text" { None } else { Some(format(&arguments.format)?) };
    let folders = mirror::fetch_all(&arguments.folders)?;
    let runs = folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&runs, arguments.frequency.as_deref(), &arguments.measures)?;
    match format {
        None => print(&comparison.overview(!arguments.measures.is_empty()))?,
        Some(format) => {
            comparison.notes.iter().for_each(|note| eprintln!("layerscope: {}", visible(note)));
            match format {
                Format::Markdown | Format::Latex => write_table(&comparison.wide()?, format)?,
                _ => write_table(&comparison.tidy()?, format)?,
            }
        }
    }
    let Some(out) = &arguments.out else { return Ok(()) };
    let said = arguments.look.draw(&runs, arguments.frequency.as_deref(), out)?;
    let table = comparison.tidy()?;
    let mut bytes = Vec::new();
    export::write(&table, Format::Csv, &mut bytes)?;
    Store::create(out)?.put_atomic("differences.csv", |file| file.write_all(&bytes))?;
    // Standard output may be a table that a program reads.
    if format.is_none() {
        print(&format!("\n{said}"))
    } else {
        said.lines().for_each(|line| eprintln!("layerscope: {}", visible(line)));
        Ok(())
    }
}

/// Compares runs with the first of them; of all measures where none is named.
pub fn compare(runs: &[Run], frequency: Option<&str>, measures: &[String]) -> Result<Comparison> {
    let layers = |run: &Run| match frequency {
        Some(frequency) => with_frequency(&run.folder, frequency, "layers"),
        None => Ok(run.layers.clone()),
    };
    let mut comparison = Comparison::new(runs, &runs.iter().map(layers).collect::<Result<Vec<_>>>()?)?;
    if !measures.is_empty() {
        comparison.keep(measures)?;
    }
    Ok(comparison)
}

fn format(name: &str) -> Result<Format> {
    name.parse().map_err(|_| Error::Usage(format!("unknown format `{}`; use text, md, csv, json, jsonl or latex", shortened(name))))
}
