//! The table of settings as documentation.

use layerscope_report::{Column, Table};

use super::presets::PRESETS;
use super::table::{Heading, Kind, Role, Row, SETTINGS};
use crate::error::Result;
use crate::text::wrapped;

/// Flag, values, default, what it decides and what it does: `layerscope settings` and `docs/settings.md`.
pub fn table() -> Result<Table> {
    let text = |of: &dyn Fn(&Row) -> String| Column::text(SETTINGS.iter().map(|row| Some(of(row))));
    Ok(Table::new([
        ("setting", text(&|row| format!("--{}", row.name))),
        ("section", text(&|row| row.heading.title().to_owned())),
        ("values", text(&|row| values(row))),
        ("default", text(&|row| row.default.unwrap_or_default().to_owned())),
        ("presets", text(&|row| presets(row))),
        ("decides", text(&|row| decides(row).to_owned())),
        ("meaning", text(&|row| row.help.to_owned())),
    ])?)
}

fn values(row: &Row) -> String {
    match row.kind {
        Kind::Value(placeholder, _) | Kind::Values(placeholder, ..) => placeholder.to_owned(),
        Kind::Words(_, words) => words.join(", "),
        Kind::Truth => "true, false".to_owned(),
        Kind::Switch => "switch".to_owned(),
    }
}

fn presets(row: &Row) -> String {
    let sets = |preset: &super::presets::Preset| {
        preset.sets.iter().find(|(name, _)| *name == row.name).map(|(_, value)| format!("{}: {value}", preset.name))
    };
    PRESETS.iter().filter_map(sets).collect::<Vec<_>>().join("; ")
}

fn decides(row: &Row) -> &'static str {
    match row.role {
        Role::Request => "what is measured, and where it goes",
        Role::Numbers => "the numbers",
        Role::Order => "the order of work",
        Role::Resources => "speed and memory",
    }
}

/// Of a line of help beside its keyword.
const HELP_WIDTH: usize = 100;

/// The settings as a docstring of Python lists them, under their headings.
pub fn docstring() -> String {
    let mut lines = Vec::new();
    for heading in Heading::ALL {
        lines.push(heading.title().to_owned());
        for row in SETTINGS.iter().filter(|row| row.heading == heading && !matches!(row.name, "model" | "corpus" | "out")) {
            let help = wrapped(&row.help_text().replace("--out", "`out`"), HELP_WIDTH);
            let keywords = std::iter::once(row.keyword()).chain(std::iter::repeat(String::new()));
            lines.extend(keywords.zip(help).map(|(keyword, part)| format!("    {keyword:<20}{part}")));
        }
        lines.push(String::new());
    }
    lines.pop();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_documented_once() {
        assert_eq!(table().expect("a table").rows(), SETTINGS.len());
        let text = docstring();
        for row in SETTINGS.iter().filter(|row| !matches!(row.name, "model" | "corpus" | "out")) {
            assert_eq!(
                text.lines().filter(|line| line.trim_start().starts_with(&format!("{} ", row.keyword()))).count(),
                1,
                "{}",
                row.name
            );
        }
    }
}
