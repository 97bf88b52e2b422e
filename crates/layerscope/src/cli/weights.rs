//! `layerscope weights`: embedding matrices and norms, no corpus needed.

use layerscope_error::{line, setting};
use layerscope_report::Table;
use layerscope_report::export::{self, Format};

use super::{print, print_json, under_way, write_table};
use crate::checkpoint::weights::{wide_embeddings, wide_norms};
use crate::checkpoint::{Weights, WeightsOf, weights};
use crate::error::{Error, Result};
use crate::measure::event::Event;
use crate::process::cancel::CancelToken;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: WeightsOf,
    /// Table to print: embeddings or norms (one of them, a row a value), or long (both) [default: a row a matrix and a row a norm, with the
    /// main measures; csv and jsonl need embeddings or norms]
    #[arg(long, value_name = "TABLE")]
    table: Option<Which>,
    /// Output format: md, csv, json (one object with both tables, or a list with one), jsonl or latex
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: String,
}

/// One of the two tables, or both.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Which {
    #[value(alias = "weights")]
    Embeddings,
    Norms,
    Long,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: the same command starts again")?;
    let format: Format = arguments.format.parse()?;
    if matches!(arguments.table, None | Some(Which::Long)) && matches!(format, Format::Csv | Format::JsonLines) {
        let line = line![
            format!("{} holds one table: add ", format.name()),
            setting("table").to("embeddings"),
            " or ",
            setting("table").to("norms")
        ];
        return Err(Error::usage(line));
    }
    let weights = under_way(Event::Computing, || weights(&arguments.asked))?;
    match arguments.table {
        Some(Which::Embeddings) => write_table(&weights.embeddings, format),
        Some(Which::Norms) => write_table(&weights.norms, format),
        Some(Which::Long) => print_both(&weights, format),
        None if format == Format::Markdown => {
            let tables = [text(&wide_embeddings(&weights.embeddings)?, format)?, text(&wide_norms(&weights.norms)?, format)?];
            let more = "--table long prints every measure";
            print(&format!("{}\n\n{}\n\n{}\n\n{more}", weights.sources.join("\n"), tables[0], tables[1]))
        }
        None => print_both(&weights, format),
    }
}

fn text(table: &Table, format: Format) -> Result<String> {
    let mut bytes = Vec::new();
    export::write(table, format, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn print_both(weights: &Weights, format: Format) -> Result<()> {
    let Weights { sources, embeddings, norms, hidden } = weights;
    let of = |table: &Table| text(table, format);
    match format {
        Format::Json => {
            let sources = serde_json::Value::from(sources.clone());
            print_json(&format!("{{\"sources\":{sources},\n\"embeddings\":{},\n\"norms\":{}}}", of(embeddings)?, of(norms)?))
        }
        Format::Markdown => print(&format!("{}\n\n{}\n\n{}", sources.join("\n"), of(&embeddings.without(hidden))?, of(norms)?)),
        _ => print(&format!("{}\n\n{}", of(embeddings)?, of(norms)?)),
    }
}
