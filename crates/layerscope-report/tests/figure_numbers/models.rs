//! Figures and tables of models: their training, their sizes, their embedding matrices, their facts.

use layerscope_report::Cell;
use layerscope_testing::made_up_runs::{DECODER, projected};

use super::rows::run_of;
use crate::support::drawn::{cell, draw, groups, number, only, small, trained, value};
use crate::support::files::Folder;

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
                .chain((measure == "m_over_q").then_some(("selection", "selected")))
                .collect::<Vec<_>>(),
        )
    };
    let rows = out.csv("shape2.csv");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // Layers 1 to 3, the last one after its norm only, by the estimator of the paper.
        let mean = places[1..4].iter().map(|place| of("intrinsic_dimension", "twonn_razzhigaev", place, &row["step"])).sum::<f64>() / 3.0;
        assert!((number(row, "mean_intrinsic_dimension") - mean).abs() < 1e-12 && row["layers"] == "3", "{row:?} {mean}");
    }
    assert!(out.text("figures.tex").contains("The embedding layer is left out."));
    let rows = out.csv("shape3.csv");
    assert_eq!(rows.len(), 4 * 5, "four steps, five points: the last block beside its norm");
    for row in &rows {
        let place = places.iter().find(|(layer, point)| *layer == row["layer"] && *point == row["point"]).unwrap();
        assert_eq!(number(row, "anisotropy_svd"), of("anisotropy_svd", "batch4096", place, &row["step"]), "{row:?}");
    }
    assert!(out.text("figures.tex").contains("means over batches"));
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
    assert_eq!(rows.len(), 4 * 3 * 2);
    for row in &rows {
        assert_eq!(row["selection"], if row["place"] == "Last hidden state" { "sample" } else { "all" });
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
        assert_eq!((row["parameters"].parse().ok(), row["step"].as_str()), (run.manifest.model.parameters, ""));
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
        let model = &run.manifest.model;
        let facts =
            [model.layers.map(|blocks| blocks + 1), model.width, model.heads, model.parameters].map(|count| count.unwrap().to_string());
        assert_eq!(["layers", "dimensions", "heads", "parameters"].map(|name| row[name].clone()), facts);
        assert_eq!(row["model"], run.model());
    }
    for (row, run) in out.csv("table3.csv").iter().zip(&runs) {
        let corpus = &run.manifest.corpus;
        let selected = groups(run, 0, "embedding", (10, 100_000)).len().to_string();
        let [groups, states, documents] = [corpus.groups, corpus.states, corpus.documents].map(|count| count.unwrap().to_string());
        let facts = [groups, selected, states, documents];
        assert_eq!(["groups", "selected_groups", "states", "sentences"].map(|name| row[name].clone()), facts);
    }
}
