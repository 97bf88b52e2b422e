//! `layerscope merge`: shards into one run.

use std::path::PathBuf;

use super::{print, say};
use crate::error::Result;
use crate::store::merge::merge;
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
    /// Hide progress and print only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let merged = merge(&arguments.folders, &arguments.out, arguments.overwrite, &mut |point| {
        if !arguments.quiet {
            say(&format!("merging layer {} ({})", point.layer, point.point()));
        }
    })?;
    print(&overview(&merged.folder)?)
}
