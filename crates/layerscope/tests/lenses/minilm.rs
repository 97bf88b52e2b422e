//! `measure --measures all` on all-MiniLM-L6-v2: every value of the lenses against its definition on the same states.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use layerscope_stats::sketch::DocumentBlocks;

use super::naive::{self, Spectrum};
use super::naive_sample as sampled;
use super::states::{Corpus, KEPT_PER_TOKEN, Kept, minilm, sentences};
use super::symmetric::dot;
use super::table::{Name, Row, integer, layers, parquet, real, scale, text};
use crate::support::{empty_folder, layerscope};

const CLUSTERS: [usize; 2] = [5, 20];

#[test]
fn every_value_of_200_sentences_equals_its_definition() {
    check("lenses-minilm-200", 200, 2000);
}

/// With two whole batches of 4096 of the sample, and a rest that is dropped.
#[test]
#[ignore = "minutes; `make test-all` runs it"]
fn every_value_of_2000_sentences_equals_its_definition() {
    check("lenses-minilm-2000", 2000, 9000);
}

fn check(name: &str, count: usize, sample: usize) {
    let Some(model) = minilm() else { return };
    let out = empty_folder(name);
    let corpus = out.join("sentences.txt");
    std::fs::write(&corpus, sentences(count).join("\n")).expect("a corpus");
    let run = out.join("run");
    let words = format!(
        "measure --quiet --keep-work --measures all --confidence --group cluster:5,20 --sample-states {sample} --token-states {KEPT_PER_TOKEN} \
         --massive 1.1 --model {model} --corpus {} --out {}",
        corpus.display(),
        run.display()
    );
    let outcome = layerscope(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);

    let corpus = Corpus::read(&run, Path::new(&model));
    let kept = Kept::read(&run, &corpus, sample);
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("manifest.json")).expect("a manifest")).expect("JSON");
    let thresholds: Vec<f64> =
        manifest["massive_thresholds"].as_array().expect("thresholds").iter().map(|x| x.as_f64().expect("one")).collect();
    corpus.check_thresholds(&thresholds);

    let found: BTreeMap<Name, Row> = layers(&run).into_iter().filter(|(name, _)| is_checked(name)).collect();
    let judge = Mutex::new(Judge { found, worst: BTreeMap::new() });
    let points = Mutex::new(0..corpus.points.len());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(at) = { points.lock().expect("no panic").next() } {
                    let expected = expected_rows(&corpus, &kept, at, &thresholds);
                    let (layer, point) = (at as i64, if at == 0 { "embedding" } else { "block" });
                    judge.lock().expect("no panic").judge(layer, point, expected);
                    // Where no state is massive, only all states have rows.
                    let has_rows = |view: &View| !view.typical || view.states(at).len() < corpus.ids.len();
                    for view in View::both(&corpus, &thresholds).into_iter().filter(has_rows) {
                        check_spectrum(&run, &view, at);
                        check_tokens(&run, &view, &kept, at);
                    }
                }
            });
        }
    });
    let judge = judge.into_inner().expect("no panic");
    assert!(judge.found.is_empty(), "rows without a definition: {:?}", judge.found.keys().take(5).collect::<Vec<_>>());
    for (measure, worst) in &judge.worst {
        println!("{measure:45} {worst:.1e}");
    }
}

/// The families that this test defines, and what has standard errors by blocks of documents.
fn is_checked((_, _, selection, measure, variant): &Name) -> bool {
    let family = layerscope_stats::measure::Measure::named(measure).unwrap_or_else(|| panic!("{measure}")).family.name();
    let with_blocks = selection == "all" && variant.is_none() && ["q", "m", "mean_cosine"].contains(&measure.as_str());
    !["norm", "cosine"].contains(&family) || selection.ends_with("sample") || with_blocks
}

/// What a row must say.
struct Expected {
    selection: &'static str,
    measure: &'static str,
    variant: Option<String>,
    value: Value,
    se: Option<f64>,
    n: usize,
}

enum Value {
    Exactly(Option<f64>),
    /// ln Z(v) and ln Z(-v) of every v: the solver's choice of signs is unknown. And whether the value is the exponential.
    Signs(Vec<[f64; 2]>, bool),
}

#[derive(Default)]
struct Rows(Vec<Expected>);

impl Rows {
    fn push(&mut self, selection: &'static str, measure: &'static str, variant: &str, value: impl Into<Option<f64>>, n: usize) {
        self.push_se(selection, measure, variant, (value.into(), None), n);
    }

    fn push_se(
        &mut self,
        selection: &'static str,
        measure: &'static str,
        variant: &str,
        (value, se): (Option<f64>, Option<f64>),
        n: usize,
    ) {
        let variant = (!variant.is_empty()).then(|| variant.to_owned());
        self.0.push(Expected { selection, measure, variant, value: Value::Exactly(value), se, n });
    }
}

/// All states, or the typical ones.
struct View<'a> {
    corpus: &'a Corpus,
    thresholds: &'a [f64],
    typical: bool,
}

impl<'a> View<'a> {
    fn both(corpus: &'a Corpus, thresholds: &'a [f64]) -> [View<'a>; 2] {
        [false, true].map(|typical| View { corpus, thresholds, typical })
    }

    fn selection(&self) -> &'static str {
        if self.typical { "typical" } else { "all" }
    }

    fn sample(&self) -> &'static str {
        if self.typical { "typical_sample" } else { "sample" }
    }

    fn has(&self, at: usize, row: usize) -> bool {
        let state = &self.corpus.points[at][row];
        !self.typical || dot(state, state).sqrt() <= self.thresholds[at]
    }

    /// Those of some rows that belong to it at a point.
    fn among(&self, at: usize, rows: impl IntoIterator<Item = usize>) -> Vec<usize> {
        rows.into_iter().filter(|&row| self.has(at, row)).collect()
    }

    fn states(&self, at: usize) -> Vec<&'a [f64]> {
        self.corpus.some(at, &self.among(at, 0..self.corpus.ids.len()))
    }
}

fn expected_rows(corpus: &Corpus, kept: &Kept, at: usize, thresholds: &[f64]) -> Rows {
    let mut rows = Rows::default();
    let squares = |states: &[&[f64]]| states.iter().map(|x| dot(x, x)).sum::<f64>();
    let [all, typical] = View::both(corpus, thresholds).map(|view| view.states(at));
    rows.push("all", "massive_activations", "", (all.len() - typical.len()) as f64, all.len());
    rows.push("all", "massive_share_of_q", "", 1.0 - squares(&typical) / squares(&all), all.len());
    for view in View::both(corpus, thresholds) {
        let (states, dim) = (view.states(at), corpus.points[at][0].len());
        rows.push(view.selection(), "massive_components", "", 0.0, states.len());
        let covariance = naive::covariance(&states);
        spectrum_rows(view.selection(), &states, &covariance, &mut rows);
        sequence_rows(&view, at, &mut rows);
        next_rows(&view, at, &mut rows);
        let own = kept.tokens.iter().map(|(_, rows)| view.among(at, rows.iter().copied())).filter(|rows| !rows.is_empty());
        let explained: Vec<f64> = own.map(|rows| naive::explainable_variance(&corpus.some(at, &rows))).collect();
        let (count, explained) = (explained.len(), explained.iter().sum::<f64>() / explained.len() as f64);
        let overall = Spectrum::of_second_moment(&naive::second_moment(&states), states.len(), dim).anisotropy();
        rows.push(view.sample(), "max_explainable_variance", "", explained, count);
        rows.push(view.sample(), "max_explainable_variance_adjusted", "", explained - overall, count);
        sample_rows(&view, kept, at, &covariance, &mut rows);
    }
    block_rows(corpus, at, &mut rows);
    rows
}

fn spectrum_rows(selection: &'static str, states: &naive::States, covariance: &[f64], rows: &mut Rows) {
    let (n, dim) = (states.len(), states[0].len());
    let spectrum = Spectrum::of_covariance(covariance, n, dim);
    let uncentred = Spectrum::of_second_moment(&naive::second_moment(states), n, dim);
    rows.push(selection, "anisotropy_svd", "corpus", spectrum.anisotropy(), n);
    for (measure, value) in [
        ("isoscore", spectrum.isoscore()),
        ("participation_ratio", spectrum.participation_ratio()),
        ("effective_rank", spectrum.effective_rank()),
        ("rankme", uncentred.rankme()),
        ("stable_rank", 1.0 / spectrum.anisotropy()),
        ("alpha_req", spectrum.alpha_req().expect("ranks")),
        ("top_variance_1", naive::top_variance(covariance, dim, 1)),
        ("top_variance_3", naive::top_variance(covariance, dim, 3)),
        ("top_variance_10", naive::top_variance(covariance, dim, 10)),
    ] {
        rows.push(selection, measure, "", value, n);
    }
}

fn sequence_rows(view: &View, at: usize, rows: &mut Rows) {
    let (mut start, mut entropies, mut curvatures) = (0, Vec::new(), Vec::new());
    for length in &view.corpus.lengths {
        let sequence = view.corpus.some(at, &view.among(at, start..start + length));
        entropies.extend(naive::matrix_entropy(&sequence));
        curvatures.extend(naive::curvature(&sequence));
        start += length;
    }
    for (measure, values) in [("matrix_entropy", entropies), ("curvature", curvatures)] {
        rows.push(view.selection(), measure, "", values.iter().sum::<f64>() / values.len() as f64, values.len());
    }
}

/// Of the rows that belong at both points.
fn next_rows(view: &View, at: usize, rows: &mut Rows) {
    let (corpus, selection) = (view.corpus, view.selection());
    if at + 1 == corpus.points.len() {
        rows.push(selection, "linear_cka_next", "", None, 0);
        rows.push(selection, "linearity_next", "", None, 0);
        return;
    }
    let both = view.among(at + 1, view.among(at, 0..corpus.ids.len()));
    let (x, y) = (naive::centred(&corpus.some(at, &both)), naive::centred(&corpus.some(at + 1, &both)));
    let (x, y) = (naive::refs(&x), naive::refs(&y));
    let (xx, xy, yy) = (naive::products(&x, &x), naive::products(&x, &y), naive::products(&y, &y));
    rows.push(selection, "linear_cka_next", "", naive::linear_cka(&xx, &xy, &yy), x.len());
    rows.push(selection, "linearity_next", "", naive::linearity(&xx, &xy, &yy, x[0].len(), x.len()), x.len());
}

/// q, m and mean_cosine with the jackknife over twenty blocks of documents.
fn block_rows(corpus: &Corpus, at: usize, rows: &mut Rows) {
    let of = |without: Option<usize>| -> [f64; 3] {
        let is_in = |row: &usize| Some(DocumentBlocks::block_of(corpus.ids[*row].0)) != without;
        let states: Vec<&[f64]> = (0..corpus.ids.len()).filter(is_in).map(|row| corpus.points[at][row].as_slice()).collect();
        let (n, mean) = (states.len() as f64, naive::mean(&states));
        [states.iter().map(|x| dot(x, x)).sum::<f64>() / n, dot(&mean, &mean), naive::mean_cosine(&states)]
    };
    let used: BTreeSet<usize> = corpus.ids.iter().map(|(document, _, _)| DocumentBlocks::block_of(*document)).collect();
    let (whole, without): ([f64; 3], Vec<[f64; 3]>) = (of(None), used.iter().map(|block| of(Some(*block))).collect());
    for (i, measure) in ["q", "m", "mean_cosine"].into_iter().enumerate() {
        let count = without.len() as f64;
        let mean = without.iter().map(|values| values[i]).sum::<f64>() / count;
        let square: f64 = without.iter().map(|values| (values[i] - mean).powi(2)).sum();
        rows.push_se("all", measure, "", (Some(whole[i]), Some(((count - 1.0) / count * square).sqrt())), corpus.ids.len());
    }
}

fn sample_rows(view: &View, kept: &Kept, at: usize, covariance: &[f64], rows: &mut Rows) {
    let (corpus, selection, sample) = (view.corpus, view.sample(), view.among(at, kept.sample.iter().copied()));
    let (points, dim) = (corpus.some(at, &sample), corpus.points[at][0].len());
    let n = points.len();
    // Batches of 4096 in hash order; a partial one only where it is alone.
    let batches: Vec<std::ops::Range<usize>> = match n / 4096 {
        0 => std::iter::once(0..n).collect(),
        whole => (0..whole).map(|batch| batch * 4096..(batch + 1) * 4096).collect(),
    };
    let over: usize = batches.iter().map(|batch| batch.len()).sum();
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let std_of = |values: &[f64]| {
        let square: f64 = values.iter().map(|x| (x - mean_of(values)).powi(2)).sum();
        (values.len() > 1).then(|| (square / values.len() as f64).sqrt())
    };
    let own: Vec<Vec<f64>> = batches.iter().map(|batch| naive::covariance(&points[batch.clone()])).collect();
    let anisotropies: Vec<f64> =
        own.iter().zip(&batches).map(|(own, batch)| Spectrum::of_covariance(own, batch.len(), dim).anisotropy()).collect();
    let stars: Vec<f64> = own.iter().map(|own| naive::isoscore_star(own, covariance, dim)).collect();
    rows.push(selection, "anisotropy_svd", "batch4096", mean_of(&anisotropies), over);
    rows.push(selection, "anisotropy_svd", "batch4096_std", std_of(&anisotropies), over);
    rows.push(selection, "isoscore_star", "", mean_of(&stars), over);

    let centred = naive::centred(&points);
    for (rows_of, suffix) in [(points.clone(), ""), (naive::refs(&centred), "_centred")] {
        let logs = naive::log_partitions(&rows_of, &naive::products(&rows_of, &rows_of));
        for (measure, exponential) in [("log_partition", false), ("partition", true)] {
            let log = naive::log_partition(&logs);
            rows.push(selection, measure, &format!("default{suffix}"), if exponential { log.exp() } else { log }, n);
            let (variant, value) = (Some(format!("machina{suffix}")), Value::Signs(logs.clone(), exponential));
            rows.0.push(Expected { selection, measure, variant, value, se: None, n });
        }
    }

    let distances = sampled::distances(&points);
    let different = sampled::different(&points);
    let neighbours = sampled::neighbours(&distances, &different);
    let mut dimension = |variant: &str, value: Option<f64>, se: Option<f64>, n: usize| {
        rows.push_se(selection, "intrinsic_dimension", variant, (value, se), n);
    };
    let ((twonn, twonn_se), (mle, mle_se)) = (sampled::twonn(&neighbours), sampled::mle(&neighbours));
    dimension("twonn", Some(twonn), twonn_se, different.len());
    dimension("twonn_facco", Some(sampled::through_origin(&neighbours, 0.9)), None, different.len());
    dimension("mle", Some(mle), mle_se, different.len());
    let of_batch = |batch: &std::ops::Range<usize>| {
        let different: Vec<usize> = sampled::different(&points[batch.clone()]).iter().map(|row| batch.start + row).collect();
        (sampled::through_origin(&sampled::neighbours(&distances, &different), 0.2), different.len())
    };
    let (fits, sizes): (Vec<f64>, Vec<usize>) = batches.iter().map(of_batch).unzip();
    dimension("twonn_razzhigaev", Some(mean_of(&fits)), None, sizes.iter().sum());
    dimension("twonn_razzhigaev_std", std_of(&fits), None, sizes.iter().sum());

    let tokens: Vec<u64> = sample.iter().map(|&row| corpus.ids[row].2).collect();
    for k in CLUSTERS {
        let (labels, variant) = (sampled::k_means(&points, &distances, k), format!("k={k}"));
        let (within, calinski) = sampled::variances(&points, &labels, k);
        rows.push(selection, "v_within_over_v", &variant, within, n);
        rows.push(selection, "calinski_harabasz", &variant, calinski, n);
        rows.push(selection, "silhouette", &variant, sampled::silhouette(&distances, &labels, k), n);
        rows.push(selection, "adjusted_mutual_information", &variant, sampled::adjusted_mutual_information(&labels, &tokens), n);
    }
}

/// What was found, until it is judged, and how far off each measure was.
struct Judge {
    found: BTreeMap<Name, Row>,
    worst: BTreeMap<String, f64>,
}

impl Judge {
    fn judge(&mut self, layer: i64, point: &str, expected: Rows) {
        for Expected { selection, measure, variant, value, se, n } in expected.0 {
            let name: Name = (Some(layer), point.to_owned(), selection.to_owned(), measure.to_owned(), variant.clone());
            let row = self.found.remove(&name).unwrap_or_else(|| panic!("{name:?} is missing"));
            assert_eq!(row.n, n as i64, "n of {name:?}");
            let label = [Some(measure.to_owned()), variant].into_iter().flatten().collect::<Vec<_>>().join(" ");
            let mut close = |what: &str, found: Option<f64>, expected: Option<f64>| match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    let scale = if what.is_empty() { scale(measure, expected) } else { expected.abs() };
                    let deviation = if found == expected { 0.0 } else { (found - expected).abs() / scale };
                    assert!(deviation <= 1e-8, "{name:?}{what}: {found} instead of {expected}, off by {deviation:.1e}");
                    let worst = self.worst.entry(format!("{label}{what}")).or_default();
                    *worst = worst.max(deviation);
                }
                _ => panic!("{name:?}{what}: {found:?} instead of {expected:?}"),
            };
            close(" s.e.", row.se, se);
            let expected = match value {
                Value::Exactly(value) => value,
                Value::Signs(logs, false) => Some(naive::nearest_log_partition(&logs, row.value.expect("a value"))),
                Value::Signs(logs, true) => Some(naive::nearest_log_partition(&logs, row.value.expect("a value").ln()).exp()),
            };
            close("", row.value, expected);
        }
    }
}

/// spectra.parquet has the eigenvalues of the covariance, rank by rank.
fn check_spectrum(run: &Path, view: &View, at: usize) {
    let states = view.states(at);
    let spectrum = Spectrum::of_covariance(&naive::covariance(&states), states.len(), states[0].len());
    let table = parquet(run, "spectra");
    let is_own = |row: &usize| text(&table, "selection", *row).as_deref() == Some(view.selection());
    let own = (0..table.rows()).filter(is_own).filter(|&row| integer(&table, "layer", row) == Some(at as i64));
    let found: Vec<(i64, f64)> =
        own.map(|row| (integer(&table, "rank", row).expect("a rank"), real(&table, "eigenvalue", row).expect("one"))).collect();
    assert_eq!(found.len(), spectrum.values.len());
    for (at, ((rank, found), expected)) in found.iter().zip(&spectrum.values).enumerate() {
        assert_eq!(*rank, at as i64 + 1);
        assert!((found - expected).abs() <= 1e-12 * spectrum.values[0], "eigenvalue {rank}: {found} instead of {expected}");
    }
}

/// tokens.parquet has the explainable variance of every chosen token.
fn check_tokens(run: &Path, view: &View, kept: &Kept, at: usize) {
    let table = parquet(run, "tokens");
    let own = |row: &usize| integer(&table, "layer", *row) == Some(at as i64) && text(&table, "role", *row).as_deref() == Some("mean");
    let found: BTreeMap<u64, f64> = (0..table.rows())
        .filter(|row| text(&table, "selection", *row).as_deref() == Some(view.selection()))
        .filter(own)
        .map(|row| (integer(&table, "group_id", row).expect("a token") as u64, real(&table, "explainable_variance", row).expect("a value")))
        .collect();
    let tokens =
        || kept.tokens.iter().map(|(token, rows)| (token, view.among(at, rows.iter().copied()))).filter(|(_, rows)| !rows.is_empty());
    assert_eq!(found.len(), tokens().count());
    for (token, rows) in tokens() {
        let expected = naive::explainable_variance(&view.corpus.some(at, &rows));
        assert!((found[token] - expected).abs() <= 1e-8, "token {token}: {} instead of {expected}", found[token]);
    }
}
