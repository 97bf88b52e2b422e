//! JSON lines: one object a line.

use layerscope_error::{Line, line, setting};
use serde_json::{Map, Value};

use super::lines::Lines;
use super::{Columns, Records, split_value};
use crate::document::Record;
use crate::error::{Error, Result, or_skip};

/// Each line's object is a record; a blank line is a blank record.
pub(super) struct JsonRecords<'a> {
    lines: Lines<'a>,
    columns: &'a Columns,
}

impl<'a> JsonRecords<'a> {
    pub fn new(lines: Lines<'a>, columns: &'a Columns) -> Self {
        JsonRecords { lines, columns }
    }

    fn record(&self, line: &str) -> Result<Record> {
        if line.trim().is_empty() {
            return Ok(Record::default());
        }
        let bad = |problem: Line| Error::record(self.lines.name(), self.lines.place(), problem);
        let mut object = match serde_json::from_str(line) {
            Ok(Value::Object(object)) => object,
            Ok(other) => return Err(bad(line![format!("found {} instead of a JSON object; ", kind(&other)), repair()])),
            Err(error) => return Err(bad(line![format!("not JSON ({}); ", reason(&error)), repair()])),
        };
        let column = match &self.columns.group {
            None => None,
            Some(name) => Some(self.group_value(&object, name).map_err(bad)?),
        };
        let part = match self.columns.split.as_deref().filter(|name| object.get(*name).is_some_and(|value| !value.is_null())) {
            None => None,
            Some(name) => split_value(self.group_value(&object, name).map_err(bad)?),
        };
        match object.remove(&self.columns.text) {
            Some(Value::String(text)) => Ok(Record { text, column, part }),
            Some(other) => Err(bad(line![format!("column `{}` is {}, not a string; ", self.columns.text, kind(&other)), repair()])),
            None => {
                let advice = line!["name the text column with ", setting("text-column"), " ", or_skip()];
                Err(bad(absent(&object, &self.columns.text, advice)))
            }
        }
    }

    fn group_value(&self, object: &Map<String, Value>, name: &str) -> Result<String, Line> {
        match object.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            Some(other) => Err(line![format!("column `{name}` is {}, which cannot name a group; ", kind(other)), repair()]),
            None => Err(absent(object, name, repair())),
        }
    }
}

impl Records for JsonRecords<'_> {
    fn next_record(&mut self) -> Option<Result<Record>> {
        Some(self.lines.next_line()?.and_then(|line| self.record(&line)))
    }
}

fn repair() -> Line {
    line!["repair the line ", or_skip()]
}

fn absent(object: &Map<String, Value>, name: &str, advice: Line) -> Line {
    let mut names: Vec<String> = object.keys().take(8).map(|key| format!("`{key}`")).collect();
    if object.len() > names.len() {
        names.push("...".into());
    }
    let has = if names.is_empty() { "the object is empty".into() } else { format!("it has {}", names.join(", ")) };
    line![format!("no column `{name}` ({has}); "), advice]
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The parser's reason; its line is always 1, ours is the file's.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => format!("{reason} at column {}", error.column()),
        None => text,
    }
}
