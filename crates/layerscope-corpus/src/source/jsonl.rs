//! JSON lines: one object a line.

use serde_json::{Map, Value};

use super::lines::Lines;
use super::{Columns, Records};
use crate::document::Record;
use crate::error::{Error, Result};

const REPAIR: &str = "repair the line or use --on-error skip";

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
            return Ok(Record { text: String::new(), column: None });
        }
        let bad = |problem: String| Error::record(self.lines.name(), self.lines.place(), problem);
        let mut object = match serde_json::from_str(line) {
            Ok(Value::Object(object)) => object,
            Ok(other) => return Err(bad(format!("{} where a JSON object should be; {REPAIR}", kind(&other)))),
            Err(error) => return Err(bad(format!("not JSON ({}); {REPAIR}", reason(&error)))),
        };
        let column = match &self.columns.group {
            None => None,
            Some(name) => Some(self.group_value(&object, name).map_err(bad)?),
        };
        match object.remove(&self.columns.text) {
            Some(Value::String(text)) => Ok(Record { text, column }),
            Some(other) => Err(bad(format!("column `{}` is {}, not a string; {REPAIR}", self.columns.text, kind(&other)))),
            None => Err(bad(absent(&object, &self.columns.text, "name the text with --text-column or use --on-error skip"))),
        }
    }

    fn group_value(&self, object: &Map<String, Value>, name: &str) -> Result<String, String> {
        match object.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            Some(other) => Err(format!("column `{name}` is {}, which names no group; {REPAIR}", kind(other))),
            None => Err(absent(object, name, REPAIR)),
        }
    }
}

impl Records for JsonRecords<'_> {
    fn next_record(&mut self) -> Option<Result<Record>> {
        Some(self.lines.next_line()?.and_then(|line| self.record(&line)))
    }
}

fn absent(object: &Map<String, Value>, name: &str, advice: &str) -> String {
    let mut names: Vec<String> = object.keys().take(8).map(|key| format!("`{key}`")).collect();
    if object.len() > names.len() {
        names.push("...".into());
    }
    let has = if names.is_empty() { "the object is empty".into() } else { format!("it has {}", names.join(", ")) };
    format!("no column `{name}` ({has}); {advice}")
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
