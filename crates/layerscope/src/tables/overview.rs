//! A run in a few lines.

use std::path::Path;

use layerscope_report::manifest::{Frequency, Timings};
use layerscope_report::text::visible;
use layerscope_report::{Run, States, Table};

use super::select::{open_verified, with_frequency};
use super::states::{WIDTH, about_massive, chosen};
use super::summary::{few_groups, summary_table};
use super::trajectory::{final_norm_summary, trajectory_summary};
use crate::error::Result;
use crate::settings::parse;
use crate::text::counted;

const HEADING: &str = "time: ";
/// So many parts are named.
const NAMED_PARTS: usize = 8;

/// What was measured, and the summary of all layers, of the states to show first.
pub fn overview(folder: &Path) -> Result<String> {
    overview_of(folder, None)
}

/// The same of `typical` or `all` states.
pub fn overview_of(folder: &Path, states: Option<&str>) -> Result<String> {
    let run = open_verified(folder)?;
    let few = few_groups(&run.layers, run.manifest.frequency());
    let warnings = run.manifest.warnings().iter().filter(|known| Some(*known) != few.as_ref()).chain(&few);
    shown(&run, &run.layers, chosen(&[&run], states)?, warnings)
}

fn shown<'a>(run: &Run, layers: &Table, states: States, warnings: impl Iterator<Item = &'a String>) -> Result<String> {
    let (model, corpus) = (&run.manifest.model, &run.manifest.corpus);
    let number = |count: Option<u64>, thing: &str| counted(count.unwrap_or(0), thing);
    let mut lines = vec![
        format!(
            "{} ({}), {} of width {}",
            run.model(),
            model.family.as_deref().unwrap_or_default(),
            model.layers.map_or("null layers".to_owned(), |layers| counted(layers, "layer")),
            model.width.map_or("null".to_owned(), |width| width.to_string())
        ),
        format!(
            "{}, {} in {} by {}",
            number(corpus.documents, "document"),
            number(corpus.states, "state"),
            number(corpus.groups, "group"),
            run.manifest.grouping.as_deref().unwrap_or_default()
        ),
    ];
    lines.extend(parts_line(run));
    lines.extend(run.manifest.timings.as_ref().map(time_lines).unwrap_or_default());
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.extend(about_massive(&[(None, layers)], states));
    lines.push(String::new());
    match run.manifest.is_trajectory() {
        true => lines.push(trajectory_summary(layers, states)),
        false => lines.push(summary_table(layers, states)),
    }
    if let Some(norm) = final_norm_summary(layers, states)? {
        lines.extend([String::new(), norm]);
    }
    Ok(lines.join("\n"))
}

/// `parts by column:genre: news, poems; compare them with ...`, of a run that has parts.
fn parts_line(run: &Run) -> Option<String> {
    let (parts, by) = (run.manifest.split.as_ref()?, run.manifest.setting("split").and_then(|by| by.as_str()).unwrap_or_default());
    let named: Vec<String> = parts.iter().take(NAMED_PARTS).map(|part| visible(&part.value)).collect();
    let more = parts.len().checked_sub(NAMED_PARTS + 1).map_or(String::new(), |more| format!(" and {} more", more + 1));
    Some(format!("{} by {by}: {}{more}", counted(parts.len() as u64, "part"), named.join(", ")))
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
    let run = open_verified(folder)?;
    let layers = with_frequency(folder, frequency, "layers")?;
    let (wanted, own) = (parse::frequency(frequency)?, few_groups(&run.layers, run.manifest.frequency()));
    let few = few_groups(&layers, Some(Frequency { minimum: *wanted.start(), maximum: *wanted.end() }));
    let warnings = run.manifest.warnings().iter().filter(|known| Some(*known) != own.as_ref()).chain(&few);
    shown(&run, &layers, chosen(&[&run], states)?, warnings)
}
