//! Norm and variance (Yamagiwa & Shimodaira, COLING 2025).

use super::evaluation::MomentInputs;
use super::fit::{Fit, fit_line, fit_with_errors, jackknife, variation, variation_error, variations_without_each};
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use super::selection::{GroupRow, Selection, Summary};

/// Groups that a C.V. must have to enter the fit of [`cv_q_exponent`]; with fewer it is mostly noise.
const MIN_GROUPS_OF_FIT: usize = 10;

/// Groups without which a C.V. is not listed.
const MIN_GROUPS_OF_VARIATION: usize = 3;

/// Q that layer-norm theory predicts at the direct output of a norm: ||gamma||^2 + ||beta||^2 (Yamagiwa & Shimodaira 2025, appendix
/// I); ||gamma||^2 for RMSNorm, which has no beta.
pub fn predicted_q(gamma: &[f32], beta: Option<&[f32]>) -> f64 {
    let square = |values: &[f32]| values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    square(gamma) + beta.map_or(0.0, square)
}

/// C.V. of Q(X_t) over some groups, unweighted: population standard deviation over mean.
pub fn cv_q(values: &[f64]) -> Estimate {
    Estimate { value: variation(values), se: variation_error(values), n: values.len() as u64 }
}

/// (n0, C.V. of Q(X_t) over the groups with n_t >= n0) for n0 = 1, 3, 10, 30, ... as long as there are 3 such groups.
pub fn cv_q_ladder(groups: &[GroupRow]) -> Vec<(u64, Estimate)> {
    ladder(groups, MIN_GROUPS_OF_VARIATION).map(|(n0, values)| (n0, cv_q(&values))).collect()
}

/// The exponent with which that C.V. falls, to be held against the theory's -1/2; n counts the n0 it is fitted on.
///
/// Slope of the unweighted line of log10 C.V.(n0) on log10 n0 over those n0 in 1, 3, 10, 30, ... that leave at least 10 groups; None
/// with fewer than 3 such n0 or if a C.V. is 0. The jackknife deletes one group from every C.V. and keeps the n0.
pub fn cv_q_exponent(groups: &[GroupRow]) -> Estimate {
    let rungs: Vec<(u64, Vec<f64>)> = ladder(groups, MIN_GROUPS_OF_FIT).collect();
    let x: Vec<f64> = rungs.iter().map(|(n0, _)| (*n0 as f64).log10()).collect();
    let log = |variation: f64| (variation > 0.0).then(|| variation.log10());
    let y: Option<Vec<f64>> = rungs.iter().map(|(_, values)| variation(values).and_then(log)).collect();
    let slope = y.as_ref().and_then(|y| fit_line(&x, y)).map(|line| line.slope);
    let error = slope.and(y).and_then(|y| {
        // For each rung, its logarithm without each of its groups; rungs hold their groups in the same order.
        let without: Vec<Vec<f64>> =
            rungs.iter().map(|(_, values)| variations_without_each(values)?.into_iter().map(log).collect()).collect::<Option<_>>()?;
        let mut next = vec![0; rungs.len()];
        let replicates: Option<Vec<f64>> = groups
            .iter()
            .map(|group| {
                let mut y = y.clone();
                for rung in (0..rungs.len()).filter(|&rung| group.n >= rungs[rung].0) {
                    y[rung] = without[rung][next[rung]];
                    next[rung] += 1;
                }
                fit_line(&x, &y).map(|line| line.slope)
            })
            .collect();
        replicates.map(|replicates| jackknife(&replicates))
    });
    Estimate { value: slope, se: error, n: rungs.len() as u64 }
}

/// n0 = 1, 3, 10, 30, ... with Q of the groups that have n_t >= n0, as long as there are `at_least` of them.
fn ladder(groups: &[GroupRow], at_least: usize) -> impl Iterator<Item = (u64, Vec<f64>)> {
    let steps = (0..19).flat_map(|power| [10u64.pow(power), 3 * 10u64.pow(power)]);
    let values = move |n0| groups.iter().filter(|group| group.n >= n0).map(|group| group.q).collect::<Vec<f64>>();
    steps.map(move |n0| (n0, values(n0))).take_while(move |(_, values)| values.len() >= at_least)
}

pub(super) static COMPUTATION: Computation = Computation::of_moments(compute);

/// The norm rows of one selection.
fn compute(inputs: &MomentInputs<'_>, rows: &mut Rows) {
    let (summary, predicted) = (inputs.summary, inputs.settings.predicted_q);
    totals_rows(summary, rows);
    let q: Vec<f64> = summary.groups.iter().map(|group| group.q).collect();
    let m: Vec<f64> = summary.groups.iter().map(|group| group.m).collect();
    let v: Vec<f64> = summary.groups.iter().map(|group| group.v).collect();
    let groups = summary.groups.len() as u64;
    rows.push_estimate("cv_q", cv_q(&q));
    // A frequency range would cut the ladder short.
    if matches!(summary.selection, Selection::All | Selection::Typical) {
        for (n0, estimate) in cv_q_ladder(&summary.groups) {
            rows.push_variant("cv_q", &format!("n0={n0}"), estimate);
        }
        rows.push_estimate("cv_q_exponent", cv_q_exponent(&summary.groups));
    }
    let slope = |fit: Option<Fit>| Estimate { value: fit.map(|fit| fit.line.slope), se: fit.and_then(|fit| fit.slope_se), n: groups };
    let r2 = |fit: Option<Fit>| Estimate { value: fit.map(|fit| fit.line.r2), se: fit.and_then(|fit| fit.r2_se), n: groups };
    let v_on_m = fit_with_errors(&m, &v);
    rows.push_estimate("slope_v_on_m", slope(v_on_m));
    rows.push("intercept_v_on_m", v_on_m.map(|fit| fit.line.intercept), groups);
    rows.push_estimate("r2_v_on_m", r2(v_on_m));
    let log_n: Vec<f64> = summary.groups.iter().map(|group| (group.n as f64).log10()).collect();
    let log = |values: &[f64]| values.iter().map(|value| value.ln_1p() / std::f64::consts::LN_10).collect::<Vec<f64>>();
    let mut on_log_n = |slope_name, r2_name, values: &[f64]| {
        let fit = fit_with_errors(&log_n, values);
        rows.push_estimate(slope_name, slope(fit));
        rows.push_estimate(r2_name, r2(fit));
    };
    on_log_n("slope_q_on_log_n", "r2_q_on_log_n", &q);
    on_log_n("slope_m_on_log_n", "r2_m_on_log_n", &m);
    on_log_n("slope_v_on_log_n", "r2_v_on_log_n", &v);
    on_log_n("slope_log_q_on_log_n", "r2_log_q_on_log_n", &log(&q));
    on_log_n("slope_log_m_on_log_n", "r2_log_m_on_log_n", &log(&m));
    on_log_n("slope_log_v_on_log_n", "r2_log_v_on_log_n", &log(&v));
    if summary.selection == Selection::All {
        rows.push("predicted_q", predicted, predicted.map_or(0, |_| inputs.moments.dim() as u64));
    }
    rows.push("groups", Some(groups as f64), groups);
    rows.push("states", Some(summary.states() as f64), summary.states());
}

/// Q, M, V, V_W, V_B, their ratios and the mean norm.
fn totals_rows(summary: &Summary, rows: &mut Rows) {
    let n = summary.states();
    let totals = summary.totals.as_ref();
    let (q, m, v) = (totals.map(|totals| totals.q), totals.map(|totals| totals.m), totals.map(|totals| totals.v));
    let (within, between) = (totals.map(|totals| totals.v_within), totals.map(|totals| totals.v_between));
    let ratio = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
    rows.push("q", q, n);
    rows.push("m", m, n);
    rows.push("v", v, n);
    rows.push("v_within", within, n);
    rows.push("v_between", between, n);
    rows.push("m_over_q", ratio(m, q), n);
    rows.push("v_over_q", ratio(v, q), n);
    rows.push("v_within_over_q", ratio(within, q), n);
    rows.push("v_between_over_q", ratio(between, q), n);
    rows.push("v_within_over_v", ratio(within, v), n);
    rows.push("v_between_over_v", ratio(between, v), n);
    rows.push("mean_norm", totals.map(|totals| totals.mean_norm), n);
}
