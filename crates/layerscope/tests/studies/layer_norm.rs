//! `layer-norm.md`.

use layerscope_report::Table;

use super::page::{At, FINAL_NORM, Page, layer, shown, value};

const HEADINGS: [&str; 5] = ["Q", "predicted", "C.V. of Q", "slope of V on M", "R^2"];

/// Q, what theory says of it, C.V., and the line of V on M at one point.
fn trade_off(name: String, layers: &Table, at: At) -> Vec<String> {
    let of = |selection, measure| value(layers, at, selection, measure, None);
    vec![
        name,
        shown(of("all", "q"), 1),
        shown(of("all", "predicted_q"), 1),
        shown(of("selected", "cv_q"), 4),
        shown(of("selected", "slope_v_on_m"), 2),
        shown(of("selected", "r2_v_on_m"), 3),
    ]
}

#[test]
fn layer_norm() {
    let page = Page::run("layer-norm");
    let models = ["pocket-bert", "pocket-gpt", "pocket-pythia", "pocket-llama"];
    let tables = models.map(|model| page.open(model).layers);

    let mut rows = Vec::new();
    for (model, table) in models.iter().zip(&tables) {
        rows.push(trade_off(format!("{model}, block 3"), table, layer(3)));
        rows.push(trade_off(format!("{model}, block 6"), table, layer(6)));
        if *model != "pocket-bert" {
            rows.push(trade_off(format!("{model}, final norm"), table, FINAL_NORM));
        }
    }
    page.check("placement", &[&["states of"], &HEADINGS[..]].concat(), &rows);

    let cases = [
        ("pocket-bert", ""),
        ("pocket-bert-plain", "norm:gamma=1; norm:beta=0"),
        ("pocket-bert-without", "norm:identity@3"),
        ("pocket-gpt", ""),
        ("pocket-gpt-plain", "norm:gamma=1; norm:beta=0"),
        ("pocket-gpt-without", "norm:identity@3"),
        ("pocket-gpt-doubled", "norm:gamma*=2"),
    ];
    let rows = cases.map(|(folder, altered)| {
        let run = page.open(folder);
        let said = run.manifest.model.altered.as_deref().unwrap_or_default();
        assert_eq!(said, altered, "{folder}");
        let model = run.manifest.model.name.as_deref().expect("a name");
        let name = if altered.is_empty() { model.to_owned() } else { format!("{model}, `{altered}`") };
        trade_off(name, &run.layers, layer(3))
    });
    page.check("ablated", &[&["block 3 of"], &HEADINGS[..]].concat(), &rows);

    let ladder = ["n0=1", "n0=3", "n0=10", "n0=30", "n0=100", "n0=300"];
    let rows: Vec<Vec<String>> = models
        .iter()
        .zip(&tables)
        .map(|(model, table)| {
            let mut row = vec![(*model).to_owned()];
            row.extend(ladder.iter().map(|n0| shown(value(table, layer(3), "all", "cv_q", Some(n0)), 4)));
            row.push(shown(value(table, layer(3), "all", "cv_q_exponent", None), 2));
            row
        })
        .collect();
    page.check("rarest", &[&["block 3 of"], &ladder[..], &["exponent"]].concat(), &rows);
}
