//! `layerscope track`: a corpus through the checkpoints of a training.

use super::measure::Told;
use crate::error::Result;
use crate::settings::Settings;
use crate::training::track;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Checkpoints to measure, as comma-separated names and globs: subfolders of the model folder, or branches and tags of a Hub model
    #[arg(long, value_name = "LIST", help_heading = "Model")]
    revisions: String,
    /// Delete each downloaded checkpoint from the Hub cache once it is measured
    #[arg(long, help_heading = "Model")]
    evict: bool,
    #[command(flatten)]
    told: Told,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { settings, revisions, evict, told } = arguments;
    told.run(settings, |cancel, show| track(settings, revisions, *evict, cancel, show))
}
