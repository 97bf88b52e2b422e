//! What a caller may ask of a measurement: one table for the command line, Python and the library.

pub mod arguments;
pub mod parse;
pub mod presets;
pub mod reference;
pub mod table;
pub mod told;

use std::collections::BTreeMap;
use std::fmt;

use layerscope_error::{Line, line, meant, not_one_of, not_understood, setting};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use table::{Join, Kind, Role, Row, SETTINGS};

/// What a caller gives, by the names of the flags of `layerscope measure`; `_` stands for `-`.
///
/// ```
/// # fn main() -> layerscope::Result<()> {
/// let settings = layerscope::Settings::new("pocket-gpt", ["novels.txt"], "runs/gpt").set("limit", 500)?.set("measures", "norm,cosine")?;
/// assert!(settings.set("limits", 500).is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    given: BTreeMap<&'static str, Vec<String>>,
}

/// A value as a caller in any language gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Yes or no.
    Truth(bool),
    /// Text and numbers, as one would type them.
    Words(Vec<String>),
}

impl From<bool> for Given {
    fn from(truth: bool) -> Given {
        Given::Truth(truth)
    }
}

impl From<Vec<String>> for Given {
    fn from(words: Vec<String>) -> Given {
        Given::Words(words)
    }
}

macro_rules! given_from {
    ($($kind:ty),+) => { $(impl From<$kind> for Given {
        fn from(value: $kind) -> Given {
            Given::Words(vec![value.to_string()])
        }
    })+ };
}
given_from!(&str, String, i32, u32, u64, usize, f64);

impl Settings {
    /// What every measurement needs: a model, a corpus and a place for the run.
    pub fn new(model: &str, corpus: impl IntoIterator<Item = impl Into<String>>, out: &str) -> Settings {
        let corpus = corpus.into_iter().map(Into::into).collect();
        Settings { given: BTreeMap::from([("model", vec![model.to_owned()]), ("corpus", corpus), ("out", vec![out.to_owned()])]) }
    }

    /// Sets one setting. The value is checked when the work begins.
    pub fn set(mut self, name: &str, value: impl Into<Given>) -> Result<Settings> {
        let row = Row::named(&name.replace('_', "-")).ok_or_else(|| {
            let names: Vec<String> = SETTINGS.iter().map(Row::keyword).collect();
            let meant = meant(name, names.iter().map(String::as_str));
            Error::usage(format!("there is no setting `{name}`{meant}; there are {}", names.join(", ")))
        })?;
        let words = match (row.kind, value.into()) {
            (Kind::Switch | Kind::Truth, Given::Truth(truth)) => vec![truth.to_string()],
            (Kind::Switch, Given::Words(_)) => return Err(Error::usage(line![setting(row.name), " is either true or false"])),
            (Kind::Values(..), Given::Words(words)) => words,
            (_, Given::Truth(truth)) => vec![truth.to_string()],
            (_, Given::Words(words)) => vec![words.join(",")],
        };
        self.given.insert(row.name, words);
        Ok(self)
    }

    /// The values as they were given.
    pub(crate) fn values(&self, name: &str) -> &[String] {
        self.given.get(name).map_or(&[], Vec::as_slice)
    }

    /// A single value as it was given.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).first().map(String::as_str)
    }

    /// A single value that must be there.
    pub(crate) fn needed(&self, name: &'static str) -> Result<&str> {
        let example = || Row::named(name).map_or(String::new(), Row::example);
        self.value(name).ok_or_else(|| Error::usage(line![setting(name), format!(" is missing; give {}", example())]))
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }

    /// Chooses every setting that decides a result: flag over preset over default.
    pub(crate) fn choose(&self) -> Result<Choices> {
        let preset = self.value("preset").map(presets::find).transpose()?;
        let choice = |row: &Row| {
            let flag = self.given.get(row.name).filter(|values| !values.is_empty()).map(|values| match row.kind {
                Kind::Values(_, _, Join::Repeated) => values.join("; "),
                _ => values.join(","),
            });
            let set =
                preset.and_then(|preset| preset.sets.iter().find(|(name, _)| *name == row.name).map(|(_, value)| (*value, preset.name)));
            match (flag, set) {
                (Some(value), _) => Choice { value: Some(value), from: Origin::Flag },
                (None, Some((value, by))) => Choice { value: Some(value.to_owned()), from: Origin::Preset(by) },
                (None, None) => Choice { value: row.default.map(str::to_owned), from: Origin::Default },
            }
        };
        let rows = SETTINGS.iter().filter(|row| row.role != Role::Request);
        Ok(Choices { values: rows.map(|row| (row.name, choice(row))).collect() })
    }
}

/// Who chose a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The preset of this name.
    Preset(&'static str),
    /// The user.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => out.write_str("default"),
            Origin::Preset(name) => write!(out, "preset {name}"),
            Origin::Flag => out.write_str("flag"),
        }
    }
}

/// One setting: its text, and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As one would type it; None where the setting is off, or left to the model or the machine.
    pub value: Option<String>,
    /// Who chose it.
    pub from: Origin,
}

/// Every setting that decides a result, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    values: BTreeMap<&'static str, Choice>,
}

impl Choices {
    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Choice)> {
        self.values.iter().map(|(name, choice)| (*name, choice))
    }

    /// The preset in use, and what it set.
    pub fn preset(&self) -> Option<(&'static str, Vec<Line>)> {
        let by = self.iter().find_map(|(_, choice)| match choice.from {
            Origin::Preset(name) => Some(name),
            _ => None,
        })?;
        let chosen = self.iter().filter(|(_, choice)| matches!(choice.from, Origin::Preset(_)));
        Some((by, chosen.map(|(name, choice)| setting(name).to(choice.value.as_deref().unwrap_or_default())).collect()))
    }

    /// Whether the preset chose a setting.
    pub fn is_of_preset(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|choice| matches!(choice.from, Origin::Preset(_)))
    }

    /// Notes what was decided for a setting that was left to the machine.
    pub fn decide(&mut self, name: &'static str, value: impl fmt::Display) {
        if let Some(choice) = self.values.get_mut(name) {
            choice.value = Some(value.to_string());
        }
    }

    /// The text of a setting, if it has one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|choice| choice.value.as_deref())
    }

    /// A setting as a value of its type, if it is set.
    pub fn parsed<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>> {
        self.text(name).map(|text| text.parse().map_err(|_| wrong(name, text))).transpose()
    }

    /// A setting that has a default, as a value of its type.
    pub fn required<T: std::str::FromStr>(&self, name: &'static str) -> Result<T> {
        self.parsed(name)?.ok_or_else(|| wrong(name, ""))
    }

    /// Whether a setting is true.
    pub fn truth(&self, name: &'static str) -> Result<bool> {
        self.required(name)
    }

    /// The value of a setting that is one of a few words; `values` are in the order of the table's words.
    pub fn word<T: Copy, const N: usize>(&self, name: &'static str, values: [T; N]) -> Result<T> {
        let text = self.text(name).unwrap_or_default();
        let words = match Row::named(name).map(|row| row.kind) {
            Some(Kind::Words(_, words)) => words,
            _ => &[],
        };
        debug_assert_eq!(words.len(), N, "{name}");
        let place = words.iter().position(|word| *word == text).and_then(|place| values.get(place));
        place.copied().ok_or_else(|| Error::usage(not_one_of(name, text, words)))
    }

    /// Those that decide the numbers, as a fingerprint has them: flag to value.
    pub fn numbers(&self) -> Map<String, Value> {
        let decides = |name: &str| Row::named(name).is_some_and(|row| row.role == Role::Numbers);
        self.iter().filter(|(name, _)| decides(name)).map(|(name, choice)| (format!("--{name}"), json!(choice.value))).collect()
    }
}

/// The error of a value that a setting does not take.
pub(crate) fn wrong(name: &'static str, text: &str) -> Error {
    wrong_word(name, text, &[])
}

/// The same where it takes some words among others.
pub(crate) fn wrong_word(name: &'static str, text: &str, words: &[&str]) -> Error {
    Error::usage(not_understood(name, text, words, &Row::named(name).map_or(String::new(), Row::example)))
}

/// The same with other words for what to give.
pub(crate) fn wrong_because(name: &'static str, text: &str, example: &str) -> Error {
    Error::usage(not_understood(name, text, &[], example))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Given {
        Given::from(text)
    }

    #[test]
    fn flag_over_preset_over_default() {
        let settings = Settings::default().set("preset", "paper").and_then(|settings| settings.set("max-words", 20)).expect("known");
        let choices = settings.choose().expect("known");
        let chosen = |name: &str| choices.iter().find(|(known, _)| *known == name).map(|(_, choice)| choice.clone());
        assert_eq!(chosen("max-words"), Some(Choice { value: Some("20".into()), from: Origin::Flag }));
        assert_eq!(chosen("group"), Some(Choice { value: Some("surface".into()), from: Origin::Preset("paper") }));
        assert_eq!(chosen("massive"), Some(Choice { value: Some("10".into()), from: Origin::Default }));
        let (name, set) = choices.preset().expect("a preset");
        let set: Vec<String> = set.iter().map(Line::flags).collect();
        assert_eq!(
            (name, set.join(" ").as_str()),
            ("paper", "--group surface --lowercase true --sample 0.01 --specials count --wrap bos-eos")
        );
    }

    #[test]
    fn values_of_any_language_are_flags() {
        let named = |name: &str, given: Given| Settings::new("m", ["a", "-"], "o").set(name, given);
        assert_eq!(named("max_words", words("63")).expect("known").value("max-words"), Some("63"));
        assert!(named("overwrite", true.into()).expect("known").is_on("overwrite"));
        assert!(!named("overwrite", false.into()).expect("known").is_on("overwrite"));
        assert_eq!(named("layers", vec!["0".to_owned(), "6".to_owned()].into()).expect("known").value("layers"), Some("0,6"));
        assert_eq!(named("seed", words("1")).expect("known").values("corpus"), ["a", "-"]);
        let line = named("max_word", words("63")).expect_err("unknown").to_string();
        assert!(line.starts_with("there is no setting `max_word` (did you mean `max_words`?); there are corpus, text_column,"), "{line}");
        assert!(named("overwrite", words("yes")).is_err());
        assert_eq!(Settings::default().needed("out").expect_err("missing").to_string(), "--out is missing; give a folder");
    }
}
