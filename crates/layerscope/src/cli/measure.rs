//! `layerscope measure`: a corpus through a model.

use layerscope_report::Manifest;
use serde_json::json;

use super::progress::Display;
use super::{print, print_json};
use crate::error::Result;
use crate::measure::event::Show;
use crate::measure::measure;
use crate::process::cancel::CancelToken;
use crate::settings::Settings;
use crate::store::mirror::Finished;
use crate::tables::overview::overview;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    told: Told,
}

/// How a long command tells of itself.
#[derive(clap::Args)]
pub(super) struct Told {
    /// Hide progress and print only the result
    #[arg(long, help_heading = "Output")]
    quiet: bool,
    /// Print progress and the result as JSON lines
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    arguments.told.run(&arguments.settings, |cancel, show| measure(&arguments.settings, cancel, show))
}

impl Told {
    /// Runs long work, shows its progress, and prints its result.
    pub fn run(&self, settings: &Settings, work: impl FnOnce(&CancelToken, &mut Show<'_>) -> Result<Finished<Manifest>>) -> Result<()> {
        let cancel = CancelToken::on_signals()?;
        let mut display = Display::new(self.quiet, self.json);
        let finished = work(&cancel, &mut |event| display.show(event));
        display.end();
        let Finished { result, folder } = finished?;
        match self.json {
            true => print_json(&json!({ "event": "result", "out": settings.value("out"), "manifest": result }).to_string()),
            false => print(&overview(&folder)?),
        }
    }
}
