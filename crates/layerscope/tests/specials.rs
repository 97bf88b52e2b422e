//! Special tokens that count and are never selected, on a trained model.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use support::measure::{number, table, text};
use support::{empty_folder, layerscope, root};

type Rows = BTreeMap<(String, String, String, Option<String>), Option<f64>>;

fn measured(out: &Path, flags: &str) {
    let held_out = root().join("pocket/corpus/held-out.txt");
    let mut words = vec!["measure", "--model", "pocket-gpt", "--corpus", held_out.to_str().expect("UTF-8")];
    words.extend(["--out", out.to_str().expect("UTF-8"), "--quiet"]);
    words.extend("--preset paper --sample 1.0 --limit 300 --measures norm".split_whitespace());
    words.extend(flags.split_whitespace());
    let outcome = layerscope(&words);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
}

/// Values of a selection by place, measure and variant.
fn rows(out: &Path, selection: &str) -> Rows {
    let layers = table(out, "layers");
    let word = |name: &str, row: usize| text(&layers, name, row).expect("a word");
    let own = (0..layers.rows()).filter(|&row| word("selection", row) == selection);
    own.map(|row| {
        let key = (word("layer", row), word("point", row), word("measure", row), text(&layers, "variant", row));
        (key, number(&layers, "value", row))
    })
    .collect()
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

#[test]
fn the_papers_special_tokens_count_and_are_never_selected() {
    let folder = empty_folder("specials");
    let out = |name: &str| folder.join(name);
    for (name, flags) in [("paper", ""), ("include", "--specials include"), ("exclude", "--specials exclude")] {
        measured(&out(name), flags);
    }
    // Everything is that of all tokens, and what is selected that of all others.
    assert_eq!(rows(&out("paper"), "all"), rows(&out("include"), "all"));
    assert_eq!(rows(&out("paper"), "selected"), rows(&out("exclude"), "selected"));
    let groups = table(&out("paper"), "groups");
    let here: Vec<usize> = (0..groups.rows())
        .filter(|&row| number(&groups, "layer", row) == Some(5.0))
        .filter(|&row| groups.column("selection").is_none() || text(&groups, "selection", row).as_deref() == Some("all"))
        .collect();
    let special = |row: &usize| number(&groups, "special", *row) == Some(1.0);
    let names: Vec<String> = here.iter().copied().filter(special).filter_map(|row| text(&groups, "raw", row)).collect();
    assert_eq!(names, ["<|endoftext|>"]);
    let selected = |row: &usize| (10.0..=100_000.0).contains(&number(&groups, "n", *row).expect("a count"));
    let point = |row: usize| (number(&groups, "m", row).expect("M"), number(&groups, "v", row).expect("V"));
    let with: Vec<(f64, f64)> = here.iter().copied().filter(selected).map(point).collect();
    let without: Vec<(f64, f64)> = here.iter().copied().filter(selected).filter(|row| !special(row)).map(point).collect();
    assert_eq!(with.len(), without.len() + 1);
    let at = |selection: &str, measure: &str| {
        rows(&out("paper"), selection)[&("5".to_owned(), "block".to_owned(), measure.to_owned(), None)].expect("a value")
    };
    assert_eq!(at("selected", "groups"), without.len() as f64);
    assert!((at("selected", "slope_v_on_m") - slope(&without)).abs() < 1e-9);
    // One group that is read in every sentence, twice, would change the line.
    assert!((slope(&with) - slope(&without)).abs() > 0.05, "{} {}", slope(&with), slope(&without));
    // No chosen token is special, and another range does not select one.
    let shown = layerscope(&["show", out("paper").to_str().expect("UTF-8"), "--table", "tokens", "--format", "csv"]);
    assert!(shown.status != 0 || !shown.stdout.contains("endoftext"), "{}", shown.stdout);
    let wider = |name: &str| {
        let folder = out(name);
        let words = ["show", folder.to_str().expect("UTF-8"), "--table", "layers", "--format", "csv", "--frequency", "1:1000000"];
        let shown = layerscope(&words).stdout;
        shown.lines().filter(|line| line.contains(",selected,")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(wider("paper"), wider("exclude"));
    assert!(!wider("paper").is_empty() && wider("paper") != wider("include"));
}
