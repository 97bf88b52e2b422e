//! A run in a few lines.

use std::path::Path;

use layerscope_report::Run;
use layerscope_report::manifest::Timings;

use super::select::with_frequency;
use super::states::{about_massive, chosen};
use super::summary::summary_table;
use super::trajectory::{final_norm_summary, trajectory_summary};
use crate::error::Result;
use crate::text::grouped;

/// Characters of a terminal's line.
const WIDTH: usize = 80;
const HEADING: &str = "time: ";

/// What was measured, and the summary of all layers, of the states to show first.
pub fn overview(folder: &Path) -> Result<String> {
    overview_of(folder, None)
}

/// The same of `typical` or `all` states.
pub fn overview_of(folder: &Path, states: Option<&str>) -> Result<String> {
    let run = Run::open(folder)?;
    let states = chosen(&[&run], states)?;
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
    lines.extend(run.manifest.timings.as_ref().map(time_lines).unwrap_or_default());
    lines.extend(run.manifest.warnings().iter().map(|warning| format!("warning: {warning}")));
    lines.extend(about_massive(&[(None, &run.layers)], states));
    lines.push(String::new());
    match run.manifest.is_trajectory() {
        true => lines.push(trajectory_summary(&run.layers, states)),
        false => lines.push(summary_table(&run.layers, states)),
    }
    if let Some(norm) = final_norm_summary(&run.layers, states)? {
        lines.extend([String::new(), norm]);
    }
    Ok(lines.join("\n"))
}

/// `time: read 0.3 s, ...` in lines that a terminal holds; nothing of a run that took no time worth telling.
fn time_lines(timings: &Timings) -> Vec<String> {
    let told = timings.to_string();
    let mut lines: Vec<String> = Vec::new();
    for part in told.split_inclusive(", ").filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + part.trim_end().len() <= WIDTH => line.push_str(part),
            last => {
                let heading = if last.is_none() { HEADING } else { "" };
                lines.push(format!("{heading:<indent$}{part}", indent = HEADING.len()));
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// The summary of all layers for other frequencies.
pub fn overview_with_frequency(folder: &Path, frequency: &str, states: Option<&str>) -> Result<String> {
    let run = Run::open(folder)?;
    let states = chosen(&[&run], states)?;
    let mut lines = about_massive(&[(None, &run.layers)], states);
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(summary_table(&with_frequency(folder, frequency, "layers")?, states));
    Ok(lines.join("\n"))
}
