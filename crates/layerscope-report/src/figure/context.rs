//! The runs and settings a figure is drawn from, and choices that figures share.

use std::collections::BTreeSet;

use layerscope_error::{line, setting};

use super::Settings;
use super::data::{Point, View, integers};
use super::plate::{Outcome, Plate, Skip};
use super::sheet::Key;
use super::text::Text;
use crate::error::Error;
use crate::run::Run;
use crate::text::listed;
use crate::together::differences;

pub(crate) struct Context<'a> {
    pub views: Vec<View<'a>>,
    pub settings: &'a Settings,
    /// How else the runs differ than in their models.
    pub differences: Vec<String>,
}

impl<'a> Context<'a> {
    pub fn new(runs: &'a [Run], settings: &'a Settings) -> Context<'a> {
        Context { views: View::all(runs, settings), settings, differences: differences(&runs.iter().collect::<Vec<_>>()) }
    }

    /// One outcome per run.
    pub fn each(&self, draw: impl Fn(&View) -> Vec<Outcome>) -> Vec<Outcome> {
        let alone = |mut plate: Plate| {
            plate.remarks.alone = true;
            plate
        };
        self.views.iter().flat_map(draw).map(|outcome| outcome.map(alone)).collect()
    }

    /// The name of a figure of one run.
    pub fn name(&self, id: &str, view: &View) -> String {
        if self.views.len() > 1 { format!("{id}-{}", view.slug) } else { id.to_owned() }
    }

    /// The name of a figure of one run at one layer, which it names where several were asked for.
    pub fn name_at(&self, id: &str, view: &View, layer: i64) -> String {
        self.name(id, view) + &self.of_layer(layer)
    }

    /// What tells the files of one layer from those of others.
    pub fn of_layer(&self, layer: i64) -> String {
        if self.settings.layers.len() > 1 { format!("-layer{layer}") } else { String::new() }
    }

    /// The layers of a figure of one layer: those asked for, or the middle one.
    pub fn single_layers(&self, view: &View) -> Result<Vec<(i64, Point)>, Skip> {
        self.layers(view, &[0.5])
    }

    /// The layers of a figure of several: those asked for, or 0, 1/4, 1/2, 3/4 and the last.
    pub fn several_layers(&self, view: &View) -> Result<Vec<(i64, Point)>, Skip> {
        self.layers(view, &[0.0, 0.25, 0.5, 0.75, 1.0])
    }

    fn layers(&self, view: &View, parts: &[f64]) -> Result<Vec<(i64, Point)>, Skip> {
        let points = view.group_points();
        if points.is_empty() {
            let reason = if view.is_trajectory() {
                "a trajectory has no groups of its own; draw the run of one step (steps/...)"
            } else {
                "the run has no groups.parquet"
            };
            return Err(Skip::of(&view.label, reason));
        }
        self.choose(view, &points, parts)
    }

    /// Those of `points` that were asked for, or those at these parts of the depth.
    pub fn choose(&self, view: &View, points: &[(i64, Point)], parts: &[f64]) -> Result<Vec<(i64, Point)>, Skip> {
        if self.settings.layers.is_empty() {
            let last = points.len().saturating_sub(1) as f64;
            let mut chosen: Vec<(i64, Point)> = parts.iter().filter_map(|part| points.get((part * last) as usize).copied()).collect();
            chosen.dedup();
            return Ok(chosen);
        }
        let find = |layer: &i64| points.iter().find(|(own, _)| own == layer).copied();
        let chosen: Vec<(i64, Point)> = self.settings.layers.iter().filter_map(find).collect();
        if chosen.is_empty() { Err(Skip::of(&view.label, not_measured(&self.settings.layers))) } else { Ok(chosen) }
    }

    /// What is said of runs that lack some of the layers asked for. Figures say so themselves where a run has none of them, and it is
    /// an error where no run has any.
    pub fn missing_layers(&self) -> Result<Vec<String>, Error> {
        let asked = &self.settings.layers;
        let measured = |view: &View| -> BTreeSet<i64> {
            integers(&view.run.layers, "layer").map_or(BTreeSet::new(), |layers| layers.iter().flatten().copied().collect())
        };
        let there: BTreeSet<i64> = self.views.iter().flat_map(measured).collect();
        if !asked.is_empty() && !there.is_empty() && !asked.iter().any(|layer| there.contains(layer)) {
            let given = setting("layers").to(asked.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
            let known = listed(there);
            return Err(Error::Setting(line![given, format!(": no such layer was measured; there are {known}")]));
        }
        let mut lacking: Vec<(Vec<i64>, Vec<&str>)> = Vec::new();
        for view in &self.views {
            let own = measured(view);
            let (some, missing): (Vec<i64>, Vec<i64>) = asked.iter().partition(|layer| own.contains(layer));
            match lacking.iter_mut().find(|(layers, _)| *layers == missing) {
                _ if some.is_empty() || missing.is_empty() => {}
                Some((_, runs)) => runs.push(&view.label),
                None => lacking.push((missing, vec![&view.label])),
            }
        }
        let of = |runs: &[&str]| if runs.len() < self.views.len() { format!(" in {}", runs.join(", ")) } else { String::new() };
        Ok(lacking.iter().map(|(layers, runs)| not_measured(layers) + &of(runs)).collect())
    }

    /// The models' names with their lines and markers; nothing for a single one.
    pub fn legend(&self, drawn: &[usize], hollow: bool) -> Vec<(Key, Text)> {
        let mut entries: Vec<(Key, Text)> = Vec::new();
        if self.views.len() > 1 {
            let views = self.views.iter().filter(|view| drawn.contains(&view.series));
            entries.extend(views.map(|view| (Key::Series(view.series), Text::plain(view.label.clone()))));
        }
        if hollow {
            entries.push((Key::Hollow, Text::plain("last block, before the final norm")));
        }
        entries
    }

    /// Names the model in a title where there are several or the figure does not say otherwise.
    pub fn title(&self, view: &View) -> Text {
        Text::plain(view.label.clone())
    }
}

fn not_measured(layers: &[i64]) -> String {
    match layers {
        [layer] => format!("layer {layer} was not measured"),
        _ => format!("layers {} were not measured", listed(layers.iter().copied())),
    }
}

/// How many panels go beside each other, so that no row has a single one left over.
pub(crate) fn beside(panels: usize) -> usize {
    match panels {
        0..=4 => panels.max(1),
        7 | 8 | 10.. => 4,
        _ => 3,
    }
}

/// A name and a layer: where there is little room the name is cut, and the layer is not.
pub(crate) fn title_at(view: &View, at: (i64, Point)) -> Text {
    Text::plain(view.label.clone()).then(Text::plain(format!(", {}", layer_name(at))))
}

/// "layer 6", or "layer 12, after the final norm".
pub(crate) fn layer_name((layer, point): (i64, Point)) -> String {
    match point {
        Point::FinalNorm => format!("layer {layer} (final norm)"),
        _ => format!("layer {layer}"),
    }
}
