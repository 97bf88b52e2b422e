//! `registers.md`.

use layerscope_report::Run;

use super::page::{At, FINAL_NORM, Page, layer, shown, value};

const MODELS: [&str; 2] = ["pocket-bert", "pocket-gpt"];
const REGISTERS: [&str; 4] = ["speech", "narration", "news", "wikipedia"];

/// Mean length of the sentences.
fn words(run: &Run) -> Option<f64> {
    let lengths: Vec<(f64, f64)> = run.manifest.sentence_words().iter().map(|&(words, count)| (words as f64, count as f64)).collect();
    let sentences: f64 = lengths.iter().map(|(_, count)| count).sum();
    Some(lengths.iter().map(|(words, count)| words * count).sum::<f64>() / sentences)
}

/// The last states a model makes.
fn last(model: &str) -> At {
    if model == "pocket-bert" { layer(6) } else { FINAL_NORM }
}

#[test]
fn registers() {
    let page = Page::run("registers");
    let mut rows = Vec::new();
    for model in MODELS {
        for register in REGISTERS {
            let run = page.open(&format!("{model}-{register}"));
            let of = |at, selection, measure| value(&run.layers, at, selection, measure, None);
            rows.push(vec![
                model.to_owned(),
                register.to_owned(),
                shown(words(&run), 1),
                run.manifest.corpus.states.unwrap_or(0).to_string(),
                run.manifest.corpus.groups.unwrap_or(0).to_string(),
                shown(of(layer(3), "all", "mean_cosine"), 3),
                shown(of(last(model), "all", "mean_cosine"), 3),
                shown(of(layer(3), "all", "v_within_over_v"), 3),
                shown(of(layer(3), "selected", "cv_q"), 4),
                shown(of(layer(3), "selected", "slope_v_on_m"), 2),
                shown(of(layer(3), "selected", "r2_v_on_m"), 3),
            ]);
        }
    }
    let headings = [
        "model",
        "text",
        "words a sentence",
        "states",
        "tokens",
        "cosine, block 3",
        "cosine, last",
        "V_W/V",
        "C.V. of Q",
        "slope of V on M",
        "R^2",
    ];
    page.check("registers", &headings, &rows);

    let rows = REGISTERS.map(|register| {
        let run = page.open(&format!("short-{register}"));
        let of = |at, measure| value(&run.layers, at, "all", measure, None);
        vec![
            register.to_owned(),
            run.manifest.corpus.documents.unwrap_or(0).to_string(),
            shown(words(&run), 1),
            shown(of(layer(3), "mean_cosine"), 3),
            shown(of(layer(6), "mean_cosine"), 3),
            shown(of(layer(3), "v_within_over_v"), 3),
        ]
    });
    page.check("short", &["text", "sentences", "words a sentence", "cosine, block 3", "cosine, block 6", "V_W/V"], &rows);

    let rows: Vec<Vec<String>> = MODELS
        .iter()
        .map(|model| {
            let run = page.open(&format!("{model}-all"));
            let of = |at| shown(value(&run.layers, at, "all", "v_between_over_v", None), 4);
            let mut row = vec![(*model).to_owned()];
            row.extend((0..=6).map(|at| of(layer(at))));
            row.push(if *model == "pocket-bert" { "-".to_owned() } else { of(FINAL_NORM) });
            row
        })
        .collect();
    page.check("between", &["V_B/V", "0", "1", "2", "3", "4", "5", "6", "final norm"], &rows);
}
