//! Figures as wide as a column: nothing is cut, and they fit a page.

use layerscope_report::figure::Settings;
use layerscope_testing::made_up_runs::{ENCODER, Shape, run};

use super::remarks::with_n;
use crate::support::drawn::{draw, only, sinks, small};
use crate::support::files::{Folder, characters};

fn column(figures: &[&str]) -> Settings {
    Settings { width_mm: Some(77.0), ..only(figures) }
}

#[test]
fn every_panel_has_its_label() {
    let out = Folder::new("narrow");
    draw(&small(), &column(&["fig4"]), &out);
    assert_eq!(out.text("fig4.svg").matches(">layer<").count(), 3);
    draw(&small(), &only(&["fig11"]), &out);
    assert_eq!(characters(&out.text("fig11-encoder-base.svg")).matches("log10 nt").count(), 3 + 1, "once a column, and the colours");
}

#[test]
fn no_title_label_or_note_is_cut() {
    let out = Folder::new("uncut");
    let figures = ["sinks", "ethayarajh1", "ethayarajh2", "ethayarajh3", "ethayarajh4", "fig4", "fig7", "fig17", "fig18", "isotropy"];
    draw(&[sinks()], &column(&figures), &out);
    for figure in figures {
        assert!(!characters(&out.text(&format!("{figure}.svg"))).contains('…'), "{figure}");
    }
    assert!(characters(&out.text("sinks.svg")).contains("massive share of Q(X)"));
}

#[test]
fn grids_of_layers_fit_a_page() {
    let out = Folder::new("grids");
    let encoder = run(&Shape { layers: 4, groups: 60, token_states: 4, ..ENCODER });
    let words = run(&Shape { name: "words", grouping: "word", layers: 4, groups: 60, ..ENCODER });
    draw(&[with_n(encoder, |row| if row % 3 == 0 { 1 } else { 40 })], &column(&["fig11", "fig14"]), &out);
    draw(&[words], &column(&["fig22"]), &out);
    for figure in ["fig11", "fig14", "fig22"] {
        let svg = out.text(&format!("{figure}.svg"));
        let height: f64 = svg.split("viewBox=\"").nth(1).unwrap().split([' ', '"']).nth(3).unwrap().parse().unwrap();
        assert!(height < 500.0 && !characters(&svg).contains('…'), "{figure}: {height}");
        assert!((0..=4).all(|layer| svg.matches(&format!(">layer {layer}<")).count() == 1), "{figure}: once a row");
    }
    assert!(characters(&out.text("fig14.svg")).contains("V without 20 groups of one state"));
}
