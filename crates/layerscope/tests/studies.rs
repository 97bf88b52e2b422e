//! The tables in `examples/`, computed again. `LAYERSCOPE_WRITE_EXAMPLES=1` writes them instead.

mod support;

use std::path::PathBuf;

use layerscope_report::{Cell, Run, Table};
use support::{empty_folder, layerscope, root};

/// What all studies measure: the first sentences of the pocket corpus.
const TEXT: [&str; 2] = ["--corpus", "pocket/corpus/sample.txt.gz"];

/// Runs a command of the program on that text.
fn run_into(name: &str, command: &[&str]) -> PathBuf {
    let out = empty_folder(name);
    let outcome = layerscope(&[command, &TEXT, &["--quiet", "--out", out.to_str().expect("UTF-8")]].concat());
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    out
}

/// A value of the table of layers.
struct Wanted<'a> {
    layer: Option<i64>,
    point: &'a str,
    selection: &'a str,
    measure: &'a str,
    variant: Option<&'a str>,
}

fn value(layers: &Table, wanted: &Wanted<'_>) -> Option<f64> {
    let cell = |name: &str, row: usize| layers.column(name).expect("a column").cell(row);
    let is = |row: &usize| {
        cell("layer", *row) == wanted.layer.map_or(Cell::Null, Cell::Integer)
            && cell("point", *row) == Cell::Text(wanted.point)
            && cell("selection", *row) == Cell::Text(wanted.selection)
            && cell("measure", *row) == Cell::Text(wanted.measure)
            && cell("variant", *row) == wanted.variant.map_or(Cell::Null, Cell::Text)
    };
    match (0..layers.rows()).find(is).map(|row| cell("value", row)) {
        Some(Cell::Real(value)) => Some(value),
        _ => None,
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn markdown(headings: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(headings.iter().map(|heading| (*heading).to_owned()).collect());
    table += &format!("|{}\n", "---|".repeat(headings.len()));
    rows.iter().for_each(|row| table += &line(row.clone()));
    table
}

/// Compares the table between `<!-- NAME -->` and the next empty line with the computed one.
fn check(file: &str, name: &str, computed: &str) {
    let path = root().join("examples").join(file);
    let page = std::fs::read_to_string(&path).expect("a study");
    let mark = format!("<!-- {name} -->\n");
    let start = page.find(&mark).unwrap_or_else(|| panic!("{file} has no table {name}")) + mark.len();
    let end = page[start..].find("\n\n").map_or(page.len(), |at| start + at + 1);
    if std::env::var_os("LAYERSCOPE_WRITE_EXAMPLES").is_some() {
        std::fs::write(&path, format!("{}{computed}{}", &page[..start], &page[end..])).expect("writable");
        return;
    }
    assert_eq!(&page[start..end], computed, "{file}, {name}");
}

/// Q, what theory says of it, C.V., and the line of V on M at one point.
fn trade_off(layers: &Table, layer: i64, point: &str) -> Vec<String> {
    let at = |selection, measure| value(layers, &Wanted { layer: Some(layer), point, selection, measure, variant: None });
    vec![
        shown(at("all", "q"), 1),
        shown(at("all", "predicted_q"), 1),
        shown(at("selected", "cv_q"), 4),
        shown(at("selected", "slope_v_on_m"), 2),
        shown(at("selected", "r2_v_on_m"), 3),
    ]
}

fn norms_of(model: &str, ablate: &[&str]) -> Table {
    let name = format!("study-{model}-{}", ablate.join("-").replace([':', '*', '=', '@', ','], "_"));
    let model = format!("pocket/{model}");
    let mut command = vec!["measure", "--model", &model, "--measures", "norm,cosine", "--limit", "2000"];
    ablate.iter().for_each(|what| command.extend(["--ablate", what]));
    Run::open(&run_into(&name, &command)).expect("a run").layers
}

#[test]
fn layer_norm() {
    const HEADINGS: [&str; 5] = ["Q", "predicted", "C.V. of Q", "slope of V on M", "R^2"];
    let row = |first: String, table: &Table, layer: i64, point: &str| [vec![first], trade_off(table, layer, point)].concat();

    let mut rows = Vec::new();
    let models = ["pocket-bert", "pocket-gpt", "pocket-pythia", "pocket-llama"];
    let tables: Vec<Table> = models.iter().map(|model| norms_of(model, &[])).collect();
    for (model, table) in models.iter().zip(&tables) {
        rows.push(row(format!("{model}, block 3"), table, 3, "block"));
        rows.push(row(format!("{model}, block 6"), table, 6, "block"));
        if *model != "pocket-bert" {
            rows.push(row(format!("{model}, final norm"), table, 6, "final_norm"));
        }
    }
    check("layer-norm.md", "placement", &markdown(&[&["states of"], &HEADINGS[..]].concat(), &rows));

    let cases: [(&str, &[&str]); 7] = [
        ("pocket-bert", &[]),
        ("pocket-bert", &["norm:gamma=1", "norm:beta=0"]),
        ("pocket-bert", &["norm:identity@3"]),
        ("pocket-gpt", &[]),
        ("pocket-gpt", &["norm:gamma=1", "norm:beta=0"]),
        ("pocket-gpt", &["norm:identity@3"]),
        ("pocket-gpt", &["norm:gamma*=2"]),
    ];
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|(model, ablate)| {
            let name = if ablate.is_empty() { (*model).to_owned() } else { format!("{model}, `{}`", ablate.join("; ")) };
            row(name, &norms_of(model, ablate), 3, "block")
        })
        .collect();
    check("layer-norm.md", "ablated", &markdown(&[&["block 3 of"], &HEADINGS[..]].concat(), &rows));

    let ladder = ["n0=1", "n0=3", "n0=10", "n0=30", "n0=100", "n0=300"];
    let of = |table: &Table, measure, variant| value(table, &Wanted { layer: Some(3), point: "block", selection: "all", measure, variant });
    let rows: Vec<Vec<String>> = models
        .iter()
        .zip(&tables)
        .map(|(model, table)| {
            let mut row = vec![(*model).to_owned()];
            row.extend(ladder.iter().map(|n0| shown(of(table, "cv_q", Some(*n0)), 4)));
            row.push(shown(of(table, "cv_q_exponent", None), 2));
            row
        })
        .collect();
    check("layer-norm.md", "rarest", &markdown(&[&["block 3 of"], &ladder[..], &["exponent"]].concat(), &rows));
}
