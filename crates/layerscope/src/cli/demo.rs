//! `layerscope demo`: what Layerscope does, on what it carries.

use std::path::PathBuf;

use super::print;
use super::progress::Display;
use crate::cancel::CancelToken;
use crate::demo;
use crate::error::{Error, Result};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Where runs, figures and the page go
    #[arg(long, value_name = "DIR", default_value = "layerscope-demo")]
    out: PathBuf,
    /// Worker threads; all processors by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// No progress, only the result
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let cancel = CancelToken::on_signals().map_err(|source| Error::io("signals".as_ref(), source))?;
    let mut display = Display::new(arguments.quiet, false);
    let shown = demo::run(&arguments.out, arguments.threads.map(usize::from), &cancel, &mut |event| display.show(event));
    display.end();
    print(&shown?.to_string())
}
