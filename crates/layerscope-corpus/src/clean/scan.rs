//! One pass over the mark-up. Everything is written out as it comes; when a template, table or link closes, what was written since it
//! opened is taken back or replaced. So the work is linear however things nest, and what never closes does little harm.

use super::tags::{self, Tag};

/// Stands before a heading, with its level as a digit.
pub(super) const HEADING: char = '\u{1}';

/// The text without its mark-up, headings marked, lines and spaces as they fell.
pub(super) fn strip(text: &str) -> String {
    if text.trim_start().get(..9).is_some_and(|start| start.eq_ignore_ascii_case("#redirect")) {
        return String::new();
    }
    let mut scanner =
        Scanner { text, at: 0, out: String::with_capacity(text.len()), open: Vec::new(), heading: false, unclosed: Vec::new() };
    scanner.run();
    scanner.out
}

/// What nests deeper than this is not mark-up; so that looking through what is open costs little.
const MAX_DEPTH: usize = 200;

/// Something that opened and has not closed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    kind: Kind,
    /// Where it began in what was written.
    start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Template {
        braces: usize,
    },
    Table,
    HtmlTable,
    /// `[[target|label]]`; where the label begins.
    Link {
        label: Option<usize>,
    },
    /// `[http://... label]`
    External,
    /// A line that is dropped at its end: code, or a row that lost its table.
    Line,
}

impl Kind {
    fn is_block(self) -> bool {
        matches!(self, Kind::Template { .. } | Kind::Table | Kind::HtmlTable)
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    out: String,
    open: Vec<Open>,
    /// Whether this line is a heading.
    heading: bool,
    /// Names of tags that do not close any more.
    unclosed: Vec<&'static str>,
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'\n' | b'<' | b'{' | b'}' | b'[' | b']' | b'|' | b'\'' | b'=' | b'_' | b':')
}

impl<'a> Scanner<'a> {
    fn run(&mut self) {
        self.begin_line();
        while self.at < self.text.len() {
            let rest = self.rest();
            let plain = rest.bytes().position(is_special).unwrap_or(rest.len());
            self.copy(plain);
            if plain == rest.len() {
                break;
            }
            self.special();
        }
        self.end();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Writes the next so many bytes as they are.
    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn starts_with(&self, start: &str) -> bool {
        self.rest().starts_with(start)
    }

    fn special(&mut self) {
        match self.text.as_bytes()[self.at] {
            b'\n' => self.newline(),
            b'<' => self.tag(),
            b'{' if self.starts_with("{{") => {
                let braces = if self.starts_with("{{{") && !self.starts_with("{{{{") { 3 } else { 2 };
                self.push(Kind::Template { braces }, braces);
            }
            b'}' if self.starts_with("}}") => self.close_template(),
            b'[' if self.starts_with("[[") => self.push(Kind::Link { label: None }, 2),
            b'[' if is_url(&self.rest()[1..]) => {
                self.push(Kind::External, 1);
                self.at += url_length(self.rest());
            }
            b']' => self.close_link(),
            b'|' => match self.open.last_mut() {
                Some(Open { kind: Kind::Link { label: label @ None }, .. }) => {
                    *label = Some(self.out.len());
                    self.at += 1;
                }
                _ => self.copy(1),
            },
            b'\'' => self.quotes(),
            b'=' if self.heading => {
                let run = run(self.rest(), b'=');
                let last = self.rest()[run..].lines().next().is_none_or(|line| line.trim().is_empty());
                if last { self.at += run } else { self.copy(run) }
            }
            b'_' if self.starts_with("__") => {
                let word = self.rest()[2..].bytes().take_while(u8::is_ascii_uppercase).count();
                let magic = word > 2 && self.rest()[2 + word..].starts_with("__");
                if magic { self.at += word + 4 } else { self.copy(run(self.rest(), b'_')) }
            }
            b':' if self.starts_with("://") => self.bare_url(),
            _ => self.copy(1),
        }
    }

    fn push(&mut self, kind: Kind, skipped: usize) {
        if self.open.len() < MAX_DEPTH {
            self.open.push(Open { kind, start: self.out.len() });
        }
        self.at += skipped;
    }

    /// Takes back all that was written since the opening at this place, and everything opened since.
    fn drop_from(&mut self, place: usize) {
        self.out.truncate(self.open[place].start);
        self.open.truncate(place);
    }

    fn newline(&mut self) {
        while let Some(Open { kind, .. }) = self.open.last() {
            match kind {
                Kind::Line => self.drop_from(self.open.len() - 1),
                Kind::External => drop(self.open.pop()),
                Kind::Link { .. } if self.starts_with("\n\n") => self.give_up_link(),
                _ => break,
            }
        }
        self.copy(1);
        self.begin_line();
    }

    /// What means something only where a line begins.
    fn begin_line(&mut self) {
        self.heading = false;
        let inside = self.open.iter().rev().find(|open| open.kind.is_block()).map(|open| open.kind);
        let line = self.rest().split('\n').next().unwrap_or("");
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let words = &line[indent..];
        if inside == Some(Kind::Table) && words.starts_with("|}") {
            let place = self.open.iter().rposition(|open| open.kind == Kind::Table).unwrap_or(0);
            self.drop_from(place);
            self.at += indent + 2;
            return;
        }
        let marks = words.bytes().take_while(|byte| b"*#:;".contains(byte)).count();
        let item = words[marks..].trim_start_matches([' ', '\t']);
        if item.starts_with("{|") {
            self.at += line.len() - item.len();
            return self.push(Kind::Table, 2);
        }
        if words.starts_with("==") && words.len() < 1000 && words.trim_end().ends_with("==") {
            // A heading ends what should have ended before it; tables may hold headings.
            if let Some(place) = self.open.iter().position(|open| open.kind.is_block()) {
                if !matches!(self.open[place].kind, Kind::Template { .. }) {
                    return;
                }
                self.drop_from(place);
            }
            while !self.open.is_empty() {
                self.give_up_link();
            }
            let level = run(words, b'=').min(6);
            self.at += indent + run(words, b'=').min(words.len() / 2);
            self.out.push('\n');
            self.out.push(HEADING);
            self.out.push(char::from(b'0' + level as u8));
            self.heading = true;
            return;
        }
        if inside.is_some() {
            return;
        }
        if words.starts_with("----") {
            self.at += indent + run(words, b'-');
        } else if indent > 0 && !words.is_empty() || words.starts_with('|') || words.starts_with('!') && words.contains("||") {
            self.push(Kind::Line, 0); // an indented line is shown as code
        } else {
            self.at += line.len() - item.len();
        }
    }

    fn close_template(&mut self) {
        let Some(place) = self.open.iter().rposition(|open| matches!(open.kind, Kind::Template { .. })) else {
            self.at += 2;
            return;
        };
        let three = self.open[place].kind == Kind::Template { braces: 3 } && self.starts_with("}}}");
        self.drop_from(place);
        self.at += if three { 3 } else { 2 };
    }

    /// Of a link that never closes, what would be seen stays.
    fn give_up_link(&mut self) {
        if let Some(Open { kind: Kind::Link { label: Some(label) }, start }) = self.open.pop() {
            self.out.drain(start..label);
        }
    }

    fn close_link(&mut self) {
        if self.open.last().is_some_and(|open| open.kind == Kind::External) {
            self.open.pop();
            self.at += 1;
            return;
        }
        let block = self.open.iter().rposition(|open| open.kind.is_block()).map_or(0, |place| place + 1);
        let link = self.open[block..].iter().rposition(|open| matches!(open.kind, Kind::Link { .. })).map(|place| block + place);
        let (true, Some(place)) = (self.starts_with("]]"), link) else { return self.copy(1) };
        self.at += 2;
        let Open { kind: Kind::Link { label }, start } = self.open[place] else { return };
        self.open.truncate(place);
        let target = self.out[start..label.unwrap_or(self.out.len())].trim();
        let (target, plain) = target.strip_prefix(':').map_or((target, false), |target| (target, true));
        let prefix = target.split_once(':').map(|(prefix, _)| prefix);
        if !plain && prefix.is_some_and(|prefix| tags::is_hidden(prefix, label.is_some())) {
            return self.out.truncate(start);
        }
        match label {
            Some(label) if !self.out[label..].trim().is_empty() => drop(self.out.drain(start..label)),
            // `[[Mercury (planet)|]]` shows as Mercury.
            Some(_) => {
                let name = prefix.map_or(target, |prefix| &target[prefix.len() + 1..]);
                let name = name.split(" (").next().unwrap_or(name).to_owned();
                self.out.replace_range(start.., &name);
            }
            None => {
                let name = target.to_owned();
                self.out.replace_range(start.., &name);
            }
        }
    }

    /// `''` slants, `'''` is bold, `'''''` both; what is more are apostrophes.
    fn quotes(&mut self) {
        let run = run(self.rest(), b'\'');
        let kept = match run {
            1 => 1,
            2 | 3 | 5 => 0,
            4 => 1,
            more => more - 5,
        };
        self.out.push_str(&self.rest()[..kept]);
        self.at += run;
    }

    /// Takes back the scheme and skips the rest.
    fn bare_url(&mut self) {
        // Letters before a link, or of its target, are no part of a scheme.
        let floor = self.open.last().map_or(0, |open| match open.kind {
            Kind::Link { label: Some(label) } => label,
            _ => open.start,
        });
        let from = floor + self.out[floor..].trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
        if ["http", "https", "ftp", "irc", "news"].contains(&&self.out[from..]) {
            self.out.truncate(from);
            // Punctuation at its end belongs to the sentence.
            self.at += self.rest()[..url_length(self.rest())].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'']).len();
        } else {
            self.copy(3);
        }
    }

    fn tag(&mut self) {
        let rest = self.rest();
        if let Some(comment) = rest.strip_prefix("<!--") {
            self.at += comment.find("-->").map_or(rest.len(), |end| end + 7);
            return;
        }
        let closing = rest[1..].starts_with('/');
        let name = &rest[1 + usize::from(closing)..];
        let name = &name[..name.bytes().take_while(u8::is_ascii_alphanumeric).count()];
        let lower = name.to_ascii_lowercase();
        let end = rest.bytes().take(2000).position(|byte| byte == b'>');
        let (Some((tag, known)), Some(end)) = (tags::tag(&lower), end) else { return self.copy(1) };
        let whole = &rest[..=end];
        if !whole[1 + usize::from(closing) + name.len()..].starts_with([' ', '/', '>', '\n', '\t']) {
            return self.copy(1);
        }
        self.at += whole.len();
        let opens = !closing && !whole.ends_with("/>");
        match tag {
            Tag::Drop if opens => {
                self.enclosed(known);
            }
            Tag::Literal if opens => {
                let inner = self.enclosed(known);
                self.out.push_str(inner);
            }
            Tag::Table if opens => self.push(Kind::HtmlTable, 0),
            Tag::Table => {
                if let Some(place) = self.open.iter().rposition(|open| open.kind == Kind::HtmlTable) {
                    self.drop_from(place);
                }
            }
            Tag::Break => self.out.push('\n'),
            Tag::Drop | Tag::Literal | Tag::Plain => {}
        }
    }

    /// Skips what a tag encloses and its end, and gives it; nothing where the tag never closes.
    fn enclosed(&mut self, name: &'static str) -> &'a str {
        if self.unclosed.contains(&name) {
            return "";
        }
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find("</") {
            let (start, after) = (from + found, from + found + 2 + name.len());
            if rest.as_bytes().get(start + 2..after).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes())) {
                self.at += rest[after..].find('>').map_or(rest.len(), |end| after + end + 1);
                return &rest[..start];
            }
            from = start + 2;
        }
        self.unclosed.push(name);
        ""
    }

    /// The end of the page closes everything.
    fn end(&mut self) {
        let place = self.open.iter().position(|open| open.kind.is_block() || open.kind == Kind::Line);
        let Some(place) = place else {
            while !self.open.is_empty() {
                self.give_up_link();
            }
            return;
        };
        let start = self.open[place].start;
        let salvage = matches!(self.open[place].kind, Kind::Table | Kind::HtmlTable);
        let rest = self.out.split_off(start);
        // Of a table that never closes, what looks like text stays.
        let row = |line: &&str| !line.trim_start().starts_with(['|', '!', '{']);
        for line in rest.lines().skip(1).filter(row).filter(|_| salvage) {
            self.out.push_str(line);
            self.out.push('\n');
        }
    }
}

fn run(text: &str, byte: u8) -> usize {
    text.bytes().take_while(|other| *other == byte).count()
}

fn is_url(text: &str) -> bool {
    ["http://", "https://", "ftp://", "irc://", "news:", "mailto:", "//"].iter().any(|start| text.starts_with(start))
}

/// How far an address goes.
fn url_length(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "[]<>\"{}|".contains(c)).unwrap_or(text.len())
}
