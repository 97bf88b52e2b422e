//! Tables 1 to 3 of the paper.

use super::Settings;
use super::context::Context;
use super::data::{View, bounded};
use super::font::{NAME_CHARACTERS, drawable};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Remarks;
use super::rows::{Kind as Cells, Rows, integer};
use super::shown::Shown;
use super::tokens::chosen;
use crate::error::{Error, Result};
use crate::run::Run;
use crate::table::{Cell, Table};

/// Table 1: layers, width and parameters of every model. The input layer is one of the layers, as in the paper.
pub fn table1(runs: &[Run]) -> Result<Table> {
    models(runs.iter())
}

fn models<'a>(runs: impl Iterator<Item = &'a Run>) -> Result<Table> {
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layers", Cells::Integer),
        ("dimensions", Cells::Integer),
        ("heads", Cells::Integer),
        ("parameters", Cells::Integer),
    ]);
    for run in runs {
        let facts = &run.manifest.model;
        rows.push(&[
            Cell::Text(run.model()),
            count(facts.layers.map(|blocks| blocks + 1)),
            count(facts.width),
            count(facts.heads),
            count(facts.parameters),
        ]);
    }
    rows.table()
}

/// Table 2: n, Q, M and V of figure 1's tokens at the middle layer (or the first of `settings.layers`), most frequent first.
///
/// Q is printed as the paper prints it: the sum of M and V, each rounded to one decimal. Names are as figures draw them.
pub fn table2(runs: &[Run], settings: &Settings) -> Result<Table> {
    let context = Context::new(runs, settings);
    let mut rows = columns();
    let mut reason = None;
    for view in &context.views {
        reason = push(&context, view, &mut rows).err().or(reason);
    }
    match reason {
        Some(skip) if rows.is_empty() => Err(Error::Setting(skip.reason)),
        _ => rows.table(),
    }
}

/// Table 3: groups |T|, of all frequencies and of those selected, and states |X|.
pub fn table3(runs: &[Run]) -> Result<Table> {
    sizes(&View::all(runs, &Settings::default()))
}

fn sizes(views: &[View]) -> Result<Table> {
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("groups", Cells::Integer),
        ("selected_groups", Cells::Integer),
        ("states", Cells::Integer),
        ("sentences", Cells::Integer),
    ]);
    for view in views {
        let facts = &view.run.manifest.corpus;
        let first = view.group_points().first().copied();
        let selected = first.map(|at| view.in_range(at) as i64);
        rows.push(&[Cell::Text(view.run.model()), count(facts.groups), integer(selected), count(facts.states), count(facts.documents)]);
    }
    rows.table()
}

/// A count of a manifest as a cell.
fn count(value: Option<u64>) -> Cell<'static> {
    integer(value.map(bounded))
}

fn columns() -> Rows {
    Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("token", Cells::Text),
        ("n", Cells::Integer),
        ("q", Cells::Real),
        ("m", Cells::Real),
        ("v", Cells::Real),
    ])
}

fn push(context: &Context, view: &View, rows: &mut Rows) -> Result<(), Skip> {
    let tokens = chosen(context, view)?;
    let layers = context.single_layers(view)?;
    let Some(at) = layers.first().copied() else { return Err(Skip::of(&view.label, "the run has no layers")) };
    let groups = view.groups_at(at);
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    for chosen in tokens {
        let Some(group) = groups.iter().find(|group| group.is(&chosen)) else { continue };
        let (m, v) = (tenth(group.m), tenth(group.v));
        let token = drawable(&chosen.name, NAME_CHARACTERS);
        rows.push(&[
            Cell::Text(view.run.model()),
            Cell::Integer(at.0),
            Cell::Text(&token),
            Cell::Integer(group.n),
            Cell::Real(tenth(m + v)),
            Cell::Real(m),
            Cell::Real(v),
        ]);
    }
    Ok(())
}

pub(crate) fn outcome1(context: &Context) -> Vec<Outcome> {
    vec![plate(
        "table1",
        models(context.views.iter().map(|view| view.run)),
        "Models: number of layers including the input layer, width of the hidden states, heads, parameters.",
        Shown::Any,
        Remarks::alone(),
    )]
}

pub(crate) fn outcome2(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let mut rows = columns();
        if let Err(skip) = push(context, view, &mut rows) {
            return vec![Err(skip)];
        }
        vec![plate(
            &context.name("table2", view),
            rows.table(),
            "Number of states $n_t$ and $Q(X_t)$, $M(X_t)$, $V(X_t)$ of the tokens of figure 1.",
            view.shown_in_tables(),
            Remarks::alone(),
        )]
    })
}

pub(crate) fn outcome3(context: &Context) -> Vec<Outcome> {
    let mut ranges = Over::default();
    context.views.iter().for_each(|view| ranges.range(view, view.wanted_frequency()));
    let caption = format!("Groups and states per model. Selected: {}.", ranges.words());
    vec![plate("table3", sizes(&context.views), &caption, Shown::Any, Remarks::default())]
}

fn plate(name: &str, table: Result<Table>, caption: &str, shown: Shown, remarks: Remarks) -> Outcome {
    let table = table.map_err(|error| Skip::new(error.line()))?;
    let (body, caption, description) = (Body::Table(table), caption.into(), name.into());
    Ok(Plate { name: name.into(), body, numbers: Vec::new(), caption, shown, remarks, description })
}
