//! What a run will have to do, as far as one can tell before any text is read: for a first guess of the time.

use layerscope_model::Leg;
use layerscope_stats::measure::Family;

use super::device::Device;
use super::plan::BoundPlan;
use super::route::Way;

/// Positions that a token attends to, about.
const KEYS: f64 = 64.0;
/// Operations of the search for neighbours, for a component of a pair of states: most pairs are ruled out coarsely.
const PER_PAIR: f64 = 0.6;
/// What states cost beside the model that makes them.
const WITH_STATISTICS: f64 = 1.4;
/// Operations of all spectra of a point, in cubes of its width.
const CUBES: f64 = 40.0;

/// Work in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// Bytes of weights to read.
    pub weights: u64,
    /// Bytes of files to hash.
    pub hashed: u64,
    /// Seconds of the model and the statistics for a token, a guess.
    pub token_seconds: f64,
    /// Seconds for the tables of all points, a guess: what does not depend on the text.
    pub table_seconds: f64,
    /// The same for a pair of the sample's states.
    pub pair_seconds: f64,
    /// States of the sample, at most.
    pub sample: usize,
}

impl Outlook {
    /// Of a plan with so many workers.
    pub fn of(bound: &BoundPlan, workers: usize) -> Outlook {
        let BoundPlan { model, plan, points, .. } = bound;
        let last = Way::new(bound).segments.last().map(|segment| Leg::up_to(segment.leg.to));
        let widths = || points.iter().map(|at| model.spec.width_at(*at) as f64);
        let wants = |family: Family| f64::from(u8::from(plan.families.contains(&family)));
        let per_token = model.spec.flops_per_token(KEYS) * WITH_STATISTICS;
        // Tables are made by processors wherever the model runs.
        let flops = Device::Cpu.flops() * plan.threads as f64;
        Outlook {
            weights: last.map_or(0, |leg| model.plan.leg_bytes(&model.checkpoint, &model.spec, leg)),
            hashed: bound.model_hash.bytes().1,
            token_seconds: per_token / (plan.device().flops() * workers as f64),
            table_seconds: wants(Family::Spectrum) * CUBES * widths().map(|width| width.powi(3)).sum::<f64>() / flops,
            pair_seconds: wants(Family::Dimension) * PER_PAIR * widths().sum::<f64>() / flops,
            sample: plan.sample_states,
        }
    }
}
