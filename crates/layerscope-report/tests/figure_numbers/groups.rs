//! Figures of groups: regressions, sweeps, histograms, chosen tokens and words.

use std::collections::BTreeMap;

use layerscope_report::figure::Settings;
use layerscope_report::{Cell, Run};
use layerscope_testing::made_up_runs::{ENCODER, Shape, line, run};

use super::rows::run_of;
use crate::support::drawn::{cell, columns, draw, groups, number, only, small, variation};
use crate::support::files::{Folder, characters};

#[test]
fn regressions_follow_the_frequency_range() {
    let runs = small();
    for (frequency, range) in [(None, (10, 100_000)), (Some((300, 20_000)), (300, 20_000))] {
        let out = Folder::new(&format!("range-{}", range.0));
        draw(&runs, &Settings { frequency, ..only(&["fig2", "fig4", "fig7", "fig8", "fig11", "fig17"]) }, &out);
        for figure in ["fig2", "fig7-encoder-base", "fig7-org-decoder-small", "fig11-encoder-base", "fig11-org-decoder-small"] {
            for row in out.csv(&format!("{figure}-fit.csv")) {
                let [log_n, q, m, v] = columns(&groups(run_of(&runs, &row), row["layer"].parse().unwrap(), &row["point"], range));
                let log = |values: &[f64]| values.iter().map(|value| (1.0 + value).log10()).collect::<Vec<f64>>();
                let of = |name: &str| match name {
                    "log10_n" => log_n.clone(),
                    "q" => q.clone(),
                    "m" => m.clone(),
                    "v" => v.clone(),
                    "log10_1p_q" => log(&q),
                    "log10_1p_m" => log(&m),
                    "log10_1p_v" => log(&v),
                    other => panic!("{other}"),
                };
                let (slope, r2) = line(&of(&row["x"]), &of(&row["y"]));
                assert!((number(&row, "slope") - slope).abs() <= 1e-10 * slope.abs().max(1.0), "{row:?} {slope}");
                assert!((number(&row, "r2") - r2).abs() < 1e-10 && row["groups"] == q.len().to_string(), "{row:?} {r2}");
                let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
                let intercept = mean(of(&row["y"])) - slope * mean(of(&row["x"]));
                assert!((number(&row, "intercept") - intercept).abs() <= 1e-9 * intercept.abs().max(1.0), "{row:?} {intercept}");
            }
            plotted_groups(&out.csv(&format!("{figure}.csv")), &runs, range);
        }
        plotted_groups(&out.csv("fig8-encoder-base.csv"), &runs, range);
        // The line of figure 8 is of all groups.
        let [_, _, m, v] = columns(&groups(&runs[0], 2, "block", (1, i64::MAX)));
        let (slope, r2) = line(&m, &v);
        let said = format!("slope {slope:.3}, R² {r2:.3}, all {} groups", m.len()).replace('-', "−");
        assert!(characters(&out.text("fig8-encoder-base.svg")).contains(&said), "{said}");
        // That of figure 2 is of the selected ones, as both say.
        let [_, _, m, v] = columns(&groups(&runs[0], 2, "block", range));
        let (slope, r2) = line(&m, &v);
        let said = format!("slope {slope:.3}, R² {r2:.3}, {} selected groups", m.len()).replace('-', "−");
        assert!(characters(&out.text("fig2.svg")).contains(&said), "{said}");
        for row in out.csv("fig4.csv").iter().chain(&out.csv("fig17.csv")) {
            let [log_n, q, m, v] = columns(&groups(run_of(&runs, row), row["layer"].parse().unwrap(), &row["point"], range));
            let on_log_n = |values: &[f64]| line(&log_n, &values.iter().map(|value| (1.0 + value).log10()).collect::<Vec<f64>>()).0;
            let expected = match row["measure"].as_str() {
                "cv_q" => variation(&q),
                "slope_v_on_m" => line(&m, &v).0,
                "r2_v_on_m" => line(&m, &v).1,
                "slope_log_q_on_log_n" => on_log_n(&q),
                "slope_log_m_on_log_n" => on_log_n(&m),
                "slope_log_v_on_log_n" => on_log_n(&v),
                other => panic!("{other}"),
            };
            assert!((number(row, "value") - expected).abs() < 1e-10, "{row:?} {expected}");
        }
    }
}

/// Every row is a group of its run with its own numbers, selected if it is in the range, and at every point all groups are there.
fn plotted_groups(rows: &[BTreeMap<String, String>], runs: &[Run], range: (i64, i64)) {
    let mut seen: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for row in rows {
        let all = groups(run_of(runs, row), row["layer"].parse().unwrap(), &row["point"], (1, i64::MAX));
        let n: i64 = row["n"].parse().unwrap();
        assert!(row.get("selected").is_none_or(|selected| (selected == "1") == (range.0..=range.1).contains(&n)), "{row:?}");
        let own = |name: &str| row.get(name).map(|text| text.parse::<f64>().unwrap());
        let log = |value: f64| (1.0 + value).log10();
        let same = |group: &&(String, i64, f64, f64, f64)| {
            let pairs = [("n", group.1 as f64), ("log10_n", (group.1 as f64).log10()), ("q", group.2), ("m", group.3), ("v", group.4)];
            let logs = [("log10_1p_q", log(group.2)), ("log10_1p_m", log(group.3)), ("log10_1p_v", log(group.4))];
            pairs.iter().chain(&logs).all(|(name, value)| own(name).is_none_or(|own| own == *value))
        };
        assert_eq!(all.iter().filter(same).count(), 1, "{row:?}");
        *seen.entry((row["model"].clone(), row["layer"].clone(), row["point"].clone())).or_default() += 1;
        if seen[&(row["model"].clone(), row["layer"].clone(), row["point"].clone())] == 1 {
            let here = rows.iter().filter(|other| ["model", "layer", "point"].iter().all(|name| other[*name] == row[*name])).count();
            assert_eq!(here, all.len(), "{row:?}");
        }
    }
    assert!(!seen.is_empty());
}

#[test]
fn words_are_plotted_all_and_with_their_subwords() {
    let out = Folder::new("words");
    let runs = [run(&Shape { name: "words", grouping: "word", layers: 4, groups: 60, ..ENCODER })];
    draw(&runs, &only(&["fig22"]), &out);
    let rows = out.csv("fig22.csv");
    assert_eq!(rows.len(), 5 * 60);
    plotted_groups(&rows, &runs, (1, i64::MAX));
    let table = runs[0].groups.as_ref().unwrap();
    for row in &rows {
        let same = |at: &usize| {
            cell(table, "layer", *at) == Cell::Integer(row["layer"].parse().unwrap())
                && cell(table, "q", *at) == Cell::Real(number(row, "q"))
        };
        let at = (0..table.rows()).find(same).unwrap();
        assert_eq!(cell(table, "subwords", at), Cell::Integer(row["subwords"].parse().unwrap()), "{row:?}");
    }
    assert!(!out.0.join("fig22-fit.csv").exists(), "no regression");
    let written = characters(&out.text("fig22.svg"));
    assert!(written.contains("1 subword") && written.contains("4 or more"), "a legend, not a scale");
    assert!(rows.iter().any(|row| number(row, "subwords") > 4.0), "words of more parts share a colour");
}

#[test]
fn the_sweep_of_frequencies_is_the_definition_over_every_range() {
    let out = Folder::new("sweep");
    let runs = small();
    draw(&runs, &only(&["frequency"]), &out);
    for name in ["encoder-base", "org-decoder-small"] {
        let rows = out.csv(&format!("frequency-{name}.csv"));
        let mut defined = 0;
        for row in &rows {
            let (low, high) = (row["minimum"].parse().unwrap(), row["maximum"].parse().unwrap());
            assert!(if row["sweep"] == "minimum" { high == 100_000 } else { low == 10 }, "the other bound is the run's own: {row:?}");
            let [_, q, m, v] = columns(&groups(run_of(&runs, row), row["layer"].parse().unwrap(), &row["point"], (low, high)));
            let expected = match row["measure"].as_str() {
                "cv_q" if !q.is_empty() => Some(variation(&q)),
                "slope_v_on_m" if q.len() >= 3 => Some(line(&m, &v).0),
                "r2_v_on_m" if q.len() >= 3 => Some(line(&m, &v).1),
                _ => None,
            };
            match expected {
                Some(expected) => assert!((number(row, "value") - expected).abs() < 1e-9, "{row:?} {expected}"),
                None => assert_eq!(row["value"], "", "{row:?}"),
            }
            defined += usize::from(expected.is_some());
        }
        let at = |sweep: &str| rows.iter().filter(|row| row["sweep"] == sweep && row["measure"] == "cv_q" && row["layer"] == "0").count();
        assert!(at("minimum") == 8 && at("maximum") >= 8 && defined > 100, "{} {} {defined}", at("minimum"), at("maximum"));
    }
}

#[test]
fn histograms_count_every_group() {
    let out = Folder::new("histograms");
    let runs = small();
    draw(&runs[..1], &only(&["fig9", "fig10", "fig14"]), &out);
    // A value on an edge belongs to the bin above it, but the last edge to the last bin.
    let check = |rows: &[&BTreeMap<String, String>], values: &[(f64, i64)]| {
        let end = number(rows[rows.len() - 1], "to");
        for row in rows {
            let (from, to) = (number(row, "from"), number(row, "to"));
            let inside = |value: f64| value >= from && (value < to || (to == end && value <= end));
            let expected: i64 = values.iter().filter(|(value, _)| inside(*value)).map(|(_, weight)| weight).sum();
            assert_eq!(row["count"], expected.to_string(), "{row:?}");
        }
    };
    let all = groups(&runs[0], 0, "embedding", (1, i64::MAX));
    let rows = out.csv("fig10.csv");
    assert_eq!((rows.len(), number(&rows[0], "from"), number(&rows[29], "to")), (30, 0.0, 6.5));
    check(&rows.iter().collect::<Vec<_>>(), &columns(&all)[0].iter().map(|log| (*log, 1)).collect::<Vec<_>>());
    let words: Vec<(f64, i64)> = runs[0].manifest.sentence_words().iter().map(|(words, count)| (*words as f64, *count as i64)).collect();
    let rows = out.csv("fig9.csv");
    assert_eq!((rows.len(), number(&rows[0], "from"), number(&rows[29], "to")), (30, 1.0, 63.0));
    check(&rows.iter().collect::<Vec<_>>(), &words);
    let rows = out.csv("fig14.csv");
    assert_eq!(rows.len(), 5 * 3 * 50);
    for (layer, point) in [("0", "embedding"), ("1", "block"), ("2", "block"), ("3", "block"), ("4", "block")] {
        let [_, q, m, v] = columns(&groups(&runs[0], layer.parse().unwrap(), point, (1, i64::MAX)));
        for (name, mut values) in [("q", q), ("m", m), ("v", v)] {
            let own: Vec<_> = rows.iter().filter(|row| row["layer"] == layer && row["quantity"] == name).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!(own.len() == 50 && (number(own[0], "mean") - mean).abs() < 1e-9 * mean, "{layer} {name}");
            values.sort_by(f64::total_cmp);
            let place = 0.99 * (values.len() - 1) as f64;
            let end = values[place as usize] + (values[place as usize + 1] - values[place as usize]) * place.fract();
            assert!((number(own[49], "to") - end).abs() < 1e-9 * end && number(own[0], "from") == values[0], "{layer} {name}");
            check(&own, &values.iter().map(|value| (*value, 1)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn chosen_tokens_are_plotted_and_tabled() {
    let out = Folder::new("tokens");
    let runs = small();
    let table = runs[0].tokens.as_ref().unwrap();
    let drawing = draw(&runs[..1], &only(&["fig1", "fig8", "table2"]), &out);
    assert!(drawing.skipped.is_empty());
    let rows = out.csv("fig1.csv");
    let kept = (0..table.rows()).filter(|row| cell(table, "layer", *row) == Cell::Integer(2)).count();
    assert_eq!(rows.len(), kept);
    for row in &rows {
        assert!(
            (0..table.rows())
                .any(|at| cell(table, "x", at) == Cell::Real(number(row, "x")) && cell(table, "y", at) == Cell::Real(number(row, "y")))
        );
    }
    assert_eq!(out.csv("fig8.csv").iter().filter(|row| row["labelled"] == "1").count(), 40);
    for row in out.csv("table2.csv") {
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        assert!((number(&row, "q") - (number(&row, "m") + number(&row, "v"))).abs() < 1e-9);
        let group = groups(&runs[0], 2, "block", (1, i64::MAX))
            .into_iter()
            .find(|group| tenth(group.3) == number(&row, "m") && group.1.to_string() == row["n"]);
        assert_eq!(tenth(group.unwrap_or_else(|| panic!("{row:?}")).4), number(&row, "v"));
    }
    let names: Vec<String> = vec!["winked".into()];
    draw(&runs[..1], &Settings { tokens: names.clone(), ..only(&["fig1"]) }, &out);
    assert!(out.csv("fig1.csv").iter().all(|row| row["group"] == names[0]));
    let none = Settings { tokens: vec!["absent".into()], ..only(&["fig1"]) };
    assert!(draw(&runs[..1], &none, &out).skipped[0].reason.flags().contains("none of the tokens"));
}
