//! Intrinsic dimension from distances to nearest neighbours.

use std::ops::Range;

use super::batches::{self, BATCH};
use super::evaluation::Evaluation;
use super::kept_sample::KeptSample;
use super::layer_rows::{Estimate, Rows};
use super::neighbours::Neighbours;
use super::row::Computation;
use crate::error::Result;

/// Share of the smallest ratios that fits use.
const KEPT: f64 = 0.9;
const KEPT_BY_RAZZHIGAEV: f64 = 0.2;

/// Neighbours of [`levina_bickel`].
pub const NEIGHBOURS: usize = 20;

/// How far the standard errors of independent points fall short: points that are close to each other share neighbours. Simulated with
/// `examples/dimension_errors.rs`; docs/accuracy.md has the figures.
///
/// For [`twonn`], sd / (d / sqrt(k)) is 1.28, 1.16, 1.12, 1.07 in Gaussian clouds of d = 2, 5, 10, 20, and 1.24, 1.22, 1.21 on flat tori of
/// d = 2, 5, 10; this lies between them.
fn twonn_dependence(dimension: f64) -> f64 {
    1.14 + 0.2 / dimension.max(1.0)
}

/// The same of [`levina_bickel`]: 1.21, 1.22, 1.21, 1.13 in those Gaussian clouds and 1.30, 1.29, 1.38 on those tori with k = 20; neither d nor
/// k (5 to 50) has a clear trend.
const LEVINA_BICKEL_DEPENDENCE: f64 = 1.22;

/// What a cloud of points says of its dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimensions {
    /// Maximum likelihood with the largest ratios censored.
    pub twonn: Estimate,
    /// The fit of Facco et al.
    pub twonn_facco: Estimate,
    /// The fit of Razzhigaev et al. on the smallest ratios, of this cloud as one batch.
    pub twonn_razzhigaev: Estimate,
    /// Levina & Bickel.
    pub mle: Estimate,
    /// Points that equal an earlier one; they are left out.
    pub duplicates: u64,
}

impl Dimensions {
    /// Of `rows x dim` states; `k` neighbours for the last of them (0: not wanted).
    pub fn new(states: &[f32], dim: usize, k: usize, threads: usize) -> Dimensions {
        let all: Vec<u32> = (0..(states.len() / dim) as u32).collect();
        Dimensions::of_rows(&Neighbours::new(states, dim, k.max(2), threads), states, dim, &all, k, threads)
    }

    /// The same, and of each batch of 4096 of them: all that the measure `intrinsic_dimension` is made of.
    pub fn with_batches(states: &[f32], dim: usize, k: usize, threads: usize) -> (Dimensions, Vec<Dimensions>) {
        let all: Vec<u32> = (0..(states.len() / dim) as u32).collect();
        Dimensions::of_parts(&Neighbours::new(states, dim, k.max(2), threads), states, dim, &all, k, threads)
    }

    /// Of some rows of states whose neighbours are known, and of each batch of them.
    fn of_parts(known: &Neighbours, states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) -> (Dimensions, Vec<Dimensions>) {
        let all = Dimensions::of_rows(known, states, dim, rows, k, threads);
        let of_batch = |batch: Range<usize>| match batch.len() == rows.len() {
            true => all.clone(),
            false => Dimensions::of_rows(known, states, dim, &rows[batch], 0, threads),
        };
        let own = batches::of(rows.len(), BATCH).map(of_batch).collect();
        (all, own)
    }

    /// Of some rows of states whose neighbours are known.
    fn of_rows(known: &Neighbours, states: &[f32], dim: usize, rows: &[u32], k: usize, threads: usize) -> Dimensions {
        let different = known.different(rows.iter().copied());
        let n = different.len();
        let duplicates = (rows.len() - n) as u64;
        let neighbours = if n > k { k.max(2) } else { 2 };
        let distances = if n > 2 { known.distances(states, dim, &different, neighbours, threads) } else { Vec::new() };
        let mut ratios: Vec<f64> = distances.chunks_exact(neighbours).map(|own| own[1] / own[0]).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let of = |(value, se): (Option<f64>, Option<f64>)| Estimate { value, se, n: n as u64 };
        let has_mle = neighbours >= k && n > k && k > 2;
        Dimensions {
            twonn: of(twonn(&ratios)),
            twonn_facco: of((through_origin(&ratios, KEPT), None)),
            twonn_razzhigaev: of((through_origin(&ratios, KEPT_BY_RAZZHIGAEV), None)),
            mle: of(if has_mle { levina_bickel(&distances, neighbours) } else { (None, None) }),
            duplicates,
        }
    }
}

/// Maximum likelihood of the Pareto law of mu = r_2 / r_1 (Facco et al. 2017) with the largest tenth censored, k = int(0.9 N):
/// (k - 1) / (sum_{i <= k} ln mu_i + (N - k) ln mu_k). Ratios ascend. The standard error is that of independent points, d / sqrt(k), times
/// what their dependence adds.
pub fn twonn(ratios: &[f64]) -> (Option<f64>, Option<f64>) {
    let n = ratios.len();
    let k = kept(n, KEPT);
    if n < 3 || k < 2 {
        return (None, None);
    }
    let sum = ratios[..k].iter().map(|ratio| ratio.ln()).sum::<f64>() + (n - k) as f64 * ratios[k - 1].ln();
    let dimension = (sum > 0.0).then(|| (k - 1) as f64 / sum);
    (dimension, dimension.map(|dimension| twonn_dependence(dimension) * dimension / (k as f64).sqrt()))
}

/// Slope through the origin of -ln(1 - F) on ln mu, F_i = i / N, over the given share of the smallest ratios.
pub fn through_origin(ratios: &[f64], share: f64) -> Option<f64> {
    let n = ratios.len();
    let points = ratios[..kept(n, share)].iter().enumerate().map(|(i, ratio)| (ratio.ln(), -(1.0 - (i + 1) as f64 / n as f64).ln()));
    let (xy, xx) = points.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
    (n >= 3 && xx > 0.0).then(|| xy / xx)
}

/// int(share N).
fn kept(n: usize, share: f64) -> usize {
    (share * n as f64) as usize
}

/// Levina & Bickel 2004, averaged as MacKay & Ghahramani 2005 do: the inverse of the mean over points of
/// sum_{j < k} ln(T_k / T_j) / (k - 1). The standard error is that of this mean over independent points, times what
/// their dependence adds.
pub fn levina_bickel(distances: &[f64], k: usize) -> (Option<f64>, Option<f64>) {
    let inverse = |own: &[f64]| own[..k - 1].iter().map(|near| (own[k - 1] / near).ln()).sum::<f64>() / (k - 1) as f64;
    let inverses: Vec<f64> = distances.chunks_exact(k).map(inverse).collect();
    let spread = super::fit::Spread::of(&inverses, None);
    if inverses.is_empty() || spread.mean <= 0.0 {
        return (None, None);
    }
    let dimension = 1.0 / spread.mean;
    let independent = || dimension * dimension * (spread.m2 / (spread.n - 1.0) / spread.n).sqrt();
    (Some(dimension), (spread.n >= 2.0).then(|| LEVINA_BICKEL_DEPENDENCE * independent()))
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    let Some(kept) = evaluation.kept().filter(|_| rows.selection.is_of_sample()) else { return Ok(()) };
    let chosen = kept.rows(rows.selection.is_typical());
    let duplicates = add_rows(kept, &chosen, evaluation.settings.neighbours, evaluation.settings.threads, rows);
    let n = chosen.len();
    if duplicates > 0 {
        rows.note(format!("dimension: {duplicates} of {n} kept states equal an earlier one and were left out"));
    }
    if n as u64 - duplicates < 3 {
        rows.note(format!("dimension: {} different states are too few", n as u64 - duplicates));
    }
    Ok(())
}

/// The rows of some of the kept states. Returns how many duplicates they have.
fn add_rows(kept: &KeptSample<'_>, chosen: &[u32], k: usize, threads: usize, rows: &mut Rows) -> u64 {
    const MEASURE: &str = "intrinsic_dimension";
    let known = kept.neighbours(k, threads);
    let (all, batches) = Dimensions::of_parts(known, kept.states(), kept.dim(), chosen, k, threads);
    rows.push_variant(MEASURE, "twonn", all.twonn);
    rows.push_variant(MEASURE, "twonn_facco", all.twonn_facco);
    let values: Vec<Option<f64>> = batches.iter().map(|batch| batch.twonn_razzhigaev.value).collect();
    let n = batches.iter().map(|batch| batch.twonn_razzhigaev.n).sum();
    rows.push_variant(MEASURE, "twonn_razzhigaev", Estimate::new(batches::mean(&values), n));
    rows.push_variant(MEASURE, "twonn_razzhigaev_std", Estimate::new(batches::deviation(&values), n));
    rows.push_variant(MEASURE, "mle", all.mle);
    all.duplicates
}
