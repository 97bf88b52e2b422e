//! All tables of one point.

use super::confidence::BlockErrors;
use super::evaluation::{Evaluation, MomentInputs, PointInputs, Settings};
use super::family::Family;
use super::identity::{Identity, identities};
use super::layer_rows::{LayerRow, Rows};
use super::row::Computation;
use super::selection::{ComponentRow, GroupRow, Selection, Summary};
use super::tokens::TokenRow;
use crate::error::Result;
use crate::sketch::{DocumentBlocks, PointMoments};

/// Everything the tables say of one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointTables {
    /// Values of the layer: first what moments tell of `all`, `selected` and `typical`, then what the other sketches tell of `all`,
    /// `typical` and `sample`; each in the order of [`MEASURES`](super::MEASURES).
    pub layers: Vec<LayerRow>,
    /// Values of every group, over all states.
    pub groups: Vec<GroupRow>,
    /// Values of every component, over all states.
    pub components: Vec<ComponentRow>,
    /// Identities with their residuals.
    pub identities: Vec<Identity>,
    /// Eigenvalues of the covariance of all states, descending: rank 1 is the first.
    pub spectrum: Vec<f64>,
    /// The chosen tokens in a plane.
    pub tokens: Vec<TokenRow>,
    /// Why values are missing, and what was left out, a line each.
    pub notes: Vec<String>,
}

impl PointTables {
    /// Computes all that is wanted and can be.
    pub fn new(inputs: PointInputs<'_>, settings: &Settings) -> Result<PointTables> {
        let mut tables = PointTables::of_moments(inputs.moments, settings)?;
        if let Some(blocks) = inputs.sketches.get::<DocumentBlocks>() {
            BlockErrors::new(blocks)?.apply(&mut tables.layers);
        }
        let evaluation = Evaluation::new(inputs, settings)?;
        for selection in [Selection::All, Selection::Typical, Selection::Sample] {
            let mut rows = Rows::new(selection);
            Computation::run_sketches(&evaluation, &mut rows)?;
            tables.layers.extend(rows.rows);
            tables.notes.extend(rows.notes);
        }
        if let Some(spectrum) = settings.wants(Family::Spectrum).then(|| evaluation.spectrum()).flatten() {
            tables.spectrum = spectrum.eigenvalues().to_vec();
        }
        tables.tokens = evaluation.tokens;
        Ok(tables)
    }

    /// Norms and cosines alone, which need no other sketch: all that depends on the selected groups.
    pub fn of_moments(moments: &PointMoments, settings: &Settings) -> Result<PointTables> {
        let summaries = Summary::of_point(moments, settings)?;
        let mut layers = Vec::new();
        for summary in &summaries {
            let mut rows = Rows::new(summary.selection);
            Computation::run_moments(&MomentInputs { summary, moments, settings }, &mut rows);
            layers.extend(rows.rows);
        }
        let identities = identities(&summaries);
        let (groups, components) = summaries.into_iter().next().map(|all| (all.groups, all.components)).unwrap_or_default();
        Ok(PointTables { layers, groups, components, identities, ..PointTables::default() })
    }
}
