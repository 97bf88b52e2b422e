//! `clusters.md`.

use layerscope_report::Run;

use super::page::{At, FINAL_NORM, Page, layer, shown, value};

const NUMBERS: [&str; 3] = ["k=10", "k=100", "k=1000"];

#[test]
fn clusters() {
    let page = Page::run("clusters");
    for model in ["pocket-bert", "pocket-gpt"] {
        let (run, by_position) = (page.open(model), page.open(&format!("{model}-positions")));
        let mut points: Vec<(String, At)> = (0..=6).map(|at| (at.to_string(), layer(at))).collect();
        points.extend((model != "pocket-bert").then(|| ("final norm".to_owned(), FINAL_NORM)));
        let rows: Vec<Vec<String>> = points
            .into_iter()
            .map(|(name, at)| {
                let within = |run: &Run| shown(value(&run.layers, at, "all", "v_within_over_v", None), 3);
                let mut row = vec![name, within(&run), within(&by_position)];
                for measure in ["v_within_over_v", "adjusted_mutual_information", "silhouette"] {
                    row.extend(NUMBERS.map(|k| shown(value(&run.layers, at, "sample", measure, Some(k)), 3)));
                }
                row
            })
            .collect();
        let headings = [
            "layer",
            "V_W/V of tokens",
            "of positions",
            "of 10 clusters",
            "of 100",
            "of 1000",
            "AMI, 10",
            "AMI, 100",
            "AMI, 1000",
            "silhouette, 10",
            "100",
            "1000",
        ];
        page.check(model, &headings, &rows);
    }
}
