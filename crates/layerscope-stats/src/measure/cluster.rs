//! Clusters of the kept sample as groups.

use layerscope_compute::cpu::Isa;
use layerscope_compute::parallel::in_order;

use super::evaluation::Evaluation;
use super::information::adjusted_mutual_information;
use super::layer_rows::{Estimate, Rows};
use super::row::Computation;
use crate::error::Result;
use crate::products::{PANEL, Panels, product, product_place};
use crate::sketch::sample_hash;
use crate::vectors::square_distance;

/// Rounds of k-means at most.
const ROUNDS: usize = 100;

/// Points that are compared together.
const CHUNK: usize = 480;

/// Seed of the hash that stands for chance in k-means++.
const SEED: u64 = 0x6b2d_6d65_616e_7321;

/// Points in f64, minus their mean.
pub struct Points {
    values: Vec<f64>,
    squares: Vec<f64>,
    dim: usize,
}

impl Points {
    /// From `rows x dim` states.
    pub fn new(states: &[f32], dim: usize) -> Points {
        let n = (states.len() / dim) as f64;
        let mut mean = vec![0.0; dim];
        states.chunks_exact(dim).for_each(|x| mean.iter_mut().zip(x).for_each(|(mean, &x)| *mean += f64::from(x) / n));
        let values: Vec<f64> = states.chunks_exact(dim).flat_map(|x| x.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean)).collect();
        let squares = values.chunks_exact(dim).map(square).collect();
        Points { values, squares, dim }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.squares.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.squares.is_empty()
    }

    fn point(&self, at: usize) -> &[f64] {
        &self.values[at * self.dim..][..self.dim]
    }
}

fn square(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

/// Assignments of points to clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Clusters {
    /// The cluster of each point.
    pub of: Vec<u32>,
    /// The size of each cluster.
    pub sizes: Vec<u64>,
    centers: Vec<f64>,
}

impl Clusters {
    /// k-means++ (Arthur & Vassilvitskii 2007), then Lloyd's rounds until nothing changes; chance is a hash and sums go in the order of
    /// the points. None with fewer than `k` different points.
    pub fn new(points: &Points, k: usize) -> Option<Clusters> {
        let (n, dim) = (points.len(), points.dim);
        if k > n {
            return None;
        }
        let mut clusters = Clusters { of: vec![0; n], sizes: vec![0; k], centers: seeds(points, k)? };
        for round in 0..ROUNDS {
            let nearest = clusters.nearest(points);
            let moved = round == 0 || nearest != clusters.of;
            clusters.of = nearest;
            if !moved {
                break;
            }
            let mut sums = vec![0.0; k * dim];
            clusters.sizes.fill(0);
            for (at, &own) in clusters.of.iter().enumerate() {
                clusters.sizes[own as usize] += 1;
                sums[own as usize * dim..][..dim].iter_mut().zip(points.point(at)).for_each(|(sum, x)| *sum += x);
            }
            for (cluster, sum) in sums.chunks_exact(dim).enumerate().filter(|(cluster, _)| clusters.sizes[*cluster] > 0) {
                let size = clusters.sizes[cluster] as f64;
                clusters.centers[cluster * dim..][..dim].iter_mut().zip(sum).for_each(|(center, sum)| *center = sum / size);
            }
        }
        Some(clusters)
    }

    /// The nearest centre of every point, the first of equally near ones.
    fn nearest(&self, points: &Points) -> Vec<u32> {
        let dim = points.dim;
        let k = self.sizes.len();
        let squares: Vec<f64> = self.centers.chunks_exact(dim).map(square).collect();
        let (mut left, mut right, mut products) = (Panels::default(), Panels::default(), Vec::new());
        right.fill_columns(&self.centers, dim);
        let mut nearest = Vec::with_capacity(points.len());
        for chunk in points.values.chunks(CHUNK * dim) {
            left.fill_columns(chunk, dim);
            product(Isa::detect(), &left, &right, &mut products);
            nearest.extend((0..chunk.len() / dim).map(|at| {
                let apart = |cluster: usize| squares[cluster] - 2.0 * products[product_place(at, cluster, k)];
                (0..k)
                    .fold((0, f64::INFINITY), |(best, least), cluster| match apart(cluster) {
                        own if own < least => (cluster as u32, own),
                        _ => (best, least),
                    })
                    .0
            }));
        }
        nearest
    }

    /// Clusters that have points.
    fn used(&self) -> usize {
        self.sizes.iter().filter(|size| **size > 0).count()
    }

    /// (V_W, V): mean squared distance to the cluster's mean, and to the mean of all points.
    pub fn variances(&self, points: &Points) -> (f64, f64) {
        let (n, isa) = (points.len() as f64, Isa::detect());
        let center = |own: u32| &self.centers[own as usize * points.dim..][..points.dim];
        let within: f64 = self.of.iter().enumerate().map(|(at, &own)| square_distance(isa, points.point(at), center(own))).sum();
        (within / n, points.squares.iter().sum::<f64>() / n)
    }

    /// (V_B / (K - 1)) / (V_W / (n - K)) over the K clusters in use (Calinski & Harabasz 1974); None with K < 2, n = K or V_W = 0.
    pub fn calinski_harabasz(&self, points: &Points) -> Option<f64> {
        let ((within, all), k, n) = (self.variances(points), self.used() as f64, points.len() as f64);
        (k >= 2.0 && n > k && within > 0.0).then(|| ((all - within) / (k - 1.0)) / (within / (n - k)))
    }
}

/// k centres: the first by chance, then each point with a chance proportional to its squared distance from the nearest so far.
fn seeds(points: &Points, k: usize) -> Option<Vec<f64>> {
    let (n, isa) = (points.len(), Isa::detect());
    let chance = |draw: usize| (sample_hash(SEED, draw as u64, k as u32) >> 11) as f64 / (1u64 << 53) as f64;
    if k == 0 || n < k {
        return None;
    }
    let mut chosen = vec![((chance(0) * n as f64) as usize).min(n - 1)];
    let mut apart = vec![f64::INFINITY; n];
    while chosen.len() < k {
        let last = points.point(chosen[chosen.len() - 1]);
        for (at, apart) in apart.iter_mut().enumerate() {
            *apart = apart.min(square_distance(isa, points.point(at), last));
        }
        let total: f64 = apart.iter().sum();
        let target = chance(chosen.len()) * total;
        let mut sum = 0.0;
        let passed = apart.iter().position(|apart| {
            sum += apart;
            sum > target
        });
        chosen.push(passed.filter(|_| total > 0.0)?);
    }
    Some(chosen.iter().flat_map(|&at| points.point(at).to_vec()).collect())
}

/// Mean silhouette (Rousseeuw 1987) of several clusterings of the same points: the distances are computed once for all of them.
///
/// 0 for a point alone in its cluster; None with fewer than 2 clusters in use or as many as points.
pub fn silhouettes(points: &Points, clusterings: &[&Clusters], threads: usize) -> Vec<Option<f64>> {
    let (n, dim, isa) = (points.len(), points.dim, Isa::detect());
    let chunks: Vec<Panels> = points
        .values
        .chunks(CHUNK * dim)
        .map(|chunk| {
            let mut panels = Panels::default();
            panels.fill_columns(chunk, dim);
            panels
        })
        .collect();
    // Per chunk, the sum over its points of each clustering's silhouettes.
    let parts = in_order(threads, chunks.len(), |chunk| {
        let first = chunk * CHUNK;
        let rows = CHUNK.min(n - first);
        let mut sums: Vec<Vec<f64>> = clusterings.iter().map(|clusters| vec![0.0; rows * clusters.sizes.len()]).collect();
        let mut products = Vec::new();
        let mut distances = vec![0.0; CHUNK];
        for (other, panels) in chunks.iter().enumerate() {
            product(isa, &chunks[chunk], panels, &mut products);
            let columns = panels.width();
            for row in 0..rows {
                // Blocks of a product hold a row of each panel in one piece.
                let row_of_blocks = (0..columns).step_by(PANEL).flat_map(|first| &products[product_place(row, first, columns)..][..PANEL]);
                for (column, product) in row_of_blocks.take(columns).enumerate() {
                    let (a, b) = (first + row, other * CHUNK + column);
                    let sum = points.squares[a] + points.squares[b];
                    let square = sum - 2.0 * product;
                    // What is left of nearly equal points is rounding: measure those directly.
                    let square = if square > 1e-6 * sum { square } else { square_distance(isa, points.point(a), points.point(b)) };
                    distances[column] = square.sqrt();
                }
                for (clusters, sums) in clusterings.iter().zip(&mut sums) {
                    let sums = &mut sums[row * clusters.sizes.len()..][..clusters.sizes.len()];
                    for (column, distance) in distances[..columns].iter().enumerate() {
                        sums[clusters.of[other * CHUNK + column] as usize] += distance;
                    }
                }
            }
        }
        let silhouette = |clusters: &Clusters, own: usize, sums: &[f64]| {
            if clusters.sizes[own] < 2 {
                return 0.0;
            }
            let inside = sums[own] / (clusters.sizes[own] - 1) as f64;
            let others = (0..sums.len()).filter(|&other| other != own && clusters.sizes[other] > 0);
            let outside = others.map(|other| sums[other] / clusters.sizes[other] as f64).fold(f64::INFINITY, f64::min);
            let larger = inside.max(outside);
            if larger > 0.0 { (outside - inside) / larger } else { 0.0 }
        };
        let mean = |(clusters, sums): (&&Clusters, &Vec<f64>)| {
            let own = sums.chunks_exact(clusters.sizes.len()).enumerate();
            own.map(|(row, sums)| silhouette(clusters, clusters.of[first + row] as usize, sums)).sum::<f64>()
        };
        clusterings.iter().zip(&sums).map(mean).collect::<Vec<f64>>()
    });
    let defined = |clusters: &Clusters| (2..n).contains(&clusters.used());
    let total = |at: usize| parts.iter().map(|part| part[at]).sum::<f64>() / n as f64;
    clusterings.iter().enumerate().map(|(at, clusters)| defined(clusters).then(|| total(at))).collect()
}

pub(super) static COMPUTATION: Computation = Computation::of_sketches(compute);

/// The rows of the kept sample for every number of clusters.
fn compute(evaluation: &Evaluation<'_>, rows: &mut Rows) -> Result<()> {
    let (clusters, threads) = (&evaluation.settings.clusters, evaluation.settings.threads);
    if !rows.selection.is_of_sample() || clusters.is_empty() {
        return Ok(());
    }
    let Some(sample) = evaluation.sample().filter(|sample| !sample.is_empty()) else { return Ok(()) };
    let points = Points::new(&sample.states(), sample.dim());
    let tokens: Vec<u32> = sample.iter().map(|kept| kept.key.token).collect();
    let found: Vec<Option<Clusters>> = in_order(threads, clusters.len(), |at| Clusters::new(&points, clusters[at]));
    let known: Vec<&Clusters> = found.iter().flatten().collect();
    let mut silhouettes = silhouettes(&points, &known, threads).into_iter();
    let n = sample.len() as u64;
    let mut values = Vec::new();
    for (k, found) in clusters.iter().zip(&found) {
        let ratio = |(within, all): (f64, f64)| (all > 0.0).then(|| within / all);
        values.push((
            format!("k={k}"),
            [
                found.as_ref().and_then(|clusters| ratio(clusters.variances(&points))),
                found.as_ref().and_then(|clusters| clusters.calinski_harabasz(&points)),
                found.as_ref().and_then(|_| silhouettes.next().flatten()),
                found.as_ref().and_then(|clusters| adjusted_mutual_information(&clusters.of, &tokens)),
            ],
        ));
    }
    for (at, measure) in ["v_within_over_v", "calinski_harabasz", "silhouette", "adjusted_mutual_information"].into_iter().enumerate() {
        values.iter().for_each(|(variant, values)| rows.push_variant(measure, variant, Estimate::new(values[at], n)));
    }
    Ok(())
}
