//! What readers must mind when runs are shown together, or when a run has few groups: comparisons, captions and the page say the same.

use crate::manifest::Manifest;
use crate::run::Run;

/// A line through fewer groups than this depends on a few of them: everything that shows one warns.
pub const FEW_GROUPS: usize = 30;

/// What else is different between runs than their models, a line each: differences of numbers may come from there. Weights have no text,
/// and no part in this.
pub fn differences(runs: &[&Run]) -> Vec<String> {
    let all: Vec<&Manifest> = runs.iter().map(|run| &run.manifest).filter(|manifest| !manifest.is_weights_only()).collect();
    let differs = |same: &dyn Fn(&Manifest, &Manifest) -> bool| all.iter().any(|one| !same(one, all[0]));
    // Runs of programs that did not know a setting have its default.
    let setting = |manifest: &Manifest, name: &str, default: &str| {
        manifest.setting(name).map_or(default.to_owned(), |value| value.as_str().map_or(value.to_string(), str::to_owned))
    };
    let facts = [
        ("the text is", differs(&|one, first| one.text() == first.text())),
        ("the grouping is", differs(&|one, first| one.grouping() == first.grouping())),
        ("the frequency range of the selected groups is", differs(&|one, first| one.frequency() == first.frequency())),
        (
            "the treatment of special tokens is",
            differs(&|one, first| setting(one, "specials", "exclude") == setting(first, "specials", "exclude")),
        ),
        (
            "the first positions that are left out are",
            differs(&|one, first| setting(one, "skip-first", "0") == setting(first, "skip-first", "0")),
        ),
        ("the program's version is", differs(&|one, first| one.program == first.program)),
    ];
    facts.into_iter().filter(|(_, differs)| *differs).map(|(fact, _)| format!("{fact} not the same in all runs")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::table::{Column, Table};

    fn run(manifest: serde_json::Value) -> Run {
        let layers = Table::new([("layer", Column::Integer(vec![]))]).unwrap();
        let manifest = serde_json::from_value(manifest).unwrap();
        Run { folder: PathBuf::new(), manifest, layers, groups: None, components: None, spectra: None, tokens: None, norms: None }
    }

    #[test]
    fn what_differs_is_said_once_and_weights_have_no_text() {
        let token = run(json!({"corpus": {"fingerprint": "a"}, "grouping": "token", "frequency": {"minimum": 10, "maximum": 100}}));
        let word = run(json!({"corpus": {"fingerprint": "b"}, "grouping": "word", "frequency": {"minimum": 10, "maximum": 100},
            "settings": {"specials": {"value": "include", "from": "flag"}, "skip-first": {"value": "0", "from": "default"}}}));
        let weights = run(json!({"weights_only": true}));
        assert_eq!(differences(&[&token, &token, &weights]), Vec::<String>::new());
        let wanted =
            ["the text is", "the grouping is", "the treatment of special tokens is"].map(|fact| format!("{fact} not the same in all runs"));
        assert_eq!(differences(&[&token, &word, &weights, &word]), wanted);
        assert_eq!(differences(&[]), Vec::<String>::new());
        let part = |value: &str| run(json!({"part": value, "corpus": {"fingerprint": "a"}}));
        assert_eq!(differences(&[&part("news"), &part("poems")]), ["the text is not the same in all runs"]);
    }
}
