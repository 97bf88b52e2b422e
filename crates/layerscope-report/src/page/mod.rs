//! One page to explore runs with: a single file that opens from disk and asks the network for nothing.
//!
//! The page's code is built from `web/` into `assets/page.html`, with a Content-Security-Policy that names that code by its hash
//! and forbids everything else. What a run says follows as blocks of typed columns in base64, inside script elements that no browser
//! runs: no text of a run is ever part of the mark-up, whatever characters it has. Blocks of single points are decoded when they
//! are looked at.

mod block;
mod index;

use std::io::Write;
use std::ops::RangeInclusive;

use crate::error::Result;
use crate::run::Run;
use crate::text::visible;
use block::Block;

/// The built page: mark-up, style and program, without data.
const TEMPLATE: &str = include_str!("../../assets/page.html");

/// Where the title stands in the template.
const TITLE: &str = "<title>Layerscope</title>";

/// Where the template wants the data.
const DATA: &str = "<!-- data -->";

/// What the page shows at first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// MIN..=MAX of n_t that regressions start with; None for the one of each run.
    pub frequency: Option<RangeInclusive<u64>>,
    /// The page's title; None for the models' names.
    pub title: Option<String>,
}

/// Writes the page of these runs.
pub fn write(runs: &[Run], settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let labels = index::labels(runs);
    let title = settings.title.clone().unwrap_or_else(|| labels.join(", "));
    let page = TEMPLATE.replacen(TITLE, &format!("<title>{} · Layerscope</title>", escaped(&visible(&title))), 1);
    let (before, after) = page.split_once(DATA).expect("the template has a place for data");
    out.write_all(before.as_bytes())?;
    index::blocks(runs, &labels, &title, settings, &mut |name: &str, block: Block| block.write(name, out))?;
    out.write_all(after.as_bytes())?;
    Ok(out.flush()?)
}

/// Text as part of mark-up.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
