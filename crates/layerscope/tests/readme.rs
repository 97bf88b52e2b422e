//! The README's commands, run as written.

mod support;

use support::{layerscope, root};

/// The lines of all fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let fence = format!("```{language}\n");
    let inside = readme.split(fence.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned());
    inside.collect()
}

#[test]
fn every_command_works() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let mut run = 0;
    for command in blocks("sh").iter().flat_map(|block| block.lines()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["layerscope", arguments @ ..] | ["cargo", "run", "--release", "--", arguments @ ..] => {
                let outcome = layerscope(arguments);
                assert_eq!(outcome.status, 0, "{command}: {}", outcome.stderr);
                assert!(!outcome.stdout.is_empty(), "{command} prints nothing");
                run += 1;
            }
            // Running the tests from a test would not end.
            ["make", target] => assert!(makefile.contains(&format!("\n{target}:")), "no target {target}"),
            _ => panic!("a command that no test runs: {command}"),
        }
    }
    assert!(run >= 4, "only {run} commands found");
}

#[test]
fn the_shown_output_is_the_programs() {
    let commands: Vec<String> = blocks("sh").iter().flat_map(|block| block.lines()).map(str::to_owned).collect();
    for shown in blocks("text") {
        let first = shown.lines().next().expect("a line").to_owned();
        let start = if first.starts_with("model ") { "layerscope inspect" } else { "layerscope show" };
        let command = commands.iter().find(|command| command.starts_with(start)).expect("a command that prints it");
        let _ = layerscope(&words(&commands, "layerscope measure"));
        let printed = layerscope(&command.split_whitespace().skip(1).collect::<Vec<_>>()).stdout;
        for line in shown.lines().filter(|line| *line != "...") {
            assert!(printed.lines().any(|candidate| candidate == line), "{command} does not print: {line}");
        }
    }
}

/// The arguments of the first command that begins so.
fn words<'a>(commands: &'a [String], start: &str) -> Vec<&'a str> {
    commands
        .iter()
        .find(|command| command.starts_with(start))
        .map(|command| command.split_whitespace().skip(1).collect())
        .unwrap_or_default()
}

#[test]
fn it_states_the_true_number_of_families() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(readme.contains(&format!("{} families", layerscope_model::families::FAMILIES.len())));
}
