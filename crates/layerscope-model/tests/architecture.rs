//! Rules of the house that the compiler does not check.

use std::path::{Path, PathBuf};

use layerscope_model::families::FAMILIES;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a source file: neither comments nor the tests at its end.
fn code(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = source.find("#[cfg(test)]").unwrap_or(source.len());
    let lines = source[..tests].lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
}

/// Whether `name` stands in `line` as a word of its own.
fn mentions(line: &str, name: &str) -> bool {
    let line = line.to_lowercase();
    line.match_indices(name).any(|(at, _)| {
        let outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        outside(line[..at].chars().next_back()) && outside(line[at + name.len()..].chars().next())
    })
}

#[test]
fn no_family_is_named_outside_families() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&crates).expect("the crates") {
        rust_files(&entry.expect("a crate").path().join("src"), &mut files);
    }
    assert!(files.len() > 40, "the sources are found");
    let inside = |file: &Path| file.components().any(|part| part.as_os_str() == "families");
    // Tests of a module in a file of their own, which only `cfg(test)` compiles.
    let is_test = |file: &Path| file.ends_with("tests.rs");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !inside(file) && !is_test(file)) {
        let source = std::fs::read_to_string(file).expect("readable");
        for (number, line) in code(&source) {
            for name in FAMILIES.iter().flat_map(|family| family.model_types) {
                if mentions(line, name) {
                    found.push(format!("{}:{number}: {}", file.display(), line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "families named outside families/:\n{}", found.join("\n"));
}

#[test]
fn the_search_for_names_finds_them() {
    assert!(mentions("if family == \"bert\" {", "bert"));
    assert!(mentions("fn is_gpt2() -> bool", "gpt2"));
    assert!(!mentions("let robert = 1;", "bert"));
}
