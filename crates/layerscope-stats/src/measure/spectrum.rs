//! The spectrum of the covariance: how many directions states use.

use super::evaluation::Evaluation;
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use crate::eigen::{eigenvalues, significant, with_square_of};
use crate::error::Result;
use crate::sketch::Scatter;

/// Weight of the corpus covariance in [`isoscore_star`].
const ZETA: f64 = 0.75;

/// Added to every share in [`Spectrum::rankme`].
const RANKME_EPSILON: f64 = 1e-7;

/// Ranks of the fit of [`Spectrum::alpha_req`].
const ALPHA_FIRST: usize = 11;
const ALPHA_LAST: usize = 100;
const ALPHA_MIN: usize = 10;

/// Eigenvalues of a covariance or of an uncentred second moment.
///
/// Those at most 1e-12 of the largest are 0, and there are no more than the rank allows: min(n - 1, d), uncentred min(n, d).
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    values: Vec<f64>,
    dim: usize,
    n: u64,
}

impl Spectrum {
    /// Of the covariance, divisor n - 1; None with fewer than 2 states.
    pub fn of_covariance(scatter: &Scatter) -> Option<Spectrum> {
        let rank = scatter.n().saturating_sub(1);
        Spectrum::new(&scatter.covariance()?, scatter, rank)
    }

    /// Of the mean of x x^T; None without states.
    pub fn of_second_moment(scatter: &Scatter) -> Option<Spectrum> {
        Spectrum::new(&scatter.second_moment()?, scatter, scatter.n())
    }

    fn new(matrix: &[f64], scatter: &Scatter, rank: u64) -> Option<Spectrum> {
        let (dim, n) = (scatter.dim(), scatter.n());
        let rank = usize::try_from(rank).map_or(dim, |rank| rank.min(dim));
        Some(Spectrum { values: significant(eigenvalues(matrix, dim)?, rank), dim, n })
    }

    /// Eigenvalues, descending.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.values
    }

    /// Number of states.
    pub fn n(&self) -> u64 {
        self.n
    }

    fn sum(&self) -> f64 {
        self.values.iter().sum()
    }

    /// The largest, if it is not 0.
    fn largest(&self) -> Option<f64> {
        self.values.first().copied().filter(|largest| *largest > 0.0)
    }

    /// lambda_1 / sum lambda (Razzhigaev et al. 2024; uncentred: the maximum explainable variance of Ethayarajh 2019).
    pub fn anisotropy(&self) -> Option<f64> {
        Some(self.largest()? / self.sum())
    }

    /// (sum lambda)^2 / sum lambda^2.
    pub fn participation_ratio(&self) -> Option<f64> {
        let largest = self.largest()?;
        let relative = || self.values.iter().map(|value| value / largest);
        Some(relative().sum::<f64>().powi(2) / relative().map(|value| value * value).sum::<f64>())
    }

    /// (PR - 1) / (d - 1): algebraically the IsoScore of Rudman et al. 2022. None at d = 1.
    pub fn isoscore(&self) -> Option<f64> {
        isoscore(self.participation_ratio()?, self.dim)
    }

    /// exp(- sum p ln p), p = lambda / sum lambda (Roy & Vetterli 2007).
    pub fn effective_rank(&self) -> Option<f64> {
        self.largest()?;
        let sum = self.sum();
        Some(exp_entropy(self.values.iter().map(|value| value / sum)))
    }

    /// The same of p = sigma / sum sigma + 1e-7 with singular values sigma (Garrido et al. 2023); for the uncentred spectrum.
    pub fn rankme(&self) -> Option<f64> {
        self.largest()?;
        let sum: f64 = self.values.iter().map(|value| value.sqrt()).sum();
        Some(exp_entropy(self.values.iter().map(|value| value.sqrt() / sum + RANKME_EPSILON)))
    }

    /// sum lambda / lambda_1 (Rudelson & Vershynin 2007).
    pub fn stable_rank(&self) -> Option<f64> {
        Some(self.sum() / self.largest()?)
    }

    /// Exponent alpha of lambda ~ rank^-alpha (Agrawal et al. 2022): slope, with intercept, of ln lambda on -ln rank over ranks
    /// 11..min(d, n - 1, 100), weights 1 / rank. Eigenvalues that count as 0 have no logarithm and end the range; None with fewer than 10.
    pub fn alpha_req(&self) -> Option<f64> {
        let last = self.values.iter().take_while(|value| **value > 0.0).count().min(ALPHA_LAST);
        if last + 1 < ALPHA_FIRST + ALPHA_MIN {
            return None;
        }
        let points = || (ALPHA_FIRST..=last).map(|rank| (1.0 / rank as f64, -(rank as f64).ln(), self.values[rank - 1].ln()));
        let weight: f64 = points().map(|(w, _, _)| w).sum();
        let x_mean = points().map(|(w, x, _)| w * x).sum::<f64>() / weight;
        let y_mean = points().map(|(w, _, y)| w * y).sum::<f64>() / weight;
        let (xy, xx) = points().fold((0.0, 0.0), |(xy, xx), (w, x, y)| {
            let (x, y) = (x - x_mean, y - y_mean);
            (xy + w * x * y, xx + w * x * x)
        });
        Some(xy / xx)
    }
}

/// The spectra of a covariance and of an uncentred second moment: one differs from the other by the square of the mean, so both cost little
/// more than one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spectra {
    pub covariance: Option<Spectrum>,
    pub second_moment: Option<Spectrum>,
}

impl Spectra {
    pub fn new(scatter: &Scatter) -> Spectra {
        let (n, dim) = (scatter.n(), scatter.dim());
        let Some(covariance) = scatter.covariance() else {
            return Spectra { covariance: None, second_moment: Spectrum::of_second_moment(scatter) };
        };
        // The mean of x x^T is C (n - 1) / n + mu mu^T.
        let found = with_square_of(scatter.mean(), &covariance, (n - 1) as f64 / n as f64);
        let rank = |rank: u64| usize::try_from(rank).map_or(dim, |rank| rank.min(dim));
        let (centred, uncentred) = found.unzip();
        let spectrum =
            |values: Option<Vec<f64>>, most: u64| values.map(|values| Spectrum { values: significant(values, rank(most)), dim, n });
        Spectra { covariance: spectrum(centred, n - 1), second_moment: spectrum(uncentred, n) }
    }
}

/// (PR - 1) / (d - 1).
fn isoscore(participation_ratio: f64, dim: usize) -> Option<f64> {
    (dim > 1).then(|| (participation_ratio - 1.0) / (dim - 1) as f64)
}

fn exp_entropy(shares: impl Iterator<Item = f64>) -> f64 {
    let entropy: f64 = shares.filter(|share| *share > 0.0).map(|share| -share * share.ln()).sum();
    entropy.exp()
}

/// Share of the total variance in the k components with the highest variance; None with fewer than k components or no variance.
pub fn top_variance(scatter: &Scatter, k: usize) -> Option<f64> {
    let mut variances: Vec<f64> = (0..scatter.dim()).map(|i| scatter.get(i, i)).collect();
    variances.sort_unstable_by(|a, b| b.total_cmp(a));
    let total: f64 = variances.iter().sum();
    (scatter.n() >= 2 && k <= scatter.dim() && total > 0.0).then(|| variances[..k].iter().sum::<f64>() / total)
}

/// IsoScore of (1 - zeta) C_batch + zeta C, zeta = 0.75, C the corpus covariance (Rudman & Eickhoff 2024).
pub fn isoscore_star(batch: &Scatter, corpus: &Scatter) -> Option<f64> {
    if batch.n() < 2 || corpus.n() < 2 || batch.dim() != corpus.dim() {
        return None;
    }
    let dim = batch.dim();
    let (own, all) = ((1.0 - ZETA) / (batch.n() - 1) as f64, ZETA / (corpus.n() - 1) as f64);
    let entry = |i, j| own * batch.get(i, j) + all * corpus.get(i, j);
    let trace: f64 = (0..dim).map(|i| entry(i, i)).sum();
    // PR needs no eigenvalues: sum lambda is the trace, sum lambda^2 the sum of squares.
    let squares = |i: usize| (entry(i, i) / trace).powi(2) + 2.0 * (i + 1..dim).map(|j| (entry(i, j) / trace).powi(2)).sum::<f64>();
    (trace > 0.0).then(|| isoscore(1.0 / (0..dim).map(squares).sum::<f64>(), dim)).flatten()
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    let Some(scatter) = evaluation.scatter() else { return Ok(()) };
    if rows.selection.is_of_sketches() {
        match evaluation.spectrum() {
            None => rows.note(format!("spectrum: {} states have no covariance", scatter.n())),
            Some(spectrum) if spectrum.anisotropy().is_none() => rows.note("spectrum: all states are equal"),
            Some(_) => {}
        }
        add_rows(scatter, evaluation.spectrum(), evaluation.second_moment(), rows);
    }
    if let Some(batches) = evaluation.batches().filter(|_| rows.selection.is_of_sample()) {
        batches.add_rows(rows);
    }
    Ok(())
}

/// The rows of some states, from the spectra of their covariance and of their uncentred second moment.
pub(super) fn add_rows(scatter: &Scatter, centred: Option<&Spectrum>, uncentred: Option<&Spectrum>, rows: &mut Rows) {
    let n = scatter.n();
    rows.push_variant("anisotropy_svd", "corpus", Estimate::new(centred.and_then(Spectrum::anisotropy), n));
    rows.push("isoscore", centred.and_then(Spectrum::isoscore), n);
    rows.push("participation_ratio", centred.and_then(Spectrum::participation_ratio), n);
    rows.push("effective_rank", centred.and_then(Spectrum::effective_rank), n);
    rows.push("rankme", uncentred.and_then(Spectrum::rankme), n);
    rows.push("stable_rank", centred.and_then(Spectrum::stable_rank), n);
    rows.push("alpha_req", centred.and_then(Spectrum::alpha_req), n);
    rows.push("top_variance_1", top_variance(scatter, 1), n);
    rows.push("top_variance_3", top_variance(scatter, 3), n);
    rows.push("top_variance_10", top_variance(scatter, 10), n);
}
