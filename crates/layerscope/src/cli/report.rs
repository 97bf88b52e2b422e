//! `layerscope report`: one page to explore runs with.

use std::path::PathBuf;

use super::{print, under_way};
use crate::error::Result;
use crate::measure::event::Event;
use crate::pictures::report;
use crate::process::cancel::CancelToken;
use crate::store::load::load_with_parts;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// HTML file to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Write only these views, for a smaller file, such as tokens,layers
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Start with regressions over groups that occur between MIN and MAX times
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    CancelToken::end_on_signals("interrupted: no page was written; the same command writes it")?;
    let bytes = under_way(Event::Writing { bytes: 0 }, || {
        let runs = load_with_parts(&arguments.folders)?;
        report(&runs, arguments.frequency.as_deref(), arguments.title.clone(), &arguments.only, &arguments.out)
    })?;
    print(&format!("{} ({}): open it in a browser", arguments.out.display(), crate::text::bytes(bytes)))
}
