//! The settings of a run, in the order in which they were written.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A setting: its value and where that came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The value; null where nobody set it and it has no default.
    pub value: Value,
    /// `default`, `flag`, the name of a preset, ...
    pub from: String,
    /// What a newer program wrote.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Settings by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(Vec<(String, Setting)>);

impl Settings {
    /// The setting of this name: that of its flag, without the dashes.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, setting)| setting)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Setting)> {
        self.0.iter().map(|(name, setting)| (name.as_str(), setting))
    }
}

impl FromIterator<(String, Setting)> for Settings {
    fn from_iter<I: IntoIterator<Item = (String, Setting)>>(settings: I) -> Settings {
        Settings(settings.into_iter().collect())
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Settings;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("settings by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Settings, A::Error> {
        let mut settings = Vec::new();
        while let Some(entry) = map.next_entry()? {
            settings.push(entry);
        }
        Ok(Settings(settings))
    }
}
