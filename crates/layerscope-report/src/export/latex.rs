//! Tables for papers.

use std::io::{self, Write};

use crate::table::{Cell, Table};
use crate::text::{rounded, shortened};

pub(super) fn write(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let alignment: String = table.columns().map(|(_, column)| if column.is_numeric() { 'r' } else { 'l' }).collect();
    writeln!(output, "% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{alignment}}}\n\\toprule")?;
    line(table.columns().map(|(name, _)| escaped(name)), output)?;
    writeln!(output, "\\midrule")?;
    (0..table.rows()).try_for_each(|row| line(table.row(row).map(shown), output))?;
    writeln!(output, "\\bottomrule\n\\end{{tabular}}")
}

fn line(cells: impl Iterator<Item = String>, output: &mut dyn Write) -> io::Result<()> {
    for (i, cell) in cells.enumerate() {
        write!(output, "{}{cell}", if i == 0 { "" } else { " & " })?;
    }
    writeln!(output, " \\\\")
}

fn shown(cell: Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => escaped(text),
        Cell::Integer(number) => mathematics(&number.to_string()),
        Cell::Real(number) => mathematics(&rounded(number)),
    }
}

/// A number with a true minus sign and power of ten.
fn mathematics(number: &str) -> String {
    match number.split_once('e') {
        Some((digits, exponent)) => format!("${digits} \\times 10^{{{exponent}}}$"),
        None if number.starts_with('-') => format!("${number}$"),
        None => number.to_owned(),
    }
}

/// A text that is neither a command, nor an argument of the row's end before it, nor a ligature.
pub(crate) fn escaped(text: &str) -> String {
    let mut cell = String::new();
    for character in shortened(text).chars() {
        match character {
            '\\' => cell.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '_' | '%' => cell.extend(['\\', character]),
            '~' => cell.push_str("\\textasciitilde{}"),
            '^' => cell.push_str("\\textasciicircum{}"),
            '<' => cell.push_str("\\textless{}"),
            '>' => cell.push_str("\\textgreater{}"),
            '|' => cell.push_str("\\textbar{}"),
            '`' => cell.push_str("\\textasciigrave{}"),
            '\'' => cell.push_str("\\textquotesingle{}"),
            '"' => cell.push_str("{\\char34}"),
            '[' | ']' | '*' => cell.extend(['{', character, '}']),
            '-' if cell.ends_with('-') => cell.push_str("{}-"),
            ',' if cell.ends_with(',') => cell.push_str("{},"),
            '…' => cell.push_str("\\ldots{}"),
            _ => cell.push(character),
        }
    }
    cell
}
