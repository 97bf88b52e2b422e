//! Every value of every table against the definitions taken literally, on ordinary and on adversarial data.

use layerscope_stats::measure::{LayerRow, MEASURES, Measure, PointTables, Selection, Settings};
use layerscope_testing::made_up_states::{Data, Random, all_kinds};
use layerscope_testing::naive::{self, Naive};

const TOLERANCE: f64 = 1e-10;

fn settings() -> Settings {
    Settings { frequency: Some(8..=200), predicted_q: Some(7.5), ..Settings::default() }
}

/// Value by name, with the scale that its tolerance is relative to.
fn expected(naive: &Naive, all: &Naive, data: &Data, measure: &str, variant: Option<&str>) -> (Option<f64>, f64) {
    let minus_mean = |value: Option<f64>| Some(value? - naive.mean_cosine()?);
    if let Some(known) = naive.value(measure, variant) {
        return known;
    }
    match measure {
        "predicted_q" => (Some(7.5), 1.0),
        "mean_cosine" => (naive.mean_cosine(), 1.0),
        "self_similarity" => (naive.self_similarity(), 1.0),
        "self_similarity_adjusted" => (minus_mean(naive.self_similarity()), 1.0),
        "intra_sentence_similarity" => (naive.intra_sentence_similarity(), 1.0),
        "intra_sentence_similarity_adjusted" => (minus_mean(naive.intra_sentence_similarity()), 1.0),
        "massive_activations" => {
            let massive = |threshold| all.states().iter().filter(|x| naive::norm(x) > threshold).count() as f64;
            (data.massive.map(massive), 1.0)
        }
        "massive_share_of_q" => {
            let square = |states: Vec<&naive::State>| states.iter().map(|x| naive::norm(x).powi(2)).sum::<f64>();
            let share = |threshold| {
                let whole = square(all.states());
                (whole > 0.0).then(|| square(all.states().into_iter().filter(|x| naive::norm(x) > threshold).collect()) / whole)
            };
            (data.massive.and_then(share), 1.0)
        }
        other => panic!("the oracle does not know {other}"),
    }
}

#[track_caller]
fn close(what: &str, ours: Option<f64>, theirs: Option<f64>, scale: f64) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            assert!((ours - theirs).abs() <= TOLERANCE * scale, "{what}: {ours:e} instead of {theirs:e} (scale {scale:e})");
        }
        _ => assert_eq!(ours, theirs, "{what}"),
    }
}

#[test]
fn every_row_of_the_layers_table_equals_its_definition() {
    for data in all_kinds() {
        let settings = Settings { unselectable: data.unselectable.clone(), ..settings() };
        let frequency = settings.frequency.clone().unwrap();
        let tables = PointTables::of_moments(&data.sketch(100), &settings).unwrap();
        let naive = |selection| Naive::new(&data, selection, &frequency);
        let selections = [Selection::All, Selection::Selected, Selection::Typical, Selection::TypicalSelected];
        let of_selection = selections.map(naive);
        let all = &of_selection[0];
        for row in &tables.layers {
            let at = selections.iter().position(|selection| *selection == row.selection).expect("these tables are not of the sample");
            let (value, scale) = expected(&of_selection[at], all, &data, row.measure, row.variant.as_deref());
            let what = format!("{}: {} {} {:?}", data.name, row.selection.name(), row.measure, row.variant);
            close(&what, row.value, value, scale);
        }
    }
}

#[test]
fn every_group_equals_its_definition() {
    for data in all_kinds() {
        let tables = PointTables::of_moments(&data.sketch(100), &settings()).unwrap();
        let (selection, tables) = tables.typical.map_or((Selection::All, tables.all), |typical| (Selection::Typical, typical));
        let naive = Naive::new(&data, selection, &(1..=1));
        assert_eq!(tables.groups.len(), naive.groups.len(), "{}", data.name);
        for (ours, theirs) in tables.groups.iter().zip(&naive.groups) {
            let (what, q) = (format!("{}: group {}", data.name, theirs.id), theirs.q());
            assert_eq!((ours.group, ours.n), (theirs.id, theirs.states.len() as u64), "{what}");
            close(&what, Some(ours.q), Some(q), q);
            close(&what, Some(ours.m), Some(theirs.m()), q);
            close(&what, Some(ours.v), Some(theirs.v()), q);
            close(&what, ours.self_similarity, naive::mean_cosine(&theirs.refs()), 1.0);
            let mean_norm = theirs.states.iter().map(|x| naive::norm(x)).sum::<f64>() / ours.n as f64;
            close(&what, Some(ours.mean_norm), Some(mean_norm), mean_norm);
            assert!(ours.v >= 0.0);
            assert!(ours.n > 1 || ours.v == 0.0, "{what}");
        }
    }
}

#[test]
fn every_component_equals_its_definition() {
    for data in all_kinds() {
        let tables = PointTables::of_moments(&data.sketch(100), &settings()).unwrap();
        let (selection, tables) = tables.typical.map_or((Selection::All, tables.all), |typical| (Selection::Typical, typical));
        let naive = Naive::new(&data, selection, &(1..=1));
        let states = naive.states();
        let Some(mu) = naive::mean(&states) else {
            assert!(tables.components.is_empty());
            continue;
        };
        assert_eq!(tables.components.len(), data.dim);
        let n = states.len() as f64;
        let q = naive.q().unwrap();
        let contributions = naive::cosine_contributions(&states, data.dim);
        for (i, row) in tables.components.iter().enumerate() {
            let what = format!("{}: component {i}", data.name);
            let within = naive.groups.iter().map(|group| {
                let own = naive::mean(&group.refs()).unwrap()[i];
                group.states.iter().map(|x| (x[i] - own).powi(2)).sum::<f64>() / n
            });
            let between = naive.groups.iter().map(|group| {
                let own = naive::mean(&group.refs()).unwrap()[i];
                group.states.len() as f64 / n * (own - mu[i]).powi(2)
            });
            close(&what, Some(row.mean), Some(mu[i]), q.sqrt());
            close(&what, Some(row.second_moment), Some(states.iter().map(|x| x[i] * x[i]).sum::<f64>() / n), q);
            close(&what, Some(row.variance), Some(states.iter().map(|x| (x[i] - mu[i]).powi(2)).sum::<f64>() / n), q);
            close(&what, Some(row.variance_within), Some(within.sum()), q);
            close(&what, Some(row.variance_between), Some(between.sum()), q);
            close(&what, row.cosine_contribution, contributions.as_ref().map(|parts| parts[i]), 1.0);
        }
    }
}

#[test]
fn rows_come_in_the_order_of_the_table_of_measures_and_all_of_them_come() {
    let tables = PointTables::of_moments(&all_kinds()[0].sketch(100), &settings()).unwrap();
    for selection in [Selection::All, Selection::Selected, Selection::Typical] {
        let mut names: Vec<&str> = tables.layers.iter().filter(|row| row.selection == selection).map(|row| row.measure).collect();
        names.dedup();
        let order: Vec<&str> = MEASURES.iter().map(|measure| measure.name).filter(|name| names.contains(name)).collect();
        assert_eq!(names, order);
        if selection == Selection::All {
            // The rest comes from other sketches: see sketches.rs.
            let here = |measure: &&Measure| measure.compute.is_of_moments();
            assert_eq!(names.len(), MEASURES.iter().filter(here).count());
        }
    }
    let variants = |measure: &'static str| {
        tables.layers.iter().filter(move |row| row.measure == measure && row.selection == Selection::All).map(|row| row.variant.as_deref())
    };
    assert_eq!(variants("cv_q").take(4).collect::<Vec<_>>(), [None, Some("n0=1"), Some("n0=3"), Some("n0=10")]);
    let unbiased = |measure: &&Measure| measure.variants.contains(&"unbiased");
    assert_eq!(MEASURES.iter().filter(unbiased).count(), 17);
    for measure in MEASURES.iter().filter(unbiased) {
        assert_eq!(variants(measure.name).collect::<Vec<_>>(), [None, Some("unbiased")], "{}", measure.name);
    }
    let listed = |row: &&LayerRow| Measure::named(row.measure).unwrap().variants.contains(&"unbiased");
    assert!(tables.layers.iter().filter(|row| row.variant.as_deref() == Some("unbiased")).all(|row| listed(&row)));
}

#[test]
fn jackknife_errors_equal_the_naive_ones() {
    let data = Data::zipf(31, 1200, 5, 90);
    let tables = PointTables::of_moments(&data.sketch(100), &settings()).unwrap();
    let error = |measure: &str, variant: Option<&str>| {
        let found =
            tables.layers.iter().find(|row| row.selection == Selection::All && row.measure == measure && row.variant.as_deref() == variant);
        found.unwrap().se.unwrap()
    };
    let mut naive = Naive::new(&data, Selection::All, &(1..=1));
    let rungs = naive.rungs();
    let mut replicates = vec![Vec::new(); 8];
    for deleted in 0..naive.groups.len() {
        let group = naive.groups.remove(deleted);
        let (slope, _, r2) = naive::ols(&naive.column("m"), &naive.column("v")).unwrap();
        let (log_slope, _, _) = naive::ols(&naive.column("log_n"), &naive.column("log_v")).unwrap();
        let exponent = naive.exponent_over(&rungs).unwrap();
        let values = [slope, r2.unwrap(), log_slope, naive.cv_q(1).unwrap(), exponent, naive.cv_q(3).unwrap()];
        let (unbiased_slope, _, unbiased_r2) = naive::ols(&naive.unbiased_column("log_n"), &naive.unbiased_column("m")).unwrap();
        let values = values.into_iter().chain([unbiased_slope, unbiased_r2.unwrap()]);
        replicates.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
        naive.groups.insert(deleted, group);
    }
    // Deleting a group that a C.V. or a line does not have changes nothing: those are no replicates of it.
    for (at, least) in [(5, 3), (6, 2), (7, 2)] {
        let values = replicates[at].iter().zip(&naive.groups).filter(|(_, group)| group.states.len() >= least);
        replicates[at] = values.map(|(value, _)| *value).collect();
    }
    let ours = [
        error("slope_v_on_m", None),
        error("r2_v_on_m", None),
        error("slope_log_v_on_log_n", None),
        error("cv_q", None),
        error("cv_q_exponent", None),
        error("cv_q", Some("n0=3")),
        error("slope_m_on_log_n", Some("unbiased")),
        error("r2_m_on_log_n", Some("unbiased")),
    ];
    for (ours, replicates) in ours.iter().zip(&replicates) {
        let theirs = naive::jackknife(replicates);
        assert!((ours - theirs).abs() <= 1e-9 * theirs, "{ours} {theirs}");
    }
    let similarities: Vec<f64> =
        naive.groups.iter().filter(|group| group.states.len() >= 5).filter_map(|group| naive::mean_cosine(&group.refs())).collect();
    let without = |i: usize| (similarities.iter().sum::<f64>() - similarities[i]) / (similarities.len() - 1) as f64;
    let theirs = naive::jackknife(&(0..similarities.len()).map(without).collect::<Vec<f64>>());
    assert!((error("self_similarity", None) - theirs).abs() <= 1e-9 * theirs);
}

#[test]
fn a_million_near_identical_vectors() {
    let (rows, dim) = (1_000_000, 3);
    let mut random = Random::new(17);
    let states = (0..rows * dim).map(|at| [1000.0f32, -0.1, 77.7][at % dim] + 1e-3 * random.normal() as f32).collect();
    let data = Data {
        name: "million",
        dim,
        groups: 2,
        states,
        ids: vec![1; rows],
        lengths: vec![500; rows / 500],
        massive: None,
        unselectable: Vec::new(),
    };
    let wide: Vec<f64> = data.states.iter().map(|&x| f64::from(x)).collect();
    // Shifted sums are exact enough for an oracle: the shift is within 1e-3 of the mean.
    let shift = [1000.0, -0.1, 77.7];
    let mean: Vec<f64> = (0..dim).map(|i| shift[i] + wide.chunks(dim).map(|x| x[i] - shift[i]).sum::<f64>() / rows as f64).collect();
    let v = wide.chunks(dim).map(|x| (0..dim).map(|i| (x[i] - mean[i]).powi(2)).sum::<f64>()).sum::<f64>() / rows as f64;
    let m = mean.iter().map(|x| x * x).sum::<f64>();
    for tokens in [500, 20_000] {
        let sketch = data.sketch(tokens);
        let tables = PointTables::of_moments(&sketch, &Settings::default()).unwrap();
        let group = &tables.all.groups[0];
        assert!((group.v - v).abs() <= 1e-9 * v, "even relative to V: {} {v}", group.v);
        assert!((group.m - m).abs() <= 1e-13 * m);
        assert!((group.q - m - v).abs() <= 1e-13 * m);
        assert!(tables.identities.iter().all(|identity| identity.residual <= 1e-13), "{:#?}", tables.identities);
        let similarity = group.self_similarity.unwrap();
        assert!(similarity <= 1.0 + 1e-13 && similarity > 1.0 - 1e-5);
    }
}

/// What the authors' script does: running means in f32, V as a difference.
fn f32_running_means(data: &Data) -> f64 {
    let mut mean = vec![0f32; data.dim];
    let mut q = 0f32;
    for (k, x) in data.states.chunks_exact(data.dim).enumerate() {
        let n = (k + 1) as f32;
        mean.iter_mut().zip(x).for_each(|(mean, x)| *mean += (x - *mean) / n);
        q += (x.iter().map(|x| x * x).sum::<f32>() - q) / n;
    }
    f64::from(q - mean.iter().map(|mean| mean * mean).sum::<f32>())
}

#[test]
fn f32_running_means_lose_the_variance_and_ours_does_not() {
    let mut random = Random::new(23);
    let sd = 1e-3f64.sqrt();
    let states = (0..2000 * 64).map(|at| if at % 64 == 9 { 3000.0 } else { (sd * random.normal()) as f32 }).collect();
    let data = Data {
        name: "GPT-2",
        dim: 64,
        groups: 1,
        states,
        ids: vec![0; 2000],
        lengths: vec![20; 100],
        massive: None,
        unselectable: Vec::new(),
    };
    let truth = Naive::new(&data, Selection::All, &(1..=1)).v().unwrap();
    assert!((truth - 0.063).abs() < 1e-3);
    let naive = f32_running_means(&data);
    assert!((naive - truth).abs() > 0.5 * truth, "f32 gives {naive} for {truth}");
    let ours = PointTables::of_moments(&data.sketch(100), &Settings::default()).unwrap().all.groups[0].v;
    assert!((ours - truth).abs() <= 1e-12 * truth, "{ours} {truth}");
    // And squares that overflow f32.
    let huge = data.map("huge", |_, _, x| x.iter_mut().for_each(|x| *x *= 1e16));
    assert!(!f32_running_means(&huge).is_finite());
    let truth = Naive::new(&huge, Selection::All, &(1..=1)).v().unwrap();
    let ours = PointTables::of_moments(&huge.sketch(100), &Settings::default()).unwrap().all.groups[0].v;
    assert!((ours - truth).abs() <= 1e-10 * truth, "{ours} {truth}");
}
