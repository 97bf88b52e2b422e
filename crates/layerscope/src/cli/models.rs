//! `layerscope models`.

use std::fmt::Write;

use layerscope_model::families::FAMILIES;

/// Every family: its `model_type`s and well-known checkpoints.
pub fn table() -> String {
    let names: Vec<String> = FAMILIES.iter().map(|family| family.model_types.join(", ")).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max("model_type".len());
    let mut table = format!("{:<width$}  checkpoints\n{}  {}\n", "model_type", "─".repeat(width), "─".repeat(40));
    for (name, family) in names.iter().zip(FAMILIES) {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:<width$}  {}", family.examples);
    }
    table
}
