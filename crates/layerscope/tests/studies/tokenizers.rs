//! `tokenizers.md`.

use super::page::{At, FINAL_NORM, Page, layer, shown, value};

#[test]
fn tokenizers() {
    let page = Page::run("tokenizers");
    let cases = [
        ("pocket-char", "bytes"),
        ("pocket-gpt", "BPE"),
        ("pocket-bert", "WordPiece"),
        ("pocket-char-words", "words"),
        ("pocket-gpt-words", "words"),
        ("pocket-bert-words", "words"),
    ];
    let runs = cases.map(|(folder, _)| page.open(folder));
    let counted: Vec<Vec<String>> = cases
        .iter()
        .zip(&runs)
        .map(|((_, unit), run)| {
            let (states, groups) = (run.manifest.corpus.states.unwrap_or(0), run.manifest.corpus.groups.unwrap_or(0));
            let selected = value(&run.layers, layer(3), "selected", "groups", None);
            vec![run.model().to_owned(), (*unit).to_owned(), states.to_string(), groups.to_string(), shown(selected, 0)]
        })
        .collect();
    page.check("counted", &["model", "groups are", "states", "groups", "selected"], &counted);

    let last = |model: &str| if model == "pocket-bert" { layer(6) } else { FINAL_NORM };
    for (table, at) in [("middle", &(|_: &str| layer(3)) as &dyn Fn(&str) -> At), ("last", &last)] {
        let rows: Vec<Vec<String>> = cases
            .iter()
            .zip(&runs)
            .map(|((_, unit), run)| {
                let of = |selection, measure| value(&run.layers, at(run.model()), selection, measure, None);
                vec![
                    run.model().to_owned(),
                    (*unit).to_owned(),
                    shown(of("all", "v_within_over_v"), 3),
                    shown(of("selected", "slope_log_m_on_log_n"), 3),
                    shown(of("selected", "slope_log_v_on_log_n"), 3),
                    shown(of("selected", "slope_v_on_m"), 2),
                    shown(of("selected", "r2_v_on_m"), 3),
                ]
            })
            .collect();
        let headings = ["model", "groups are", "V_W/V", "slope of log M on log n", "slope of log V on log n", "slope of V on M", "R^2"];
        page.check(table, &headings, &rows);
    }
}
