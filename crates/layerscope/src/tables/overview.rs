//! A run in a few lines.

use std::path::Path;

use layerscope_report::Run;

use super::summary::summary_table;
use super::trajectory::{final_norm_summary, trajectory_summary};
use crate::error::Result;
use crate::text::grouped;

/// What was measured, and the summary of all layers.
pub fn overview(folder: &Path) -> Result<String> {
    let run = Run::open(folder)?;
    let (model, corpus) = (&run.manifest.model, &run.manifest.corpus);
    let number = |count: Option<u64>| grouped(count.unwrap_or(0) as usize);
    let mut lines = vec![
        format!(
            "{} ({}), {} layers of width {}",
            run.model(),
            model.family.as_deref().unwrap_or_default(),
            model.layers.map_or("null".to_owned(), |layers| layers.to_string()),
            model.width.map_or("null".to_owned(), |width| width.to_string())
        ),
        format!(
            "{} documents, {} states in {} groups by {}",
            number(corpus.documents),
            number(corpus.states),
            number(corpus.groups),
            run.manifest.grouping.as_deref().unwrap_or_default()
        ),
    ];
    lines.extend(run.manifest.warnings().iter().map(|warning| format!("warning: {warning}")));
    lines.push(String::new());
    match run.manifest.is_trajectory() {
        true => lines.push(trajectory_summary(&run.layers)),
        false => lines.push(summary_table(&run.layers)),
    }
    if let Some(norm) = final_norm_summary(&run.layers)? {
        lines.extend([String::new(), norm]);
    }
    Ok(lines.join("\n"))
}
