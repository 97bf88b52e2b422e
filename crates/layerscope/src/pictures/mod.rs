//! Figures and the page of finished runs.

use std::ops::RangeInclusive;
use std::path::Path;

use layerscope_error::{Line, line, not_one_of, not_understood, or};
use layerscope_report::figure::{self, Drawing, LIST, Settings, Skipped, Step};
use layerscope_report::manifest::Frequency;
use layerscope_report::page::{VIEWS, View};
use layerscope_report::{Run, page};

use crate::error::{Error, Result};
use crate::settings::parse;
use crate::store::folder::Folder;
use crate::store::stored::STATE;
use crate::tables::select::with_frequency;

/// Which figures are drawn, and how.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Look {
    /// Draw only these figures, such as fig2,fig5
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show these layers in figures of single layers, such as 0,6,12
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub layers: Vec<i64>,
    /// Show these tokens in figures 1 and 8 (only tokens whose states were kept)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tokens: Vec<String>,
    /// Show all states, or typical ones: without the few massive states that may hide the others [default: typical where massive
    /// states carry more than a tenth of Q]
    #[arg(long, value_name = "STATES")]
    pub states: Option<String>,
    /// Draw measures along the layers against relative depth, or against the layer [default: layer]
    #[arg(long, value_name = "HOW")]
    pub depth: Option<String>,
    /// Theme: light, dark (slides) or print (black on white, lines told apart by dashes) [default: light]
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
    /// Figure width in millimetres, or a preset name such as acl-column
    #[arg(long, value_name = "MM")]
    pub width_mm: Option<String>,
    /// Print this title above every figure
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

impl Look {
    /// Checked; `frequency` is MIN:MAX of n_t for the groups in regressions.
    fn settings(&self, frequency: Option<&str>) -> Result<Settings> {
        if let Some(unknown) = self.only.iter().find(|name| !LIST.iter().any(|figure| figure.is_called(name))) {
            return Err(not_among(unknown, LIST.iter().map(|figure| figure.id)));
        }
        let bounds = |range: RangeInclusive<u64>| (*range.start() as i64, *range.end() as i64);
        Ok(Settings {
            only: self.only.clone(),
            layers: self.layers.clone(),
            tokens: self.tokens.clone(),
            frequency: frequency.map(parse::frequency).transpose()?.map(bounds),
            states: self.states.as_deref().map(parse::states).transpose()?,
            relative_depth: self.depth.as_deref().map_or(Ok(false), relative_depth)?,
            theme: self.theme.as_deref().unwrap_or("light").parse()?,
            width_mm: self.width_mm.as_deref().map(figure::width_mm).transpose()?,
            title: self.title.clone(),
        })
    }
}

/// Why a name of `only` is refused.
fn not_among(unknown: &str, known: impl Iterator<Item = &'static str>) -> Error {
    let known: Vec<&str> = known.collect();
    Error::usage(not_understood("only", unknown, &known, &format!("some of {}", or(&known))))
}

/// Whether depth is relative, by the name of how it is shown.
fn relative_depth(name: &str) -> Result<bool> {
    match name {
        "relative" => Ok(true),
        "layer" => Ok(false),
        _ => Err(Error::usage(not_one_of("depth", name, &["layer", "relative"]))),
    }
}

/// Draws the figures that the runs support into a folder.
pub fn figures(runs: &[Run], look: &Look, frequency: Option<&str>, out: &Path) -> Result<Drawing> {
    figures_with(runs, look, frequency, out, &mut |_| {})
}

/// The same, and tells what happens.
pub(crate) fn figures_with(runs: &[Run], look: &Look, frequency: Option<&str>, out: &Path, show: &mut dyn FnMut(Step)) -> Result<Drawing> {
    let settings = look.settings(frequency)?;
    let reselected =
        frequency.map(|frequency| runs.iter().map(|run| reselected(run, frequency)).collect::<Result<Vec<_>>>()).transpose()?;
    let drawing = figure::draw(reselected.as_deref().unwrap_or(runs), &settings, out, show)?;
    match drawing.written.is_empty() {
        true => Err(nothing_drawn(&drawing.skipped)),
        false => Ok(drawing),
    }
}

/// Why there is no figure at all: a reason for each, as far as they fit a line.
fn nothing_drawn(skipped: &[Skipped]) -> Error {
    let mut reasons: Vec<Line> = Vec::new();
    for skipped in skipped {
        let reason = line![format!("{}: ", skipped.figure), skipped.reason.clone()];
        reasons.extend((!reasons.contains(&reason)).then_some(reason));
    }
    let more = reasons.len().saturating_sub(REASONS);
    let mut line = vec![Line::from("no figure was drawn; ")];
    for (at, reason) in reasons.into_iter().take(REASONS).enumerate() {
        line.extend([Line::from(if at == 0 { "" } else { "; " }), reason]);
    }
    if more > 0 {
        line.push(format!("; and {more} more").into());
    }
    Error::usage(Line::join(line))
}

/// So many reasons are given.
const REASONS: usize = 3;

/// The run with the groups of other frequencies selected in its table of layers. M and V_B of some groups follow from the means of those
/// groups, which only the state has: a run without one (a trajectory) stays as it is, as does one whose groups are not selected by
/// frequency.
fn reselected(run: &Run, frequency: &str) -> Result<Run> {
    let wanted = parse::frequency(frequency)?;
    let wanted = Frequency { minimum: *wanted.start(), maximum: *wanted.end() };
    let mut run = run.clone();
    if run.manifest.frequency().is_some_and(|own| own != wanted) && run.folder.join(STATE).exists() {
        run.layers = with_frequency(&run.folder, frequency, "layers")?;
        run.manifest.frequency = Some(Some(wanted));
    }
    Ok(run)
}

/// Writes a self-contained page of the runs: all views, or `only` some. Returns its size in bytes.
pub fn report(runs: &[Run], frequency: Option<&str>, title: Option<String>, only: &[String], out: &Path) -> Result<usize> {
    let mut bytes = Vec::new();
    let only = only.iter().map(|name| view(name)).collect::<Result<_>>()?;
    page::write(runs, &page::Settings { only, ..page_settings(frequency, title)? }, &mut bytes)?;
    Folder::put_file(out, &bytes)?;
    Ok(bytes.len())
}

/// The view of this name.
fn view(name: &str) -> Result<&'static View> {
    VIEWS.iter().find(|view| view.name == name).ok_or_else(|| not_among(name, VIEWS.iter().map(|view| view.name)))
}

/// What the page starts with.
pub fn page_settings(frequency: Option<&str>, title: Option<String>) -> Result<page::Settings> {
    Ok(page::Settings { frequency: frequency.map(parse::frequency).transpose()?, title, ..page::Settings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_given_once() {
        let skip = |figure, model: &str, reason: &str| Skipped { figure, model: Some(model.into()), reason: reason.into() };
        let two = [skip("shape2", "a", "no training"), skip("shape2", "b", "no training")];
        assert_eq!(nothing_drawn(&two).to_string(), "no figure was drawn; shape2: no training");
        let several: Vec<Skipped> = ["fig1", "fig1", "fig2", "fig7", "fig8", "fig8"].map(|figure| skip(figure, "a", "none")).into();
        assert_eq!(nothing_drawn(&several).to_string(), "no figure was drawn; fig1: none; fig2: none; fig7: none; and 1 more");
    }
}
