//! Single measures on data of known answer, and against their definitions.

mod support;

use std::collections::BTreeMap;

use layerscope_stats::NOT_COUNTED;
use layerscope_stats::measure::{
    BlockErrors, Clusters, MatrixTables, Points, Selection, log_partition, matrix_tables, max_explainable_variance, silhouettes,
};
use layerscope_stats::sketch::DocumentBlocks;
use layerscope_testing::eigen::jacobi_vectors;
use layerscope_testing::made_up_states::{Data, Random};
use support::definitions as naive;
use support::network::{CHOSEN, Network, Run, everything, value, wide};
use support::spectrum::{Oracle, mean, naive_covariance};

#[test]
fn straight_and_turning_sequences() {
    // A straight line: curvature 0 to the last digit. Right angles: pi / 2. Back and forth: pi. Repeated states are no steps.
    let line: Vec<[f32; 2]> = (0..6).map(|at| [at as f32, 0.3 * at as f32]).collect();
    let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [4.0, 2.0], [4.0, 3.0]];
    let back: Vec<[f32; 2]> = (0..6).map(|at| [(at % 2) as f32, 0.5]).collect();
    for (states, angle, tolerance) in
        [(line, 0.0, 1e-7), (corners.to_vec(), std::f64::consts::FRAC_PI_2, 1e-15), (back, std::f64::consts::PI, 1e-15)]
    {
        let data = Data {
            name: "turns",
            dim: 2,
            groups: 1,
            states: states.concat(),
            ids: vec![0; 6],
            lengths: vec![6],
            massive: None,
            unselectable: Vec::new(),
        };
        let network = Network { points: vec![data] };
        let ours = value(&Run::whole(&network, 10).tables(0, &everything()), Selection::All, "curvature", None);
        assert!((ours - angle).abs() <= tolerance * 4.0, "{ours} {angle}");
    }
}

#[test]
fn partitions_of_symmetric_sets_do_not_depend_on_signs() {
    let mut random = Random::new(3);
    let half: Vec<f32> = (0..40 * 5).map(|at| (random.normal() * [1.0, 0.2, 3.0, 0.7, 0.1][at % 5]) as f32).collect();
    let both: Vec<f32> = half.iter().chain(&half).copied().enumerate().map(|(at, x)| if at < 200 { x } else { -x }).collect();
    let found = log_partition(&both, 5, false).unwrap();
    assert!((found.default - found.machina).abs() < 1e-12 && found.default < 0.0);
    let found = log_partition(&half, 5, false).unwrap();
    assert!(found.default <= found.machina && found.machina <= 0.0);
    // An isotropic set: plus and minus every axis.
    let axes: Vec<f32> = (0..6).flat_map(|at| (0..3).map(move |i| if i == at / 2 { [1.0, -1.0][at % 2] } else { 0.0 })).collect();
    assert!(log_partition(&axes, 3, false).unwrap().default.abs() < 1e-12);
    assert_eq!(log_partition(&[], 3, false), None);
    // Exponents beyond f64.
    let large: Vec<f32> = half.iter().map(|x| x * 1e4).collect();
    let states: naive::States = large.chunks(5).map(wide).collect();
    let (ours, theirs) = (log_partition(&large, 5, true).unwrap().default, naive::log_partition(&states, true));
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{ours} {theirs}");
}

#[test]
fn clusters_are_what_k_means_leaves_and_their_measures_equal_the_definitions() {
    let mut random = Random::new(77);
    let blobs: Vec<f32> = (0..700)
        .flat_map(|at| {
            let center = [(at % 4) as f64 * 20.0, ((at % 4) * (at % 4)) as f64 * 7.0, 5.0];
            center.map(|center| (center + random.normal()) as f32)
        })
        .collect();
    let states: naive::States = blobs.chunks(3).map(wide).collect();
    let points = Points::new(&blobs, 3);
    for k in [2, 4, 9] {
        let clusters = Clusters::new(&points, k).unwrap();
        assert_eq!(clusters.sizes.iter().sum::<u64>(), 700);
        let means: naive::States = (0..k as u32)
            .map(|cluster| {
                mean(&states.iter().zip(&clusters.of).filter(|(_, own)| **own == cluster).map(|(x, _)| x.clone()).collect::<Vec<_>>(), 3)
            })
            .collect();
        for (x, &own) in states.iter().zip(&clusters.of) {
            let apart = |cluster: usize| naive::norm(&naive::minus(x, &means[cluster]));
            assert!((0..k).all(|other| apart(own as usize) <= apart(other) + 1e-9), "nearest to its own mean");
        }
        let (within, between) = naive::variances(&states, &clusters.of);
        let (ours, all) = clusters.variances(&points);
        assert!((ours - within).abs() <= 1e-10 * all && (all - within - between).abs() <= 1e-10 * all);
        let index = (between / (k as f64 - 1.0)) / (within / (700.0 - k as f64));
        assert!((clusters.calinski_harabasz(&points).unwrap() - index).abs() <= 1e-9 * index);
        let ours = silhouettes(&points, &[&clusters], 2)[0].unwrap();
        assert!((ours - naive::silhouette(&states, &clusters.of)).abs() < 1e-10);
        if k == 4 {
            assert!((0..700).all(|at| clusters.of[at] == clusters.of[at % 4]), "four blobs are four clusters");
        }
    }
    // Two antipodal clusters, all but points: silhouette near 1.
    let poles: Vec<f32> = (0..40).flat_map(|at| [if at % 2 == 0 { 1.0 } else { -1.0 }, at as f32 * 1e-6]).collect();
    let points = Points::new(&poles, 2);
    let two = Clusters::new(&points, 2).unwrap();
    assert!(silhouettes(&points, &[&two], 1)[0].unwrap() > 0.9999 && two.of[0] != two.of[1]);
    // No more clusters than different points.
    assert_eq!(Clusters::new(&Points::new(&[1.0; 8], 2), 2), None);
    assert_eq!(Clusters::new(&Points::new(&[1.0, 2.0], 2), 2), None);
}

#[test]
fn tokens_lie_in_the_plane_of_their_means() {
    let network = Network::new(59, 900, 8);
    let run = Run::whole(&network, 50);
    let tables = run.tables(1, &everything());
    let view = run.moments(1).all().unwrap();
    let means: BTreeMap<u32, Vec<f64>> =
        view.groups().filter(|(id, _)| CHOSEN.contains(id)).map(|(id, group)| (id, group.mean.to_vec())).collect();
    // PCA of the means and the origin by its definition.
    let fitted: naive::States = means.values().cloned().chain([vec![0.0; 8]]).collect();
    let (values, axes) = jacobi_vectors(&naive_covariance(&fitted, 8, true), 8);
    let whole: f64 = values.iter().sum();
    let signed = |axis: &[f64]| {
        let largest = axis.iter().copied().fold(0.0f64, |largest, x| if x.abs() > largest.abs() { x } else { largest });
        axis.iter().map(|x| x * largest.signum()).collect::<Vec<f64>>()
    };
    let (first, second) = (signed(&axes[0]), signed(&axes[1]));
    let places = network.places();
    let row_of = |document: u64, position: u32| places.iter().position(|place| *place == (document, position)).unwrap();
    assert!(tables.all.tokens.len() > means.len());
    for row in &tables.all.tokens {
        let state = row
            .state
            .map_or_else(|| means[&row.group].clone(), |(document, position)| wide(network.points[1].row(row_of(document, position))));
        assert!((row.x - naive::dot(&state, &first)).abs() < 1e-9 && (row.y - naive::dot(&state, &second)).abs() < 1e-9, "{row:?}");
        assert_eq!(row.explainable_variance.is_some(), row.state.is_none());
        assert_eq!(row.explained.is_some(), row.state.is_none());
        row.explained.iter().flatten().zip(&values).for_each(|(share, value)| assert!((share - value / whole).abs() < 1e-12, "{row:?}"));
        assert_eq!(row.n, view.groups().find(|(id, _)| *id == row.group).unwrap().1.n);
    }
    let sample = run.tokens[1].get(0).unwrap();
    let states: naive::States = sample.iter().map(|kept| wide(kept.state)).collect();
    assert!((max_explainable_variance(sample).unwrap() - naive::explainable(&states)).abs() < 1e-12);
}

/// Q, M and the mean cosine without each block of documents that has states, by their definitions.
fn without_each_block(network: &Network, point: usize) -> Vec<[f64; 3]> {
    let (data, places) = (&network.points[point], network.places());
    let (dim, block) = (data.dim, |row: usize| DocumentBlocks::block_of(places[row].0));
    let counted: Vec<usize> = (0..data.ids.len()).filter(|&row| data.ids[row] != NOT_COUNTED).collect();
    let used = (0..20).filter(|&at| counted.iter().any(|&row| block(row) == at));
    let replicate = |deleted: usize| {
        let states: naive::States = counted.iter().filter(|&&row| block(row) != deleted).map(|&row| wide(data.row(row))).collect();
        let n = states.len() as f64;
        let q = states.iter().map(|x| naive::dot(x, x)).sum::<f64>() / n;
        let mu = mean(&states, dim);
        let sum: Vec<f64> = (0..dim).map(|i| states.iter().map(|x| x[i] / naive::norm(x)).sum()).collect();
        [q, naive::dot(&mu, &mu), (naive::dot(&sum, &sum) - n) / (n * (n - 1.0))]
    };
    used.map(replicate).collect()
}

/// sqrt((k - 1) / k sum (x - mean)^2), and whether three errors are those of the replicates.
fn expect_errors(errors: &BlockErrors, replicates: &[[f64; 3]]) {
    let k = replicates.len() as f64;
    let error = |at: usize| {
        let mean = replicates.iter().map(|values| values[at]).sum::<f64>() / k;
        ((k - 1.0) / k * replicates.iter().map(|values| (values[at] - mean).powi(2)).sum::<f64>()).sqrt()
    };
    for (ours, theirs) in [(errors.q, error(0)), (errors.m, error(1)), (errors.mean_cosine, error(2))] {
        assert!((ours.unwrap() - theirs).abs() <= 1e-9 * theirs, "{ours:?} {theirs}");
    }
}

#[test]
fn errors_of_differences_leave_a_block_out_of_both() {
    let network = Network::new(61, 1200, 6);
    let run = Run::whole(&network, 50);
    let blocks = |point: usize| run.sketches(point).get::<DocumentBlocks>().unwrap();
    let (one, other) = (without_each_block(&network, 0), without_each_block(&network, 1));
    let differences: Vec<[f64; 3]> = one.iter().zip(&other).map(|(one, other)| [0, 1, 2].map(|at| other[at] - one[at])).collect();
    expect_errors(&BlockErrors::of_difference(blocks(0), blocks(1)).unwrap(), &differences);
    let itself = BlockErrors::of_difference(blocks(0), blocks(0)).unwrap();
    assert_eq!(itself, BlockErrors { q: Some(0.0), m: Some(0.0), mean_cosine: Some(0.0) });
    let nothing = BlockErrors::of_difference(&DocumentBlocks::new(6), &DocumentBlocks::new(6)).unwrap();
    assert_eq!(nothing, BlockErrors { q: None, m: None, mean_cosine: None });
}

#[test]
fn errors_from_blocks_of_documents_equal_the_naive_jackknife() {
    let network = Network::new(60, 1200, 6);
    let run = Run::whole(&network, 50);
    let errors = BlockErrors::new(run.sketches(0).get().unwrap()).unwrap();
    expect_errors(&errors, &without_each_block(&network, 0));
    let rows = run.all_tables(0, &everything()).layers;
    for row in rows.iter().filter(|row| ["q", "m", "mean_cosine"].contains(&row.measure)) {
        assert_eq!(row.se.is_some(), row.selection == Selection::All && row.variant.is_none(), "{row:?}");
    }
    let error = |measure: &str| rows.iter().find(|row| row.measure == measure).unwrap().se;
    assert_eq!([error("q"), error("m"), error("mean_cosine")], [errors.q, errors.m, errors.mean_cosine]);
}

#[test]
fn a_matrix_of_weights_has_cosine_spectrum_and_partition() {
    let mut random = Random::new(5);
    let matrix: Vec<f32> = (0..1500 * 12).map(|at| (random.normal() + (at % 12) as f64 * 0.1) as f32).collect();
    let MatrixTables { rows, spectrum, images } = matrix_tables(&matrix, 12).unwrap();
    let states: naive::States = matrix.chunks(12).map(wide).collect();
    let oracle = Oracle::new(&states, 12, true);
    let find = |measure: &str, variant: Option<&str>| {
        rows.iter().find(|row| row.measure == measure && row.variant.as_deref() == variant).unwrap().value.unwrap()
    };
    assert!((find("isoscore", None) - oracle.isoscore().unwrap()).abs() < 1e-12);
    assert!((find("partition", Some("default")) - naive::log_partition(&states, false).exp()).abs() < 1e-10);
    assert!((find("partition", Some("default_centred")) - naive::log_partition(&states, true).exp()).abs() < 1e-10);
    let units: naive::States = states.iter().map(|x| x.iter().map(|value| value / naive::norm(x)).collect()).collect();
    let sum: Vec<f64> = (0..12).map(|i| units.iter().map(|x| x[i]).sum()).collect();
    assert!((find("mean_cosine", None) - (naive::dot(&sum, &sum) - 1500.0) / (1500.0 * 1499.0)).abs() < 1e-12);
    assert!(spectrum.iter().zip(&oracle.values).all(|(a, b)| (a - b).abs() < 1e-12 * oracle.values[0]));
    // By definition W^T (W v) = sigma^2 v; so with x = W v, W W^T x = sigma^2 x, sigma^2 the largest and second of W^T W.
    let squares = Oracle::new(&states, 12, false).values;
    for (axis, square) in [0, 1].into_iter().zip(&squares) {
        let x: Vec<f64> = images.iter().map(|image| image[axis]).collect();
        let back: Vec<f64> = (0..12).map(|i| states.iter().zip(&x).map(|(w, x)| w[i] * x).sum()).collect();
        let sigma2 = naive::dot(&x, &x);
        assert!((sigma2 / 1500.0 - square).abs() < 1e-10 * squares[0], "{sigma2} {square}");
        assert!(states.iter().zip(&x).all(|(w, x)| (naive::dot(w, &back) - sigma2 * x).abs() < 1e-8 * sigma2 * sigma2.sqrt()));
        let largest = back.iter().fold(0.0f64, |largest, v| if v.abs() > largest.abs() { *v } else { largest });
        assert!(largest > 0.0, "the largest component of v is positive");
    }
}
