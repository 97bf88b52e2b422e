//! What there is to choose from: measures and families of models.

use std::fmt::Write;

use layerscope_model::families::FAMILIES;
use layerscope_report::{Column, Table};
use layerscope_stats::measure::{MEASURES, Measure};

use crate::error::Result;

/// Every measure: name, family, formula, variants, what `n` counts, what it is computed from, source.
pub fn measures() -> Result<Table> {
    let text = |of: &dyn Fn(&Measure) -> String| Column::text(MEASURES.iter().map(|measure| Some(of(measure))));
    Ok(Table::new([
        ("measure", text(&|measure| measure.name.to_owned())),
        ("family", text(&|measure| measure.family.name().to_owned())),
        ("formula", text(&|measure| measure.formula.to_owned())),
        ("variants", text(&|measure| measure.variants.join(", "))),
        ("n counts", text(&|measure| measure.counts.to_owned())),
        ("needs", text(&|measure| measure.needs_in_words())),
        ("source", text(&|measure| measure.source.to_owned())),
    ])?)
}

/// Every family of models: its `model_type`s and well-known checkpoints; and which of them GGUF files may hold.
pub fn models() -> String {
    let names: Vec<String> = FAMILIES.iter().map(|family| family.model_types.join(", ")).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max("model_type".len());
    let mut table = format!("{:<width$}  checkpoints\n{}  {}\n", "model_type", "─".repeat(width), "─".repeat(40));
    for (name, family) in names.iter().zip(FAMILIES) {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:<width$}  {}", family.examples);
    }
    let architectures: Vec<&str> = FAMILIES.iter().filter_map(|family| Some(family.gguf?.architecture)).collect();
    let _ = writeln!(table, "\nGGUF files: {} (`general.architecture`)", architectures.join(", "));
    table
}
