//! The README's commands, run as written.

mod support;

use support::http::Server;
use support::{layerscope, root};

/// The lines of all fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let fence = format!("```{language}\n");
    let inside = readme.split(fence.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned());
    inside.collect()
}

#[test]
fn every_command_works_and_prints_what_is_shown() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let _ = std::fs::remove_dir_all(root().join("target/runs"));
    let mut printed: Vec<String> = Vec::new();
    for command in blocks("sh").iter().flat_map(|block| block.lines()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            // A server does not end by itself: it must show its page, and end when asked to. Its usual port may be taken.
            ["layerscope", "serve", ..] => {
                let server = Server::of(&words[1..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
                let page = server.get(&server.page());
                assert!(page.status == 200 && page.text().contains("· Layerscope</title>"), "{command}: {}", page.status);
                assert_eq!(server.signalled("-INT").status, 0, "{command}");
            }
            ["layerscope", arguments @ ..] | ["cargo", "run", "--release", "--", arguments @ ..] => {
                let outcome = layerscope(arguments);
                assert_eq!(outcome.status, 0, "{command}: {}", outcome.stderr);
                assert!(!outcome.stdout.is_empty(), "{command} prints nothing");
                printed.push(outcome.stdout);
            }
            // Running the tests from a test would not end.
            ["make", target] => assert!(makefile.contains(&format!("\n{target}:")), "no target {target}"),
            _ => panic!("a command that no test runs: {command}"),
        }
    }
    for shown in blocks("text") {
        let holds = |output: &&String| shown.lines().all(|line| line == "..." || output.lines().any(|candidate| candidate == line));
        assert!(printed.iter().find(holds).is_some(), "no command prints:\n{shown}");
    }
}

#[test]
fn it_states_the_true_number_of_families() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(readme.contains(&format!("{} families", layerscope_model::families::FAMILIES.len())));
}
