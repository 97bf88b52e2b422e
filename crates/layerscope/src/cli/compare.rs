//! `layerscope compare`: several runs side by side.

use std::path::PathBuf;

use layerscope_error::not_one_of;
use layerscope_report::export::{self, Format};
use layerscope_report::text::shortened;

use super::figures::{drawn, with_bar};
use super::{print, say, under_way, write_table};
use crate::error::{Error, Result};
use crate::measure::event::Event;
use crate::pictures::{Look, figures_with};
use crate::process::cancel::CancelToken;
use crate::store::folder::Folder;
use crate::store::load::load_compared;
use crate::tables::compare::compare;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs; each is compared with the first. Of a single run of measure --split, its parts are compared
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Output format: text (an overview), or the full table as md, csv, json, jsonl or latex
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: String,
    /// Compare only these measures or families of measures, such as q,slope_v_on_m,cosine
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    measures: Vec<String>,
    /// Select groups that occur between MIN and MAX times, instead of each run's own range
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Also draw the figures of all runs and write differences.csv in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let token = CancelToken::end_on_signals("interrupted: the same command compares again")?;
    let format = if arguments.format == "text" { None } else { Some(format(&arguments.format)?) };
    let frequency = arguments.frequency.as_deref();
    let runs = load_compared(&arguments.folders)?;
    let comparison = under_way(Event::Computing, || compare(&runs, frequency, arguments.look.states.as_deref(), &arguments.measures))?;
    // What cannot be drawn is said before anything is printed.
    let said = match &arguments.out {
        Some(out) => {
            let drawing = with_bar(&token, |show| figures_with(&runs, &arguments.look, frequency, out, show))?;
            let mut bytes = Vec::new();
            export::write(&comparison.tidy()?, Format::Csv, &mut bytes)?;
            Folder::create(out)?.put_atomic("differences.csv", |file| file.write_all(&bytes))?;
            Some(drawn(&drawing, out, true))
        }
        None => None,
    };
    match format {
        None => print(&comparison.overview(!arguments.measures.is_empty()))?,
        Some(format) => {
            comparison.notes.iter().for_each(|note| say(note));
            match format {
                Format::Markdown | Format::Latex => write_table(&comparison.wide()?, format)?,
                _ => write_table(&comparison.tidy()?, format)?,
            }
        }
    }
    // Standard output may be a table that a program reads.
    match (said, format) {
        (Some(said), None) => print(&format!("\n{said}")),
        (Some(said), Some(_)) => {
            said.lines().for_each(say);
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

fn format(name: &str) -> Result<Format> {
    let names: Vec<&str> = std::iter::once("text").chain(Format::ALL.map(Format::name)).collect();
    name.parse().map_err(|_| Error::usage(not_one_of("format", &shortened(name), &names)))
}
