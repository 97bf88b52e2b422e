//! Lines made fit to read: entities, white space, and what is left of things taken out.

use super::scan::HEADING;

/// Tidies every line, drops empty ones, and headings with nothing below them.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut headings: Vec<(u8, String)> = Vec::new();
    let mut decoded = String::new();
    for line in text.split('\n') {
        let (level, line) = match line.strip_prefix(HEADING) {
            Some(rest) => (rest.bytes().next(), rest.get(1..).unwrap_or("")),
            None => (None, line),
        };
        decoded.clear();
        let line = if line.contains('&') { html_escape::decode_html_entities_to_string(line, &mut decoded) } else { line };
        let start = out.len();
        smooth(line, &mut out);
        if !out[start..].contains(char::is_alphanumeric) {
            out.truncate(start);
            continue;
        }
        if let Some(level) = level {
            headings.retain(|(above, _)| *above < level);
            headings.push((level, out.split_off(start)));
            continue;
        }
        out.push('\n');
        for (_, heading) in headings.drain(..).rev() {
            out.insert_str(start, &format!("{heading}\n"));
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Single spaces, none before a comma or at the ends; no brackets with nothing in them.
fn smooth(line: &str, out: &mut String) {
    let start = out.len();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let at_end = chars.peek().is_none_or(|next| next.is_whitespace());
        match c {
            c if c.is_whitespace() || c == '\u{200e}' || c == '\u{200f}' => {
                if out.len() > start && !out.ends_with([' ', '(']) {
                    out.push(' ');
                }
            }
            c if c.is_control() => {}
            ')' => {
                let inner = out[start..].trim_end_matches([' ', ',', ';', ':']).len();
                out.truncate(start + inner);
                match out[start..].ends_with('(') {
                    true => drop(out.pop()),
                    false => out.push(')'),
                }
            }
            ',' | ';' | '.' if at_end => {
                let kept = start + out[start..].trim_end().len();
                out.truncate(kept);
                // After an opening bracket or another comma something was taken out.
                if !(out[start..].ends_with(['(', ',', ';']) && c != '.') {
                    out.push(c);
                }
            }
            c => out.push(c),
        }
    }
    out.truncate(start + out[start..].trim_end().len());
}
