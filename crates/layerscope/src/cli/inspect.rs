//! `layerscope inspect`.

use std::time::Duration;

use super::{print, print_json, thread_count};
use crate::checkpoint::inspect;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;

/// How long the speed is measured.
const PROBE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Model folder (config.json, weights), GGUF file, or Hugging Face Hub id such as org/name
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Branch, tag or commit of a Hub model
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Number of worker threads [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Load the weights, check them and measure the speed (seconds; without it, only file headers are read)
    #[arg(long)]
    probe: bool,
    /// What happens anyway
    #[arg(long, hide = true, conflicts_with = "probe")]
    no_probe: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: the same command starts again")?;
    let probe = (arguments.probe && !arguments.no_probe).then_some(PROBE);
    let inspection = inspect(&arguments.model, arguments.revision.as_deref(), thread_count(arguments.threads), probe)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&inspection).map_err(|error| Error::io("standard output".as_ref(), error.into()))?;
        return print_json(&json);
    }
    print(&inspection.to_string())
}
