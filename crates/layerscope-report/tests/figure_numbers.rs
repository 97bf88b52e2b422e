//! Every number that a figure of made-up runs plots is in the runs' tables, or follows from them by its definition.

#[allow(dead_code)] // each test uses its part
mod support;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use layerscope_report::figure::Settings;
use layerscope_report::{Cell, Run};
use support::drawn::{cell, columns, draw, groups, number, only, small, trained, value, variation};
use support::files::Folder;
use support::{DECODER, ENCODER, Shape, line, projected, run};

/// What names a row of the table of layers, with the texts of a row of a figure's numbers.
const PLACE: [&str; 5] = ["layer", "point", "selection", "measure", "variant"];

fn by_place(run: &Run, row: &BTreeMap<String, String>) -> f64 {
    let wanted: Vec<(&str, &str)> = PLACE.iter().filter_map(|name| Some((*name, row.get(*name)?.as_str()))).collect();
    value(run, &wanted)
}

fn run_of<'a>(runs: &'a [Run], row: &BTreeMap<String, String>) -> &'a Run {
    runs.iter().find(|run| run.model() == row["model"]).unwrap()
}

#[test]
fn profiles_plot_exactly_the_tables() {
    let out = Folder::new("profiles");
    let runs = small();
    let figures = [
        "fig4",
        "fig5",
        "fig6",
        "fig17",
        "fig18",
        "fig19",
        "fig20",
        "ethayarajh1",
        "ethayarajh2",
        "ethayarajh3",
        "ethayarajh4",
        "isotropy",
        "shape1",
    ];
    draw(&runs, &only(&figures), &out);
    for name in figures {
        let rows = out.csv(&format!("{name}.csv"));
        for row in &rows {
            assert_eq!(by_place(run_of(&runs, row), row), number(row, "value"), "{name}: {row:?}");
            if row.contains_key("se") {
                assert_eq!(number(row, "se"), number(row, "value").abs() * 0.01, "{name}: {row:?}");
            }
        }
        // Both models, every layer, and the decoder's last block beside its final norm.
        let places = |model: &str| {
            let own = rows.iter().filter(|row| row["model"] == model);
            own.map(|row| (row["layer"].clone(), row["point"].clone())).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((places(ENCODER.name), places(DECODER.name)), (5, 6), "{name}");
    }
    for row in out.csv("shape1.csv") {
        let spread = BTreeMap::from([("variant".to_owned(), "batch4096_std".to_owned())]);
        let wanted: BTreeMap<String, String> = row.clone().into_iter().chain(spread).collect();
        assert_eq!(number(&row, "band"), by_place(run_of(&runs, &row), &wanted), "{row:?}");
    }
}

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
        let labelled: Vec<_> = out.csv("fig8-encoder-base.csv").into_iter().filter(|row| row["labelled"] == "0").collect();
        plotted_groups(&labelled, &runs, (1, i64::MAX));
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

/// Every row is a group of its run with its own numbers, and at every point all groups of the range are there.
fn plotted_groups(rows: &[BTreeMap<String, String>], runs: &[Run], range: (i64, i64)) {
    let mut seen: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for row in rows {
        let all = groups(run_of(runs, row), row["layer"].parse().unwrap(), &row["point"], range);
        let own = |name: &str| row.get(name).map(|text| text.parse::<f64>().unwrap());
        let log = |value: f64| (1.0 + value).log10();
        let same = |group: &&(String, i64, f64, f64, f64)| {
            let pairs = [("n", group.1 as f64), ("log10_n", (group.1 as f64).log10()), ("q", group.2), ("m", group.3), ("v", group.4)];
            let logs = [("log10_1p_q", log(group.2)), ("log10_1p_m", log(group.3)), ("log10_1p_v", log(group.4))];
            pairs.iter().chain(&logs).all(|(name, value)| own(name).is_none_or(|own| own == *value))
        };
        assert_eq!(all.iter().filter(same).count(), 1, "{row:?}");
        *seen.entry((row["model"].clone(), row["layer"].clone(), row["point"].clone())).or_default() += 1;
        if row.get("labelled").is_none() && seen[&(row["model"].clone(), row["layer"].clone(), row["point"].clone())] == 1 {
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
fn agreement_pairs_the_two_anisotropies_and_ranks_them() {
    let out = Folder::new("agreement");
    let runs = small();
    draw(&runs, &only(&["agreement"]), &out);
    let rows = out.csv("agreement.csv");
    assert_eq!(rows.len(), 5 + 6);
    for row in &rows {
        let of = |measure| {
            value(run_of(&runs, row), &[("layer", &row["layer"]), ("point", &row["point"]), ("selection", "all"), ("measure", measure)])
        };
        assert_eq!((number(row, "mean_cosine"), number(row, "m_over_q")), (of("mean_cosine"), of("m_over_q")), "{row:?}");
    }
    // Pearson's correlation of mean ranks; the last block before the final norm does not count.
    let counted: Vec<_> =
        rows.iter().filter(|row| !(row["model"] == DECODER.name && row["layer"] == "4" && row["point"] == "block")).collect();
    let ranks = |name: &str| {
        let of = |own: f64| {
            counted
                .iter()
                .map(|row| match number(row, name).total_cmp(&own) {
                    Ordering::Less => 1.0,
                    Ordering::Equal => 0.5,
                    Ordering::Greater => 0.0,
                })
                .sum::<f64>()
        };
        counted.iter().map(|row| of(number(row, name))).collect::<Vec<f64>>()
    };
    let (n, (slope, r2)) = (counted.len(), line(&ranks("mean_cosine"), &ranks("m_over_q")));
    let rho = r2.sqrt().copysign(slope);
    let said = format!("points: ${rho:.3}$");
    assert!(out.text("figures.tex").contains(&said), "{said}");
    assert!(out.text("agreement.svg").contains(&format!("{rho:.3} over {n} points").replace('-', "−")), "{rho}");
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
    let words = runs[0].manifest["sentence_words"].as_array().unwrap();
    let words: Vec<(f64, i64)> = words.iter().map(|pair| (pair[0].as_f64().unwrap(), pair[1].as_i64().unwrap())).collect();
    let rows = out.csv("fig9.csv");
    assert_eq!((rows.len(), number(&rows[0], "from"), number(&rows[29], "to")), (30, 1.0, 63.0));
    check(&rows.iter().collect::<Vec<_>>(), &words);
    let rows = out.csv("fig14.csv");
    assert_eq!(rows.len(), 5 * 3 * 50);
    for (layer, point) in [("0", "embedding"), ("1", "block"), ("2", "block"), ("3", "block"), ("4", "block")] {
        let [_, q, m, v] = columns(&groups(&runs[0], layer.parse().unwrap(), point, (10, 100_000)));
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
    assert!(draw(&runs[..1], &none, &out).skipped[0].reason.contains("none of the tokens"));
}

#[test]
fn trajectories_average_and_compare() {
    let out = Folder::new("steps");
    let runs = [trained()];
    draw(&runs, &only(&["shape2", "shape3", "machina1", "machina2", "machina3"]), &out);
    let run = &runs[0];
    let places: Vec<(String, &str)> = [(0, "embedding"), (1, "block"), (2, "block"), (3, "final_norm"), (3, "block")]
        .map(|(layer, point)| (layer.to_string(), point))
        .into();
    let of = |measure: &str, variant: &str, (layer, point): &(String, &str), step: &str| {
        value(
            run,
            &[("measure", measure), ("variant", variant), ("layer", layer), ("point", point), ("step", step)]
                .into_iter()
                .chain((measure == "m_over_q").then_some(("selection", "all")))
                .collect::<Vec<_>>(),
        )
    };
    let rows = out.csv("shape2.csv");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // Layers 0 to 3, the last one after its norm only.
        let mean = places[..4].iter().map(|place| of("intrinsic_dimension", "twonn", place, &row["step"])).sum::<f64>() / 4.0;
        assert!((number(row, "mean_intrinsic_dimension") - mean).abs() < 1e-12 && row["layers"] == "4", "{row:?} {mean}");
    }
    let rows = out.csv("shape3.csv");
    assert_eq!(rows.len(), 4 * 5, "four steps, five points: the last block beside its norm");
    for row in &rows {
        let place = places.iter().find(|(layer, point)| *layer == row["layer"] && *point == row["point"]).unwrap();
        assert_eq!(number(row, "anisotropy_svd"), of("anisotropy_svd", "corpus", place, &row["step"]), "{row:?}");
    }
    let rows = out.csv("machina3.csv");
    assert_eq!(rows.len(), 4 * 4);
    for row in &rows {
        let variant = if row["measure"] == "anisotropy_svd" { "corpus" } else { "" };
        let (before, after) =
            (of(&row["measure"], variant, &places[4], &row["step"]), of(&row["measure"], variant, &places[3], &row["step"]));
        assert_eq!((number(row, "before"), number(row, "after")), (before, after), "{row:?}");
    }
    let point = |place: &str| match place {
        "Input embedding" => (String::new(), "input_embedding"),
        "Output embedding" => (String::new(), "output_embedding"),
        "Last hidden state" => ("3".to_owned(), "final_norm"),
        other => panic!("{other}"),
    };
    let rows = out.csv("machina1.csv");
    assert_eq!(rows.len(), 4 * 2 * 2);
    for row in &rows {
        let variant = if row["variant"] == "mean-centred" { "default_centred" } else { "default" };
        assert_eq!(number(row, "partition"), of("partition", variant, &point(&row["place"]), &row["step"]), "{row:?}");
        assert_eq!(row["parameters"], DECODER.parameters.to_string());
    }
    let rows = out.csv("machina2.csv");
    assert_eq!(rows.len(), 4 * 3);
    for row in &rows {
        assert_eq!(number(row, "mean_cosine"), of("mean_cosine", "", &point(&row["place"]), &row["step"]), "{row:?}");
    }
}

#[test]
fn models_without_steps_stand_at_their_sizes() {
    let out = Folder::new("sizes");
    let runs = small();
    draw(&runs, &only(&["machina2", "machina3"]), &out);
    let rows = out.csv("machina2.csv");
    assert_eq!(rows.len(), 2 * 3);
    for row in &rows {
        let run = run_of(&runs, row);
        assert_eq!((row["parameters"].parse().ok(), row["step"].as_str()), (run.manifest["model"]["parameters"].as_i64(), ""));
        let last = if row["model"] == DECODER.name { "final_norm" } else { "block" };
        let (layer, point) = match row["place"].as_str() {
            "Input embedding" => ("", "input_embedding"),
            "Output embedding" => ("", "output_embedding"),
            _ => ("4", last),
        };
        assert_eq!(number(row, "mean_cosine"), value(run, &[("measure", "mean_cosine"), ("layer", layer), ("point", point)]), "{row:?}");
    }
    assert!(out.csv("machina3.csv").iter().all(|row| row["model"] == DECODER.name), "only it has a final norm");
}

#[test]
fn embedding_matrices_are_plotted_as_they_were_projected() {
    let out = Folder::new("projections");
    let runs = [projected(trained(), &out.0.join("run"))];
    draw(&runs, &only(&["machina4"]), &out);
    let table = runs[0].read_table("projections").unwrap().unwrap();
    let rows = out.csv("machina4.csv");
    // Four steps of two matrices of 60 rows; the output embedding of the first step is its input.
    assert_eq!(rows.len(), (4 * 2 - 1) * 60);
    for row in &rows {
        let same = |at: &usize| {
            cell(&table, "point", *at) == Cell::Text(&row["point"])
                && cell(&table, "step", *at) == Cell::Integer(row["step"].parse().unwrap())
                && cell(&table, "group_id", *at) == Cell::Integer(row["group_id"].parse().unwrap())
        };
        let at = (0..table.rows()).find(same).unwrap();
        assert_eq!((cell(&table, "x", at), cell(&table, "y", at)), (Cell::Real(number(row, "x")), Cell::Real(number(row, "y"))));
    }
}

#[test]
fn tables_of_facts_are_those_of_the_manifests() {
    let out = Folder::new("facts");
    let runs = small();
    draw(&runs, &only(&["table1", "table3"]), &out);
    for (row, run) in out.csv("table1.csv").iter().zip(&runs) {
        let model = &run.manifest["model"];
        let facts = ["layers", "width", "heads", "parameters"].map(|name| model[name].to_string());
        assert_eq!(["layers", "dimensions", "heads", "parameters"].map(|name| row[name].clone()), facts);
        assert_eq!(row["model"], run.model());
    }
    for (row, run) in out.csv("table3.csv").iter().zip(&runs) {
        let corpus = &run.manifest["corpus"];
        let selected = groups(run, 0, "embedding", (10, 100_000)).len().to_string();
        let facts = [corpus["groups"].to_string(), selected, corpus["states"].to_string(), corpus["documents"].to_string()];
        assert_eq!(["groups", "selected_groups", "states", "sentences"].map(|name| row[name].clone()), facts);
    }
}
