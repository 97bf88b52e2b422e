//! The commands of the README and of the pages under docs/, run as written.

mod support;

use std::path::{Path, PathBuf};

use support::http::Server;
use support::{layerscope, root};

/// Made from docstrings, which the tests of the Python package run.
const GENERATED: &str = "python.md";

/// The README, then the pages in the order of their names: they use the runs that its commands leave.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md") && !page.ends_with(GENERATED));
    pages.sort();
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

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let is_file = !target.is_empty() && !target.contains("://");
            assert!(!is_file || page.with_file_name(target).exists(), "{}: no {target}", page.display());
        }
    }
}

#[test]
fn it_states_the_true_number_of_families() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(readme.contains(&format!("{} families", layerscope_model::families::FAMILIES.len())));
}
