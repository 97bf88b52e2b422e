//! Text that names settings as flags, told to somebody who uses keywords.
//!
//! Errors keep settings as data. Summaries and the warnings that a manifest keeps are text, and read by both.

use layerscope_error::setting;
use layerscope_report::States;

use super::table::{Kind, Row};

/// The text with every setting as a keyword of Python: `add --sample 1` becomes `add sample=1`.
pub fn in_keywords(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some(place) = rest.find("--") {
        let (before, flag) = rest.split_at(place);
        told.push_str(before);
        let length = 2 + flag[2..].find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(flag.len() - 2);
        let begins = before.chars().next_back().is_none_or(|letter| letter.is_whitespace() || "(`".contains(letter));
        rest = &flag[length..];
        match known(&flag[2..length]).filter(|_| begins) {
            None => told.push_str(&flag[..length]),
            Some(Known { name, values }) => {
                let word = rest.strip_prefix(' ').unwrap_or_default();
                let word = word.split(char::is_whitespace).next().unwrap_or_default().trim_end_matches(['.', ',', ';', ':', ')', '`']);
                let is_value = match values {
                    Values::Switch => false,
                    Values::Words(words) => words.contains(&word),
                    Values::Numbers => word.starts_with(|letter: char| letter.is_ascii_digit()),
                };
                let said = if is_value { &rest[..1 + word.len()] } else { "" };
                let named = match (values, is_value) {
                    (Values::Switch, _) => setting(name).to(true),
                    (_, true) => setting(name).to(word),
                    (_, false) => setting(name),
                };
                told.push_str(&named.keywords());
                rest = &rest[said.len()..];
            }
        }
    }
    told + rest
}

/// A setting, and what tells a value of it from the next word of the sentence.
struct Known {
    name: &'static str,
    values: Values,
}

#[derive(Clone, Copy)]
enum Values {
    Switch,
    Words(&'static [&'static str]),
    Numbers,
}

/// A setting by its flag.
fn known(flag: &str) -> Option<Known> {
    if flag == "states" {
        return Some(Known { name: "states", values: Values::Words(&States::NAMES) });
    }
    let row = Row::named(flag)?;
    let values = match row.kind {
        Kind::Truth | Kind::Switch => Values::Switch,
        Kind::Words(_, words) => Values::Words(words),
        Kind::Value(..) | Kind::Values(..) => Values::Numbers,
    };
    Some(Known { name: row.name, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_keywords() {
        for (text, told) in [
            (
                "1 group is selected by --frequency 5:100: give a wider --frequency",
                "1 group is selected by frequency=\"5:100\": give a wider frequency",
            ),
            ("left by the preset's --sample 0.01; add --sample 1", "left by the preset's sample=0.01; add sample=1"),
            ("Below are all; --states typical leaves these out", "Below are all; states=\"typical\" leaves these out"),
            ("measure with --confidence to get them (--on-error skip)", "measure with confidence=True to get them (on_error=\"skip\")"),
            ("a--b, --no-such-flag 3 and -- alone", "a--b, --no-such-flag 3 and -- alone"),
            ("über --max-words", "über max_words"),
        ] {
            assert_eq!(in_keywords(text), told);
        }
    }
}
