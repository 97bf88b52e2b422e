//! A page to explore runs: a single file that opens from disk and never uses the network.
//!
//! The page's code is built from `web/` into `assets/page.html`, with a Content-Security-Policy that names that code by its hash
//! and forbids everything else. The data of the runs follows as blocks of typed columns in base64, inside script elements that no
//! browser runs, so no text of a run can become mark-up. The blocks of a point are decoded when it is
//! shown. A trajectory's page also has the tables of its steps, as many as fit into a file. Where some states are massive, a point
//! has a second block, of the typical ones; the index says which the page shows first.
//!
//! [`Served`] is the same page for a server: blocks of single points stay on disk until the page asks for them.

mod block;
mod cut;
mod groups;
mod index;
mod served;
mod steps;
mod token_components;
mod views;

use std::io::Write;
use std::ops::RangeInclusive;

use index::Source;
pub use served::Served;
pub use views::{VIEWS, View};

use crate::assets::PAGE;
use crate::error::Result;
use crate::run::Run;
use crate::table::Table;
use crate::text::visible;

/// Where the title stands in the template.
const TITLE: &str = "<title>Layerscope</title>";

/// Where the template wants the data.
const DATA: &str = "<!-- data -->";

/// Where the book is on the web; empty until this package names a `homepage`, and the page then names files of the book instead of
/// linking to them.
const BOOK: &str = env!("CARGO_PKG_HOMEPAGE");

/// What the page has and shows first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The range of n_t that regressions start with; `None` for the range of each run.
    pub frequency: Option<RangeInclusive<u64>>,
    /// The page's title; `None` for the labels of the runs.
    pub title: Option<String>,
    /// The only views, with only the data that they read; empty for all of them.
    pub only: Vec<&'static View>,
    /// What was asked of the runs, a row each: `statement`, `paper`, `the paper saw`, `seen here`, `verdict`. The page opens on them.
    pub findings: Option<Table>,
}

/// Writes the page of these runs.
pub fn write(runs: &[Run], settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let sources = runs.iter().map(|run| Source::of(run, &settings.only)).collect::<Result<Vec<_>>>()?;
    write_with(&sources, settings, out, &[], |out| index::points(&sources, &mut |name, block| block.write(name, out)))
}

/// The page with some of its mark-up changed, the blocks every view needs, and then what `points` writes.
fn write_with(
    sources: &[Source],
    settings: &Settings,
    out: &mut dyn Write,
    changes: &[(&str, &str)],
    points: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let labels = Run::labels(&sources.iter().map(|source| source.run.as_ref()).collect::<Vec<_>>());
    let title = settings.title.clone().unwrap_or_else(|| labels.join(", "));
    let named = format!("<title>{} · Layerscope</title>", escaped(&visible(&title)));
    let (before, after) = PAGE.split_once(DATA).expect("the template has a place for data");
    let changed = |page: String, (from, to): &(&str, &str)| page.replacen(from, to, 1);
    let before = changes.iter().fold(before.to_owned(), changed).replacen(TITLE, &named, 1);
    out.write_all(before.as_bytes())?;
    index::common(sources, &labels, &title, settings, &mut |name, block| block.write(name, out))?;
    points(out)?;
    out.write_all(after.as_bytes())?;
    Ok(out.flush()?)
}

/// Text as part of mark-up.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
