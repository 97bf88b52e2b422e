//! `layerscope prune`: disk space back.

use std::path::PathBuf;

use super::print;
use crate::error::Result;
use crate::process::cancel::CancelToken;
use crate::store::prune::prune;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs, or addresses
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Keep tables (the states go), merge (tables, and the states that merging needs) or all (only unfinished files go)
    #[arg(long, value_name = "WHAT", required_unless_present = "states")]
    keep: Option<String>,
    /// Store kept states plain (any safetensors reader opens them), packed (a sixth smaller, without loss) or rounded to f16 (half)
    #[arg(long, value_name = "HOW")]
    states: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: the runs are whole; the same command goes on")?;
    let keep = arguments.keep.as_deref().unwrap_or("all").parse()?;
    let states = arguments.states.as_deref().map(str::parse).transpose()?;
    arguments.runs.iter().try_for_each(|run| print(&format!("{}: {}", run.display(), prune(run, keep, states)?.line())))
}
