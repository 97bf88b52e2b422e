//! A page: its commands and its tables.

use std::path::{Path, PathBuf};
use std::process::Command;

use layerscope_report::{Cell, Run, Table};

use crate::support::root;

/// A page of `examples/`, by its name without `.md`.
pub struct Page {
    name: &'static str,
}

impl Page {
    /// Runs the commands of a page as they stand there. They write to `target/studies/NAME`.
    pub fn run(name: &'static str) -> Page {
        let page = Page { name };
        let _ = std::fs::remove_dir_all(page.folder());
        let program = Path::new(env!("CARGO_BIN_EXE_layerscope")).parent().expect("a folder");
        let path = std::env::join_paths(
            std::iter::once(program.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let text = std::fs::read_to_string(page.file()).expect("a page");
        let blocks: Vec<&str> = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
        assert!(!blocks.is_empty(), "{name} has no commands");
        for block in blocks {
            let mut shell = Command::new("sh");
            shell.args(["-eu", "-c", block]).current_dir(root()).env("PATH", path.as_ref().expect("a path")).env("HF_HUB_OFFLINE", "1");
            let output = shell.output().expect("a shell");
            assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
        }
        page
    }

    /// A run that the commands left.
    pub fn open(&self, run: &str) -> Run {
        Run::open(&self.folder().join(run)).unwrap_or_else(|error| panic!("{run}: {error}"))
    }

    /// Compares the table between `<!-- NAME -->` and the next empty line with the computed one.
    pub fn check(&self, table: &str, headings: &[&str], rows: &[Vec<String>]) {
        check(self.name, table, &markdown(headings, rows));
    }

    fn file(&self) -> PathBuf {
        root().join("examples").join(self.name).with_extension("md")
    }

    fn folder(&self) -> PathBuf {
        root().join("target/studies").join(self.name)
    }
}

/// Compares the table after `<!-- TABLE -->` in `examples/PAGE.md` with the computed one.
pub fn check(page: &'static str, table: &str, computed: &str) {
    let path = Page { name: page }.file();
    let text = std::fs::read_to_string(&path).expect("a page");
    let mark = format!("<!-- {table} -->\n");
    let start = text.find(&mark).unwrap_or_else(|| panic!("{page} has no table {table}")) + mark.len();
    let end = text[start..].find("\n\n").map_or(text.len(), |at| start + at + 1);
    if std::env::var_os("LAYERSCOPE_WRITE_EXAMPLES").is_some() {
        std::fs::write(&path, format!("{}{computed}{}", &text[..start], &text[end..])).expect("writable");
        return;
    }
    assert_eq!(&text[start..end], computed, "{page}, {table}");
}

pub fn markdown(headings: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(headings.iter().map(|heading| (*heading).to_owned()).collect());
    table += &format!("|{}\n", "---|".repeat(headings.len()));
    rows.iter().for_each(|row| table += &line(row.clone()));
    table
}

/// Where in a table of layers a value stands.
#[derive(Clone, Copy)]
pub struct At {
    pub step: Option<i64>,
    pub layer: Option<i64>,
    pub point: &'static str,
}

/// The output of a block; 0 is the embedding.
pub fn layer(layer: i64) -> At {
    At { step: None, layer: Some(layer), point: if layer == 0 { "embedding" } else { "block" } }
}

/// After the final norm of a pocket model.
pub const FINAL_NORM: At = At { step: None, layer: Some(6), point: "final_norm" };

/// A measure, in one selection and variant; None where there is no value.
pub fn value(layers: &Table, at: At, selection: &str, measure: &str, variant: Option<&str>) -> Option<f64> {
    let cell = |name: &str, row: usize| layers.column(name).expect("a column").cell(row);
    let is = |row: &usize| {
        cell("measure", *row) == Cell::Text(measure)
            && cell("layer", *row) == at.layer.map_or(Cell::Null, Cell::Integer)
            && cell("step", *row) == at.step.map_or(Cell::Null, Cell::Integer)
            && cell("point", *row) == Cell::Text(at.point)
            && cell("selection", *row) == Cell::Text(selection)
            && cell("variant", *row) == variant.map_or(Cell::Null, Cell::Text)
    };
    match (0..layers.rows()).find(is).map(|row| cell("value", row)) {
        Some(Cell::Real(value)) => Some(value),
        _ => None,
    }
}

pub fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
