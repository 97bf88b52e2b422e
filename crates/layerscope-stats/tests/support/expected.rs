//! What every table of a point must say, by the definitions taken literally.

use std::collections::BTreeMap;

use layerscope_stats::NOT_COUNTED;
use layerscope_stats::measure::Selection;
use layerscope_stats::sketch::sample_hash;
use layerscope_testing::made_up_states::Data;

use super::definitions as naive;
use super::network::{CHOSEN, Network, Run, everything, wide};
use super::spectrum::{Oracle, isoscore_of, naive_covariance};

const TOLERANCE: f64 = 1e-8;

/// Whether a row enters the statistics at a point: all counted ones, or those that are not massive.
pub fn belongs(data: &Data, row: usize, typical: bool) -> bool {
    let is_massive = || data.massive.is_some_and(|threshold| naive::norm(&wide(data.row(row))) > threshold);
    data.ids[row] != NOT_COUNTED && !(typical && is_massive())
}

pub fn counted(data: &Data, typical: bool) -> naive::States {
    (0..data.ids.len()).filter(|&row| belongs(data, row, typical)).map(|row| wide(data.row(row))).collect()
}

pub fn sequences(data: &Data, typical: bool) -> Vec<naive::States> {
    let mut start = 0;
    let mut all = Vec::new();
    for length in &data.lengths {
        all.push((start..start + length).filter(|&row| belongs(data, row, typical)).map(|row| wide(data.row(row))).collect());
        start += length;
    }
    all
}

/// The same rows at a point and at the next; typical ones are typical at both.
pub fn pairs(this: &Data, next: &Data, typical: bool) -> (naive::States, naive::States) {
    let rows = || (0..this.ids.len()).filter(|&row| belongs(this, row, typical) && belongs(next, row, typical));
    (rows().map(|row| wide(this.row(row))).collect(), rows().map(|row| wide(next.row(row))).collect())
}

/// Massive components as Sun et al. define them.
pub fn massive_components(states: &naive::States) -> usize {
    let of_state = |x: &Vec<f64>| {
        let mut sizes: Vec<f64> = x.iter().map(|a| a.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes.len() / 2;
        let median = if sizes.len() % 2 == 1 { sizes[middle] } else { (sizes[middle - 1] + sizes[middle]) / 2.0 };
        sizes.iter().filter(|a| **a > 100.0 && **a > 1000.0 * median).count()
    };
    states.iter().map(of_state).sum()
}

pub fn average(values: impl Iterator<Item = Option<f64>>) -> (Option<f64>, u64) {
    let known: Vec<f64> = values.flatten().collect();
    ((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64), known.len() as u64)
}

/// The kept states in hash order, found by sorting all of them.
pub fn kept(network: &Network, at: usize, k: usize, typical: bool) -> Vec<(u32, Vec<f64>)> {
    let (data, places) = (&network.points[at], network.places());
    let mut all: Vec<(u64, u64, u32, usize)> = (0..data.ids.len())
        .filter(|&row| data.ids[row] != NOT_COUNTED)
        .map(|row| (sample_hash(7, places[row].0, places[row].1), places[row].0, places[row].1, row))
        .collect();
    all.sort();
    all.truncate(k);
    let typical = |row: usize| belongs(data, row, typical);
    all.iter().filter(|(_, _, _, row)| typical(*row)).map(|&(_, _, _, row)| (data.ids[row], wide(data.row(row)))).collect()
}

pub struct Row {
    value: Option<f64>,
    n: u64,
    scale: f64,
}

/// Every row that a point has, by its definition.
pub fn expected(network: &Network, at: usize, k: usize) -> BTreeMap<(&'static str, &'static str, String), Row> {
    let mut rows = expected_of(network, at, k, false);
    rows.extend(expected_of(network, at, k, true));
    rows
}

/// The rows of all states, or of the typical ones.
pub fn expected_of(network: &Network, at: usize, k: usize, typical: bool) -> BTreeMap<(&'static str, &'static str, String), Row> {
    let data = &network.points[at];
    let (states, dim) = (counted(data, typical), data.dim);
    let (whole, sample_name) = if typical { ("typical", "typical_sample") } else { ("all", "sample") };
    let mut rows = BTreeMap::new();
    let mut put = |selection, measure, variant: &str, value: Option<f64>, n: u64, scale: f64| {
        rows.insert((selection, measure, variant.to_owned()), Row { value, n, scale });
    };
    let n = states.len() as u64;
    let (centred, uncentred) = (Oracle::new(&states, dim, true), Oracle::new(&states, dim, false));
    let covariance = naive_covariance(&states, dim, true);
    let mut variances: Vec<f64> = (0..dim).map(|i| covariance[i * dim + i]).collect();
    variances.sort_by(|a, b| b.total_cmp(a));
    let share = |k: usize| Some(variances[..k].iter().sum::<f64>() / variances.iter().sum::<f64>());
    let sum: f64 = centred.values.iter().sum();
    put(whole, "anisotropy_svd", "corpus", Some(centred.values[0] / sum), n, 1.0);
    put(whole, "isoscore", "", centred.isoscore(), n, 1.0);
    put(whole, "participation_ratio", "", Some(centred.participation_ratio()), n, centred.participation_ratio());
    put(whole, "effective_rank", "", Some(centred.effective_rank()), n, centred.effective_rank());
    put(whole, "rankme", "", Some(uncentred.rankme()), n, uncentred.rankme());
    put(whole, "stable_rank", "", Some(sum / centred.values[0]), n, sum / centred.values[0]);
    put(whole, "alpha_req", "", centred.alpha_req(), n, centred.alpha_req().unwrap_or(1.0).abs());
    put(whole, "top_variance_1", "", share(1), n, 1.0);
    put(whole, "top_variance_3", "", share(3), n, 1.0);
    put(whole, "top_variance_10", "", share(10), n, 1.0);
    let sequences = sequences(data, typical);
    let (entropy, entropies) = average(sequences.iter().map(|states| naive::matrix_entropy(states)));
    put(whole, "matrix_entropy", "", entropy, entropies, entropy.unwrap());
    let (curvature, curvatures) = average(sequences.iter().map(|states| naive::curvature(states)));
    put(whole, "curvature", "", curvature, curvatures, curvature.unwrap());
    let next = network.points.get(at + 1).map(|next| pairs(data, next, typical));
    let n_pairs = next.as_ref().map_or(0, |(this, _)| this.len() as u64);
    put(whole, "linear_cka_next", "", next.as_ref().map(|(this, next)| naive::linear_cka(this, next)), n_pairs, 1.0);
    put(whole, "linearity_next", "", next.as_ref().and_then(|(this, next)| naive::linearity(this, next)), n_pairs, 1.0);
    put(whole, "massive_components", "", Some(massive_components(&states) as f64), n, 1.0);

    let sample = kept(network, at, k, typical);
    let points: naive::States = sample.iter().map(|(_, x)| x.clone()).collect();
    let m = points.len() as u64;
    // Batches of 4096, the last one dropped unless it is alone.
    let batches: Vec<&[Vec<f64>]> = if points.len() < 4096 { vec![&points] } else { points.chunks_exact(4096).collect() };
    let used = batches.iter().map(|batch| batch.len() as u64).sum();
    let ratios: Vec<f64> =
        batches.iter().map(|batch| Oracle::new(batch, dim, true)).map(|o| o.values[0] / o.values.iter().sum::<f64>()).collect();
    let count = ratios.len() as f64;
    let ratio = ratios.iter().sum::<f64>() / count;
    let spread = (ratios.iter().map(|x| (x - ratio).powi(2)).sum::<f64>() / count).sqrt();
    put(sample_name, "anisotropy_svd", "batch4096", Some(ratio), used, 1.0);
    put(sample_name, "anisotropy_svd", "batch4096_std", (ratios.len() > 1).then_some(spread), used, 1.0);
    let star = |batch: &&[Vec<f64>]| {
        let own = naive_covariance(batch, dim, true);
        isoscore_of(&own.iter().zip(&covariance).map(|(own, all)| 0.25 * own + 0.75 * all).collect::<Vec<f64>>(), dim)
    };
    put(sample_name, "isoscore_star", "", Some(batches.iter().map(star).sum::<f64>() / count), used, 1.0);
    for (suffix, center) in [("", false), ("_centred", true)] {
        let value = naive::log_partition(&points, center);
        put(sample_name, "log_partition", &format!("default{suffix}"), Some(value), m, value.abs());
        put(sample_name, "partition", &format!("default{suffix}"), Some(value.exp()), m, value.exp());
    }
    let of_token = |token: u32| {
        let own: Vec<(u32, Vec<f64>)> = kept(network, at, usize::MAX, false).into_iter().filter(|(id, _)| *id == token).take(30).collect();
        let own: Vec<(u32, Vec<f64>)> =
            own.into_iter().filter(|(_, x)| !typical || data.massive.is_none_or(|threshold| naive::norm(x) <= threshold)).collect();
        (!own.is_empty()).then(|| naive::explainable(&own.into_iter().map(|(_, x)| x).collect::<Vec<_>>()))
    };
    let (explainable, tokens) = average(CHOSEN.iter().map(|&token| of_token(token)));
    let overall = uncentred.values[0] / uncentred.values.iter().sum::<f64>();
    put(sample_name, "max_explainable_variance", "", explainable, tokens, 1.0);
    put(sample_name, "max_explainable_variance_adjusted", "", explainable.map(|value| value - overall), tokens, 1.0);
    rows
}

pub fn check(network: &Network, run: &Run, k: usize) {
    for at in 0..network.points.len() {
        let tables = run.tables(at, &everything());
        let mut expected = expected(network, at, k);
        for row in &tables.layers {
            let variant = row.variant.clone().unwrap_or_default();
            let what = format!("point {at}: {} {} {variant}", row.selection.name(), row.measure);
            // Compared in tests of their own: dimension.rs, the clusters below; the sign of `machina` is the solver's.
            if row.measure == "intrinsic_dimension" || variant.starts_with("k=") || variant.starts_with("machina") {
                assert!(matches!(row.selection, Selection::Sample | Selection::TypicalSample));
                continue;
            }
            let theirs = expected.remove(&(row.selection.name(), row.measure, variant)).unwrap_or_else(|| panic!("{what} is not expected"));
            assert_eq!(row.n, theirs.n, "{what}");
            match (row.value, theirs.value) {
                (Some(ours), Some(value)) => assert!((ours - value).abs() <= TOLERANCE * theirs.scale, "{what}: {ours} instead of {value}"),
                (ours, value) => assert_eq!(ours, value, "{what}"),
            }
        }
        let missing: Vec<_> = expected.keys().collect();
        assert!(missing.is_empty(), "point {at} lacks {missing:?}");
        for (tables, typical) in [Some(&tables.all), tables.typical.as_ref()].into_iter().zip([false, true]) {
            let Some(tables) = tables else { continue };
            let theirs = Oracle::new(&counted(&network.points[at], typical), network.points[at].dim, true).values;
            assert_eq!(tables.spectrum.len(), theirs.len());
            assert!(tables.spectrum.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= 1e-12 * theirs[0]));
        }
    }
}
