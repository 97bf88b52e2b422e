//! From sketches to values: pure functions, and the tables they fill.

mod batches;
mod cluster;
mod confidence;
mod cosine;
mod dimension;
mod explainable;
mod fit;
mod identity;
mod information;
mod layers;
mod lenses;
mod measures;
mod neighbours;
mod norm;
mod parallel;
mod partition;
mod selection;
mod spectrum;
mod table;
mod tokens;

use std::ops::RangeInclusive;

pub use cluster::{Clusters, Points, silhouettes};
pub use confidence::BlockErrors;
pub use cosine::{cosine_contributions, mean_cosine, self_similarity};
pub use dimension::{Dimensions, NEIGHBOURS, levina_bickel, through_origin, twonn};
pub use explainable::max_explainable_variance;
pub use fit::{Fit, Line, fit_line, fit_with_errors, jackknife, variation, variation_error};
pub use identity::{Identity, identities};
pub use information::adjusted_mutual_information;
pub use layers::{linear_cka, linearity};
pub use lenses::{LensInputs, LensSettings, LensTables, MatrixTables, matrix_tables};
pub use measures::{Family, MEASURES, Measure, Needs, needs};
pub use norm::{cv_q, cv_q_exponent, cv_q_ladder, predicted_q};
pub use partition::{LogPartition, log_partition};
pub use selection::{ComponentRow, GroupRow, Selection, Summary, Totals};
pub use spectrum::{Spectrum, isoscore_star, top_variance};
pub use table::{Estimate, LayerRow};
pub use tokens::{TokenRow, token_rows};

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
    let mut rows = table::Rows::new(summary.selection);
    norm::rows(summary, point.dim(), settings.predicted_q, &mut rows);
    cosine::rows(summary, point.sequences(), &mut rows);
    if summary.selection == Selection::All {
        let massive = point.massive_threshold().map(|_| point.massive_states() as f64);
        rows.push("massive_activations", massive, summary.states());
    }
    rows.rows
}
