//! What a run will have to do, as far as one can tell before any text is read: for a first guess of the time.

use layerscope_model::Leg;
use layerscope_stats::measure::Family;

use super::plan::BoundPlan;
use super::route::Way;

/// Positions that a token attends to, about.
const KEYS: f64 = 64.0;
/// Operations of the search for neighbours, for a component of a pair of states: most pairs are ruled out coarsely.
const PER_PAIR: f64 = 0.6;
/// Operations of all spectra of a point, in cubes of its width.
const CUBES: f64 = 40.0;

/// Work in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// Bytes of weights to read.
    pub weights: u64,
    /// Bytes of files to hash.
    pub hashed: u64,
    /// Operations of the model on a token.
    pub flops_per_token: f64,
    /// Operations for the tables of all points, about: those that do not depend on the text, and those for a pair of the sample's states.
    pub table_flops: f64,
    /// The same for a pair of the sample's states.
    pub pair_flops: f64,
    /// States of the sample, at most.
    pub sample: usize,
    /// Workers.
    pub threads: usize,
}

impl Outlook {
    /// Of a plan with so many workers.
    pub fn of(bound: &BoundPlan, threads: usize) -> Outlook {
        let BoundPlan { model, plan, points, .. } = bound;
        let last = Way::new(bound).segments.last().map(|segment| Leg::up_to(segment.leg.to));
        let widths = || points.iter().map(|at| model.spec.width_at(*at) as f64);
        let wants = |family: Family| f64::from(u8::from(plan.families.contains(&family)));
        Outlook {
            weights: last.map_or(0, |leg| model.plan.leg_bytes(&model.checkpoint, &model.spec, leg)),
            hashed: bound.model_hash.bytes().1,
            flops_per_token: model.spec.flops_per_token(KEYS),
            table_flops: wants(Family::Spectrum) * CUBES * widths().map(|width| width.powi(3)).sum::<f64>(),
            pair_flops: wants(Family::Dimension) * PER_PAIR * widths().sum::<f64>(),
            sample: plan.sample_states,
            threads,
        }
    }
}
