//! What every error of Layerscope has: a [kind](ErrorKind), and one [line](Line) that says what, where and what to do.
//!
//! A line names settings as data. The command line renders them as flags, Python as keywords.
//!
//! ```
//! use layerscope_error::{line, setting};
//!
//! let line = line!["line 3 is not UTF-8; repair it or use ", setting("on-error").to("skip")];
//! assert_eq!(line.flags(), "line 3 is not UTF-8; repair it or use --on-error skip");
//! assert_eq!(line.keywords(), "line 3 is not UTF-8; repair it or use on_error=\"skip\"");
//! ```

mod nearest;

use std::fmt;

pub use nearest::{meant, nearest, not_one_of, not_understood, or};

/// What kind of trouble an error is. The program's exit status and Python's exception class follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong.
    Usage,
    /// The checkpoint cannot be used.
    Model,
    /// The text cannot be used.
    Corpus,
    /// The work was refused before it began (memory, a mismatch).
    Refused,
    /// The work was interrupted and can be resumed.
    Interrupted,
    /// The system failed us.
    Io,
    /// A defect of the program.
    Internal,
}

/// One line of text in which settings are data. `Display` shows them as flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Setting { name: &'static str, value: Option<String> },
}

/// Joins texts and settings to a [`Line`].
#[macro_export]
macro_rules! line {
    ($($part:expr),+ $(,)?) => { $crate::Line::join([$($crate::Line::from($part)),+]) };
}

/// A setting, by the name of its flag without the dashes.
pub fn setting(name: &'static str) -> Line {
    Line { parts: vec![Part::Setting { name, value: None }] }
}

impl Line {
    /// Lines one after another.
    pub fn join(lines: impl IntoIterator<Item = Line>) -> Line {
        Line { parts: lines.into_iter().flat_map(|line| line.parts).collect() }
    }

    /// Gives the setting at the end of the line a value.
    pub fn to(mut self, given: impl fmt::Display) -> Line {
        if let Some(Part::Setting { value, .. }) = self.parts.last_mut() {
            *value = Some(given.to_string());
        }
        self
    }

    /// The line with its settings as flags: `--on-error skip`.
    pub fn flags(&self) -> String {
        self.rendered(|name, value| match value {
            Some(value) => format!("--{name} {value}"),
            None => format!("--{name}"),
        })
    }

    /// The line with its settings as keywords of Python: `on_error="skip"`.
    pub fn keywords(&self) -> String {
        self.rendered(|name, value| {
            let name = name.replace('-', "_");
            match value {
                Some("true") => format!("{name}=True"),
                Some("false") => format!("{name}=False"),
                Some(value) if value.parse::<f64>().is_ok() => format!("{name}={value}"),
                Some(value) => format!("{name}={value:?}"),
                None => name,
            }
        })
    }

    /// The line with its texts changed, and its settings left as they are.
    pub fn map_text(self, change: impl Fn(String) -> String) -> Line {
        let part = |part| match part {
            Part::Text(text) => Part::Text(change(text)),
            setting => setting,
        };
        Line { parts: self.parts.into_iter().map(part).collect() }
    }

    fn rendered(&self, setting: impl Fn(&str, Option<&str>) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Setting { name, value } => setting(name, value.as_deref()),
        };
        self.parts.iter().map(part).collect()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.flags())
    }
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line { parts: vec![Part::Text(text)] }
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Line {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_flags_here_and_keywords_there() {
        let line = line![format!("{} holds a run; choose another ", "a--b"), setting("out"), ", or give ", setting("keep-work").to(true)];
        assert_eq!(line.to_string(), "a--b holds a run; choose another --out, or give --keep-work true");
        assert_eq!(line.keywords(), "a--b holds a run; choose another out, or give keep_work=True");
        assert_eq!(setting("sample").to(0.01).keywords(), "sample=0.01");
        let moved = line.map_text(|text| text.replace("a--b", "s3://bucket"));
        assert!(moved.flags().starts_with("s3://bucket holds a run; choose another --out"));
    }
}
