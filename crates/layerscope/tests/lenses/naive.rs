//! The measures by their definitions: all states in memory, f64, plain loops.

use super::symmetric::{dot, eigenvalues, eigenvectors};

pub type States<'a> = [&'a [f64]];

/// The mean state, then once more around it, since rounding has moved it.
pub fn mean(states: &States) -> Vec<f64> {
    let (n, mut mean) = (states.len() as f64, vec![0.0; states[0].len()]);
    for _ in 0..2 {
        let mut sum = vec![0.0; mean.len()];
        states.iter().for_each(|x| (0..sum.len()).for_each(|i| sum[i] += x[i] - mean[i]));
        (0..sum.len()).for_each(|i| mean[i] += sum[i] / n);
    }
    mean
}

pub fn centred(states: &States) -> Vec<Vec<f64>> {
    let mean = mean(states);
    states.iter().map(|x| x.iter().zip(&mean).map(|(x, mean)| x - mean).collect()).collect()
}

pub fn refs(states: &[Vec<f64>]) -> Vec<&[f64]> {
    states.iter().map(Vec::as_slice).collect()
}

/// Mean cosine over all pairs: each unit vector with the sum of those before it.
pub fn mean_cosine(states: &States) -> f64 {
    let (mut before, mut pairs) = (vec![0.0; states[0].len()], 0.0);
    for x in states {
        let norm = dot(x, x).sqrt();
        pairs += dot(&before, x) / norm;
        before.iter_mut().zip(*x).for_each(|(sum, x)| *sum += x / norm);
    }
    let n = states.len() as f64;
    2.0 * pairs / (n * (n - 1.0))
}

/// sum over states of x_i y_j.
pub fn products(x: &States, y: &States) -> Vec<f64> {
    let (rows, columns) = (x[0].len(), y[0].len());
    let mut sums = vec![0.0; rows * columns];
    for (x, y) in x.iter().zip(y) {
        for (sums, x) in sums.chunks_mut(columns).zip(*x) {
            sums.iter_mut().zip(*y).for_each(|(sum, y)| *sum += x * y);
        }
    }
    sums
}

fn divided(matrix: Vec<f64>, divisor: f64) -> Vec<f64> {
    matrix.into_iter().map(|x| x / divisor).collect()
}

/// C, divisor n - 1.
pub fn covariance(states: &States) -> Vec<f64> {
    let centred = centred(states);
    divided(products(&refs(&centred), &refs(&centred)), states.len() as f64 - 1.0)
}

/// Mean of x x^T.
pub fn second_moment(states: &States) -> Vec<f64> {
    divided(products(states, states), states.len() as f64)
}

/// Eigenvalues by the rule: at most `rank`, those up to 1e-12 of the first are 0.
pub struct Spectrum {
    pub values: Vec<f64>,
    dim: usize,
}

impl Spectrum {
    pub fn of_covariance(covariance: &[f64], states: usize, dim: usize) -> Spectrum {
        Spectrum { values: significant(eigenvalues(covariance, dim), states - 1), dim }
    }

    pub fn of_second_moment(moment: &[f64], states: usize, dim: usize) -> Spectrum {
        Spectrum { values: significant(eigenvalues(moment, dim), states), dim }
    }

    fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.values.iter().map(|value| of(*value)).sum()
    }

    pub fn anisotropy(&self) -> f64 {
        self.values[0] / self.sum(|x| x)
    }

    pub fn participation_ratio(&self) -> f64 {
        self.sum(|x| x).powi(2) / self.sum(|x| x * x)
    }

    pub fn isoscore(&self) -> f64 {
        (self.participation_ratio() - 1.0) / (self.dim as f64 - 1.0)
    }

    pub fn effective_rank(&self) -> f64 {
        let all = self.sum(|x| x);
        (-self.sum(|x| if x > 0.0 { x / all * (x / all).ln() } else { 0.0 })).exp()
    }

    pub fn rankme(&self) -> f64 {
        let all = self.sum(f64::sqrt);
        (-self.sum(|x| (x.sqrt() / all + 1e-7) * (x.sqrt() / all + 1e-7).ln())).exp()
    }

    /// By the normal equations of weighted least squares.
    pub fn alpha_req(&self) -> Option<f64> {
        let last = self.values.iter().filter(|x| **x > 0.0).count().min(100);
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            (11..=last).map(|rank| of(-(rank as f64).ln(), self.values[rank - 1].ln()) / rank as f64).sum()
        };
        let (w, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
        (last >= 20).then(|| (w * sum(&|x, y| x * y) - x * y) / (w * sum(&|x, _| x * x) - x * x))
    }
}

fn significant(mut values: Vec<f64>, rank: usize) -> Vec<f64> {
    values.truncate(rank);
    let least = 1e-12 * values[0];
    values.into_iter().map(|value| if value <= least { 0.0 } else { value }).collect()
}

/// Share of the variance in the k components that have the most.
pub fn top_variance(covariance: &[f64], dim: usize, k: usize) -> f64 {
    let mut variances: Vec<f64> = (0..dim).map(|i| covariance[i * dim + i]).collect();
    variances.sort_by(|a, b| b.total_cmp(a));
    variances[..k].iter().sum::<f64>() / variances.iter().sum::<f64>()
}

/// IsoScore of 0.25 C_batch + 0.75 C.
pub fn isoscore_star(batch: &[f64], corpus: &[f64], dim: usize) -> f64 {
    let mixed: Vec<f64> = batch.iter().zip(corpus).map(|(batch, corpus)| 0.25 * batch + 0.75 * corpus).collect();
    Spectrum { values: eigenvalues(&mixed, dim), dim }.isoscore()
}

/// ln Z(v) and ln Z(-v) for every eigenvector v of W^T W, which comes in any scale.
pub fn log_partitions(rows: &States, products: &[f64]) -> Vec<[f64; 2]> {
    let (_, vectors) = eigenvectors(products, rows[0].len());
    let log_sum = |exponents: &[f64], sign: f64| {
        let largest = exponents.iter().map(|x| sign * x).fold(f64::NEG_INFINITY, f64::max);
        largest + exponents.iter().map(|x| (sign * x - largest).exp()).sum::<f64>().ln()
    };
    let both = |v: &Vec<f64>| {
        let exponents: Vec<f64> = rows.iter().map(|w| dot(w, v)).collect();
        [log_sum(&exponents, 1.0), log_sum(&exponents, -1.0)]
    };
    vectors.iter().map(both).collect()
}

/// min - max over all v and -v.
pub fn log_partition(logs: &[[f64; 2]]) -> f64 {
    let all = || logs.iter().flatten().copied();
    all().fold(f64::INFINITY, f64::min) - all().fold(f64::NEG_INFINITY, f64::max)
}

/// How near min - max over one of v and -v for each v comes to `found`, for the best choice of signs.
pub fn nearest_log_partition(logs: &[[f64; 2]], found: f64) -> f64 {
    let all: Vec<f64> = logs.iter().flatten().copied().collect();
    let possible = |low: f64, high: f64| logs.iter().all(|both| both.iter().any(|log| (low..=high).contains(log)));
    let pairs = all.iter().flat_map(|&low| all.iter().map(move |&high| (low, high))).filter(|(low, high)| low <= high);
    let near = pairs.filter(|(low, high)| (low - high - found).abs() < 1e-6 * found.abs() && possible(*low, *high));
    near.map(|(low, high)| low - high).min_by(|a, b| (a - found).abs().total_cmp(&(b - found).abs())).unwrap_or(f64::INFINITY)
}

/// ||X^T Y||_F^2 / (||X^T X||_F ||Y^T Y||_F) of centred X and Y.
pub fn linear_cka(xx: &[f64], xy: &[f64], yy: &[f64]) -> f64 {
    dot(xy, xy) / (dot(xx, xx) * dot(yy, yy)).sqrt()
}

/// tr(C_yx C_xx^+ C_xy) / tr C_yy; None if n <= d + 1.
pub fn linearity(xx: &[f64], xy: &[f64], yy: &[f64], dim: usize, n: usize) -> Option<f64> {
    let (values, vectors) = eigenvectors(xx, dim);
    let values = significant(values, dim);
    let columns = xy.len() / dim;
    let mut explained = 0.0;
    for (value, v) in values.iter().zip(&vectors).filter(|(value, _)| **value > 0.0) {
        let mut image = vec![0.0; columns];
        xy.chunks(columns).zip(v).for_each(|(row, v)| image.iter_mut().zip(row).for_each(|(image, x)| *image += v * x));
        explained += dot(&image, &image) / value;
    }
    let trace: f64 = (0..columns).map(|i| yy[i * columns + i]).sum();
    (n > dim + 1).then(|| explained / trace)
}

/// Von Neumann entropy of the Gram matrix of centred unit rows over ln min(N, d).
pub fn matrix_entropy(sequence: &States) -> Option<f64> {
    if sequence.len() < 3 {
        return None;
    }
    let largest = sequence.iter().map(|x| dot(x, x).sqrt()).fold(0.0, f64::max);
    let centred: Vec<Vec<f64>> = centred(sequence).into_iter().filter(|x| dot(x, x).sqrt() > 1e-12 * largest).collect();
    let n = centred.len();
    let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    let gram: Vec<f64> = (0..n * n).map(|at| cosine(&centred[at / n], &centred[at % n]) / n as f64).collect();
    let values = significant(layerscope_testing::eigen::jacobi(&gram, n), n);
    let entropy: f64 = values.iter().filter(|x| **x > 0.0).map(|x| -x * x.ln()).sum();
    Some(entropy / (sequence.len().min(sequence[0].len()) as f64).ln())
}

/// Mean angle between successive steps that are not zero.
pub fn curvature(sequence: &States) -> Option<f64> {
    let steps = sequence.windows(2).map(|pair| pair[1].iter().zip(pair[0]).map(|(b, a)| b - a).collect::<Vec<f64>>());
    let steps: Vec<Vec<f64>> = steps.filter(|step| step.iter().any(|x| *x != 0.0)).collect();
    let angle = |a: &[f64], b: &[f64]| (dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).clamp(-1.0, 1.0).acos();
    let angles: Vec<f64> = steps.windows(2).map(|pair| angle(&pair[0], &pair[1])).collect();
    (!angles.is_empty()).then(|| angles.iter().sum::<f64>() / angles.len() as f64)
}

/// lambda_1 / sum lambda of X X^T.
pub fn explainable_variance(states: &States) -> f64 {
    let n = states.len();
    let gram: Vec<f64> = (0..n * n).map(|at| dot(states[at / n], states[at % n])).collect();
    let values = eigenvalues(&gram, n);
    values[0] / values.iter().sum::<f64>()
}
