//! Every table of a run against the oracle.

use std::path::Path;

use layerscope_model::Model;
use layerscope_report::Table;
use layerscope_stats::NOT_COUNTED;
use layerscope_stats::measure::Selection;
use layerscope_testing::naive;

use super::expected::{Expected, KNOWN};
use super::literal::{Literal, place};
use crate::support::measure::{manifest, number, table, text};

/// Of the scale that the definitions name.
const TOLERANCE: f64 = 1e-9;

/// Compares, and remembers the worst.
#[derive(Default)]
pub struct Comparison {
    pub compared: usize,
    pub worst: (f64, String),
}

impl Comparison {
    #[track_caller]
    fn close(&mut self, what: impl FnOnce() -> String, ours: Option<f64>, theirs: Option<f64>, scale: f64) {
        self.compared += 1;
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let deviation = if ours == theirs { 0.0 } else { (ours - theirs).abs() / scale };
                if deviation > self.worst.0 || deviation.is_nan() {
                    self.worst = (deviation, what());
                }
                assert!(deviation <= TOLERANCE, "{}: {ours:e} instead of {theirs:e} (scale {scale:e})", self.worst.1);
            }
            _ => assert_eq!(ours, theirs, "{}", what()),
        }
    }
}

/// Everything a run wrote against the oracle.
pub fn compare(folder: &Path, out: &Path, literal: &Literal, has_frequency: bool, seen: &mut Comparison) {
    let model = Model::open(folder).expect("a model");
    let blocks = model.spec.blocks.len();
    let (layers, groups, components) = (table(out, "layers"), table(out, "groups"), table(out, "components"));
    for at in model.spec.points() {
        let (layer, point) = place(at, blocks);
        let data = literal.data((layer, point));
        let here = |table: &Table| -> Vec<usize> {
            let is_here =
                |row: &usize| number(table, "layer", *row) == Some(layer as f64) && text(table, "point", *row).as_deref() == Some(point);
            (0..table.rows()).filter(is_here).collect()
        };
        let norm = model.output_norm(at).expect("a norm");
        let square = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let predicted =
            norm.map(|norm| norm.gamma.as_deref().map_or(literal.dim as f64, square) + norm.beta.as_deref().map_or(0.0, square));
        let all = Expected::new(&data, Selection::All);
        let massive = all.naive.states().iter().filter(|x| naive::norm(x) > data.massive.expect("a threshold")).count();
        let squares = |typical: bool| {
            let is_wanted = |x: &&&naive::State| !typical || naive::norm(x) <= data.massive.expect("a threshold");
            all.naive.states().iter().filter(is_wanted).map(|x| naive::norm(x).powi(2)).sum::<f64>()
        };
        let massive_share = 1.0 - squares(true) / squares(false);
        let selections = [
            ("all", Some(Selection::All)),
            ("selected", has_frequency.then_some(Selection::Selected)),
            ("typical", Some(Selection::Typical)),
            ("typical_selected", has_frequency.then_some(Selection::TypicalSelected)),
        ];
        let mut names: Vec<(String, String)> = Vec::new();
        for (name, selection) in selections {
            let expected = selection.map(|selection| Expected::new(&data, selection));
            for row in here(&layers).into_iter().filter(|&row| text(&layers, "selection", row).as_deref() == Some(name)) {
                let measure = text(&layers, "measure", row).expect("a measure");
                if !KNOWN.contains(&measure.as_str()) {
                    continue;
                }
                let expected = expected.as_ref().unwrap_or_else(|| panic!("no selection {name} without frequencies"));
                let variant = text(&layers, "variant", row);
                let (value, scale) = expected.value(&measure, variant.as_deref(), predicted, (massive, massive_share));
                let what = || format!("{} {layer} {point} {name} {measure} {variant:?}", out.display());
                seen.close(what, number(&layers, "value", row), value, scale);
                if let Some(count) = expected.count(&measure, variant.as_deref()) {
                    assert_eq!(number(&layers, "n", row), Some(count as f64), "n of {}", what());
                }
                names.push((name.to_owned(), measure));
            }
        }
        for measure in KNOWN {
            assert!(names.iter().any(|(name, known)| name == "all" && known == measure), "no row of {measure}");
        }
        assert_eq!(names.iter().any(|(name, _)| name == "selected"), has_frequency);

        // Where no state is massive, the rows of all states are those of the typical ones too.
        let typical = Expected::new(&data, Selection::Typical);
        for (name, of) in [("all", &all), ("typical", &typical)].into_iter().take(if massive > 0 { 2 } else { 1 }) {
            let of_states = |table: &Table| -> Vec<usize> {
                here(table).into_iter().filter(|&row| text(table, "selection", row).as_deref() == Some(name)).collect()
            };
            let rows = of_states(&groups);
            assert_eq!(rows.len(), of.naive.groups.len(), "groups");
            for group in &of.naive.groups {
                let (raw, subwords) = &literal.groups[group.id as usize];
                let row =
                    *rows.iter().find(|&&row| text(&groups, "raw", row).as_ref() == Some(raw)).unwrap_or_else(|| panic!("no group {raw}"));
                assert_eq!(number(&groups, "n", row), Some(group.states.len() as f64), "{raw}");
                let words = number(&groups, "subwords", row).expect("a count");
                assert!(words == 0.0 || words == *subwords as f64, "{raw}: {words} subwords");
                let (q, norms) = (group.q(), group.states.iter().map(|x| naive::norm(x)).sum::<f64>() / group.states.len() as f64);
                let mut check = |column: &str, value: Option<f64>, scale: f64| {
                    seen.close(
                        || format!("{} {layer} {point} group {raw} {column}", out.display()),
                        number(&groups, column, row),
                        value,
                        scale,
                    );
                };
                check("q", Some(q), q);
                check("m", Some(group.m()), q);
                check("v", Some(group.v()), q);
                check("mean_norm", Some(norms), norms);
                check("self_similarity", naive::mean_cosine(&group.refs()), 1.0);
            }

            let states = of.naive.states();
            let (n, q, mu) = (states.len() as f64, of.naive.q().expect("states"), naive::mean(&states).expect("states"));
            let contributions = naive::cosine_contributions(&states, data.dim).expect("pairs");
            let rows = of_states(&components);
            assert_eq!(rows.len(), data.dim);
            for (i, &row) in rows.iter().enumerate() {
                assert_eq!(number(&components, "component", row), Some(i as f64));
                let own: Vec<f64> = of.naive.groups.iter().map(|group| naive::mean(&group.refs()).expect("states")[i]).collect();
                let with_own = || of.naive.groups.iter().zip(&own);
                let within: f64 = with_own().map(|(group, own)| group.states.iter().map(|x| (x[i] - own).powi(2)).sum::<f64>() / n).sum();
                let between: f64 = with_own().map(|(group, own)| group.states.len() as f64 / n * (own - mu[i]).powi(2)).sum();
                let mut check = |column: &str, value: f64, scale: f64| {
                    seen.close(
                        || format!("{} {layer} {point} component {i} {column}", out.display()),
                        number(&components, column, row),
                        Some(value),
                        scale,
                    );
                };
                check("mean", mu[i], q.sqrt());
                check("second_moment", states.iter().map(|x| x[i] * x[i]).sum::<f64>() / n, q);
                check("variance", states.iter().map(|x| (x[i] - mu[i]).powi(2)).sum::<f64>() / n, q);
                check("variance_within", within, q);
                check("variance_between", between, q);
                check("cosine_contribution", contributions[i], 1.0);
            }
        }
        let others = |table: &Table| here(table).iter().filter(|&&row| text(table, "selection", row).as_deref() == Some("typical")).count();
        assert!(massive > 0 || others(&groups) + others(&components) == 0, "typical rows without massive states");
    }
    let manifest = manifest(out);
    assert_eq!(manifest["corpus"]["states"], literal.ids.iter().filter(|id| **id != NOT_COUNTED).count());
    assert_eq!(manifest["corpus"]["sequences"], literal.lengths.len());
    assert_eq!(manifest["corpus"]["groups"], literal.groups.len());
    let residual = |identity: &serde_json::Value| identity["residual"].as_f64().expect("a residual");
    let identities = manifest["identities"].as_array().expect("identities");
    assert!(!identities.is_empty() && identities.iter().all(|identity| residual(identity) < 1e-12), "{identities:?}");
    let warnings = manifest["warnings"].as_array().expect("warnings");
    let is_known = |line: &serde_json::Value| {
        ["left out: without words", "selected by --frequency"].iter().any(|known| line.to_string().contains(known))
    };
    assert!(warnings.iter().all(is_known), "{warnings:?}");
}
