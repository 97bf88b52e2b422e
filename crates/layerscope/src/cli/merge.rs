//! `layerscope merge`: shards into one run.

use std::path::PathBuf;

use super::print;
use super::progress::Display;
use crate::error::Result;
use crate::process::cancel::CancelToken;
use crate::store::merge::{MergeSettings, merge};
use crate::tables::overview::overview;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of all shards
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Folder of the merged run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace whatever is in --out
    #[arg(long)]
    overwrite: bool,
    /// Merge also shards whose numbers were computed on different devices or in different numbers
    #[arg(long)]
    allow_devices: bool,
    /// Hide progress and print only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let settings = MergeSettings { overwrite: arguments.overwrite, allow_devices: arguments.allow_devices };
    let cancel = CancelToken::on_signals()?;
    let mut display = Display::new(arguments.quiet, false);
    let merged = merge(&arguments.folders, &arguments.out, settings, &cancel, &mut |event| display.show(event));
    display.end();
    print(&overview(&merged?.folder)?)
}
