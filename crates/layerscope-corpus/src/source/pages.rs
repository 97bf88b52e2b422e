//! Pages of a MediaWiki dump in XML, line by line: no tag of a dump spans lines, and none stands inside a page's text unescaped.

use super::Records;
use super::lines::Lines;
use crate::document::Record;
use crate::error::{Error, Result};

/// The source of each page is a record. Text that does not begin like a dump is read by lines instead.
pub(super) struct PageRecords<'a> {
    lines: Lines<'a>,
    dump: Option<bool>,
}

impl<'a> PageRecords<'a> {
    pub fn new(lines: Lines<'a>) -> Self {
        PageRecords { lines, dump: None }
    }

    /// Reads to the end of the next page that has one, or to the end of the file; `None` if no page begins any more.
    fn page(&mut self) -> Option<Result<Record>> {
        let mut page = Page::default();
        let mut bad = None;
        while let Some(line) = self.lines.next_line() {
            match line {
                Ok(line) => page.read(&line),
                Err(error @ Error::Record { .. }) => bad = bad.or(Some(error)),
                Err(error) => return Some(Err(error)),
            }
            if page.text.len() as u64 > self.lines.longest() {
                let longest = self.lines.longest() as f64 / f64::from(1 << 20);
                let problem = format!("the page before {} is longer than {longest:.1} MiB", self.lines.place());
                return Some(Err(Error::input(self.lines.name(), problem)));
            }
            if page.ended {
                break;
            }
        }
        match bad {
            Some(error) => Some(Err(error)),
            None => page
                .begun
                .then(|| Ok(Record { text: if page.is_text { unescape(&page.text) } else { String::new() }, ..Record::default() })),
        }
    }
}

impl Records for PageRecords<'_> {
    fn next_record(&mut self) -> Option<Result<Record>> {
        if self.dump == Some(true) {
            return self.page();
        }
        let line = self.lines.next_line()?;
        let first = self.dump.is_none();
        let begins = |line: &str| ["<mediawiki", "<page>", "<?xml"].iter().any(|start| line.trim_start().starts_with(start));
        self.dump.get_or_insert(false);
        match line {
            Ok(line) if first && begins(&line) => {
                self.dump = Some(true);
                self.page()
            }
            line => Some(line.map(|text| Record { text, ..Record::default() })),
        }
    }
}

/// A page as far as it was read.
struct Page {
    begun: bool,
    ended: bool,
    inside: bool,
    /// Whether it holds Wikipedia's mark-up rather than a program or a style sheet.
    is_text: bool,
    text: String,
}

impl Default for Page {
    fn default() -> Self {
        Page { begun: false, ended: false, inside: false, is_text: true, text: String::new() }
    }
}

impl Page {
    fn read(&mut self, line: &str) {
        let mut line = line;
        if !self.inside {
            self.begun |= line.contains("<title>") || line.contains("<text");
            self.ended |= self.begun && line.contains("</page>");
            self.is_text &= !line.contains("<model>") || line.contains("<model>wikitext</model>");
            let Some((_, rest)) = line.split_once("<text") else { return };
            let Some((attributes, rest)) = rest.split_once('>') else { return };
            self.text.clear(); // of several revisions the last counts
            self.inside = !attributes.ends_with('/');
            line = rest;
        }
        match line.split_once("</text>") {
            Some((last, after)) => {
                self.text.push_str(last);
                self.inside = false;
                self.ended |= after.contains("</page>");
            }
            None if self.inside => {
                self.text.push_str(line);
                self.text.push('\n');
            }
            None => {}
        }
    }
}

/// The five entities of XML, once.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&amp;", '&'), ("&apos;", '\''), ("&#039;", '\'')];
        let (length, character) = known.iter().find(|(name, _)| rest.starts_with(name)).map_or((1, '&'), |(name, c)| (name.len(), *c));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}
