//! Norm and variance (Yamagiwa & Shimodaira, COLING 2025).

use super::evaluation::MomentInputs;
use super::fit::{Fit, fit_line, fit_with_errors, jackknife, variation, variation_error, variations_without_each};
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use super::selection::{GroupRow, Selection, Summary, Totals};
use super::variance::{VarianceComponents, unbiased};

/// The variant without plug-in bias.
const UNBIASED: &str = "unbiased";

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
    let plain = Columns::plain(&summary.groups);
    let unbiased = Columns::unbiased(&summary.groups);
    rows.push_estimate("cv_q", cv_q(&plain.q));
    // A range of frequencies would cut the ladder short.
    if matches!(summary.selection, Selection::All | Selection::Typical) {
        for (n0, estimate) in cv_q_ladder(&summary.groups) {
            rows.push_variant("cv_q", &format!("n0={n0}"), estimate);
        }
        rows.push_estimate("cv_q_exponent", cv_q_exponent(&summary.groups));
    }
    let both = |of: fn(&Columns) -> (&[f64], &[f64])| [of(&plain), of(&unbiased)];
    let v_on_m = [("slope_v_on_m", SLOPE), ("intercept_v_on_m", INTERCEPT), ("r2_v_on_m", R2)];
    line_rows(&v_on_m, &both(|own| (&own.m, &own.v)), rows);
    line_rows(&[("slope_q_on_log_n", SLOPE), ("r2_q_on_log_n", R2)], &[(&plain.log_n, &plain.q)], rows);
    line_rows(&[("slope_m_on_log_n", SLOPE), ("r2_m_on_log_n", R2)], &both(|own| (&own.log_n, &own.m)), rows);
    line_rows(&[("slope_v_on_log_n", SLOPE), ("r2_v_on_log_n", R2)], &both(|own| (&own.log_n, &own.v)), rows);
    // Unbiased M may be negative and has no logarithm.
    let log = |values: &[f64]| values.iter().map(|value| value.ln_1p() / std::f64::consts::LN_10).collect::<Vec<f64>>();
    let mut logs = |names: [&'static str; 2], values: &[f64]| {
        line_rows(&[(names[0], SLOPE), (names[1], R2)], &[(&plain.log_n, &log(values))], rows);
    };
    logs(["slope_log_q_on_log_n", "r2_log_q_on_log_n"], &plain.q);
    logs(["slope_log_m_on_log_n", "r2_log_m_on_log_n"], &plain.m);
    logs(["slope_log_v_on_log_n", "r2_log_v_on_log_n"], &plain.v);
    if summary.selection == Selection::All {
        rows.push("predicted_q", predicted, predicted.map_or(0, |_| inputs.moments.dim() as u64));
    }
    let groups = summary.groups.len() as u64;
    rows.push("groups", Some(groups as f64), groups);
    rows.push("states", Some(summary.states() as f64), summary.states());
}

/// Numbers of some groups, group by group.
struct Columns {
    log_n: Vec<f64>,
    q: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Columns {
    /// The plug-in values of every group.
    fn plain(groups: &[GroupRow]) -> Columns {
        Columns::of(groups.iter().map(|group| (group, (group.m, group.v))))
    }

    /// The unbiased values of every group that has them.
    fn unbiased(groups: &[GroupRow]) -> Columns {
        Columns::of(groups.iter().filter_map(|group| Some((group, unbiased(group)?))))
    }

    fn of<'a>(groups: impl Iterator<Item = (&'a GroupRow, (f64, f64))>) -> Columns {
        let mut columns = Columns { log_n: Vec::new(), q: Vec::new(), m: Vec::new(), v: Vec::new() };
        for (group, (m, v)) in groups {
            columns.log_n.push((group.n as f64).log10());
            columns.q.push(group.q);
            columns.m.push(m);
            columns.v.push(v);
        }
        columns
    }
}

/// A number of a line, and its standard error.
type Part = fn(&Fit) -> (Option<f64>, Option<f64>);

const SLOPE: Part = |fit| (Some(fit.line.slope), fit.slope_se);
const INTERCEPT: Part = |fit| (Some(fit.line.intercept), None);
const R2: Part = |fit| (fit.line.r2, fit.r2_se);

/// Some numbers of the line through the plug-in values, each followed by that through the unbiased ones where they are given.
fn line_rows(names: &[(&'static str, Part)], values: &[(&[f64], &[f64])], rows: &mut Rows) {
    let fits: Vec<(Option<Fit>, u64)> = values.iter().map(|(x, y)| (fit_with_errors(x, y), x.len() as u64)).collect();
    for (name, part) in names {
        for ((fit, n), variant) in fits.iter().zip([None, Some(UNBIASED)]) {
            let (value, se) = fit.as_ref().map_or((None, None), part);
            let estimate = Estimate { value, se, n: *n };
            match variant {
                None => rows.push_estimate(name, estimate),
                Some(variant) => rows.push_variant(name, variant, estimate),
            }
        }
    }
}

/// Q and its parts over all states of a selection.
struct Parts {
    q: Option<f64>,
    m: Option<f64>,
    v: Option<f64>,
    within: Option<f64>,
    between: Option<f64>,
}

impl Parts {
    fn plain(totals: Option<&Totals>) -> Parts {
        let of = |part: fn(&Totals) -> f64| totals.map(part);
        Parts {
            q: of(|own| own.q),
            m: of(|own| own.m),
            v: of(|own| own.v),
            within: of(|own| own.v_within),
            between: of(|own| own.v_between),
        }
    }

    /// V_W and V_B as in an analysis of variance, V = V_W + V_B and M = Q - V. Q has no bias.
    fn unbiased(summary: &Summary) -> Parts {
        let components = summary.totals.as_ref().map(|totals| VarianceComponents::new(&summary.groups, totals));
        let (q, v) = (summary.totals.as_ref().map(|totals| totals.q), components.and_then(|own| own.total()));
        let m = q.zip(v).map(|(q, v)| q - v);
        Parts { q, m, v, within: components.and_then(|own| own.within), between: components.and_then(|own| own.between) }
    }
}

/// M, V, V_W, V_B and the shares, by name.
const PARTS: &[(&str, fn(&Parts) -> Option<f64>)] = &[
    ("m", |own| own.m),
    ("v", |own| own.v),
    ("v_within", |own| own.within),
    ("v_between", |own| own.between),
    ("m_over_q", |own| ratio(own.m, own.q)),
    ("v_over_q", |own| ratio(own.v, own.q)),
    ("v_within_over_q", |own| ratio(own.within, own.q)),
    ("v_between_over_q", |own| ratio(own.between, own.q)),
    ("v_within_over_v", |own| ratio(own.within, own.v)),
    ("v_between_over_v", |own| ratio(own.between, own.v)),
];

fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|whole| *whole > 0.0)?)
}

/// Q, M, V, V_W, V_B, their ratios and the mean norm.
fn totals_rows(summary: &Summary, rows: &mut Rows) {
    let (n, totals) = (summary.states(), summary.totals.as_ref());
    let (plain, unbiased) = (Parts::plain(totals), Parts::unbiased(summary));
    rows.push("q", plain.q, n);
    for (measure, part) in PARTS {
        rows.push(measure, part(&plain), n);
        rows.push_variant(measure, UNBIASED, Estimate::new(part(&unbiased), n));
    }
    rows.push("mean_norm", totals.map(|totals| totals.mean_norm), n);
}
