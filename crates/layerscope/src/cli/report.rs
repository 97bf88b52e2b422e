//! `layerscope report`: one page to explore runs with.

use std::path::PathBuf;

use super::print;
use crate::error::Result;
use crate::pictures::report;
use crate::store::load::load;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// HTML file to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Start with regressions over groups that occur between MIN and MAX times
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let runs = load(&arguments.folders)?;
    let bytes = report(&runs, arguments.frequency.as_deref(), arguments.title.clone(), &arguments.out)?;
    print(&format!("{} ({}): open it in a browser", arguments.out.display(), crate::text::bytes(bytes)))
}
