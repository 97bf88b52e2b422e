//! `layerscope demo`: what Layerscope does, on what it carries.

use std::path::PathBuf;

use super::print;
use super::progress::Display;
use crate::demo;
use crate::error::Result;
use crate::process::cancel::CancelToken;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Write runs, figures and the page to this folder
    #[arg(long, value_name = "DIR", default_value = "layerscope-demo")]
    out: PathBuf,
    /// Number of worker threads [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Hide progress and print only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let cancel = CancelToken::on_signals()?;
    cancel.throughout("interrupted: the same command starts the demonstration again");
    let mut display = Display::new(arguments.quiet, false);
    let shown = demo::run(&arguments.out, arguments.threads.map(usize::from), &cancel, &mut |event| display.show(event));
    display.end();
    print(&shown?.to_string())
}
