//! `layerscope weights`: embedding matrices and norms, no corpus needed.

use layerscope_error::{line, setting};
use layerscope_report::Table;
use layerscope_report::export::{self, Format};

use super::{print, print_json, write_table};
use crate::checkpoint::{Weights, WeightsOf, weights};
use crate::error::{Error, Result};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: WeightsOf,
    /// Table to print [default: both; csv and jsonl need one]
    #[arg(long, value_name = "TABLE")]
    table: Option<Which>,
    /// Output format: md, csv, json (one object with both tables, or a list with one), jsonl or latex
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: String,
}

/// One of the two tables.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Which {
    #[value(alias = "weights")]
    Embeddings,
    Norms,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let format: Format = arguments.format.parse()?;
    if arguments.table.is_none() && matches!(format, Format::Csv | Format::JsonLines) {
        let line = line![
            format!("{} holds one table: add ", format.name()),
            setting("table").to("embeddings"),
            " or ",
            setting("table").to("norms")
        ];
        return Err(Error::usage(line));
    }
    let weights = weights(&arguments.asked)?;
    match arguments.table {
        Some(Which::Embeddings) => write_table(&weights.embeddings, format),
        Some(Which::Norms) => write_table(&weights.norms, format),
        None => print_both(&weights, format),
    }
}

fn print_both(weights: &Weights, format: Format) -> Result<()> {
    let Weights { sources, embeddings, norms, hidden } = weights;
    let of = |table: &Table| -> Result<String> {
        let mut bytes = Vec::new();
        export::write(table, format, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    match format {
        Format::Json => {
            let sources = serde_json::Value::from(sources.clone());
            print_json(&format!("{{\"sources\":{sources},\n\"embeddings\":{},\n\"norms\":{}}}", of(embeddings)?, of(norms)?))
        }
        Format::Markdown => print(&format!("{}\n\n{}\n\n{}", sources.join("\n"), of(&embeddings.without(hidden))?, of(norms)?)),
        _ => print(&format!("{}\n\n{}", of(embeddings)?, of(norms)?)),
    }
}
