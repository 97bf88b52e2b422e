//! The README and the book: commands run as written, links, and what is generated.

mod support;

use std::path::{Path, PathBuf};

use support::http::Server;
use support::{empty_folder, layerscope, root};

/// Made from docstrings, which the tests of the Python package run, and from the help of commands.
const GENERATED: [&str; 2] = ["python.md", "commands.md"];

/// The pages in a folder and below it.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|entry| if entry.is_dir() { pages_in(&entry) } else { vec![entry] }).filter(|file| is_page(file)).collect()
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

/// The README, then the pages that people wrote: first those directly in docs/, then the folders, in the order of their names. They use the
/// runs that earlier commands leave.
fn pages() -> Vec<PathBuf> {
    let mut pages = pages_in(&root().join("docs"));
    pages.retain(|page| !GENERATED.iter().any(|generated| page.ends_with(generated)));
    pages.sort_by_key(|page| (page.components().count(), page.clone()));
    pages.insert(0, root().join("README.md"));
    pages
}

/// The text of every fenced block of a page, with its language and the line before its fence that is not empty.
fn blocks(page: &Path) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(page).expect("a page");
    let mut lines = text.lines();
    let (mut found, mut before) = (Vec::new(), "");
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((language.to_owned(), inside.join("\n"), before.to_owned()));
        } else if !line.trim().is_empty() {
            before = line;
        }
    }
    found
}

/// Blocks of one language on all pages, with the name of their page.
fn all(language: &str) -> Vec<(String, String)> {
    let of = |page: &PathBuf| {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        blocks(page).into_iter().filter(|block| block.0 == language).map(move |block| (name.clone(), block.1)).collect::<Vec<_>>()
    };
    pages().iter().flat_map(of).collect()
}

#[test]
fn every_command_works_and_prints_what_is_shown() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let _ = std::fs::remove_dir_all(root().join("target/runs"));
    let mut printed: Vec<String> = Vec::new();
    let commands = all("sh");
    for (page, command) in commands.iter().flat_map(|(page, block)| block.lines().map(move |line| (page, line))) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            // A server does not end by itself: it must show its page, and end when asked to. Its usual port may be taken.
            ["layerscope", "serve", ..] => {
                let server = Server::of(&words[1..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
                let shown = server.get(&server.page());
                assert!(shown.status == 200 && shown.text().contains("· Layerscope</title>"), "{page}: {command}: {}", shown.status);
                assert_eq!(server.signalled("-INT").status, 0, "{page}: {command}");
            }
            ["layerscope", arguments @ ..] | ["cargo", "run", "--release", "--", arguments @ ..] => {
                let outcome = layerscope(arguments);
                assert_eq!(outcome.status, 0, "{page}: {command}: {}", outcome.stderr);
                assert!(!outcome.stdout.is_empty(), "{page}: {command} prints nothing");
                printed.push(outcome.stdout);
            }
            // Running the tests from a test would not end.
            ["make", target] => assert!(makefile.contains(&format!("\n{target}:")), "{page}: no target {target}"),
            _ => panic!("{page}: a command that no test runs: {command}"),
        }
    }
    for (page, shown) in all("text") {
        let holds = |output: &&String| shown.lines().all(|line| line == "..." || output.lines().any(|candidate| candidate == line));
        assert!(printed.iter().find(holds).is_some(), "{page}: no command prints:\n{shown}");
    }
}

/// Blocks that no test here runs: those of the README belong to the tests of the Python package, others say what they need.
#[test]
fn commands_that_are_not_run_say_why() {
    for page in pages() {
        for (language, block, before) in blocks(&page) {
            match language.as_str() {
                "sh" | "text" | "python" | "rust,no_run" => {}
                "console" | "bash" if page == root().join("README.md") => {}
                "console" | "bash" => {
                    let text = std::fs::read_to_string(&page).expect("a page");
                    let paragraph = text.split("\n\n").find(|paragraph| paragraph.ends_with(&before)).unwrap_or_default();
                    let says = paragraph.contains("need") && paragraph.ends_with(':');
                    assert!(says, "{}: say in the paragraph above what this needs:\n{block}", page.display());
                }
                other => panic!("{}: a block of `{other}`; use sh, text, console, python or rust,no_run", page.display()),
            }
        }
    }
}

/// The anchors of a page's headings, as renderers of Markdown name them.
fn anchors(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).expect("a page");
    let headings = text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let anchor =
        |heading: String| heading.replace(' ', "-").chars().filter(|sign| sign.is_alphanumeric() || "-_".contains(*sign)).collect();
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let written = pages().into_iter().chain(["examples", "pocket"].iter().flat_map(|folder| pages_in(&root().join(folder))));
    for page in written.chain(["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root().join(name))) {
        let text = std::fs::read_to_string(&page).expect("a page");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(file.exists(), "{}: no {target}", page.display());
            assert!(anchor.is_empty() || anchors(&file).iter().any(|known| known == anchor), "{}: no heading {target}", page.display());
        }
    }
}

#[test]
fn every_page_has_a_place_in_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the table of contents");
    for page in pages_in(&root().join("docs")) {
        let name = page.strip_prefix(root().join("docs")).expect("a page of docs").display().to_string();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("]({name})")), "docs/SUMMARY.md does not mention {name}");
    }
}

#[test]
fn the_reference_of_commands_is_what_help_prints() {
    let page = std::fs::read_to_string(root().join("docs/commands.md")).expect("a page");
    let listed = layerscope(&["--help"]).stdout;
    let commands = listed.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.map(|line| line.split_whitespace().next().expect("a command")) {
        let section = format!("## {command}\n\n```text\n{}\n```\n", layerscope(&[command, "--help"]).stdout.trim_end());
        assert!(page.contains(&section), "docs/commands.md: `{command}` changed; `make reference` writes it anew");
    }
}

#[test]
fn pages_of_measures_have_the_table_of_their_family() {
    let listed: Vec<serde_json::Value> = serde_json::from_str(&layerscope(&["measures", "--format", "json"]).stdout).expect("JSON");
    let unescaped = |text: &str| text.replace("\\\\", "\u{0}").replace('\\', "").replace('\u{0}', "\\");
    for measure in &listed {
        let of = |column: &str| measure[column].as_str().expect("text");
        let page = root().join(format!("docs/measures/{}.md", of("family")));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let row = format!("| `{}` | {} | {} | {} | {} |", of("measure"), of("formula"), of("variants"), of("n counts"), of("source"));
        let row_is = |line: &str| unescaped(line).split_whitespace().eq(row.split_whitespace());
        assert!(text.lines().any(row_is), "{}: `{}` changed; `make reference` writes it anew", page.display(), of("measure"));
    }
}

/// The columns that docs/files.md describes are those of a run.
#[test]
fn the_reference_of_files_has_every_column() {
    let page = std::fs::read_to_string(root().join("docs/files.md")).expect("a page");
    let folder = empty_folder("columns");
    let run = folder.to_str().expect("text");
    let settings = ["--limit", "60", "--frequency", "3:100000", "--massive", "1.1", "--out", run];
    let measured = layerscope(&[&["measure", "--model", "pocket-gpt", "--corpus", "pocket/corpus/held-out.txt"], &settings[..]].concat());
    assert_eq!(measured.status, 0, "{}", measured.stderr);
    for table in ["layers", "groups", "components", "spectra", "tokens", "token-components", "massive", "norms"] {
        let printed = layerscope(&["show", run, "--table", table, "--format", "csv"]).stdout;
        let heading = format!("\n## {}.parquet\n", table.replace('-', "_"));
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("docs/files.md: no {heading}"));
        let section = section.split("\n## ").next().expect("a section");
        for column in printed.lines().next().expect("a header").split(',') {
            assert!(section.contains(&format!("`{column}`")), "docs/files.md: {table} has a column `{column}`");
        }
    }
}

#[test]
fn it_states_the_true_number_of_families() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(readme.contains(&format!("{} families", layerscope_model::families::FAMILIES.len())));
}
