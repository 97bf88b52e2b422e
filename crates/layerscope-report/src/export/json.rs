//! Objects for programs: nothing is lost.

use std::io::{self, Write};

use crate::table::{Cell, Table};
use crate::text::{exact, is_hidden, push_json_escape};

/// One array with an object a line.
pub(super) fn write(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let names = names(table);
    output.write_all(b"[")?;
    for row in 0..table.rows() {
        output.write_all(if row == 0 { b"\n" } else { b",\n" })?;
        object(&names, table, row, output)?;
    }
    output.write_all(if table.rows() == 0 { b"]\n" } else { b"\n]\n" })
}

/// An object a line and nothing else.
pub(super) fn write_lines(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let names = names(table);
    for row in 0..table.rows() {
        object(&names, table, row, output)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

fn names(table: &Table) -> Vec<String> {
    table.columns().map(|(name, _)| string(name)).collect()
}

fn object(names: &[String], table: &Table, row: usize, output: &mut dyn Write) -> io::Result<()> {
    for (i, (name, cell)) in names.iter().zip(table.row(row)).enumerate() {
        write!(output, "{}{name}:", if i == 0 { '{' } else { ',' })?;
        match cell {
            Cell::Null => output.write_all(b"null")?,
            Cell::Text(text) => output.write_all(string(text).as_bytes())?,
            Cell::Integer(number) => write!(output, "{number}")?,
            Cell::Real(number) => output.write_all(exact(number).as_bytes())?,
        }
    }
    output.write_all(b"}")
}

/// A string literal that is also inert in a terminal and inside an HTML `<script>`.
fn string(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for character in text.chars() {
        match character {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            _ if character == '<' || is_hidden(character) => push_json_escape(character, &mut literal),
            _ => literal.push(character),
        }
    }
    literal.push('"');
    literal
}
