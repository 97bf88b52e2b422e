//! Dimension and clusters by their definitions, from all distances.

use std::collections::{BTreeMap, HashSet};

use super::naive::{States, mean};

/// All distances, row by row.
pub fn distances(points: &States) -> Vec<Vec<f64>> {
    let square = |a: &[f64], b: &[f64]| {
        let mut sums = [0.0; 4];
        let (a, b) = (a.as_chunks::<4>(), b.as_chunks::<4>());
        a.0.iter().zip(b.0).for_each(|(a, b)| (0..4).for_each(|i| sums[i] += (a[i] - b[i]).powi(2)));
        sums.iter().sum::<f64>() + a.1.iter().zip(b.1).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
    };
    let mut all = vec![vec![0.0; points.len()]; points.len()];
    for i in 0..points.len() {
        for j in 0..i {
            let distance = square(points[i], points[j]).sqrt();
            (all[i][j], all[j][i]) = (distance, distance);
        }
    }
    all
}

/// Places of the points that equal no earlier one.
pub fn different(points: &States) -> Vec<usize> {
    let mut seen: HashSet<Vec<u64>> = HashSet::new();
    (0..points.len()).filter(|&at| seen.insert(points[at].iter().map(|x| x.to_bits()).collect())).collect()
}

/// A value and its standard error.
pub type Estimate = (f64, Option<f64>);

/// Distances from each of some points to the others of them, ascending.
pub fn neighbours(distances: &[Vec<f64>], points: &[usize]) -> Vec<Vec<f64>> {
    let of = |&at: &usize| {
        let mut own: Vec<f64> = points.iter().filter(|other| **other != at).map(|&other| distances[at][other]).collect();
        own.sort_by(f64::total_cmp);
        own
    };
    points.iter().map(of).collect()
}

fn log_ratios(neighbours: &[Vec<f64>]) -> Vec<f64> {
    let mut ratios: Vec<f64> = neighbours.iter().map(|own| (own[1] / own[0]).ln()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// The standard error has the factor of simulated clouds, 1.14 + 0.2 / d.
pub fn twonn(neighbours: &[Vec<f64>]) -> Estimate {
    let logs = log_ratios(neighbours);
    let (n, k) = (logs.len(), (0.9 * logs.len() as f64) as usize);
    let dimension = (k - 1) as f64 / (logs[..k].iter().sum::<f64>() + (n - k) as f64 * logs[k - 1]);
    (dimension, Some((1.14 * dimension + 0.2) / (k as f64).sqrt()))
}

/// Slope through the origin of -ln(1 - i/N) on ln mu over the lowest share.
pub fn through_origin(neighbours: &[Vec<f64>], share: f64) -> f64 {
    let logs = log_ratios(neighbours);
    let (n, kept) = (logs.len() as f64, (share * logs.len() as f64) as usize);
    let y = |i: usize| -(1.0 - (i + 1) as f64 / n).ln();
    (0..kept).map(|i| logs[i] * y(i)).sum::<f64>() / (0..kept).map(|i| logs[i] * logs[i]).sum::<f64>()
}

/// Levina & Bickel with k = 20, divisor k - 1; the standard error is that of the mean inverse, times 1.22 of simulated clouds.
pub fn mle(neighbours: &[Vec<f64>]) -> Estimate {
    let k = 20;
    let inverse = |own: &Vec<f64>| (0..k - 1).map(|j| (own[k - 1] / own[j]).ln()).sum::<f64>() / (k - 1) as f64;
    let inverses: Vec<f64> = neighbours.iter().map(inverse).collect();
    let n = inverses.len() as f64;
    let mean = inverses.iter().sum::<f64>() / n;
    let variance = inverses.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (1.0 / mean, Some(1.22 * (variance / n).sqrt() / (mean * mean)))
}

/// splitmix64's finalizer over three words.
pub fn documented_hash(seed: u64, document: u64, position: u32) -> u64 {
    [seed, document, u64::from(position)].into_iter().fold(0u64, |hash, word| {
        let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// k-means++ with a hash for chance, then Lloyd's rounds until no point changes its cluster.
pub fn k_means(points: &States, distances: &[Vec<f64>], k: usize) -> Vec<usize> {
    let n = points.len();
    let chance = |draw: usize| (documented_hash(0x6b2d_6d65_616e_7321, draw as u64, k as u32) >> 11) as f64 / 2f64.powi(53);
    let mut chosen = vec![(chance(0) * n as f64) as usize];
    while chosen.len() < k {
        let apart: Vec<f64> = (0..n).map(|at| chosen.iter().map(|&c| distances[at][c].powi(2)).fold(f64::INFINITY, f64::min)).collect();
        let target = chance(chosen.len()) * apart.iter().sum::<f64>();
        let mut sum = 0.0;
        chosen.push(
            (0..n)
                .find(|&at| {
                    sum += apart[at];
                    sum > target
                })
                .expect("a point that is apart"),
        );
    }
    let mut centres: Vec<Vec<f64>> = chosen.iter().map(|&at| points[at].to_vec()).collect();
    let mut labels = vec![usize::MAX; n];
    for _ in 0..100 {
        let apart = |x: &[f64], c: &[f64]| x.iter().zip(c).map(|(x, c)| (x - c).powi(2)).sum::<f64>();
        let nearest = |x: &&[f64]| {
            let all: Vec<f64> = centres.iter().map(|c| apart(x, c)).collect();
            (0..k).min_by(|&a, &b| all[a].total_cmp(&all[b])).expect("a centre")
        };
        let new: Vec<usize> = points.iter().map(nearest).collect();
        if new == labels {
            break;
        }
        labels = new;
        for (cluster, centre) in centres.iter_mut().enumerate() {
            let own = members(points, &labels, cluster);
            if !own.is_empty() {
                *centre = mean(&own);
            }
        }
    }
    labels
}

fn members<'a>(points: &States<'a>, labels: &[usize], cluster: usize) -> Vec<&'a [f64]> {
    points.iter().zip(labels).filter(|(_, label)| **label == cluster).map(|(point, _)| *point).collect()
}

/// Sum of squared distances to the mean.
fn spread(points: &States) -> f64 {
    let mean = mean(points);
    points.iter().map(|x| x.iter().zip(&mean).map(|(x, mean)| (x - mean).powi(2)).sum::<f64>()).sum()
}

/// (V_W / V, Calinski-Harabasz).
pub fn variances(points: &States, labels: &[usize], k: usize) -> (f64, f64) {
    let clusters: Vec<Vec<&[f64]>> = (0..k).map(|cluster| members(points, labels, cluster)).filter(|own| !own.is_empty()).collect();
    let (within, all): (f64, f64) = (clusters.iter().map(|own| spread(own)).sum(), spread(points));
    let centre = mean(points);
    let apart = |own: &Vec<&[f64]>| own.len() as f64 * mean(own).iter().zip(&centre).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let between: f64 = clusters.iter().map(apart).sum();
    let (n, k) = (points.len() as f64, clusters.len() as f64);
    (within / all, (between / (k - 1.0)) / (within / (n - k)))
}

pub fn silhouette(distances: &[Vec<f64>], labels: &[usize], k: usize) -> f64 {
    let mut sizes = vec![0usize; k];
    labels.iter().for_each(|label| sizes[*label] += 1);
    let own = |at: usize| {
        let mut sums = vec![0.0; k];
        distances[at].iter().zip(labels).for_each(|(distance, label)| sums[*label] += distance);
        let mine = labels[at];
        if sizes[mine] == 1 {
            return 0.0;
        }
        let a = sums[mine] / (sizes[mine] - 1) as f64;
        let b = (0..k).filter(|c| *c != mine && sizes[*c] > 0).map(|c| sums[c] / sizes[c] as f64).fold(f64::INFINITY, f64::min);
        (b - a) / a.max(b)
    };
    (0..labels.len()).map(own).sum::<f64>() / labels.len() as f64
}

/// (MI - E) / (mean entropy - E), E over the hypergeometric law of every cell.
pub fn adjusted_mutual_information(a: &[usize], b: &[u64]) -> f64 {
    let n = a.len();
    let mut log_factorials = vec![0.0; n + 1];
    (1..=n).for_each(|k| log_factorials[k] = log_factorials[k - 1] + (k as f64).ln());
    let f = |k: usize| log_factorials[k];
    let (mut left, mut right, mut cells) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (a, b) in a.iter().zip(b) {
        *left.entry(*a).or_insert(0usize) += 1;
        *right.entry(*b).or_insert(0usize) += 1;
        *cells.entry((*a, *b)).or_insert(0usize) += 1;
    }
    let share = |k: usize| k as f64 / n as f64;
    let entropy = |sizes: &mut dyn Iterator<Item = &usize>| -> f64 { sizes.map(|&k| -share(k) * share(k).ln()).sum() };
    let mutual: f64 = cells.iter().map(|((a, b), &k)| share(k) * (share(k) / (share(left[a]) * share(right[b]))).ln()).sum();
    let mut expected = 0.0;
    for (&a, &b) in left.values().flat_map(|a| right.values().map(move |b| (a, b))) {
        for k in (a + b).saturating_sub(n).max(1)..=a.min(b) {
            let chance = f(a) + f(b) + f(n - a) + f(n - b) - f(n) - f(k) - f(a - k) - f(b - k) - f(n + k - a - b);
            expected += share(k) * (share(k) / (share(a) * share(b))).ln() * chance.exp();
        }
    }
    let entropies = (entropy(&mut left.values()) + entropy(&mut right.values())) / 2.0;
    (mutual - expected) / (entropies - expected)
}
