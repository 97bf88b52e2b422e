//! Measures of sequences, layers, partitions, clusters and tokens by their definitions, in f64.

use layerscope_testing::eigen::{jacobi, jacobi_vectors};

use super::spectrum::{mean, naive_covariance};

pub type States = Vec<Vec<f64>>;

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Entropy of the Gram matrix of centred unit rows over ln min(N, d), always on the side of the rows.
pub fn matrix_entropy(states: &[Vec<f64>]) -> Option<f64> {
    let (n, dim) = (states.len(), states.first()?.len());
    if n < 3 || dim == 1 {
        return None;
    }
    let mu = mean(states, dim);
    let largest = states.iter().map(|x| norm(x)).fold(0.0, f64::max);
    let rows: States = states.iter().map(|x| minus(x, &mu)).filter(|x| norm(x) > 1e-12 * largest).collect();
    let units: States = rows.iter().map(|x| x.iter().map(|value| value / norm(x)).collect()).collect();
    if units.is_empty() {
        return None;
    }
    let k = units.len();
    let gram: Vec<f64> = (0..k * k).map(|at| dot(&units[at / k], &units[at % k]) / k as f64).collect();
    let values = jacobi(&gram, k);
    let entropy: f64 = values.iter().filter(|x| **x > 1e-12 * values[0]).map(|x| -x * x.ln()).sum();
    Some(entropy / (n.min(dim) as f64).ln())
}

pub fn curvature(states: &[Vec<f64>]) -> Option<f64> {
    if states.len() < 3 {
        return None;
    }
    let steps: States = states.windows(2).map(|pair| minus(&pair[1], &pair[0])).filter(|step| norm(step) > 0.0).collect();
    let angles: Vec<f64> =
        steps.windows(2).map(|pair| (dot(&pair[0], &pair[1]) / norm(&pair[0]) / norm(&pair[1])).clamp(-1.0, 1.0).acos()).collect();
    (!angles.is_empty()).then(|| angles.iter().sum::<f64>() / angles.len() as f64)
}

fn centred(states: &[Vec<f64>]) -> States {
    let mu = mean(states, states[0].len());
    states.iter().map(|x| minus(x, &mu)).collect()
}

/// sum over pairs of components of (sum over states x_i y_j)^2.
fn square_frobenius(x: &States, y: &States) -> f64 {
    let entry = |i: usize, j: usize| x.iter().zip(y).map(|(x, y)| x[i] * y[j]).sum::<f64>();
    (0..x[0].len()).map(|i| (0..y[0].len()).map(|j| entry(i, j).powi(2)).sum::<f64>()).sum()
}

pub fn linear_cka(x: &[Vec<f64>], y: &[Vec<f64>]) -> f64 {
    let (x, y) = (centred(x), centred(y));
    square_frobenius(&x, &y) / (square_frobenius(&x, &x) * square_frobenius(&y, &y)).sqrt()
}

/// 1 - min_A ||XA - Y||^2 / ||Y||^2 of centred X and Y, by solving the normal equations.
pub fn linearity(x: &[Vec<f64>], y: &[Vec<f64>]) -> Option<f64> {
    let (x, y) = (centred(x), centred(y));
    let (rows, columns) = (x[0].len(), y[0].len());
    if x.len() <= rows + 1 {
        return None;
    }
    let sum = |a: &States, i: usize, b: &States, j: usize| a.iter().zip(b).map(|(a, b)| a[i] * b[j]).sum::<f64>();
    let mut system: States =
        (0..rows).map(|i| (0..rows).map(|j| sum(&x, i, &x, j)).chain((0..columns).map(|j| sum(&x, i, &y, j))).collect()).collect();
    for pivot in 0..rows {
        let best = (pivot..rows).max_by(|&a, &b| system[a][pivot].abs().total_cmp(&system[b][pivot].abs())).unwrap();
        system.swap(pivot, best);
        for row in (0..rows).filter(|row| *row != pivot) {
            let factor = system[row][pivot] / system[pivot][pivot];
            for column in pivot..rows + columns {
                system[row][column] -= factor * system[pivot][column];
            }
        }
    }
    let weight = |i: usize, j: usize| system[i][rows + j] / system[i][i];
    let left: f64 = x
        .iter()
        .zip(&y)
        .map(|(x, y)| (0..columns).map(|j| (y[j] - (0..rows).map(|i| x[i] * weight(i, j)).sum::<f64>()).powi(2)).sum::<f64>())
        .sum();
    Some(1.0 - left / y.iter().map(|y| dot(y, y)).sum::<f64>())
}

/// ln I(W) over all eigenvectors and their negatives.
pub fn log_partition(rows: &[Vec<f64>], center: bool) -> f64 {
    let rows = if center { centred(rows) } else { rows.to_vec() };
    let dim = rows[0].len();
    let matrix: Vec<f64> = (0..dim * dim).map(|at| rows.iter().map(|w| w[at / dim] * w[at % dim]).sum()).collect();
    let (_, vectors) = jacobi_vectors(&matrix, dim);
    let log_sum = |v: &[f64], sign: f64| {
        let exponents: Vec<f64> = rows.iter().map(|w| sign * dot(w, v)).collect();
        let largest = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + exponents.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
    };
    let all: Vec<f64> = vectors.iter().flat_map(|v| [log_sum(v, 1.0), log_sum(v, -1.0)]).collect();
    all.iter().copied().fold(f64::INFINITY, f64::min) - all.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// lambda_1 / sum lambda of the uncentred second moment.
pub fn explainable(states: &[Vec<f64>]) -> f64 {
    let dim = states[0].len();
    let values = jacobi(&naive_covariance(states, dim, false), dim);
    values[0] / values.iter().sum::<f64>()
}

/// Mean silhouette of labels.
pub fn silhouette(points: &[Vec<f64>], labels: &[u32]) -> f64 {
    let clusters: std::collections::BTreeSet<u32> = labels.iter().copied().collect();
    let mean_distance = |at: usize, cluster: u32| {
        let others: Vec<f64> = (0..points.len())
            .filter(|&other| other != at && labels[other] == cluster)
            .map(|other| norm(&minus(&points[at], &points[other])))
            .collect();
        (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64)
    };
    let own = |at: usize| {
        let Some(a) = mean_distance(at, labels[at]) else { return 0.0 };
        let b = clusters.iter().filter(|c| **c != labels[at]).filter_map(|c| mean_distance(at, *c)).fold(f64::INFINITY, f64::min);
        (b - a) / a.max(b)
    };
    (0..points.len()).map(own).sum::<f64>() / points.len() as f64
}

/// (V_W, V_B) of labels.
pub fn variances(points: &[Vec<f64>], labels: &[u32]) -> (f64, f64) {
    let dim = points[0].len();
    let all = mean(points, dim);
    let clusters: std::collections::BTreeSet<u32> = labels.iter().copied().collect();
    let (mut within, mut between) = (0.0, 0.0);
    for cluster in clusters {
        let own: States = points.iter().zip(labels).filter(|(_, label)| **label == cluster).map(|(x, _)| x.clone()).collect();
        let mu = mean(&own, dim);
        within += own.iter().map(|x| norm(&minus(x, &mu)).powi(2)).sum::<f64>();
        between += own.len() as f64 * norm(&minus(&mu, &all)).powi(2);
    }
    (within / points.len() as f64, between / points.len() as f64)
}
