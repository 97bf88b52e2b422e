//! Comma-separated values for programs and spreadsheets.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::table::{Cell, Table};
use crate::text::{exact, is_hidden};

pub(super) fn write(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    line(table.columns().map(|(name, _)| Cell::Text(name)), output)?;
    (0..table.rows()).try_for_each(|row| line(table.row(row), output))
}

fn line<'a>(cells: impl Iterator<Item = Cell<'a>>, output: &mut dyn Write) -> io::Result<()> {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            output.write_all(b",")?;
        }
        match cell {
            Cell::Null => {}
            Cell::Text(text) => output.write_all(field(text).as_bytes())?,
            Cell::Integer(number) => write!(output, "{number}")?,
            Cell::Real(number) => output.write_all(exact(number).as_bytes())?,
        }
    }
    output.write_all(b"\n")
}

/// A text no spreadsheet runs and no terminal obeys, in quotes where it needs them.
fn field(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '=', '+', '-', '@']);
    let quoted = text.is_empty() || text.starts_with(' ') || text.ends_with(' ') || text.contains([',', ';', '"', '\t', '\r', '\n']);
    if !formula && !quoted && !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut field = String::with_capacity(text.len() + 3);
    if quoted {
        field.push('"');
    }
    if formula {
        field.push('\'');
    }
    for character in text.chars() {
        match character {
            '"' => field.push_str("\"\""),
            '\t' | '\r' | '\n' => field.push(character), // safe inside the quotes
            _ if is_hidden(character) => field.extend(character.escape_unicode()),
            _ => field.push(character),
        }
    }
    if quoted {
        field.push('"');
    }
    Cow::Owned(field)
}
