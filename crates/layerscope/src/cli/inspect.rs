//! `layerscope inspect`.

use std::time::Duration;

use super::{download, print, print_json, thread_count};
use crate::error::{Error, Result};
use crate::inspect::Inspection;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A folder with config.json and weights, or a hub id such as org/name
    #[arg(long, value_name = "M")]
    model: String,
    /// Branch, tag or commit of a hub model
    #[arg(long, value_name = "R")]
    revision: Option<String>,
    /// Worker threads; all processors by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Read headers only: no weights in memory, no speed
    #[arg(long)]
    no_probe: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folder = download::locate(&arguments.model, arguments.revision.as_deref())?;
    let inspection = match arguments.no_probe {
        true => Inspection::of(&folder)?,
        false => Inspection::with_probe(&folder, thread_count(arguments.threads), Duration::from_secs(1))?,
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&inspection).map_err(|error| Error::io("standard output".as_ref(), error.into()))?;
        return print_json(&json);
    }
    print(&inspection.to_string())
}
