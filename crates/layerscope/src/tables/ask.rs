//! A value of a run, or a curve along its layers, asked for by name: what is left open is what the summary would show.

use std::collections::BTreeSet;

use layerscope_error::meant;
use layerscope_report::lead::{Measured, order, plain_variant};
use layerscope_report::{States, Table};

use crate::error::{Error, Result};
use crate::settings::parse;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The measure.
    pub measure: String,
    /// The layer; none for matrices of weights.
    pub layer: Option<i64>,
    /// The point, where a layer has several.
    pub point: Option<String>,
    /// A selection of the table; otherwise the one that leads.
    pub selection: Option<String>,
    /// The variant; otherwise the plain one, or the first.
    pub variant: Option<String>,
    /// `typical` or `all`; otherwise the states that lead.
    pub states: Option<String>,
    /// The training step, where there are several.
    pub step: Option<i64>,
}

/// The rows that answer it, all of one selection and variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Rows of the table of layers.
    pub rows: Vec<usize>,
    /// Their selection.
    pub selection: String,
    /// Their variant.
    pub variant: Option<String>,
}

/// The one row of a table of layers that a question is about; after the final norm where the layer has one and no point is named.
pub fn ask(layers: &Table, lead: States, question: &Question) -> Result<Answer> {
    let mut rows = Rows::of(layers, &question.measure)?;
    rows.keep("layer", |row| shown(layers.integer("layer", row)), Some(shown(question.layer)))?;
    let mut answer = rows.answer(lead, question)?;
    if question.point.is_none() {
        answer.rows = after_final_norm(layers, answer.rows);
    }
    for (name, way) in [("point", "give a point"), ("step", "give a step")] {
        let found = Rows { rows: answer.rows.clone(), ..rows.clone() }.cells(name);
        if found.len() > 1 {
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            let place = question.layer.map_or(String::new(), |layer| format!("layer {layer} has "));
            return Err(Error::usage(format!("{place}{} at several {name}s ({}); {way}", question.measure, found.join(", "))));
        }
    }
    Ok(answer)
}

/// The rows of all layers, in order, as the reference library counts them: the last one after the final norm, where there is one and no
/// point is named. Of a training the last step, where none is named.
pub fn ask_curve(layers: &Table, lead: States, question: &Question) -> Result<Answer> {
    let mut rows = Rows::of(layers, &question.measure)?;
    rows.rows.retain(|row| layers.integer("layer", *row).is_some());
    if rows.rows.is_empty() {
        return Err(Error::usage(format!("{} was measured on weights alone; ask for its value", question.measure)));
    }
    let last_step = rows.rows.iter().filter_map(|row| layers.integer("step", *row)).max();
    let question = Question { step: question.step.or(last_step), ..question.clone() };
    let mut answer = rows.answer(lead, &question)?;
    if question.point.is_none() {
        answer.rows = after_final_norm(layers, answer.rows);
    }
    answer.rows.sort_by_key(|row| layers.integer("layer", *row));
    Ok(answer)
}

/// One point a layer, as the reference library has it: the last one after the final norm, where there is one, and before any projection.
fn after_final_norm(layers: &Table, mut rows: Vec<usize>) -> Vec<usize> {
    let point = |row: usize| layers.text("point", row);
    let normed = rows.iter().find(|row| point(**row) == Some("final_norm")).map(|row| layers.integer("layer", *row));
    let before = |row: usize| point(row) == Some("block") && normed == Some(layers.integer("layer", row));
    // Where all there is was projected, that is meant.
    let is_meant = |row: usize| !before(row) && point(row) != Some("projected");
    if rows.iter().any(|row| is_meant(*row)) {
        rows.retain(|row| is_meant(*row));
    }
    rows
}

/// Rows of the table that may still be meant.
#[derive(Clone)]
struct Rows<'a> {
    table: &'a Table,
    measure: &'a str,
    rows: Vec<usize>,
}

impl<'a> Rows<'a> {
    fn of(table: &'a Table, measure: &'a str) -> Result<Rows<'a>> {
        let rows: Vec<usize> = (0..table.rows()).filter(|row| table.text("measure", *row) == Some(measure)).collect();
        if rows.is_empty() {
            let mut known: Vec<&str> = Vec::new();
            for name in (0..table.rows()).filter_map(|row| table.text("measure", row)) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            let meant = meant(measure, known.iter().copied());
            return Err(Error::usage(format!("this run has no measure `{measure}`{meant}; it has {}", known.join(", "))));
        }
        Ok(Rows { table, measure, rows })
    }

    /// What the question leaves open is decided here: the states, the variant, the selection.
    fn answer(&mut self, lead: States, question: &Question) -> Result<Answer> {
        let table = self.table;
        let text = |name: &'static str| move |row: usize| table.text(name, row).unwrap_or("none").to_owned();
        self.keep("point", text("point"), question.point.clone())?;
        self.keep("step", |row| shown(table.integer("step", row)), question.step.map(|step| shown(Some(step))))?;
        let variant = match &question.variant {
            Some(variant) => Some(variant.clone()),
            None => plain_variant(self.rows.iter().map(|row| table.text("variant", *row))).map(str::to_owned),
        };
        self.keep("variant", text("variant"), Some(variant.clone().unwrap_or("none".to_owned())))?;
        let asked = question.states.as_deref().map(parse::states).transpose()?;
        let selection = match &question.selection {
            Some(selection) => asked.map_or(selection.as_str(), |states| states.of(selection)).to_owned(),
            None => {
                let states = asked.unwrap_or(lead);
                let has = |selection: &str| self.rows.iter().any(|row| table.text("selection", *row) == Some(selection));
                let leading = Measured::of(&[table]).selection(states, self.measure, variant.as_deref());
                // Matrices of weights have one selection alone.
                leading.into_iter().chain(order(states)).find(|selection| has(selection)).unwrap_or("all").to_owned()
            }
        };
        self.keep("selection", text("selection"), Some(selection.clone()))?;
        Ok(Answer { rows: self.rows.clone(), selection, variant })
    }

    /// Keeps the rows with this cell; says what there is where no row has it.
    fn keep(&mut self, name: &str, cell: impl Fn(usize) -> String, wanted: Option<String>) -> Result<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        let kept: Vec<usize> = self.rows.iter().copied().filter(|row| cell(*row) == wanted).collect();
        if kept.is_empty() {
            let mut known: Vec<String> = Vec::new();
            for own in self.rows.iter().map(|row| cell(*row)) {
                if !known.contains(&own) {
                    known.push(own);
                }
            }
            let meant = meant(&wanted, known.iter().map(String::as_str));
            let what = if wanted == "none" {
                format!("{} needs a {name}", self.measure)
            } else {
                format!("{} has no {name} {wanted}{meant}", self.measure)
            };
            return Err(Error::usage(format!("{what}; it has {}", known.join(", "))));
        }
        self.rows = kept;
        Ok(())
    }

    /// The distinct cells of a column.
    fn cells(&self, name: &str) -> BTreeSet<String> {
        let cell = |row: &usize| self.table.text(name, *row).map_or_else(|| shown(self.table.integer(name, *row)), str::to_owned);
        self.rows.iter().map(cell).collect()
    }
}

fn shown(number: Option<i64>) -> String {
    number.map_or("none".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use layerscope_report::Column;

    use super::*;

    /// Layer, point, selection, variant, value.
    type Cells<'a> = (Option<i64>, &'a str, &'a str, Option<&'a str>, f64);

    fn table(rows: &[Cells]) -> Table {
        let text = |of: &dyn Fn(&Cells) -> Option<String>| Column::text(rows.iter().map(of));
        Table::new([
            ("layer", Column::Integer(rows.iter().map(|row| row.0).collect())),
            ("point", text(&|row| Some(row.1.to_owned()))),
            ("selection", text(&|row| Some(row.2.to_owned()))),
            ("measure", text(&|_| Some("q".to_owned()))),
            ("variant", text(&|row| row.3.map(str::to_owned))),
            ("value", Column::Real(rows.iter().map(|row| Some(row.4)).collect())),
            ("step", Column::Integer(vec![None; rows.len()])),
        ])
        .expect("a table")
    }

    fn question(layer: Option<i64>) -> Question {
        Question { measure: "q".to_owned(), layer, ..Question::default() }
    }

    #[test]
    fn what_is_left_open_is_what_the_summary_shows() {
        let table = table(&[
            (Some(0), "embedding", "all", None, 1.0),
            (Some(0), "embedding", "selected", Some("unbiased"), 2.0),
            (Some(0), "embedding", "selected", None, 3.0),
            (Some(0), "embedding", "typical_selected", None, 4.0),
            (Some(1), "block", "selected", None, 5.0),
            (Some(1), "final_norm", "selected", None, 6.0),
            (None, "input_embedding", "all", None, 7.0),
        ]);
        let found = |states: States, question: &Question| {
            ask(&table, states, question).map(|answer| table.real("value", answer.rows[0]).expect("a value"))
        };
        assert_eq!(found(States::All, &question(Some(0))).expect("a value"), 3.0);
        assert_eq!(found(States::Typical, &question(Some(0))).expect("a value"), 4.0);
        assert_eq!(found(States::All, &question(None)).expect("a value"), 7.0);
        let all = Question { selection: Some("all".to_owned()), ..question(Some(0)) };
        assert_eq!(found(States::Typical, &all).expect("a value"), 1.0);
        let unbiased = Question { variant: Some("unbiased".to_owned()), ..question(Some(0)) };
        assert_eq!(found(States::All, &unbiased).expect("a value"), 2.0);
        let said = |question: &Question| found(States::All, question).expect_err("nothing").to_string();
        assert_eq!(found(States::All, &question(Some(1))).expect("a value"), 6.0, "after the final norm, as in the summary");
        let before = Question { point: Some("block".to_owned()), ..question(Some(1)) };
        assert_eq!(found(States::All, &before).expect("a value"), 5.0);
        assert_eq!(said(&question(Some(9))), "q has no layer 9; it has 0, 1, none");
        assert_eq!(
            said(&Question { measure: "qq".to_owned(), ..question(Some(0)) }),
            "this run has no measure `qq` (did you mean `q`?); it has q"
        );
        let wrong = Question { selection: Some("selectd".to_owned()), ..question(Some(0)) };
        assert_eq!(said(&wrong), "q has no selection selectd (did you mean `selected`?); it has all, selected, typical_selected");
        let curve = ask_curve(&table, States::All, &question(None)).expect("a curve");
        assert_eq!((curve.rows, curve.selection.as_str(), curve.variant), (vec![2, 5], "selected", None), "after the final norm");
    }
}
