//! Which states figures show: the typical ones where massive ones hide them, and those that were asked for.

use std::collections::BTreeMap;

use layerscope_report::figure::Settings;
use layerscope_report::{Cell, Run, States};
use layerscope_testing::made_up_runs::ENCODER;

use super::rows::{by_place, run_of};
use crate::support::drawn::{cell, columns, draw, groups_of, number, only, sinks, small};
use crate::support::files::Folder;

const PROFILES: [&str; 10] = ["fig4", "fig5", "fig6", "fig17", "fig18", "fig19", "fig20", "ethayarajh1", "isotropy", "shape1"];

/// An encoder of an older program and a decoder whose few massive states carry nearly all of Q.
fn runs() -> Vec<Run> {
    vec![small().remove(0), sinks()]
}

#[test]
fn profiles_are_of_the_states_that_are_shown() {
    for (states, is_typical) in [(None, true), (Some(States::Typical), true), (Some(States::All), false)] {
        let out = Folder::new(&format!("states-{states:?}").replace(['(', ')'], "-"));
        let runs = runs();
        draw(&runs, &Settings { states, ..only(&PROFILES) }, &out);
        for name in PROFILES {
            let rows = out.csv(&format!("{name}.csv"));
            assert!(rows.iter().any(|row| row["model"] != ENCODER.name), "{name}");
            for row in &rows {
                // The older run has only all of its states.
                let wanted = is_typical && row["model"] != ENCODER.name;
                assert_eq!(row["selection"].starts_with("typical"), wanted, "{name}: {row:?}");
                assert_eq!(number(row, "value"), by_place(run_of(&runs, row), row), "{name}: {row:?}");
            }
        }
        let (tex, said) = (out.text("figures.tex"), ["All states, massive ones included.", "Without massive states."]);
        assert_eq!(tex.matches(said[usize::from(is_typical)]).count(), PROFILES.len());
        assert_eq!(tex.matches(said[usize::from(!is_typical)]).count(), 0);
        assert_eq!(out.text("fig4.svg").contains("without massive states"), is_typical, "the figure says what was left out");
    }
}

#[test]
fn runs_without_massive_states_say_nothing_of_them() {
    let out = Folder::new("no-massive");
    let drawing = draw(&small(), &only(&["fig2", "fig4", "sinks"]), &out);
    assert!(!out.text("figures.tex").contains("massive"));
    assert!(drawing.skipped.iter().all(|skipped| skipped.figure == "sinks" && skipped.reason.flags() == "no state is massive"));
}

#[test]
fn groups_and_tokens_are_of_the_states_that_are_shown() {
    let runs = [sinks()];
    for (states, name) in [(None, "typical"), (Some(States::All), "all")] {
        let out = Folder::new(&format!("groups-{name}"));
        let figures = ["fig1", "fig2", "fig7", "fig8", "fig14", "frequency"];
        draw(&runs, &Settings { states, layers: vec![0, 4, 8], ..only(&figures) }, &out);
        // Layer 4 has massive states. Where none is massive, the rows of all states are those of the typical ones.
        for (layer, point, states) in [(0, "embedding", "all"), (4, "block", name), (8, "final_norm", "all")] {
            let all = groups_of(&runs[0], states, layer, point, (1, i64::MAX));
            for figure in ["fig2", "fig7", "fig8"] {
                let rows = out.csv(&format!("{figure}-layer{layer}.csv"));
                assert_eq!(rows.len(), all.len(), "{figure}");
                for row in &rows {
                    let same = |group: &&(String, i64, f64, f64, f64)| {
                        group.1.to_string() == row["n"] && number(row, "m") == group.3 && number(row, "v") == group.4
                    };
                    assert_eq!(all.iter().filter(same).count(), 1, "{figure} {row:?}");
                }
            }
            let [_, q, ..] = columns(&all);
            let mean = q.iter().sum::<f64>() / q.len() as f64;
            let of_q = |row: &&BTreeMap<String, String>| row["layer"] == layer.to_string() && row["quantity"] == "q";
            let drawn = out.csv("fig14.csv").iter().find(of_q).map(|row| number(row, "mean")).unwrap();
            assert!((drawn - mean).abs() < 1e-9 * mean, "{layer}: {drawn} {mean}");
            let table = runs[0].tokens.as_ref().unwrap();
            let kept = |row: &usize| {
                cell(table, "layer", *row) == Cell::Integer(layer)
                    && cell(table, "point", *row) == Cell::Text(point)
                    && cell(table, "selection", *row) == Cell::Text(states)
            };
            let kept: Vec<usize> = (0..table.rows()).filter(kept).collect();
            let rows = out.csv(&format!("fig1-layer{layer}.csv"));
            assert_eq!(rows.len(), kept.len(), "layer {layer}");
            assert!(rows.iter().all(|row| kept.iter().any(|at| cell(table, "x", *at) == Cell::Real(number(row, "x")))));
        }
    }
}

#[test]
fn sinks_are_drawn_with_and_without() {
    let runs = [sinks()];
    // Which states lead changes nothing: both are there.
    for states in [None, Some(States::All)] {
        let out = Folder::new(&format!("sinks-{}", states.is_some()));
        draw(&runs, &Settings { states, ..only(&["sinks"]) }, &out);
        let rows = out.csv("sinks.csv");
        for row in &rows {
            assert_eq!(number(row, "value"), by_place(&runs[0], row), "{row:?}");
        }
        let count =
            |measure: &str, selection: &str| rows.iter().filter(|row| row["measure"] == measure && row["selection"] == selection).count();
        // Layers 0 to 8, and the last block before its norm.
        for measure in ["anisotropy_svd", "matrix_entropy", "mean_cosine"] {
            assert_eq!((count(measure, "all"), count(measure, "typical")), (10, 10), "{measure}");
        }
        assert_eq!((count("massive_share_of_q", "all"), rows.len()), (10, 70));
        let tex = out.text("figures.tex");
        assert!(tex.contains("28 of 1,000 states are massive and carry") && tex.contains("at layers 2 to 7."), "{tex}");
        assert!(tex.contains("matrix entropy $0.150$ with them and $0.7"), "{tex}");
    }
}

#[test]
fn a_measure_without_both_is_left_out_of_sinks() {
    let mut run = sinks();
    let layers = &run.layers;
    let kept = |row: &usize| layers.text("measure", *row) != Some("matrix_entropy") || layers.text("selection", *row) == Some("all");
    let rows: Vec<(usize, usize)> = (0..layers.rows()).filter(kept).map(|row| (0, row)).collect();
    run.layers = layerscope_report::Table::gather(&[layers], &rows).unwrap();
    let out = Folder::new("sinks-part");
    draw(&[run], &only(&["sinks"]), &out);
    assert!(out.csv("sinks.csv").iter().all(|row| row["measure"] != "matrix_entropy"));
    assert!(out.text("figures.tex").contains("Not measured both ways: matrix entropy."));
}
