//! `layerscope measure`: a corpus through a model.

use super::{download, print, print_json};
use crate::cancel::CancelToken;
use crate::cli::progress::Display;
use crate::error::{Error, Result};
use crate::mirror;
use crate::plan::Plan;
use crate::run::measure;
use crate::settings::Options;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// No progress, only the result
    #[arg(long)]
    quiet: bool,
    /// Progress and result as JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let plan = Plan::new(&arguments.options)?;
    let out = plan.out.clone();
    let folder = download::locate(&plan.model, plan.revision.as_deref())?;
    let cancel = CancelToken::on_signals().map_err(|source| Error::io("signals".as_ref(), source))?;
    let mut display = Display::new(arguments.quiet, arguments.json);
    let finished = mirror::into(&out, &cancel, &mut |event| display.show(event), |here, show| {
        measure(Plan { out: here.to_owned(), ..plan }, &folder, &cancel, show)
    });
    display.end();
    let (manifest, here) = finished?;
    match arguments.json {
        true => print_json(&serde_json::json!({ "event": "result", "out": out, "manifest": manifest }).to_string()),
        false => print(&super::show::overview(&here)?),
    }
}
