//! From sketches to values: pure functions, and the tables they fill.

mod batches;
mod cosine;
mod fit;
mod identity;
mod norm;
mod selection;
mod spectrum;
mod table;

use std::ops::RangeInclusive;

pub use cosine::{cosine_contributions, mean_cosine, self_similarity};
pub use fit::{Fit, Line, fit_line, fit_with_errors, jackknife, variation, variation_error};
pub use identity::{Identity, identities};
pub use norm::{cv_q, cv_q_exponent, cv_q_ladder, predicted_q};
pub use selection::{ComponentRow, GroupRow, Selection, Summary, Totals};
pub use spectrum::{Spectrum, isoscore_star, top_variance};
pub use table::{Estimate, Family, LayerRow, MEASURES, Measure, Needs};

use crate::error::Result;
use crate::sketch::PointSketch;

/// What the tables of a point depend on beside its sketch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// MIN..=MAX of n_t for the selection `selected`; None for groupings that have no frequencies.
    pub frequency: Option<RangeInclusive<u64>>,
    /// [`predicted_q`] where the point is the direct output of a norm.
    pub predicted_q: Option<f64>,
}

/// Everything the tables say of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct PointTables {
    /// Values of the layer.
    pub layers: Vec<LayerRow>,
    /// Values of every group, over all states.
    pub groups: Vec<GroupRow>,
    /// Values of every component, over all states.
    pub components: Vec<ComponentRow>,
    /// Identities with their residuals.
    pub identities: Vec<Identity>,
}

impl PointTables {
    /// Computes all of them.
    pub fn new(point: &PointSketch, settings: &Settings) -> Result<PointTables> {
        let summaries = Summary::of_point(point, settings.frequency.as_ref())?;
        let layers = summaries.iter().flat_map(|summary| summary_rows(summary, point, settings)).collect();
        let identities = identities(&summaries);
        let (groups, components) = summaries.into_iter().next().map(|all| (all.groups, all.components)).unwrap_or_default();
        Ok(PointTables { layers, groups, components, identities })
    }
}

/// The tidy rows of a point: selections `all`, `selected`, `typical`, each with its measures in the order of [`MEASURES`].
pub fn layer_rows(point: &PointSketch, settings: &Settings) -> Result<Vec<LayerRow>> {
    let summaries = Summary::of_point(point, settings.frequency.as_ref())?;
    Ok(summaries.iter().flat_map(|summary| summary_rows(summary, point, settings)).collect())
}

fn summary_rows(summary: &Summary, point: &PointSketch, settings: &Settings) -> Vec<LayerRow> {
    let mut rows = table::Rows { selection: summary.selection, rows: Vec::new() };
    norm::rows(summary, point.dim(), settings.predicted_q, &mut rows);
    cosine::rows(summary, point.sequences(), &mut rows);
    if summary.selection == Selection::All {
        let massive = point.massive_threshold().map(|_| point.massive_states() as f64);
        rows.push("massive_activations", massive, summary.states());
    }
    rows.rows
}
