//! `layerscope measures`: what can be measured.

use layerscope_report::{Column, Table};
use layerscope_stats::measure::MEASURES;

use crate::error::Result;

/// Name, family, formula, source, needs, variants and what `n` counts, from the table that also drives the program.
pub fn table() -> Result<Table> {
    let text = |of: &dyn Fn(&layerscope_stats::measure::Measure) -> String| {
        Column::Text(MEASURES.iter().map(|measure| Some(of(measure))).collect())
    };
    Ok(Table::new([
        ("measure", text(&|measure| measure.name.to_owned())),
        ("family", text(&|measure| measure.family.name().to_owned())),
        ("formula", text(&|measure| measure.formula.to_owned())),
        ("variants", text(&|measure| measure.variants.join(", "))),
        ("n counts", text(&|measure| measure.counts.to_owned())),
        ("needs", text(&|measure| measure.needs.name().to_owned())),
        ("source", text(&|measure| measure.source.to_owned())),
    ])?)
}
