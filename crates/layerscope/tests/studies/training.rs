//! `training.md`.

use layerscope_report::Table;

use super::page::{At, FINAL_NORM, Page, layer, shown, value};

/// The input embedding matrix.
const MATRIX: At = At { step: None, layer: None, point: "input_embedding" };

/// Mean over the embedding and all blocks.
fn mean(layers: &Table, step: i64, selection: &str, measure: &str, variant: Option<&str>) -> Option<f64> {
    let values: Option<Vec<f64>> =
        (0..=6).map(|at| value(layers, At { step: Some(step), ..layer(at) }, selection, measure, variant)).collect();
    values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

#[test]
fn training() {
    let page = Page::run("training");
    let run = page.open("pocket-pythia");
    let layers = &run.layers;
    let steps = run.manifest.checkpoints().iter().map(|checkpoint| checkpoint.step.expect("a step"));
    let (mut cosines, mut others) = (Vec::new(), Vec::new());
    for step in steps {
        let of = |at: At, selection, measure, variant| value(layers, At { step: Some(step), ..at }, selection, measure, variant);
        let mut row = vec![step.to_string()];
        row.extend((0..=6).map(|at| shown(of(layer(at), "all", "mean_cosine", None), 3)));
        row.push(shown(of(FINAL_NORM, "all", "mean_cosine", None), 3));
        cosines.push(row);
        others.push(vec![
            step.to_string(),
            shown(mean(layers, step, "sample", "intrinsic_dimension", Some("twonn")), 2),
            shown(mean(layers, step, "all", "anisotropy_svd", Some("corpus")), 3),
            shown(mean(layers, step, "all", "v_within_over_v", None), 3),
            shown(of(layer(3), "selected", "slope_v_on_m", None), 2),
            shown(of(layer(3), "selected", "r2_v_on_m", None), 3),
            shown(of(MATRIX, "all", "mean_cosine", None), 3),
            shown(of(MATRIX, "all", "partition", Some("default")), 3),
        ]);
    }
    page.check("cosine", &["step", "0", "1", "2", "3", "4", "5", "6", "final norm"], &cosines);
    let headings = ["step", "TwoNN", "SVD anisotropy", "V_W/V", "slope of V on M", "R^2", "cosine of W", "I(W)"];
    page.check("rest", &headings, &others);
}
