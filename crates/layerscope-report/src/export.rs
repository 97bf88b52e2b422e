//! Tables as files.
//!
//! | format | nulls | reals | text |
//! |---|---|---|---|
//! | Parquet | null | exact | exact |
//! | JSON, JSON lines | `null` | exact | exact; hidden characters and `<` as `\u....` |
//! | CSV | empty (an empty text is `""`) | exact | quoted; formulas after a `'`; hidden characters visible |
//! | Markdown | empty | five digits | escaped; hidden characters visible; at most 2,000 of them |
//! | LaTeX | empty | five digits | escaped; hidden characters visible; shortened to 100 |
//!
//! Hidden characters are those that control or reorder text, see [`is_hidden`](crate::text::is_hidden).

mod csv;
mod json;
pub(crate) mod latex;
mod markdown;
pub mod parquet;

use std::io::{BufWriter, Write};
use std::str::FromStr;

use layerscope_error::or;

use crate::error::{Error, Result};
use crate::table::Table;

/// A format that tables can be printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An aligned table in GitHub-flavoured Markdown; also the format for terminals.
    Markdown,
    /// Comma-separated values, with the column names in the first line.
    Csv,
    /// One array of objects.
    Json,
    /// One object per line.
    JsonLines,
    /// A `tabular` with the rules of `booktabs`.
    Latex,
}

impl Format {
    /// Every format, in the order of the command line's help.
    pub const ALL: [Format; 5] = [Format::Markdown, Format::Csv, Format::Json, Format::JsonLines, Format::Latex];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Markdown => "md",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::JsonLines => "jsonl",
            Format::Latex => "latex",
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let names = Format::ALL.map(Format::name);
            Error::setting("format", name, &names, &or(&names))
        })
    }
}

/// Writes the table in a format.
pub fn write(table: &Table, format: Format, output: &mut dyn Write) -> Result<()> {
    let mut output = BufWriter::new(output);
    match format {
        Format::Markdown => markdown::write(table, &mut output),
        Format::Csv => csv::write(table, &mut output),
        Format::Json => json::write(table, &mut output),
        Format::JsonLines => json::write_lines(table, &mut output),
        Format::Latex => latex::write(table, &mut output),
    }?;
    Ok(output.flush()?)
}
