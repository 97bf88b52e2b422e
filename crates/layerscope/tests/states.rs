//! Which states the terminal shows first, and how to see the others. The tables are made up, so that every number says where it is from.

mod support;

use std::path::{Path, PathBuf};

use layerscope::{Question, ask, ask_curve};
use layerscope_report::{Column, Run, States, Table};
use support::measure::{corpus, measured, model, number, sentences, table, text};
use support::{Outcome, empty_folder, layerscope};

/// Below the norms of many states: they carry more than a tenth of Q.
const MASSIVE: &str = "--massive 1.02";
const FLAGS: &str = "--quiet --frequency 5:60 --measures norm,cosine";

fn put(out: &Path, name: &str, table: &Table) {
    let mut bytes = Vec::new();
    layerscope_report::export::parquet::write(table, &mut bytes).expect("bytes");
    std::fs::write(out.join(format!("{name}.parquet")), bytes).expect("written");
    support::measure::without_digests(out);
}

/// Rows of a table, each with its selection and what is added to its value.
fn chosen(table: &Table, rows: &[(usize, String, f64)], value: &str) -> Table {
    let picked = Table::gather(&[table], &rows.iter().map(|(row, ..)| (0, *row)).collect::<Vec<_>>()).expect("rows");
    let named = Column::text(rows.iter().map(|(_, selection, _)| Some(selection.clone())));
    let columns = picked.columns().map(|(name, column)| {
        let column = match column {
            Column::Real(values) if name == value => {
                Column::Real(values.iter().zip(rows).map(|(value, (.., more))| value.map(|value| value + more)).collect())
            }
            _ if name == "selection" => named.clone(),
            column => column.clone(),
        };
        (name.to_owned(), column)
    });
    let mut columns: Vec<(String, Column)> = columns.collect();
    if !columns.iter().any(|(name, _)| name == "selection") {
        columns.push(("selection".to_owned(), named));
    }
    Table::new(columns).expect("a table")
}

/// The tables of an older program: nothing of the typical states of the selected groups.
fn make_old(out: &Path) {
    let layers = table(out, "layers");
    let old =
        |row: &usize| !["typical_selected", "typical_sample"].map(str::to_owned).contains(&text(&layers, "selection", *row).expect("one"));
    let rows: Vec<(usize, usize)> = (0..layers.rows()).filter(old).map(|row| (0, row)).collect();
    put(out, "layers", &Table::gather(&[&layers], &rows).expect("rows"));
    let groups = table(out, "groups");
    if groups.column("selection").is_some() {
        let rows = (0..groups.rows()).filter(|&row| text(&groups, "selection", row).as_deref() == Some("all"));
        let all = Table::gather(&[&groups], &rows.map(|row| (0, row)).collect::<Vec<_>>()).expect("rows");
        put(out, "groups", &all.without(&["selection"]));
    }
}

/// The tables of this program: values of `typical_selected` are those of `selected` and 1000 more; at layer 1 some states are massive.
fn make_new(out: &Path) {
    make_old(out);
    let layers = table(out, "layers");
    let mut rows = Vec::new();
    for row in 0..layers.rows() {
        let selection = text(&layers, "selection", row).expect("a selection");
        rows.push((row, selection.clone(), 0.0));
        if selection == "selected" {
            rows.push((row, "typical_selected".to_owned(), 1000.0));
        }
    }
    put(out, "layers", &chosen(&layers, &rows, "value"));
    let groups = table(out, "groups");
    let mut rows: Vec<(usize, String, f64)> = (0..groups.rows()).map(|row| (row, "all".to_owned(), 0.0)).collect();
    rows.extend(
        (0..groups.rows()).filter(|&row| number(&groups, "layer", row) == Some(1.0)).map(|row| (row, "typical".to_owned(), 1000.0)),
    );
    put(out, "groups", &chosen(&groups, &rows, "q"));
}

fn run(name: &str, flags: &str) -> PathBuf {
    let (model, text) = (model("bert/base", &format!("{name}-model")), corpus(&format!("{name}-text"), &sentences(200, 61)));
    let out = empty_folder(name).join("run");
    measured(&model, &text, &out, &format!("{FLAGS} {flags}"));
    out
}

fn tell(command: &str, folders: &[&Path], flags: &str) -> Outcome {
    let mut words = vec![command];
    words.extend(folders.iter().map(|folder| folder.to_str().expect("UTF-8")));
    words.extend(flags.split_whitespace());
    layerscope(&words)
}

#[track_caller]
fn told(command: &str, folders: &[&Path], flags: &str) -> String {
    let outcome = tell(command, folders, flags);
    assert_eq!(outcome.status, 0, "{flags}: {}", outcome.stderr);
    outcome.stdout
}

#[track_caller]
fn refused(command: &str, folders: &[&Path], flags: &str, said: &str) {
    let outcome = tell(command, folders, flags);
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (2, 1), "{flags}: {}", outcome.stderr);
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
}

/// Q of a layer of the summary.
fn shown_q(shown: &str, layer: &str) -> f64 {
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(layer) && line.len() > 40).expect("a line");
    line.split_whitespace().nth(1).expect("a cell").parse().expect("a number")
}

fn value(out: &Path, selection: &str, layer: f64) -> f64 {
    let layers = table(out, "layers");
    let is = |row: &usize| {
        let word = |name: &str| text(&layers, name, *row);
        number(&layers, "layer", *row) == Some(layer)
            && word("selection").as_deref() == Some(selection)
            && word("measure").as_deref() == Some("q")
    };
    number(&layers, "value", (0..layers.rows()).find(is).expect("a row")).expect("a value")
}

const OTHER: &str = "Below are the typical states, without these; --states all shows all of them";

#[test]
fn the_summary_leads_with_typical_states_and_offers_all() {
    let out = run("states-summary", MASSIVE);
    make_new(&out);
    let lead = told("show", &[&out], "");
    assert_eq!(lead, told("show", &[&out], "--states typical"));
    let lines: Vec<&str> = lead.lines().collect();
    // A slow machine also tells where the time went.
    let massive = lines.iter().find(|line| line.contains(" states are massive and carry ")).expect("a line about massive states");
    assert!(lines.contains(&OTHER) && lines.iter().all(|line| line.chars().count() <= 80), "{lead}");
    assert!(lead.contains("\nover the typical states of the ") && lead.contains(" selected groups\n"), "{lead}");
    let expected = value(&out, "typical_selected", 2.0);
    assert!(expected > 1000.0 && (shown_q(&lead, "2") - expected).abs() <= 0.5, "{lead}");

    let all = told("show", &[&out], "--states all");
    assert!(all.contains("Below are all states; --states typical leaves these out") && all.contains("\nover the "), "{all}");
    assert!(!all.contains("over the typical") && (shown_q(&all, "2") - value(&out, "selected", 2.0)).abs() <= 0.01, "{all}");
    refused("show", &[&out], "--states some", "--states `some` is not understood; give typical or all");

    // Another range: the massive states are still named, and the rows of both selections are computed again.
    assert!(told("show", &[&out], "--frequency 5:60").contains(massive));

    // A preset shows what the paper did, and still says who is massive.
    let paper = run("states-preset", &format!("{MASSIVE} --preset ethayarajh"));
    make_new(&paper);
    assert!(told("show", &[&paper], "").contains("Below are all states; --states typical leaves these out"));
}

#[test]
fn older_runs_stay_as_they_were() {
    let out = run("states-old", MASSIVE);
    make_old(&out);
    let shown = told("show", &[&out], "");
    assert!(!shown.contains("massive and carry") && !shown.contains("--states") && shown.contains("\nover the "), "{shown}");
    assert_eq!(shown, told("show", &[&out], "--states all"));
    refused(
        "show",
        &[&out],
        "--states typical",
        "an older program measured it, with all states alone; measure it again, or give --states all",
    );
    refused("show", &[&out], "--table groups --states typical", "an older program made its table `groups`, of all states alone");
    let groups = told("show", &[&out], "--table groups --format csv");
    assert_eq!(groups, told("show", &[&out], "--table groups --format csv --states all"));
    // Beside a new run it still is what it was.
    let new = run("states-beside-old", MASSIVE);
    make_new(&new);
    let both = told("compare", &[&new, &out], "");
    assert!(both.contains("\nQ over the selected groups\n") && !both.contains("typical states of"), "{both}");
}

#[test]
fn tables_have_the_rows_of_the_states_asked_for() {
    let out = run("states-tables", MASSIVE);
    make_new(&out);
    let lines = |flags: &str| told("show", &[&out], &format!("{flags} --format csv")).lines().count() - 1;
    let groups = table(&out, "groups");
    let at = |layer: f64| (0..groups.rows()).filter(|&row| number(&groups, "layer", row) == Some(layer)).count();
    let (all, first) = (groups.rows() - at(1.0) / 2, at(1.0) / 2);
    assert!(first > 0);
    assert_eq!(lines("--table groups"), groups.rows());
    assert_eq!((lines("--table groups --states all"), lines("--table groups --states typical")), (all, all));
    let typical = told("show", &[&out], "--table groups --states typical --format csv");
    assert_eq!(typical.lines().filter(|line| line.ends_with(",typical")).count(), first, "the other points have no massive states");

    let layers = told("show", &[&out], "--table layers --states typical --format csv");
    assert!(layers.contains(",typical_selected,q,") && !layers.contains(",selected,") && !layers.contains(",all,"), "{layers}");
    let layers = told("show", &[&out], "--table layers --states all --frequency 5:61 --format csv");
    assert!(layers.contains(",selected,q,") && layers.contains(",all,q,") && !layers.contains(",typical"), "{layers}");

    refused("show", &[&out], "--table weights", "this run has no table `weights`");
    let counts = Table::new([("layer", Column::Integer(vec![Some(1)])), ("token", Column::text(vec![Some("the")]))]).expect("a table");
    for (name, file) in [("massive", "massive"), ("token-components", "token_components")] {
        put(&out, file, &counts);
        assert_eq!(told("show", &[&out], &format!("--table {name} --format csv")), "layer,token\n1,the\n");
    }
}

#[test]
fn comparisons_lead_with_typical_states_if_one_of_the_runs_does() {
    let (one, other) = (run("states-one", MASSIVE), run("states-other", "--massive 1000"));
    make_new(&one);
    make_new(&other);
    assert!(told("show", &[&other], "").contains("\nover the ") && !told("show", &[&other], "").contains("typical"));
    let both = told("compare", &[&other, &one], "");
    let head: String = both.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    assert!(head.contains("states are massive and carry") && head.contains(OTHER), "{both}");
    for heading in ["Q over the typical states of the selected groups", "slope of V on M over the typical states of the selected groups"] {
        assert!(both.contains(&format!("\n{heading}\n")), "{both}");
    }
    assert!(!both.contains("over all states\n"), "{both}");
    let all = told("compare", &[&other, &one], "--states all");
    assert!(all.contains("\nQ over the selected groups\n") && !all.contains("over the typical"), "{all}");
    // Named measures: every selection, the leading ones first; a table only of the states asked for.
    let named = told("compare", &[&other, &one], "--measures q");
    let headings: Vec<&str> = named.lines().filter(|line| line.starts_with('q') || line.starts_with('Q')).collect();
    let of_typical = ["Q over the typical states of the selected groups", "Q over the typical states"];
    assert_eq!(headings, [of_typical[0], of_typical[1], "Q over all states", "Q over the selected groups"], "{named}");
    let csv = told("compare", &[&other, &one], "--measures q --states typical --format csv");
    assert!(
        csv.contains(",typical,q,") && csv.contains(",typical_selected,q,") && !csv.contains(",all,q,") && !csv.contains(",selected,q,")
    );
    let csv = told("compare", &[&other, &one], "--measures q --format csv");
    assert!(csv.contains(",typical_selected,q,") && csv.contains(",selected,q,"));
}

/// Q of a layer in the block of a comparison.
fn compared_q(shown: &str, layer: &str, place: usize) -> f64 {
    let block = shown.lines().skip_while(|line| !line.starts_with("Q over "));
    let line = block.skip(2).find(|line| line.split_whitespace().next() == Some(layer)).expect("a line");
    line.split_whitespace().nth(place).expect("a cell").parse().expect("a number")
}

/// The terminal, a comparison, the numbers of a figure, a question by name and what the page starts with: one selection, one value.
#[test]
fn the_same_question_has_the_same_answer_everywhere() {
    let out = run("states-everywhere", MASSIVE);
    make_new(&out);
    let run = Run::open(&out).expect("a run");
    let lead = States::lead(&[&run]);
    assert_eq!(lead, States::Typical);
    let shown = told("show", &[&out], "");
    let compared = told("compare", &[&out, &out], "");
    let figures = empty_folder("states-everywhere-figures");
    told("figures", &[&out], &format!("--only fig19 --out {}", figures.display()));
    let drawn = std::fs::read_to_string(figures.join("fig19.csv")).expect("numbers");
    let page = figures.join("page.html");
    told("report", &[&out], &format!("--out {}", page.display()));
    for layer in [1, 2] {
        let expected = value(&out, "typical_selected", f64::from(layer));
        let question = Question { measure: "q".to_owned(), layer: Some(i64::from(layer)), ..Question::default() };
        let answer = ask(&run.layers, lead, &question).expect("an answer");
        assert_eq!((run.layers.real("value", answer.rows[0]), answer.selection.as_str()), (Some(expected), "typical_selected"));
        assert!((shown_q(&shown, &layer.to_string()) - expected).abs() <= 0.5, "{shown}");
        for place in [1, 2] {
            assert!((compared_q(&compared, &layer.to_string(), place) - expected).abs() <= 0.5, "{compared}");
        }
        let line = drawn.lines().find(|line| line.contains(&format!(",{layer},block,typical_selected,q,"))).expect("a row");
        assert!(line.contains(&expected.to_string()), "{line} {expected}");
    }
    let curve = ask_curve(&run.layers, lead, &Question { measure: "mean_cosine".to_owned(), ..Question::default() }).expect("a curve");
    let layers = run.manifest.model.layers.expect("layers") as usize;
    assert_eq!((curve.rows.len(), curve.selection.as_str()), (layers + 1, "typical_selected"));
}
