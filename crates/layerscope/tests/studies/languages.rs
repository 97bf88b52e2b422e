//! `languages.md`.

use super::page::{FINAL_NORM, Page, layer, shown, value};

const LANGUAGES: [&str; 10] = ["english", "german", "french", "italian", "finnish", "turkish", "russian", "arabic", "hindi", "chinese"];
const MODELS: [&str; 2] = ["pocket-gpt", "pocket-char"];

#[test]
fn languages() {
    let page = Page::run("languages");
    for model in MODELS {
        let rows = LANGUAGES.map(|language| {
            let run = page.open(&format!("{model}/{language}"));
            let of = |at, selection, measure| value(&run.layers, at, selection, measure, None);
            let states = run.manifest.corpus.states.map(|states| states as f64);
            vec![
                language.to_owned(),
                shown(states.map(|states| states / 200.0), 1),
                run.manifest.corpus.groups.unwrap_or(0).to_string(),
                shown(of(layer(3), "all", "mean_cosine"), 3),
                shown(of(FINAL_NORM, "all", "mean_cosine"), 3),
                shown(of(layer(3), "all", "v_within_over_v"), 3),
                shown(of(FINAL_NORM, "all", "v_within_over_v"), 3),
                shown(of(FINAL_NORM, "selected", "slope_v_on_m"), 2),
                shown(of(FINAL_NORM, "selected", "r2_v_on_m"), 3),
            ]
        });
        let headings = [
            "language",
            "tokens a sentence",
            "different ones",
            "cosine, block 3",
            "cosine, final norm",
            "V_W/V, block 3",
            "V_W/V, final norm",
            "slope of V on M, final norm",
            "R^2",
        ];
        page.check(model, &headings, &rows);
    }
    let rows = MODELS.map(|model| {
        let run = page.open(&format!("{model}/all"));
        let of = |at| shown(value(&run.layers, at, "all", "v_between_over_v", None), 3);
        let mut row = vec![model.to_owned()];
        row.extend((0..=6).map(|at| of(layer(at))));
        row.push(of(FINAL_NORM));
        row
    });
    page.check("between", &["V_B/V", "0", "1", "2", "3", "4", "5", "6", "final norm"], &rows);
}
