//! `layerscope report`: one page to explore runs with.

use std::path::PathBuf;

use layerscope_report::{Run, page};

use super::print;
use crate::error::{Error, Result};
use crate::mirror;
use crate::plan::parse_frequency;
use crate::store::Store;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// MIN:MAX of n_t that regressions start with
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// The page's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folders = mirror::fetch_all(&arguments.folders)?;
    let runs = folders.iter().map(|folder| Run::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let frequency = arguments.frequency.as_deref().map(parse_frequency).transpose()?;
    let settings = page::Settings { frequency, title: arguments.title.clone() };
    let mut bytes = Vec::new();
    page::write(&runs, &settings, &mut bytes)?;
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(".".as_ref());
    let name = arguments.out.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::Usage(format!("--out {} is no file name", arguments.out.display())))?;
    Store::create(folder)?.put_atomic(name, |out| out.write_all(&bytes))?;
    print(&format!("{} ({}): open it in a browser", arguments.out.display(), crate::text::bytes(bytes.len())))
}
