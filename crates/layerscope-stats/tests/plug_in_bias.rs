//! Tokens that differ in nothing but their frequency: plug-in values see an effect of frequency there, unbiased ones do not.

use layerscope_stats::measure::{LayerRow, PointTables, Selection, Settings};
use layerscope_testing::made_up_states::{Data, Random};

const DIM: usize = 16;

/// Zipfian frequencies, and one distribution for all tokens: N(mu, 1) with ||mu||^2 = DIM / 4.
fn identical_tokens(seed: u64) -> Data {
    let (rows, groups) = (20_000, 2_000);
    let mut random = Random::new(seed);
    let ids: Vec<u32> = (0..rows).map(|_| random.zipf(groups)).collect();
    let states = (0..rows * DIM).map(|_| (0.5 + random.normal()) as f32).collect();
    Data { name: "identical tokens", dim: DIM, groups, states, ids, lengths: vec![20; rows / 20], massive: None, unselectable: Vec::new() }
}

fn tables(seed: u64) -> Vec<LayerRow> {
    let settings = Settings { frequency: Some(2..=1_000), ..Settings::default() };
    PointTables::of_moments(&identical_tokens(seed).sketch(1_000), &settings).unwrap().layers
}

fn row<'a>(rows: &'a [LayerRow], selection: Selection, measure: &str, variant: Option<&str>) -> &'a LayerRow {
    let found = rows.iter().find(|row| row.selection == selection && row.measure == measure && row.variant.as_deref() == variant);
    found.unwrap_or_else(|| panic!("no row of {measure}"))
}

#[test]
fn frequency_has_no_effect_where_there_is_none() {
    let rows = tables(0);
    for selection in [Selection::All, Selection::Selected] {
        for (measure, sign) in [("slope_m_on_log_n", -1.0), ("slope_v_on_log_n", 1.0)] {
            let in_errors = |variant| {
                let row = row(&rows, selection, measure, variant);
                row.value.unwrap() / row.se.unwrap()
            };
            for variant in [None, Some("unbiased")] {
                let row = row(&rows, selection, measure, variant);
                println!("{} {measure} {}: {:.4?} +- {:.4?}", selection.name(), variant.unwrap_or("plug-in"), row.value, row.se);
            }
            assert!(sign * in_errors(None) > 10.0, "plug-in {measure}: {} standard errors", in_errors(None));
            assert!(in_errors(Some("unbiased")).abs() < 3.0, "unbiased {measure}: {} standard errors", in_errors(Some("unbiased")));
        }
    }
}

#[test]
fn identical_tokens_have_no_variance_between_them() {
    // Over repeated corpora: the mean of an estimate, and the standard error of that mean.
    let all: Vec<Vec<LayerRow>> = (0..12).map(tables).collect();
    let mean = |measure: &str, variant: Option<&str>| {
        let values: Vec<f64> = all.iter().map(|rows| row(rows, Selection::All, measure, variant).value.unwrap()).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
    };
    let dim = DIM as f64;
    // (measure, plug-in value is off in this direction, the truth)
    for (measure, bias, truth) in [
        ("v_between", 1.0, 0.0),
        ("v_within", -1.0, dim),
        ("v_between_over_v", 1.0, 0.0),
        ("v_within_over_v", -1.0, 1.0),
        ("v_between_over_q", 1.0, 0.0),
        ("v_within_over_q", -1.0, 0.8),
    ] {
        let ((plain, plain_error), (unbiased, error)) = (mean(measure, None), mean(measure, Some("unbiased")));
        assert!(bias * (plain - truth) > 20.0 * plain_error, "plug-in {measure}: {plain} +- {plain_error}");
        assert!((unbiased - truth).abs() < 4.0 * error, "unbiased {measure}: {unbiased} +- {error} instead of {truth}");
    }
    for (measure, truth) in [("m", dim / 4.0), ("v", dim), ("m_over_q", 0.2), ("v_over_q", 0.8)] {
        let (value, error) = mean(measure, Some("unbiased"));
        assert!((value - truth).abs() < 4.0 * error, "{measure}: {value} +- {error} instead of {truth}");
    }
}

#[test]
fn rows_count_the_groups_that_have_unbiased_values() {
    let data = identical_tokens(3);
    let of = |id: u32| data.ids.iter().filter(|own| **own == id).count() as u64;
    let sizes: Vec<u64> = (0..data.groups as u32).map(of).filter(|n| *n > 0).collect();
    let (groups, repeated) = (sizes.len() as u64, sizes.iter().filter(|n| **n >= 2).count() as u64);
    assert!(repeated < groups, "some tokens occur once");
    let rows = tables(3);
    for measure in ["slope_v_on_m", "intercept_v_on_m", "r2_v_on_m", "slope_m_on_log_n", "r2_v_on_log_n"] {
        let n = |variant| row(&rows, Selection::All, measure, variant).n;
        assert_eq!((n(None), n(Some("unbiased"))), (groups, repeated), "{measure}");
    }
    for measure in ["m", "v_between", "v_within_over_v"] {
        assert_eq!(row(&rows, Selection::All, measure, Some("unbiased")).n, 20_000, "{measure}");
    }
    assert!(rows.iter().all(|row| row.variant.as_deref() != Some("unbiased") || !row.measure.contains("log_v") && row.measure != "q"));
}
