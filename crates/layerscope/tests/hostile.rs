//! Names come from anywhere: whatever they are, nothing the program writes does more than show them.

mod support;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use layerscope_report::text::is_hidden;
use serde_json::json;
use support::measure::{measured, model, sentences, table, text};
use support::{Outcome, empty_folder, layerscope};

/// Groups that would like to be mark-up, formulas, commands, or to take over a terminal.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "</script><script>alert(1)</script>",
        "</text></svg><script>alert(1)</script>",
        "<!--<script>",
        "]]>",
        "&lt;b&gt;&amp;",
        "\"quoted\" 'twice' `thrice`",
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1+1",
        "\\input{/etc/passwd} \\end{tabular}",
        "$x_1^2$ & 100% # ~ {}",
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "\u{9b}31mC1",
        "\u{202e}desrever\u{2066}",
        "a\nb\r\nc\u{2028}d\u{85}e",
        "nul\u{0}del\u{7f}\u{feff}\u{200b}",
        "| a | b |",
        "../../../etc/passwd",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(10_000));
    names.push("\u{202e}".repeat(10_000));
    names
}

/// A model, a file and a run whose own names are hostile too, grouped by a hostile column.
fn run() -> &'static PathBuf {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = empty_folder("hostile").join("<b>\u{1b}c\u{202e}$(x)_&'\"");
        std::fs::create_dir_all(&folder).expect("a folder");
        let checkpoint = folder.join("=1+1 <script>\u{1b}[5m\u{202e}");
        std::fs::rename(model("bert/base", "hostile-model"), &checkpoint).expect("moved");
        let (names, text) = (hostile(), sentences(440, 99));
        let records: Vec<String> =
            text.iter().enumerate().map(|(i, text)| json!({ "text": text, "topic": names[i % names.len()] }).to_string()).collect();
        let corpus = folder.join("text\u{1b}c\u{202e}.jsonl");
        std::fs::write(&corpus, records.join("\n")).expect("written");
        let out = folder.join("run\u{7}");
        let outcome = measured(&checkpoint, &corpus, &out, "--group column:topic --frequency 2:100000 --token-states 5");
        harmless(&outcome);
        out
    })
}

fn said(words: &[&str]) -> Outcome {
    let outcome = layerscope(words);
    assert_eq!(outcome.status, 0, "{words:?}: {}", outcome.stderr);
    harmless(&outcome);
    outcome
}

/// Nothing that moves a cursor, changes a colour or turns text around.
#[track_caller]
fn harmless(outcome: &Outcome) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let hidden = text.chars().find(|character| is_hidden(*character) && !matches!(character, '\n' | '\r' | '\t'));
        assert_eq!(hidden, None, "{text:.400}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn the_groups_are_really_there() {
    let groups = table(run(), "groups");
    let names: std::collections::BTreeSet<String> = (0..groups.rows()).filter_map(|row| text(&groups, "raw", row)).collect();
    for name in hostile() {
        assert!(names.contains(&name), "{name:.60?}");
    }
}

#[test]
fn a_terminal_sees_text_only() {
    let run = run();
    said(&["show", path(run)]);
    for name in ["layers", "groups", "components", "identities"] {
        for format in ["md", "csv", "json", "jsonl", "latex"] {
            let shown = said(&["show", path(run), "--table", name, "--format", format]).stdout;
            if format == "csv" {
                for field in shown.lines().flat_map(|line| line.split(',')) {
                    let formula = field.trim_start_matches('"').starts_with(['=', '+', '@']) || field.starts_with("\"-");
                    assert!(!formula, "{name}: {field:.80}");
                }
            }
            if format == "md" || format == "latex" {
                assert!(shown.lines().all(|line| line.chars().count() < 2500), "{name} as {format}: long names are cut");
            }
            if format == "latex" {
                let begun = (shown.matches("\\begin{").count(), shown.matches("\\end{").count());
                assert_eq!((begun, shown.contains("\\input")), ((1, 1), false), "{name}");
            }
        }
    }
    for format in ["text", "md", "csv", "json", "jsonl", "latex"] {
        said(&["compare", path(run), path(run), "--format", format, "--measures", "q"]);
    }
}

#[test]
fn errors_show_names_harmlessly() {
    let run = run();
    let parent = run.parent().expect("a folder");
    let (missing, damaged) = (parent.join("no\u{1b}[31mthing\u{202e}\nhere"), parent.join("dam\u{1b}aged"));
    std::fs::create_dir_all(&damaged).expect("a folder");
    std::fs::write(damaged.join("manifest.json"), "{}").expect("written");
    std::fs::write(damaged.join("layers.parquet"), "PAR1 \u{1b}[31m PAR1").expect("written");
    for words in [
        &["show", path(&missing)][..],
        &["show", path(&damaged)],
        &["show", path(run), "--table", "\u{1b}[31m"],
        &["serve", path(&missing)],
        &["serve", path(&damaged)],
        &["compare", path(run), path(&missing)],
        &["compare", path(run), path(run), "--measures", "\u{1b}[31m"],
        &["report", path(&missing)],
        &["figures", path(&damaged), "--out", path(&parent.join("f"))],
        &["inspect", "--model", path(&missing)],
        &["weights", "--model", path(&damaged)],
        &["measure", "--model", path(&damaged), "--corpus", path(&missing), "--out", path(&parent.join("o"))],
        &["merge", path(&missing), "--out", path(&parent.join("o"))],
    ] {
        let outcome = layerscope(words);
        assert_ne!(outcome.status, 0, "{words:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{words:?}: {}", outcome.stderr);
        harmless(&outcome);
    }
}

#[test]
fn figures_and_their_tables_run_nothing() {
    let run = run();
    let out = empty_folder("hostile-figures");
    said(&["figures", path(run), "--out", path(&out), "--only", "fig2,fig10,table1,table3", "--title", "</text><script>\u{1b}[31m"]);
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for file in std::fs::read_dir(&out).expect("figures").map(|entry| entry.expect("a file").path()) {
        let kind = file.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_owned();
        *kinds.entry(kind.clone()).or_default() += 1;
        if !["svg", "csv", "tex", "md"].contains(&kind.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file.display();
        assert!(!text.chars().any(|character| is_hidden(character) && !matches!(character, '\n' | '\r' | '\t')), "{name}");
        match kind.as_str() {
            "svg" => {
                assert!(!text.contains("<script") && !text.contains("<!--") && !text.contains("]]>"), "{name}");
                let labels = text.split("<text").skip(1).map(|rest| rest.split("</text>").next().unwrap_or_default());
                assert!(labels.clone().count() > 0 && labels.map(str::len).all(|length| length < 1000), "{name}: long names are cut");
            }
            "tex" => assert!(!text.contains("\\input{/etc") && !text.contains("\u{0}"), "{name}"),
            "csv" => assert!(!text.lines().flat_map(|line| line.split(',')).any(|field| field.starts_with(['=', '@'])), "{name}"),
            _ => {}
        }
    }
    assert!(["svg", "pdf", "png", "csv"].iter().all(|kind| kinds.get(*kind).is_some_and(|count| *count >= 2)), "{kinds:?}");
}

#[test]
fn the_page_holds_names_as_data_only() {
    let run = run();
    let out = empty_folder("hostile-page").join("page.html");
    said(&["report", path(run), "--out", path(&out), "--title", "</title><script>alert(1)</script>\u{202e}"]);
    let page = std::fs::read_to_string(&out).expect("a page");
    assert_eq!(page.matches("<script>").count(), 1, "one program");
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
    assert!(!page.contains("alert(1)</script>") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    let served = support::http::Server::start(&[run], "");
    let shell = served.get(&served.page());
    assert_eq!(shell.text().matches("<script>").count(), 1);
    assert!(!shell.text().contains("alert(1)"));
}
