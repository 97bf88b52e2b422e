//! Everything beyond norms and cosines, through the calls that a run makes, against the definitions taken literally.

mod support;

use std::collections::BTreeMap;

use layerscope_stats::measure::{Family, MEASURES, PointInputs, PointTables, Selection, Settings, needs};
use layerscope_stats::sketch::{Mergeable, SketchKind, SketchSet, SketchShape, Sketches, Tensors, sample_hash};
use layerscope_stats::{NOT_COUNTED, PointState};
use layerscope_testing::made_up_states::Data;
use support::definitions as naive;
use support::network::{CHOSEN, Network, Run, all_sketches, everything, wide};
use support::spectrum::{Oracle, isoscore_of, naive_covariance};

const TOLERANCE: f64 = 1e-8;

/// Whether a row enters the statistics at a point: all counted ones, or those that are not massive.
fn belongs(data: &Data, row: usize, typical: bool) -> bool {
    let is_massive = || data.massive.is_some_and(|threshold| naive::norm(&wide(data.row(row))) > threshold);
    data.ids[row] != NOT_COUNTED && !(typical && is_massive())
}

fn counted(data: &Data, typical: bool) -> naive::States {
    (0..data.ids.len()).filter(|&row| belongs(data, row, typical)).map(|row| wide(data.row(row))).collect()
}

fn sequences(data: &Data, typical: bool) -> Vec<naive::States> {
    let mut start = 0;
    let mut all = Vec::new();
    for length in &data.lengths {
        all.push((start..start + length).filter(|&row| belongs(data, row, typical)).map(|row| wide(data.row(row))).collect());
        start += length;
    }
    all
}

/// The same rows at a point and at the next; typical ones are typical at both.
fn pairs(this: &Data, next: &Data, typical: bool) -> (naive::States, naive::States) {
    let rows = || (0..this.ids.len()).filter(|&row| belongs(this, row, typical) && belongs(next, row, typical));
    (rows().map(|row| wide(this.row(row))).collect(), rows().map(|row| wide(next.row(row))).collect())
}

/// Massive components as Sun et al. define them.
fn massive_components(states: &naive::States) -> usize {
    let of_state = |x: &Vec<f64>| {
        let mut sizes: Vec<f64> = x.iter().map(|a| a.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes.len() / 2;
        let median = if sizes.len() % 2 == 1 { sizes[middle] } else { (sizes[middle - 1] + sizes[middle]) / 2.0 };
        sizes.iter().filter(|a| **a > 100.0 && **a > 1000.0 * median).count()
    };
    states.iter().map(of_state).sum()
}

fn average(values: impl Iterator<Item = Option<f64>>) -> (Option<f64>, u64) {
    let known: Vec<f64> = values.flatten().collect();
    ((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64), known.len() as u64)
}

/// The kept states in hash order, found by sorting all of them.
fn kept(network: &Network, at: usize, k: usize, typical: bool) -> Vec<(u32, Vec<f64>)> {
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

struct Row {
    value: Option<f64>,
    n: u64,
    scale: f64,
}

/// Every row that a point has, by its definition.
fn expected(network: &Network, at: usize, k: usize) -> BTreeMap<(&'static str, &'static str, String), Row> {
    let mut rows = expected_of(network, at, k, false);
    rows.extend(expected_of(network, at, k, true));
    rows
}

/// The rows of all states, or of the typical ones.
fn expected_of(network: &Network, at: usize, k: usize, typical: bool) -> BTreeMap<(&'static str, &'static str, String), Row> {
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

fn check(network: &Network, run: &Run, k: usize) {
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

#[test]
fn every_row_equals_its_definition() {
    let network = Network::new(51, 1500, 22);
    check(&network, &Run::whole(&network, 400), 400);
}

#[test]
fn batches_of_the_sample_are_of_4096_states() {
    let network = Network::new(52, 9000, 10);
    check(&network, &Run::whole(&network, 8500), 8500);
}

#[test]
fn rows_come_in_the_order_of_the_table_and_together_with_the_others_all_of_them() {
    let network = Network::new(53, 800, 12);
    let run = Run::whole(&network, 300);
    let tables = run.tables(0, &everything());
    for selection in [Selection::All, Selection::Typical, Selection::Sample, Selection::TypicalSample] {
        let mut names: Vec<&str> = tables.layers.iter().filter(|row| row.selection == selection).map(|row| row.measure).collect();
        names.dedup();
        // Clusters have a measure of the norms, which comes with them.
        names.retain(|name| *name != "v_within_over_v");
        let order: Vec<&str> = MEASURES.iter().map(|measure| measure.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, order, "{selection:?}");
    }
    let rows = run.all_tables(0, &Settings { frequency: Some(1..=1000), ..everything() }).layers;
    for measure in MEASURES {
        assert!(rows.iter().any(|row| row.measure == measure.name), "{} is in no table", measure.name);
        for variant in measure.variants.iter().filter(|variant| !["...", "k=K", "n0=30"].contains(variant)) {
            assert!(
                rows.iter().any(|row| row.measure == measure.name && row.variant.as_deref() == Some(variant)),
                "{} {variant}",
                measure.name
            );
        }
    }
    for row in &rows {
        let measure = MEASURES.iter().find(|measure| measure.name == row.measure).unwrap_or_else(|| panic!("{row:?} is no measure"));
        let counted = |variant: &str| variant.starts_with("k=") || variant.starts_with("n0=");
        let known = row.variant.as_deref().is_none_or(|variant| counted(variant) || measure.variants.contains(&variant));
        assert!(known, "{row:?}");
        assert!(measure.variants.contains(&"k=K") || !row.variant.as_deref().is_some_and(|variant| variant.starts_with("k=")), "{row:?}");
    }
}

#[test]
fn only_what_is_wanted_is_kept_and_computed() {
    use SketchKind::{Blocks, Covariance, Pairs, Peaks, Sample, Shapes, Units};
    assert_eq!(needs(&[Family::Norm]), SketchSet::default());
    assert_eq!(needs(&[Family::Norm, Family::Cosine]), SketchSet::of(&[Units]));
    assert_eq!(needs(&Family::DEFAULT), SketchSet::of(&[Units, Covariance, Sample]));
    assert_eq!(needs(&[Family::Layers]), SketchSet::of(&[Covariance, Pairs, Peaks]));
    assert_eq!(needs(&[Family::Sequence]), SketchSet::of(&[Shapes]));
    assert_eq!(needs(&[Family::Partition]), SketchSet::of(&[Sample]));
    assert_eq!(needs(&Family::SELECTABLE), all_sketches().without(Blocks));
    assert_eq!(Family::SELECTABLE.map(|family| Family::named(family.name())), Family::SELECTABLE.map(Some));
    assert_eq!(Family::named("cluster"), None);
    let network = Network::new(54, 300, 8);
    let run = Run::whole(&network, 100);
    let only = |family| Settings { families: vec![family], ..Settings::default() };
    for (family, rows) in [(Family::Norm, 0), (Family::Cosine, 4), (Family::Spectrum, 26), (Family::Dimension, 10), (Family::Partition, 16)]
    {
        assert_eq!(run.tables(0, &only(family)).layers.len(), rows, "{family:?}");
    }
}

#[test]
fn shards_give_the_same_tables_and_threads_the_same_bits() {
    let network = Network::new(55, 1200, 12);
    let whole = Run::whole(&network, 350);
    let mut merged = Run::new(&network, 350);
    let sequences = network.points[0].lengths.len();
    for shard in (0..5).rev() {
        let mut own = Run::new(&network, 350);
        own.feed(&network, shard * sequences / 5..(shard + 1) * sequences / 5, 4);
        merged.merge(&own);
    }
    for at in 0..3 {
        let (a, b) = (whole.tables(at, &everything()), merged.tables(at, &everything()));
        assert_eq!(a.layers.len(), b.layers.len());
        for (x, y) in a.layers.iter().zip(&b.layers) {
            assert_eq!((x.measure, &x.variant, x.n), (y.measure, &y.variant, y.n));
            let apart = x.value.unwrap_or(9.0) - y.value.unwrap_or(9.0);
            assert!(apart.abs() <= 1e-9 * x.value.unwrap_or(9.0).abs().max(1.0), "{x:?} {y:?}");
        }
        let one = whole.tables(at, &Settings { threads: 1, ..everything() });
        let three = whole.tables(at, &Settings { threads: 3, ..everything() });
        assert_eq!(one, three);
    }
    for at in 0..3 {
        let sketches = whole.sketches(at);
        let mut stored = Tensors(sketches.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        assert_eq!(Sketches::decode(&mut stored).unwrap(), *sketches);
        assert!(stored.0.is_empty());
        assert!(sketches.clone().merge(&Sketches::default()).is_err());
    }
}

#[test]
fn memory_is_what_the_formulas_say() {
    let network = Network::new(56, 300, 50);
    let run = Run::whole(&network, 100);
    for at in 0..3 {
        let dim = network.points[at].dim;
        let stored: usize = run.sketches(at).encode().0.values().map(|tensor| tensor.values.len() * 8).sum();
        let previous = at.checked_sub(1).map(|at| network.points[at].dim);
        let formula = Sketches::bytes(all_sketches(), &SketchShape { dim, previous, massive: None });
        assert!((stored as f64 / formula as f64 - 1.0).abs() < 0.02, "{stored} {formula}");
    }
}

#[test]
fn rotation_scaling_and_shift() {
    let network = Network::new(57, 1500, 12);
    let change = |name, change: &dyn Fn(&mut [f32])| Network {
        points: network.points.iter().map(|data| data.clone().map(name, |_, _, x| change(x))).collect(),
    };
    let (sin, cos) = 0.9f64.sin_cos();
    let turn = |x: &mut [f32]| {
        for pair in [(0, 5), (2, 7), (3, 11), (5, 6)] {
            let (a, b) = (f64::from(x[pair.0]), f64::from(x[pair.1]));
            (x[pair.0], x[pair.1]) = ((cos * a - sin * b) as f32, (sin * a + cos * b) as f32);
        }
    };
    let tables = |network: &Network| Run::whole(network, 400).tables(0, &everything());
    let plain = tables(&network);
    // Rounding rotated and shifted states to f32 moves values in the seventh digit.
    let cases = [
        ("turned", tables(&change("turned", &turn)), 2e-5),
        ("doubled", tables(&change("doubled", &|x| x.iter_mut().for_each(|x| *x *= 2.0))), 1e-12),
    ];
    for (name, other, tolerance) in cases {
        for (x, y) in plain.layers.iter().zip(&other.layers) {
            let variant = x.variant.as_deref().unwrap_or_default();
            let component_wise = name == "turned" && (x.measure.starts_with("top_variance") || variant.starts_with("machina"));
            let grows = name == "doubled" && x.measure.ends_with("partition");
            if component_wise || grows {
                continue;
            }
            let (x_value, y_value) = (x.value.unwrap_or(9.0), y.value.unwrap_or(9.0));
            assert!((x_value - y_value).abs() <= tolerance * x_value.abs().max(0.1), "{name}: {x:?} {y:?}");
        }
    }
    let shifted = tables(&change("shifted", &|x| x.iter_mut().for_each(|x| *x += 1.5)));
    let uncentred = ["rankme", "max_explainable_variance", "max_explainable_variance_adjusted"];
    for (x, y) in plain.layers.iter().zip(&shifted.layers) {
        let variant = x.variant.as_deref().unwrap_or_default();
        let moves = uncentred.contains(&x.measure) || ["default", "machina"].contains(&variant);
        let (x_value, y_value) = (x.value.unwrap_or(9.0), y.value.unwrap_or(9.0));
        if moves {
            assert!((x_value - y_value).abs() > 1e-4 * x_value.abs(), "{x:?} {y:?}");
        } else if !variant.starts_with("machina") {
            assert!((x_value - y_value).abs() <= 2e-5 * x_value.abs().max(0.1), "{x:?} {y:?}");
        }
    }
    let eigenvalues = cases_doubled(&network);
    assert!(plain.all.spectrum.iter().zip(&eigenvalues).all(|(a, b)| (4.0 * a - b).abs() <= 1e-12 * b), "eigenvalues grow by the square");
}

fn cases_doubled(network: &Network) -> Vec<f64> {
    let points = network.points.iter().map(|data| data.clone().map("doubled", |_, _, x| x.iter_mut().for_each(|x| *x *= 2.0))).collect();
    Run::whole(&Network { points }, 50).tables(0, &everything()).all.spectrum
}

/// Some rows are massive at each point, others at one or two of them.
fn with_massive(seed: u64, rows: usize, dim: usize) -> Network {
    let mut network = Network::new(seed, rows, dim);
    for (at, data) in network.points.iter_mut().enumerate() {
        let is_massive = |row: usize| row.is_multiple_of(30) || (at > 0 && row.is_multiple_of(41)) || (at == 0 && row.is_multiple_of(47));
        *data = data.clone().map("massive", |row, _, x| x[2] += if is_massive(row) { 3000.0 } else { 0.0 });
        data.massive = Some(300.0);
    }
    network
}

#[test]
fn every_row_of_typical_states_equals_its_definition() {
    let network = with_massive(58, 1500, 12);
    let run = Run::whole(&network, 400);
    check(&network, &run, 400);
    let tables = run.tables(0, &everything());
    let rows = |selection| tables.layers.iter().filter(|row| row.selection == selection).map(|row| row.value).collect::<Vec<_>>();
    assert_ne!(rows(Selection::All), rows(Selection::Typical));
    assert_ne!(rows(Selection::Sample), rows(Selection::TypicalSample));
    assert!(tables.typical.is_some() && !tables.massive.is_empty());
}

#[test]
fn shards_with_massive_states_give_the_same_tables() {
    let network = with_massive(59, 1200, 10);
    let whole = Run::whole(&network, 350);
    let mut merged = Run::new(&network, 350);
    let sequences = network.points[0].lengths.len();
    for shard in 0..4 {
        let mut own = Run::new(&network, 350);
        own.feed(&network, shard * sequences / 4..(shard + 1) * sequences / 4, 3);
        merged.merge(&own);
    }
    for at in 0..3 {
        let (a, b) = (whole.all_tables(at, &everything()), merged.all_tables(at, &everything()));
        for (x, y) in a.layers.iter().zip(&b.layers) {
            assert_eq!((x.measure, &x.variant, x.selection, x.n), (y.measure, &y.variant, y.selection, y.n));
            let apart = x.value.unwrap_or(9.0) - y.value.unwrap_or(9.0);
            assert!(apart.abs() <= 1e-8 * x.value.unwrap_or(9.0).abs().max(1.0), "{x:?} {y:?}");
        }
        let who = |tables: &PointTables| tables.massive.iter().map(|row| (row.group, row.position, row.count)).collect::<Vec<_>>();
        assert_eq!(who(&a), who(&b));
        assert_eq!(a.massive.iter().map(|row| row.count).sum::<u64>(), whole.moments(at).massive_states());
        let stored = whole.points[at].encode();
        let mut stored = Tensors(stored.0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        let back = PointState::decode(&mut stored).unwrap();
        assert_eq!(back.moments, whole.points[at].moments);
        assert_eq!(back.sketches, whole.points[at].sketches);
        assert!(stored.0.is_empty(), "{:?}", stored.0.keys());
    }
}

#[test]
fn states_of_an_older_program_have_no_typical_sequences_and_pairs() {
    let network = with_massive(60, 600, 8);
    let run = Run::whole(&network, 100);
    let old = |at: usize| {
        let newer =
            ["massive_states.", "chosen.", ".typical.sequences", ".typical.similarity", ".typical.shape", ".apart", "lenses.pairs.massive"];
        let tensors = run.points[at].encode().0.into_iter().filter(|(name, _)| !newer.iter().any(|part| name.contains(part)));
        PointState::decode(&mut Tensors(tensors.map(|(name, tensor)| (name, tensor.into_owned())).collect())).unwrap()
    };
    let (this, next) = (old(0), old(1));
    let (moments, sketches) = (&this.moments, &this.sketches);
    let inputs = PointInputs { moments, sketches, next: Some(&next.sketches), sample: None, tokens: None };
    let tables = PointTables::new(inputs, &everything()).unwrap();
    for measure in ["matrix_entropy", "curvature", "linear_cka_next", "linearity_next", "intra_sentence_similarity"] {
        let row = tables.layers.iter().find(|row| row.selection == Selection::Typical && row.measure == measure).unwrap();
        assert_eq!(row.value, None, "{measure}");
    }
    assert!(tables.massive.is_empty());
}

#[test]
fn components_of_chosen_groups_equal_their_definition() {
    let network = with_massive(61, 900, 7);
    let mut run = Run::new(&network, 50);
    for (at, group) in (0..3).flat_map(|at| [0, 3].map(|group| (at, group))) {
        run.points[at].moments.choose(group);
    }
    run.feed(&network, 0..network.points[0].lengths.len(), 5);
    for (at, data) in network.points.iter().enumerate() {
        let tables = run.all_tables(at, &everything());
        for (tables, typical) in [(&tables.all, false), (tables.typical.as_ref().unwrap(), true)] {
            assert_eq!(tables.token_components.len(), 2 * data.dim);
            for row in &tables.token_components {
                let own: Vec<f64> = (0..data.ids.len())
                    .filter(|&at| data.ids[at] == row.group && belongs(data, at, typical))
                    .map(|at| f64::from(data.row(at)[row.component as usize]))
                    .collect();
                let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / own.len() as f64;
                let mu = mean(&mut own.iter().copied());
                let q = mean(&mut own.iter().map(|x| x * x));
                let v = mean(&mut own.iter().map(|x| (x - mu).powi(2)));
                assert!(
                    (row.q - q).abs() <= 1e-12 * q && (row.variance - v).abs() <= 1e-12 * q && (row.mean - mu).abs() <= 1e-12 * q.sqrt()
                );
            }
        }
    }
}

#[test]
fn single_and_equal_states_have_no_values_and_say_why() {
    for rows in [1, 30] {
        let data = Data {
            name: "equal",
            dim: 4,
            groups: 1,
            states: [1.5, -2.0, 0.0, 3.0].repeat(rows),
            ids: vec![0; rows],
            lengths: vec![rows],
            massive: None,
            unselectable: Vec::new(),
        };
        let network = Network { points: vec![data.clone(), data] };
        let run = Run::whole(&network, 100);
        let tables = run.tables(0, &everything());
        for row in &tables.layers {
            let defined = [
                "massive_components",
                "max_explainable_variance",
                "max_explainable_variance_adjusted",
                "partition",
                "log_partition",
                "rankme",
            ];
            assert!(row.value.is_none_or(f64::is_finite));
            assert!(row.value.is_none() || defined.contains(&row.measure), "{row:?}");
        }
        assert!(tables.notes.iter().any(|note| note.starts_with("spectrum: ")), "{:?}", tables.notes);
        assert!(tables.notes.iter().any(|note| note == "dimension: 1 different states are too few"), "{:?}", tables.notes);
        let duplicates = tables.notes.iter().any(|note| note.contains("29 of 30 kept states equal an earlier one"));
        assert_eq!(duplicates, rows == 30);
    }
}
