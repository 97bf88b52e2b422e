//! What figures say of themselves: how runs differ, few groups, errors, what an axis leaves out.

use layerscope_report::figure::Settings;
use layerscope_report::{Column, Run, Table};
use layerscope_testing::made_up_runs::{DECODER, ENCODER, Shape, run};

use crate::support::drawn::{draw, only, small};
use crate::support::files::{Folder, characters};

/// The caption of a figure in `figures.tex`.
pub fn caption(out: &Folder, name: &str) -> String {
    let tex = out.text("figures.tex");
    let place = tex.find(&format!("{{{name}.pdf}}")).unwrap_or_else(|| panic!("{name} is not there"));
    tex[place..].lines().nth(1).unwrap().to_owned()
}

/// The run with other numbers in one column of its groups.
pub fn with_n(run: Run, n: impl Fn(usize) -> i64) -> Run {
    let table = run.groups.as_ref().unwrap();
    let other = Column::Integer((0..table.rows()).map(|row| Some(n(row))).collect());
    let columns = table.columns().map(|(name, column)| (name.to_owned(), if name == "n" { other.clone() } else { column.clone() }));
    Run { groups: Some(Table::new(columns.collect::<Vec<_>>()).unwrap()), ..run }
}

#[test]
fn captions_say_how_the_runs_of_a_figure_differ() {
    let out = Folder::new("differ");
    let mut runs = small();
    let said = "The text is not the same in all runs. The frequency range of the selected groups is not the same in all runs.";
    assert!(draw(&runs, &only(&["fig4"]), &out).notes.is_empty() && !caption(&out, "fig4").contains("not the same"));
    runs[1].manifest.corpus.fingerprint = Some("another".into());
    runs[1].manifest.frequency = Some(Some(layerscope_report::manifest::Frequency { minimum: 20, maximum: 100 }));
    let drawing = draw(&runs, &only(&["fig2", "fig4", "fig7", "fig21", "table3"]), &out);
    assert_eq!(drawing.notes.len(), 2);
    for name in ["fig2", "fig4"] {
        assert!(caption(&out, name).contains(said), "{}", caption(&out, name));
    }
    assert!(out.text("figures.tex").lines().any(|line| line.contains("Groups and states per model.") && line.contains(said)));
    for name in ["fig7-encoder-base", "fig21"] {
        assert!(!caption(&out, name).contains("not the same"), "{name} is of one run, or of no text");
    }
}

#[test]
fn few_groups_are_a_warning() {
    let out = Folder::new("few");
    let few = run(&Shape { groups: 12, ..small_shape(ENCODER) });
    draw(std::slice::from_ref(&few), &only(&["fig2", "fig4", "fig5", "fig19"]), &out);
    let counts = out.csv("fig2-fit.csv");
    let groups = &counts[0]["groups"];
    let warning = format!("Few groups are selected (encoder-base: {groups}): what is computed over fewer than 30 depends on single ones.");
    for name in ["fig2", "fig4", "fig5", "fig19"] {
        assert!(caption(&out, name).contains(&warning), "{}", caption(&out, name));
        assert!(characters(&out.text(&format!("{name}.svg"))).contains(&format!("few groups: {groups} in encoder-base")), "{name}");
    }
    assert!(characters(&out.text("fig2.svg")).contains(&format!(", {groups} selected groups")), "beside the slope");
    assert!(characters(&out.text("fig4.svg")).contains("fewer than 30 groups"), "the dashes are explained");
    // A training has no groups of its own: its regressions say how many.
    let trained = run(&Shape { groups: 12, steps: &[0, 10], ..small_shape(ENCODER) });
    draw(&[trained], &only(&["fig4"]), &out);
    assert!(caption(&out, "fig4").contains(&warning));
    draw(&small(), &only(&["fig2", "fig4"]), &out);
    assert!(!out.text("figures.tex").contains("Few groups") && !characters(&out.text("fig4.svg")).contains("few groups"));
}

fn small_shape(shape: Shape) -> Shape {
    Shape { layers: 4, token_states: 4, ..shape }
}

#[test]
fn depth_can_be_relative_and_errors_are_bands() {
    let out = Folder::new("depth");
    let runs = [run(&Shape { layers: 3, groups: 60, ..ENCODER }), run(&Shape { groups: 60, ..small_shape(DECODER) })];
    for figure in ["fig4", "isotropy"] {
        draw(&runs, &only(&[figure]), &out);
        let (layers, csv) = (out.text(&format!("{figure}.svg")), out.text(&format!("{figure}.csv")));
        draw(&runs, &Settings { relative_depth: true, ..only(&[figure]) }, &out);
        let relative = out.text(&format!("{figure}.svg"));
        assert!(!characters(&layers).contains("relative depth") && characters(&relative).contains("relative depth"));
        assert_eq!(csv, out.text(&format!("{figure}.csv")), "the numbers name layers");
        assert_eq!(relative.matches(r#"opacity="0.18""#).count(), 3 * 2, "a band a line");
        assert!(caption(&out, figure).contains("Bands are of one standard error."));
    }
}

#[test]
fn axes_say_what_they_hold() {
    let out = Folder::new("axes");
    let runs = small();
    draw(&runs[..1], &only(&["fig1", "fig10", "fig14"]), &out);
    let projected = characters(&out.text("fig1.svg"));
    assert!(projected.contains("PC 1 (42.0 % of the variance)") && projected.contains("PC 2 (13.7 % of the variance)"), "{projected}");
    assert!(characters(&out.text("fig14.svg")).contains("values above each 99th percentile are not shown"));
    // The most frequent group has 200,000 states: the axis ends with its bin, not with the paper's.
    let frequencies = out.text("fig10.svg");
    assert!(frequencies.contains(">5<") && !frequencies.contains(">6<"), "the axis ends with the data");
    // A run of an older program does not know what the axes explain.
    let old = runs[0].tokens.as_ref().unwrap().without(&["explained_x", "explained_y"]);
    draw(&[Run { tokens: Some(old), ..runs[0].clone() }], &only(&["fig1"]), &out);
    assert!(out.text("fig1.svg").contains(">PC 1<"));
}

#[test]
fn groups_of_one_state_are_left_out_of_the_distribution_of_v() {
    let out = Folder::new("alone");
    let encoder = run(&Shape { groups: 60, ..small_shape(ENCODER) });
    draw(std::slice::from_ref(&encoder), &only(&["fig14"]), &out);
    let picture = characters(&out.text("fig14.svg"));
    assert!(picture.contains("mean") && !picture.contains("of one state"), "{picture}");
    draw(&[with_n(encoder, |row| if row % 3 == 0 { 1 } else { 40 })], &only(&["fig14"]), &out);
    assert!(characters(&out.text("fig14.svg")).contains("without 20 groups of one state"));
    assert!(caption(&out, "fig14").contains("they are left out of $V$"), "{}", caption(&out, "fig14"));
    let rows = out.csv("fig14.csv");
    let count = |quantity: &str| {
        let own = rows.iter().filter(|row| row["layer"] == "0" && row["quantity"] == quantity);
        own.map(|row| row["count"].parse::<usize>().unwrap()).sum::<usize>()
    };
    // One value is above the 99th percentile.
    assert_eq!((count("q"), count("v")), (59, 39));
}

#[test]
fn a_distribution_of_one_value_has_an_axis_around_it() {
    let out = Folder::new("flat");
    let mut encoder = run(&Shape { groups: 60, ..small_shape(ENCODER) });
    let table = encoder.groups.as_ref().unwrap();
    let flat = Column::Real(vec![Some(0.0); table.rows()]);
    let columns = table.columns().map(|(name, column)| (name.to_owned(), if name == "v" { flat.clone() } else { column.clone() }));
    encoder.groups = Some(Table::new(columns.collect::<Vec<_>>()).unwrap());
    draw(&[encoder], &only(&["fig14"]), &out);
    let rows = out.csv("fig14.csv");
    let ends: Vec<&str> = rows.iter().filter(|row| row["quantity"] == "v").flat_map(|row| [&*row["from"], &*row["to"]]).collect();
    assert!(ends.iter().all(|end| end.parse::<f64>().unwrap().abs() <= 0.5), "{ends:?}");
}

#[test]
fn the_axis_of_batches_says_so() {
    let out = Folder::new("batches");
    draw(&small(), &only(&["shape1"]), &out);
    assert!(characters(&out.text("shape1.svg")).contains("in batches of ≤ 4,096"));
}

#[test]
fn words_that_occur_once_are_faint() {
    let out = Folder::new("once");
    let words = run(&Shape { name: "words", grouping: "word", layers: 1, groups: 60, ..ENCODER });
    draw(std::slice::from_ref(&words), &only(&["fig22"]), &out);
    assert!(!characters(&out.text("fig22.svg")).contains("occurs once"));
    let once = with_n(words, |row| if row % 3 == 0 { 1 } else { 40 });
    draw(&[once], &only(&["fig22"]), &out);
    assert!(characters(&out.text("fig22.svg")).contains("occurs once") && caption(&out, "fig22").contains("those that occur once faint"));
    assert_eq!(out.csv("fig22.csv").len(), 2 * 60, "they are plotted all the same");
}
