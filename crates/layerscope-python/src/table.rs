//! A table in Python's hands.

use layerscope::Question;
use layerscope_report::export::{self, Format};
use layerscope_report::{Column, States, Table};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow::{schema_capsule, stream_capsule};
use crate::error::{raised, usage};

fn leading(name: &str) -> States {
    States::named(name).unwrap_or(States::All)
}

/// A question from keywords; those that are None are left open.
fn asked(given: Option<&Bound<'_, PyDict>>) -> PyResult<Question> {
    let mut question = Question::default();
    for (name, value) in given.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        match name.extract::<String>()?.as_str() {
            "measure" => question.measure = value.extract()?,
            "layer" => question.layer = value.extract()?,
            "point" => question.point = value.extract()?,
            "selection" => question.selection = value.extract()?,
            "variant" => question.variant = value.extract()?,
            "states" => question.states = value.extract()?,
            _ => question.step = value.extract()?,
        }
    }
    Ok(question)
}

/// Columns of text, integers and reals.
#[pyclass(module = "layerscope._layerscope", frozen)]
pub struct NativeTable(pub Table);

#[pymethods]
impl NativeTable {
    fn __len__(&self) -> usize {
        self.0.rows()
    }

    /// The names of the columns.
    fn names(&self) -> Vec<String> {
        self.0.columns().map(|(name, _)| name.to_owned()).collect()
    }

    /// The kinds of the columns: text, integer or real.
    fn kinds(&self) -> Vec<&'static str> {
        let kind = |column: &Column| match column {
            Column::Text(_) => "text",
            Column::Integer(_) => "integer",
            Column::Real(_) => "real",
        };
        self.0.columns().map(|(_, column)| kind(column)).collect()
    }

    /// The values of a column; None where undefined.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.0.column(name) {
            Some(Column::Text(values)) => PyList::new(py, values.iter().map(Option::as_deref)),
            Some(Column::Integer(values)) => PyList::new(py, values),
            Some(Column::Real(values)) => PyList::new(py, values),
            None => Err(usage(py, format!("there is no column `{name}`; there are {}", self.names().join(", ")))),
        }
    }

    /// As md, csv, json, jsonl or latex; of the first rows only, if a number is given.
    fn text(&self, py: Python<'_>, format: &str, rows: Option<usize>) -> PyResult<String> {
        raised(py, || {
            let format: Format = format.parse()?;
            let mut bytes = Vec::new();
            match rows.filter(|rows| *rows < self.0.rows()) {
                Some(rows) => {
                    export::write(&Table::gather(&[&self.0], &(0..rows).map(|row| (0, row)).collect::<Vec<_>>())?, format, &mut bytes)?
                }
                None => export::write(&self.0, format, &mut bytes)?,
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    /// The value that a question about a table of layers is answered with; `lead` names the states of the run that come first.
    #[pyo3(signature = (lead, **question))]
    fn ask(&self, py: Python<'_>, lead: &str, question: Option<&Bound<'_, PyDict>>) -> PyResult<Option<f64>> {
        let question = asked(question)?;
        raised(py, || Ok(self.0.real("value", layerscope::ask(&self.0, leading(lead), &question)?.rows[0])))
    }

    /// The same along the layers: rows of the table, their selection and their variant.
    #[pyo3(signature = (lead, **question))]
    fn ask_curve(
        &self,
        py: Python<'_>,
        lead: &str,
        question: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(NativeTable, String, Option<String>)> {
        let question = asked(question)?;
        raised(py, || {
            let answer = layerscope::ask_curve(&self.0, leading(lead), &question)?;
            let rows = Table::gather(&[&self.0], &answer.rows.iter().map(|row| (0, *row)).collect::<Vec<_>>())?;
            Ok((NativeTable(rows), answer.selection, answer.variant))
        })
    }

    fn __arrow_c_stream__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        stream_capsule(py, &self.0)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}
