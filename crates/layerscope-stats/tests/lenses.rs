//! Everything beyond norms and cosines, through the calls that a run makes, against the definitions taken literally.

mod support;

use std::collections::BTreeMap;

use layerscope_stats::measure::{
    Clusters, Family, LayerRow, LensInputs, LensSettings, LensTables, MEASURES, PointTables, Points, Selection, Settings, log_partition,
    matrix_rows, max_explainable_variance, needs, silhouettes,
};
use layerscope_stats::sketch::{
    DocumentBlocks, HashSample, LensSpace, Lenses, PointSketch, SampleKey, Sketch, SketchSet, Tensors, TokenSamples, sample_hash,
};
use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};
use support::lenses as naive;
use support::spectrum::{Oracle, isoscore_of, mean, naive_covariance};
use support::{Data, Random};

const TOLERANCE: f64 = 1e-8;

/// States of one corpus at three points; the last has another width.
struct Network {
    points: Vec<Data>,
}

impl Network {
    fn new(seed: u64, rows: usize, dim: usize) -> Network {
        let first = Data::zipf(seed, rows, dim, 40);
        let mut random = Random::new(seed + 1);
        let map: Vec<f64> = (0..dim * dim).map(|_| random.normal() / (dim as f64).sqrt()).collect();
        let second = first.clone().map("second", |_, _, x| {
            let old: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            for (i, x) in x.iter_mut().enumerate() {
                let sum: f64 = (0..old.len()).map(|j| map[i * dim + j] * old[j]).sum();
                *x = (old[i] + sum.tanh() + 0.1 * random.normal()) as f32;
            }
        });
        let width = dim + 3;
        let third = Data {
            dim: width,
            states: second
                .states
                .chunks(dim)
                .flat_map(|x| (0..width).map(|i| x[i % dim].max(0.1 * x[(i + 1) % dim])).collect::<Vec<f32>>())
                .collect(),
            ..second.clone()
        };
        Network { points: vec![first, second, third] }
    }

    /// Document and position of every row: sequences are documents.
    fn places(&self) -> Vec<(u64, u32)> {
        self.points[0]
            .lengths
            .iter()
            .enumerate()
            .flat_map(|(document, &length)| (0..length as u32).map(move |at| (document as u64, at)))
            .collect()
    }
}

/// What a run has accumulated.
struct Run {
    sketches: Vec<PointSketch>,
    lenses: Vec<Lenses>,
    samples: Vec<HashSample>,
    tokens: Vec<TokenSamples>,
}

const ALL: SketchSet = SketchSet { covariance: true, pairs: true, sequences: true, sample: true, blocks: true };
const CHOSEN: [u32; 4] = [0, 1, 3, 39];

impl Run {
    fn new(network: &Network, kept: usize) -> Run {
        let points = &network.points;
        let previous = |at: usize| at.checked_sub(1).map(|at| points[at].dim);
        Run {
            sketches: points.iter().map(|data| data.empty_sketch()).collect(),
            lenses: (0..points.len()).map(|at| Lenses::new(ALL, points[at].dim, previous(at), points[at].massive)).collect(),
            samples: points.iter().map(|data| HashSample::new(kept, data.dim)).collect(),
            tokens: points.iter().map(|data| TokenSamples::new(CHOSEN, 30, data.dim)).collect(),
        }
    }

    /// Batch by batch, point by point, as a worker does.
    fn feed(&mut self, network: &Network, sequences: std::ops::Range<usize>, per_batch: usize) {
        let places = network.places();
        let mut space = LensSpace::new();
        let lengths = &network.points[0].lengths;
        let mut row0: usize = lengths[..sequences.start].iter().sum();
        for first in sequences.clone().step_by(per_batch) {
            let mut offsets = vec![0u32];
            for length in &lengths[first..(first + per_batch).min(sequences.end)] {
                offsets.push(offsets.last().unwrap() + *length as u32);
            }
            let rows = *offsets.last().unwrap() as usize;
            space.start_batch();
            for (at, data) in network.points.iter().enumerate() {
                let ids = &data.ids[row0..row0 + rows];
                let segments = Segments::new(ids);
                let states = &data.states[row0 * data.dim..(row0 + rows) * data.dim];
                let batch = BatchRows::new(states, data.dim, &segments, &offsets).unwrap();
                let documents: Vec<u64> = places[row0..row0 + rows].iter().map(|place| place.0).collect();
                space.prepare(ALL, data.massive, &batch).unwrap();
                self.lenses[at].absorb(&space, &batch, Some(&documents)).unwrap();
                self.sketches[at].update(&batch).unwrap();
                for &row in segments.counted() {
                    let (document, position) = places[row0 + row as usize];
                    let (hash, token) = (sample_hash(7, document, position), ids[row as usize]);
                    let key = SampleKey { document, position, token };
                    self.samples[at].offer(hash, key, batch.state(row)).unwrap();
                    self.tokens[at].offer(token, hash, key, batch.state(row)).unwrap();
                }
            }
            row0 += rows;
        }
    }

    fn whole(network: &Network, kept: usize) -> Run {
        let mut run = Run::new(network, kept);
        run.feed(network, 0..network.points[0].lengths.len(), 9);
        run
    }

    fn merge(&mut self, other: &Run) {
        self.sketches.iter_mut().zip(&other.sketches).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.lenses.iter_mut().zip(&other.lenses).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.samples.iter_mut().zip(&other.samples).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(ours, theirs)| ours.merge(theirs).unwrap());
    }

    fn tables(&self, at: usize, settings: &LensSettings) -> LensTables {
        let inputs = LensInputs {
            point: &self.sketches[at],
            lenses: &self.lenses[at],
            next: self.lenses.get(at + 1),
            sample: Some(&self.samples[at]),
            tokens: Some(&self.tokens[at]),
        };
        LensTables::new(inputs, settings).unwrap()
    }
}

fn everything() -> LensSettings {
    LensSettings { families: Family::SELECTABLE.to_vec(), clusters: vec![3, 8], threads: 2, ..LensSettings::default() }
}

fn wide(states: &[f32]) -> Vec<f64> {
    states.iter().map(|x| f64::from(*x)).collect()
}

fn counted(data: &Data) -> naive::States {
    (0..data.ids.len()).filter(|&row| data.ids[row] != NOT_COUNTED).map(|row| wide(data.row(row))).collect()
}

fn sequences(data: &Data) -> Vec<naive::States> {
    let mut start = 0;
    let mut all = Vec::new();
    for length in &data.lengths {
        all.push((start..start + length).filter(|&row| data.ids[row] != NOT_COUNTED).map(|row| wide(data.row(row))).collect());
        start += length;
    }
    all
}

fn average(values: impl Iterator<Item = Option<f64>>) -> (Option<f64>, u64) {
    let known: Vec<f64> = values.flatten().collect();
    ((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64), known.len() as u64)
}

/// The kept states in hash order, found by sorting all of them.
fn kept(network: &Network, at: usize, k: usize) -> Vec<(u32, Vec<f64>)> {
    let (data, places) = (&network.points[at], network.places());
    let mut all: Vec<(u64, u64, u32, usize)> = (0..data.ids.len())
        .filter(|&row| data.ids[row] != NOT_COUNTED)
        .map(|row| (sample_hash(7, places[row].0, places[row].1), places[row].0, places[row].1, row))
        .collect();
    all.sort();
    all.truncate(k);
    all.iter().map(|&(_, _, _, row)| (data.ids[row], wide(data.row(row)))).collect()
}

struct Row {
    value: Option<f64>,
    n: u64,
    scale: f64,
}

/// Every row that a point has, by its definition.
fn expected(network: &Network, at: usize, k: usize) -> BTreeMap<(&'static str, &'static str, String), Row> {
    let data = &network.points[at];
    let (states, dim) = (counted(data), data.dim);
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
    for selection in ["all", "typical"] {
        put(selection, "anisotropy_svd", "corpus", Some(centred.values[0] / sum), n, 1.0);
        put(selection, "isoscore", "", centred.isoscore(), n, 1.0);
        put(selection, "participation_ratio", "", Some(centred.participation_ratio()), n, centred.participation_ratio());
        put(selection, "effective_rank", "", Some(centred.effective_rank()), n, centred.effective_rank());
        put(selection, "rankme", "", Some(uncentred.rankme()), n, uncentred.rankme());
        put(selection, "stable_rank", "", Some(sum / centred.values[0]), n, sum / centred.values[0]);
        put(selection, "alpha_req", "", centred.alpha_req(), n, centred.alpha_req().unwrap_or(1.0).abs());
        put(selection, "top_variance_1", "", share(1), n, 1.0);
        put(selection, "top_variance_3", "", share(3), n, 1.0);
        put(selection, "top_variance_10", "", share(10), n, 1.0);
    }
    let sequences = sequences(data);
    let (entropy, entropies) = average(sequences.iter().map(|states| naive::matrix_entropy(states)));
    put("all", "matrix_entropy", "", entropy, entropies, entropy.unwrap());
    let (curvature, curvatures) = average(sequences.iter().map(|states| naive::curvature(states)));
    put("all", "curvature", "", curvature, curvatures, curvature.unwrap());
    let next = network.points.get(at + 1).map(counted);
    let pairs = next.as_ref().map_or(0, |_| n);
    put("all", "linear_cka_next", "", next.as_ref().map(|next| naive::linear_cka(&states, next)), pairs, 1.0);
    put("all", "linearity_next", "", next.as_ref().and_then(|next| naive::linearity(&states, next)), pairs, 1.0);

    let sample = kept(network, at, k);
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
    put("sample", "anisotropy_svd", "batch4096", Some(ratio), used, 1.0);
    put("sample", "anisotropy_svd", "batch4096_std", (ratios.len() > 1).then_some(spread), used, 1.0);
    let star = |batch: &&[Vec<f64>]| {
        let own = naive_covariance(batch, dim, true);
        isoscore_of(&own.iter().zip(&covariance).map(|(own, all)| 0.25 * own + 0.75 * all).collect::<Vec<f64>>(), dim)
    };
    put("sample", "isoscore_star", "", Some(batches.iter().map(star).sum::<f64>() / count), used, 1.0);
    for (suffix, center) in [("", false), ("_centred", true)] {
        let value = naive::log_partition(&points, center);
        put("sample", "log_partition", &format!("default{suffix}"), Some(value), m, value.abs());
        put("sample", "partition", &format!("default{suffix}"), Some(value.exp()), m, value.exp());
    }
    let of_token = |token: u32| {
        let own: Vec<(u32, Vec<f64>)> = kept(network, at, usize::MAX).into_iter().filter(|(id, _)| *id == token).take(30).collect();
        (!own.is_empty()).then(|| naive::explainable(&own.into_iter().map(|(_, x)| x).collect::<Vec<_>>()))
    };
    let (explainable, tokens) = average(CHOSEN.iter().map(|&token| of_token(token)));
    let overall = uncentred.values[0] / uncentred.values.iter().sum::<f64>();
    put("sample", "max_explainable_variance", "", explainable, tokens, 1.0);
    put("sample", "max_explainable_variance_adjusted", "", explainable.map(|value| value - overall), tokens, 1.0);
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
                assert_eq!(row.selection, Selection::Sample);
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
        let theirs = Oracle::new(&counted(&network.points[at]), network.points[at].dim, true).values;
        assert_eq!(tables.spectrum.len(), theirs.len());
        assert!(tables.spectrum.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= 1e-12 * theirs[0]));
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
    let lenses = run.tables(0, &everything());
    for selection in [Selection::All, Selection::Typical, Selection::Sample] {
        let mut names: Vec<&str> = lenses.layers.iter().filter(|row| row.selection == selection).map(|row| row.measure).collect();
        names.dedup();
        // Clusters have a measure of the norms, which comes with them.
        names.retain(|name| *name != "v_within_over_v");
        let order: Vec<&str> = MEASURES.iter().map(|measure| measure.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, order, "{selection:?}");
    }
    let point = PointTables::new(&run.sketches[0], &Settings::default()).unwrap();
    let rows: Vec<&LayerRow> = point.layers.iter().chain(&lenses.layers).collect();
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
    for row in &lenses.layers {
        let measure = MEASURES.iter().find(|measure| measure.name == row.measure).unwrap();
        let known = row.variant.as_deref().is_none_or(|variant| variant.starts_with("k=") || measure.variants.contains(&variant));
        assert!(known, "{row:?}");
    }
}

#[test]
fn only_what_is_wanted_is_kept_and_computed() {
    assert_eq!(needs(&[Family::Norm, Family::Cosine]), SketchSet::default());
    assert_eq!(needs(&Family::DEFAULT), SketchSet { covariance: true, sample: true, ..SketchSet::default() });
    assert_eq!(needs(&[Family::Layers]), SketchSet { covariance: true, pairs: true, ..SketchSet::default() });
    assert_eq!(needs(&[Family::Sequence]), SketchSet { sequences: true, ..SketchSet::default() });
    assert_eq!(needs(&[Family::Partition]), SketchSet { sample: true, ..SketchSet::default() });
    assert_eq!(needs(&Family::SELECTABLE), SketchSet { blocks: false, ..ALL });
    assert_eq!(Family::SELECTABLE.map(|family| Family::named(family.name())), Family::SELECTABLE.map(Some));
    assert_eq!(Family::named("cluster"), None);
    let network = Network::new(54, 300, 8);
    let run = Run::whole(&network, 100);
    let only = |family| LensSettings { families: vec![family], ..LensSettings::default() };
    for (family, rows) in [(Family::Norm, 0), (Family::Cosine, 2), (Family::Spectrum, 23), (Family::Dimension, 5), (Family::Partition, 8)] {
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
        let one = whole.tables(at, &LensSettings { threads: 1, ..everything() });
        let three = whole.tables(at, &LensSettings { threads: 3, ..everything() });
        assert_eq!(one, three);
    }
    for lenses in &whole.lenses {
        let mut stored = Tensors(lenses.tensors().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        assert_eq!(Lenses::from_tensors(&mut stored).unwrap(), *lenses);
        assert!(stored.0.is_empty());
        assert!(lenses.clone().merge(&Lenses::default()).is_err());
    }
}

#[test]
fn memory_is_what_the_formulas_say() {
    let network = Network::new(56, 300, 50);
    let run = Run::whole(&network, 100);
    for at in 0..3 {
        let dim = network.points[at].dim;
        let stored: usize = run.lenses[at].tensors().0.values().map(|tensor| tensor.values.len() * 8).sum();
        let formula = Lenses::bytes(ALL, dim, at.checked_sub(1).map(|at| network.points[at].dim));
        assert!((stored as f64 / formula as f64 - 1.0).abs() < 0.02, "{stored} {formula}");
    }
}

/// The value of a row.
fn value(tables: &LensTables, selection: Selection, measure: &str, variant: Option<&str>) -> f64 {
    let found = tables.layers.iter().find(|row| row.selection == selection && row.measure == measure && row.variant.as_deref() == variant);
    found.unwrap_or_else(|| panic!("{measure}")).value.unwrap_or_else(|| panic!("{measure} is undefined"))
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
    assert!(plain.spectrum.iter().zip(&eigenvalues).all(|(a, b)| (4.0 * a - b).abs() <= 1e-12 * b), "eigenvalues grow by the square");
}

fn cases_doubled(network: &Network) -> Vec<f64> {
    let points = network.points.iter().map(|data| data.clone().map("doubled", |_, _, x| x.iter_mut().for_each(|x| *x *= 2.0))).collect();
    Run::whole(&Network { points }, 50).tables(0, &everything()).spectrum
}

#[test]
fn massive_states_are_left_out_of_the_typical_spectrum() {
    let mut network = Network::new(58, 1000, 10);
    for data in &mut network.points {
        *data = data.clone().map("massive", |row, _, x| x[2] += if row % 30 == 0 { 3000.0 } else { 0.0 });
        data.massive = Some(300.0);
    }
    let run = Run::whole(&network, 200);
    let tables = run.tables(1, &everything());
    let data = &network.points[1];
    let all = counted(data);
    let typical: naive::States = all.iter().filter(|x| naive::norm(x) <= 300.0).cloned().collect();
    assert!(typical.len() < all.len());
    for (selection, states) in [(Selection::All, &all), (Selection::Typical, &typical)] {
        let theirs = Oracle::new(states, data.dim, true);
        let ours = value(&tables, selection, "isoscore", None);
        assert!((ours - theirs.isoscore().unwrap()).abs() < 1e-12, "{ours}");
        let ours = value(&tables, selection, "effective_rank", None);
        assert!((ours - theirs.effective_rank()).abs() < 1e-8 * ours);
    }
    let cka = value(&tables, Selection::All, "linear_cka_next", None);
    assert!((cka - naive::linear_cka(&all, &counted(&network.points[2]))).abs() < 1e-10, "{cka}");
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
        };
        let network = Network { points: vec![data.clone(), data] };
        let run = Run::whole(&network, 100);
        let tables = run.tables(0, &everything());
        for row in &tables.layers {
            let defined = ["max_explainable_variance", "max_explainable_variance_adjusted", "partition", "log_partition", "rankme"];
            assert!(row.value.is_none_or(f64::is_finite));
            assert!(row.value.is_none() || defined.contains(&row.measure), "{row:?}");
        }
        assert!(tables.notes.iter().any(|note| note.starts_with("spectrum: ")), "{:?}", tables.notes);
        assert!(tables.notes.iter().any(|note| note == "dimension: 1 different states are too few"), "{:?}", tables.notes);
        let duplicates = tables.notes.iter().any(|note| note.contains("29 of 30 kept states equal an earlier one"));
        assert_eq!(duplicates, rows == 30);
    }
}

#[test]
fn straight_and_turning_sequences() {
    // A straight line: curvature 0 to the last digit. Right angles: pi / 2. Back and forth: pi. Repeated states are no steps.
    let line: Vec<[f32; 2]> = (0..6).map(|at| [at as f32, 0.3 * at as f32]).collect();
    let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [4.0, 2.0], [4.0, 3.0]];
    let back: Vec<[f32; 2]> = (0..6).map(|at| [(at % 2) as f32, 0.5]).collect();
    for (states, angle, tolerance) in
        [(line, 0.0, 1e-7), (corners.to_vec(), std::f64::consts::FRAC_PI_2, 1e-15), (back, std::f64::consts::PI, 1e-15)]
    {
        let data = Data { name: "turns", dim: 2, groups: 1, states: states.concat(), ids: vec![0; 6], lengths: vec![6], massive: None };
        let network = Network { points: vec![data] };
        let ours = value(&Run::whole(&network, 10).tables(0, &everything()), Selection::All, "curvature", None);
        assert!((ours - angle).abs() <= tolerance * 4.0, "{ours} {angle}");
    }
}

#[test]
fn partitions_of_symmetric_sets_do_not_depend_on_signs() {
    let mut random = Random::new(3);
    let half: Vec<f32> = (0..40 * 5).map(|at| (random.normal() * [1.0, 0.2, 3.0, 0.7, 0.1][at % 5]) as f32).collect();
    let both: Vec<f32> = half
        .iter()
        .chain(half.iter().map(|x| x).collect::<Vec<_>>())
        .copied()
        .enumerate()
        .map(|(at, x)| if at < 200 { x } else { -x })
        .collect();
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
    let view = run.sketches[1].all().unwrap();
    let means: BTreeMap<u32, Vec<f64>> =
        view.groups().filter(|(id, _)| CHOSEN.contains(id)).map(|(id, group)| (id, group.mean.to_vec())).collect();
    // PCA of the means and the origin by its definition.
    let fitted: naive::States = means.values().cloned().chain([vec![0.0; 8]]).collect();
    let (_, axes) = support::eigen::jacobi_vectors(&naive_covariance(&fitted, 8, true), 8);
    let signed = |axis: &[f64]| {
        let largest = axis.iter().copied().fold(0.0f64, |largest, x| if x.abs() > largest.abs() { x } else { largest });
        axis.iter().map(|x| x * largest.signum()).collect::<Vec<f64>>()
    };
    let (first, second) = (signed(&axes[0]), signed(&axes[1]));
    let places = network.places();
    let row_of = |document: u64, position: u32| places.iter().position(|place| *place == (document, position)).unwrap();
    assert!(tables.tokens.len() > means.len());
    for row in &tables.tokens {
        let state = row
            .state
            .map_or_else(|| means[&row.group].clone(), |(document, position)| wide(network.points[1].row(row_of(document, position))));
        assert!((row.x - naive::dot(&state, &first)).abs() < 1e-9 && (row.y - naive::dot(&state, &second)).abs() < 1e-9, "{row:?}");
        assert_eq!(row.explainable_variance.is_some(), row.state.is_none());
        assert_eq!(row.n, view.groups().find(|(id, _)| *id == row.group).unwrap().1.n);
    }
    let sample = run.tokens[1].get(0).unwrap();
    let states: naive::States = sample.iter().map(|kept| wide(kept.state)).collect();
    assert!((max_explainable_variance(sample).unwrap() - naive::explainable(&states)).abs() < 1e-12);
}

#[test]
fn errors_from_blocks_of_documents_equal_the_naive_jackknife() {
    let network = Network::new(60, 1200, 6);
    let run = Run::whole(&network, 50);
    let (data, places) = (&network.points[0], network.places());
    let block = |row: usize| DocumentBlocks::block_of(places[row].0);
    let without = |deleted: usize| -> naive::States {
        (0..data.ids.len()).filter(|&row| data.ids[row] != NOT_COUNTED && block(row) != deleted).map(|row| wide(data.row(row))).collect()
    };
    let used: Vec<usize> = (0..20).filter(|&at| (0..data.ids.len()).any(|row| data.ids[row] != NOT_COUNTED && block(row) == at)).collect();
    let replicate = |deleted: usize| {
        let states = without(deleted);
        let n = states.len() as f64;
        let q = states.iter().map(|x| naive::dot(x, x)).sum::<f64>() / n;
        let mu = mean(&states, 6);
        let sum: Vec<f64> = (0..6).map(|i| states.iter().map(|x| x[i] / naive::norm(x)).sum()).collect();
        [q, naive::dot(&mu, &mu), (naive::dot(&sum, &sum) - n) / (n * (n - 1.0))]
    };
    let replicates: Vec<[f64; 3]> = used.iter().map(|&at| replicate(at)).collect();
    let k = replicates.len() as f64;
    let error = |at: usize| {
        let mean = replicates.iter().map(|values| values[at]).sum::<f64>() / k;
        ((k - 1.0) / k * replicates.iter().map(|values| (values[at] - mean).powi(2)).sum::<f64>()).sqrt()
    };
    let errors = run.tables(0, &everything()).errors.unwrap();
    for (ours, theirs) in [(errors.q, error(0)), (errors.m, error(1)), (errors.mean_cosine, error(2))] {
        assert!((ours.unwrap() - theirs).abs() <= 1e-9 * theirs, "{ours:?} {theirs}");
    }
    let mut rows = PointTables::new(&run.sketches[0], &Settings::default()).unwrap().layers;
    errors.apply(&mut rows);
    for row in rows.iter().filter(|row| ["q", "m", "mean_cosine"].contains(&row.measure)) {
        assert_eq!(row.se.is_some(), row.selection == Selection::All, "{row:?}");
    }
}

#[test]
fn a_matrix_of_weights_has_cosine_spectrum_and_partition() {
    let mut random = Random::new(5);
    let matrix: Vec<f32> = (0..1500 * 12).map(|at| (random.normal() + (at % 12) as f64 * 0.1) as f32).collect();
    let (rows, spectrum) = matrix_rows(&matrix, 12).unwrap();
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
}
