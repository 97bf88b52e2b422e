//! `layerscope track`: a corpus through the checkpoints of a training.

use super::{download, print, print_json, show};
use crate::cancel::CancelToken;
use crate::cli::progress::Display;
use crate::error::{Error, Result};
use crate::mirror;
use crate::plan::Plan;
use crate::settings::Options;
use crate::track::{Journey, track};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Checkpoints, as names and globs separated by commas: folders in the model's folder, or branches and tags of a hub model
    #[arg(long, value_name = "G")]
    revisions: String,
    /// Remove every fetched checkpoint from the hub's cache once it is measured
    #[arg(long)]
    evict: bool,
    /// No progress, only the result
    #[arg(long)]
    quiet: bool,
    /// Progress and result as JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.options.revision.is_some() {
        return Err(Error::Usage("--revision is for one checkpoint; `layerscope track` takes --revisions".to_owned()));
    }
    let plan = Plan::new(&arguments.options)?;
    let out = plan.out.clone();
    let (source, revisions) = (download::checkpoints(&plan.model)?, arguments.revisions.clone());
    let cancel = CancelToken::on_signals().map_err(|source| Error::io("signals".as_ref(), source))?;
    let mut display = Display::new(arguments.quiet, arguments.json);
    let finished = mirror::into(&out, &cancel, &mut |event| display.show(event), |here, show| {
        let plan = Plan { out: here.to_owned(), ..plan };
        track(Journey { plan, source, revisions, evict: arguments.evict }, &cancel, show)
    });
    display.end();
    let (manifest, here) = finished?;
    match arguments.json {
        true => print_json(&serde_json::json!({ "event": "result", "out": out, "manifest": manifest }).to_string()),
        false => print(&show::overview(&here)?),
    }
}
