//! One page to explore runs with: a single file that opens from disk and asks the network for nothing.
//!
//! The page's code is built from `web/` into `assets/page.html`, with a Content-Security-Policy that names that code by its hash
//! and forbids everything else. What a run says follows as blocks of typed columns in base64, inside script elements that no browser
//! runs: no text of a run is ever part of the mark-up, whatever characters it has. Blocks of single points are decoded when they
//! are looked at. A trajectory's page also has the tables of its steps, as many as a file may hold; a served page has all.

mod block;
mod cut;
mod index;
mod steps;

use std::io::Write;
use std::ops::RangeInclusive;

use steps::Parts;

use crate::error::Result;
use crate::run::Run;
use crate::text::visible;

/// The built page: mark-up, style and program, without data.
const TEMPLATE: &str = include_str!("../../assets/page.html");

/// Where the title stands in the template.
const TITLE: &str = "<title>Layerscope</title>";

/// Where the template wants the data.
const DATA: &str = "<!-- data -->";

/// How the policy begins, and the element that follows it.
const POLICY: &str = "default-src 'none'; ";
const REFERRER: &str = "<meta name=\"referrer\"";

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
    write_with(runs, settings, out, &[], Parts::Some, |out| {
        index::points(runs, None, Parts::Some, &mut |name, block| block.write(name, out))
    })
}

/// Writes the page without the blocks of single points, which it asks of its own server as `block/NAME`: see [`block()`].
pub fn write_shell(runs: &[Run], settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let served = [
        (POLICY, "default-src 'none'; connect-src 'self'; "),
        (REFERRER, "<meta name=\"layerscope-blocks\" content=\"served\">\n<meta name=\"referrer\""),
    ];
    write_with(runs, settings, out, &served, Parts::All, |_| Ok(()))
}

/// The bytes of the block that a page made by [`write_shell`] asks for; None where there is none of that name.
pub fn block(runs: &[Run], name: &str) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    index::points(runs, Some(name), Parts::All, &mut |_, block| {
        found = Some(block.into_bytes());
        Ok(())
    })?;
    Ok(found)
}

/// The page with some of its mark-up changed, the blocks every view needs, and then what `points` writes.
fn write_with(
    runs: &[Run],
    settings: &Settings,
    out: &mut dyn Write,
    changes: &[(&str, &str)],
    parts: Parts,
    points: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let labels = index::labels(runs);
    let title = settings.title.clone().unwrap_or_else(|| labels.join(", "));
    let named = format!("<title>{} · Layerscope</title>", escaped(&visible(&title)));
    let (before, after) = TEMPLATE.split_once(DATA).expect("the template has a place for data");
    let changed = |page: String, (from, to): &(&str, &str)| page.replacen(from, to, 1);
    let before = changes.iter().fold(before.to_owned(), changed).replacen(TITLE, &named, 1);
    out.write_all(before.as_bytes())?;
    index::common(runs, &labels, &title, settings, parts, &mut |name, block| block.write(name, out))?;
    points(out)?;
    out.write_all(after.as_bytes())?;
    Ok(out.flush()?)
}

/// Text as part of mark-up.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
