//! `layerscope merge`: shards into one run.

use std::path::PathBuf;

use super::{print, show};
use crate::cancel::CancelToken;
use crate::error::Result;
use crate::merge::merge;
use crate::mirror;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folders of all shards
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The folder of the merged run
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace what lies there
    #[arg(long)]
    overwrite: bool,
    /// No progress, only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let shards = mirror::fetch_all(&arguments.folders)?;
    let folders: Vec<PathBuf> = shards.iter().map(|shard| shard.to_path_buf()).collect();
    let (_, here) = mirror::into(&arguments.out, &CancelToken::default(), &mut |_| {}, |here, _| {
        merge(&folders, here, arguments.overwrite, &mut |point| {
            if !arguments.quiet {
                eprintln!("layerscope: merging layer {} ({})", point.layer, point.point);
            }
        })
    })?;
    print(&show::overview(&here)?)
}
