//! Which groups the numbers of figures are over: the selected ones where every run has some, and the caption says it.

use layerscope_report::{Column, Run, Table};
use layerscope_testing::made_up_runs::{DECODER, ENCODER, Shape, run};

use super::remarks::{caption, with_n};
use super::rows::{by_place, run_of};
use crate::support::drawn::{columns, draw, groups, number, only, sinks, small, trained, variation};
use crate::support::files::{Folder, characters};

/// The run with values of a measure of the selected groups too, a little larger than those of all.
fn also_selected(run: Run, measure: &str) -> Run {
    let layers = &run.layers;
    let is_doubled = |row: &usize| layers.text("measure", *row) == Some(measure);
    let old: Vec<(usize, usize)> = (0..layers.rows()).map(|row| (0, row)).collect();
    let new: Vec<(usize, usize)> = (0..layers.rows()).filter(is_doubled).map(|row| (0, row)).collect();
    let both = Table::gather(&[layers], &[&old[..], &new[..]].concat()).unwrap();
    let columns = both.columns().map(|(name, column)| {
        let mut column = column.clone();
        match &mut column {
            Column::Text(values) if name == "selection" => values[old.len()..].iter_mut().flatten().for_each(|value| {
                *value = if **value == *"typical" { "typical_selected".into() } else { "selected".into() };
            }),
            Column::Real(values) if name == "value" => values[old.len()..].iter_mut().flatten().for_each(|value| *value += 0.01),
            _ => {}
        }
        (name.to_owned(), column)
    });
    Run { layers: Table::new(columns.collect::<Vec<_>>()).unwrap(), ..run }
}

#[test]
fn a_run_without_selected_groups_is_shown_beside_others_over_all_groups() {
    let out = Folder::new("none-selected");
    let none = with_n(run(&Shape { layers: 4, groups: 12, token_states: 4, ..ENCODER }), |_| 1);
    let runs = [none, small().remove(1)];
    draw(&runs, &only(&["fig2", "fig4", "fig5", "ethayarajh1"]), &out);
    for row in out.csv("fig4.csv").iter().chain(&out.csv("fig5.csv")) {
        assert_eq!(row["selection"], "all", "{row:?}");
        if row["measure"] == "cv_q" {
            let [_, q, ..] = columns(&groups(run_of(&runs, row), row["layer"].parse().unwrap(), &row["point"], (1, i64::MAX)));
            assert!((number(row, "value") - variation(&q)).abs() < 1e-10, "{row:?}");
        }
    }
    assert!(out.csv("fig2.csv").iter().all(|row| row["selected"] == "1"), "lines of all groups");
    for figure in ["fig4", "fig5"] {
        let said = caption(&out, figure);
        assert!(said.contains("Over all groups."), "{said}");
        assert!(said.contains("No group is selected in encoder-base: all groups are shown."), "{said}");
        assert!(said.contains("There are few groups (encoder-base: 12)"), "{said}");
        let picture = characters(&out.text(&format!("{figure}.svg")));
        assert!(picture.contains("no selected groups in encoder-base: all are shown"), "{picture}");
        assert!(picture.contains("few groups: 12 in encoder-base") && !picture.contains(&format!("in {}", DECODER.name)), "{picture}");
    }
    assert!(characters(&out.text("fig4.svg")).contains("fewer than 30 groups"), "its slopes are dashed");
    assert!(caption(&out, "ethayarajh1").contains("Over all groups."));
    // Alone it says the same.
    draw(&runs[..1], &only(&["fig4"]), &out);
    assert!(characters(&out.text("fig4.svg")).contains("few groups: 12 in encoder-base"));
    assert!(caption(&out, "fig4").contains("No group is selected"));
}

#[test]
fn sinks_are_over_the_groups_that_everything_else_is_over() {
    let out = Folder::new("sinks-selected");
    let runs = [also_selected(sinks(), "mean_cosine")];
    draw(&runs, &only(&["sinks", "ethayarajh1"]), &out);
    let cosines = |figure: &str| {
        let rows = out.csv(&format!("{figure}.csv"));
        rows.into_iter().filter(|row| row["measure"] == "mean_cosine").collect::<Vec<_>>()
    };
    for row in cosines("sinks") {
        assert!(["selected", "typical_selected"].contains(&row["selection"].as_str()), "{row:?}");
        assert_eq!(number(&row, "value"), by_place(&runs[0], &row), "{row:?}");
    }
    for row in cosines("ethayarajh1") {
        let same = |other: &&std::collections::BTreeMap<String, String>| {
            ["layer", "point", "selection"].iter().all(|name| other[*name] == row[*name])
        };
        assert_eq!(number(cosines("sinks").iter().find(same).unwrap(), "value"), number(&row, "value"));
    }
    let said = caption(&out, "sinks");
    assert!(
        said.contains("groups with 10 to 100{,}000 states (mean cosine)") && said.contains("all groups (massive share of $Q$"),
        "{said}"
    );
}

#[test]
fn captions_say_what_their_numbers_are_over() {
    let out = Folder::new("over");
    let runs = small().into_iter().map(|run| also_selected(run, "mean_cosine")).collect::<Vec<_>>();
    draw(&runs, &only(&["agreement", "isotropy", "ethayarajh1", "machina1", "machina2", "machina3"]), &out);
    let range = "groups with 10 to 100{,}000 states";
    let samples = "the kept sample of states (intrinsic dimension)";
    for (figure, wanted) in [
        ("agreement", format!("Over {range}.")),
        ("ethayarajh1", format!("Over {range}.")),
        ("machina1", "Hidden states: the kept sample of states.".into()),
        ("machina2", format!("Hidden states: {range}.")),
        ("machina3", format!("Over {range} (mean cosine, $M/Q$); all groups (anisotropy, IsoScore).")),
        ("isotropy", format!("Over all groups (IsoScore, effective rank); {samples}.")),
    ] {
        assert!(caption(&out, figure).contains(&wanted), "{}", caption(&out, figure));
    }
    draw(&[trained()], &only(&["machina2"]), &out);
    assert!(caption(&out, "machina2").contains("Hidden states: all groups."));
}
