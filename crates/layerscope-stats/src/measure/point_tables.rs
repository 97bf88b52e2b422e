//! All tables of one point.

use super::confidence::BlockErrors;
use super::evaluation::{Evaluation, MomentInputs, PointInputs, PointShared, Settings};
use super::family::Family;
use super::identity::{Identity, identities};
use super::layer_rows::{LayerRow, Rows};
use super::row::Computation;
use super::seconds::Seconds;
use super::selection::{ComponentRow, GroupRow, Selection, Summary};
use super::spectrum::Spectrum;
use super::tokens::{TokenComponentRow, TokenRow, token_component_rows};
use crate::error::Result;
use crate::sketch::{DocumentBlocks, MassiveGroup, PointMoments};

/// Everything the tables say of one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointTables {
    /// Values of the layer: first what moments tell of `all`, `selected`, `typical` and `typical_selected`, then what the other sketches tell of
    /// `all`, `typical`, `sample` and `typical_sample`; each in the order of [`MEASURES`](super::MEASURES).
    pub layers: Vec<LayerRow>,
    /// What there is of all states.
    pub all: StatesTables,
    /// The same of the typical ones; None where no state is massive.
    pub typical: Option<StatesTables>,
    /// Identities with their residuals.
    pub identities: Vec<Identity>,
    /// Who the massive states are.
    pub massive: Vec<MassiveGroup>,
    /// Why values are missing, and what was left out, a line each.
    pub notes: Vec<String>,
}

/// The tables that have a row for every group, component, eigenvalue or kept state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatesTables {
    /// Values of every group.
    pub groups: Vec<GroupRow>,
    /// Values of every component.
    pub components: Vec<ComponentRow>,
    /// Eigenvalues of the covariance, descending: rank 1 is the first.
    pub spectrum: Vec<f64>,
    /// The chosen tokens in a plane.
    pub tokens: Vec<TokenRow>,
    /// Components of the chosen tokens.
    pub token_components: Vec<TokenComponentRow>,
}

impl StatesTables {
    fn of_summary(summary: Summary) -> StatesTables {
        StatesTables { groups: summary.groups, components: summary.components, ..StatesTables::default() }
    }

    fn add(&mut self, evaluation: Evaluation<'_>) {
        if evaluation.settings.wants(Family::Spectrum) {
            self.spectrum = evaluation.spectrum().map(Spectrum::eigenvalues).unwrap_or_default().to_vec();
        }
        self.tokens = evaluation.tokens;
    }
}

impl PointTables {
    /// Computes all that is wanted and can be.
    pub fn new(inputs: PointInputs<'_>, settings: &Settings) -> Result<PointTables> {
        PointTables::timed(inputs, settings).map(|(tables, _)| tables)
    }

    /// The same, and how long it took.
    pub fn timed(inputs: PointInputs<'_>, settings: &Settings) -> Result<(PointTables, Seconds)> {
        let mut seconds = Seconds::default();
        let mut tables = PointTables::timed_moments(inputs.moments, settings, &mut seconds)?;
        if let Some(blocks) = inputs.sketches.get::<DocumentBlocks>() {
            seconds.spend(Family::Norm, || BlockErrors::new(blocks))?.apply(&mut tables.layers);
        }
        let shared = PointShared::new(&inputs)?;
        let all = seconds.spend(Family::Cosine, || Evaluation::of_all(inputs, settings, &shared))?;
        let typical =
            inputs.has_massive().then(|| seconds.spend(Family::Cosine, || Evaluation::of_typical(inputs, settings, &shared, &all)));
        let typical = typical.transpose()?;
        for (selection, without_massive) in [(Selection::All, Selection::Typical), (Selection::Sample, Selection::TypicalSample)] {
            let rows = evaluated(&all, selection, &mut seconds)?;
            let typical = match &typical {
                Some(typical) => evaluated(typical, without_massive, &mut seconds)?.rows,
                None => rows.renamed(without_massive),
            };
            tables.layers.extend(rows.rows.into_iter().chain(typical));
            tables.notes.extend(rows.notes);
        }
        tables.all.add(all);
        if let (Some(tables), Some(typical)) = (&mut tables.typical, typical) {
            tables.add(typical);
        }
        Ok((tables, seconds))
    }

    /// Norms and cosines alone, which need no other sketch: all that depends on the selected groups.
    pub fn of_moments(moments: &PointMoments, settings: &Settings) -> Result<PointTables> {
        PointTables::timed_moments(moments, settings, &mut Seconds::default())
    }

    fn timed_moments(moments: &PointMoments, settings: &Settings, seconds: &mut Seconds) -> Result<PointTables> {
        let summaries = seconds.spend(Family::Norm, || Summary::of_point(moments, settings))?;
        let mut layers = Vec::new();
        for summary in &summaries {
            let mut rows = Rows::new(summary.selection);
            Computation::run_moments(&MomentInputs { summary, moments, settings }, &mut rows, seconds);
            layers.extend(rows.rows);
        }
        let identities = identities(&summaries);
        let (mut all, mut typical) = (StatesTables::default(), None);
        for summary in summaries {
            match summary.selection {
                Selection::All => all = StatesTables::of_summary(summary),
                Selection::Typical if moments.massive_states() > 0 => typical = Some(StatesTables::of_summary(summary)),
                _ => {}
            }
        }
        let chosen = moments.chosen_all()?;
        all.token_components = chosen.iter().flat_map(|(group, moments)| token_component_rows(*group, moments)).collect();
        if let Some(typical) = &mut typical {
            typical.token_components = moments.chosen_typical().flat_map(|(group, own)| token_component_rows(group, own)).collect();
        }
        let massive = moments.massive_groups().collect();
        Ok(PointTables { layers, all, typical, identities, massive, ..PointTables::default() })
    }
}

/// The rows of one selection that come from the sketches.
fn evaluated(evaluation: &Evaluation<'_>, selection: Selection, seconds: &mut Seconds) -> Result<Rows> {
    let mut rows = Rows::new(selection);
    Computation::run_sketches(evaluation, &mut rows, seconds)?;
    Ok(rows)
}
