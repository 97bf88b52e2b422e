//! Aligned tables for people, in a terminal or rendered.

use std::io::{self, Write};

use crate::table::{Cell, Table};
use crate::text::{CELL_CHARACTERS, rounded, shortened_to};

/// Cells are aligned up to this width; a longer one stands out in its own row only.
const ALIGNED: usize = 200;

pub(super) fn write(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let names: Vec<String> = table.columns().map(|(name, _)| escaped(name)).collect();
    let numeric: Vec<bool> = table.columns().map(|(_, column)| column.is_numeric()).collect();
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count().clamp(3, ALIGNED)).collect();
    for row in 0..table.rows() {
        for (width, cell) in widths.iter_mut().zip(table.row(row)) {
            *width = (*width).max(shown(cell).chars().count().min(ALIGNED));
        }
    }
    line(names.into_iter(), &widths, &numeric, output)?;
    for (&width, &numeric) in widths.iter().zip(&numeric) {
        let rule = "-".repeat(width - 1);
        write!(output, "| {rule}{} ", if numeric { ':' } else { '-' })?;
    }
    output.write_all(b"|\n")?;
    (0..table.rows()).try_for_each(|row| line(table.row(row).map(shown), &widths, &numeric, output))
}

fn line(cells: impl Iterator<Item = String>, widths: &[usize], numeric: &[bool], output: &mut dyn Write) -> io::Result<()> {
    for ((cell, &width), &numeric) in cells.zip(widths).zip(numeric) {
        if numeric { write!(output, "| {cell:>width$} ") } else { write!(output, "| {cell:<width$} ") }?;
    }
    output.write_all(b"|\n")
}

fn shown(cell: Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => escaped(text),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => rounded(number),
    }
}

/// A text that stays in its cell and means only itself.
fn escaped(text: &str) -> String {
    let text = shortened_to(text, CELL_CHARACTERS);
    let mut cell = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '<' => cell.push_str("&lt;"),
            '>' => cell.push_str("&gt;"),
            '&' => cell.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '[' | ']' | '~' | '$' => cell.extend(['\\', character]),
            // Inside a word an underscore is only itself, and names of measures are full of them.
            '_' if !(in_word(before) && in_word(rest.clone().next())) => cell.push_str("\\_"),
            _ => cell.push(character),
        }
        before = Some(character);
    }
    cell
}

fn in_word(character: Option<char>) -> bool {
    character.is_some_and(char::is_alphanumeric)
}
