//! The chosen tokens: their states projected (figure 1), and their place among all groups (figure 8).

use std::collections::BTreeMap;

use layerscope_error::{line, setting};

use super::context::{Context, layer_name, title_at};
use super::data::{Point, View};
use super::fits::{M, V, clouds, colours, fit, outside, panel, percentile};
use super::font::{NAME_CHARACTERS, drawable};
use super::groups::{Group, Token, shown_rows};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Remarks;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, ColourBar, Fade, Key, Label, Mark, Paint, Panel, Preferred, Sheet};
use super::tex;
use super::text::{Text, decimals, thousands};
use super::ticks::{Kind, Scale};
use crate::table::Cell;

/// A kept state, or the mean of a token.
#[derive(Clone, Debug)]
pub(crate) struct Projected {
    pub token: Token,
    pub n: i64,
    pub is_mean: bool,
    pub x: f64,
    pub y: f64,
    /// What the axes explain of the variance of means and origin; known on rows of means.
    pub explained: Option<[f64; 2]>,
}

/// Axes end where this share of the states lies beyond either end: a few far ones would press the others together.
const OUTSIDE: f64 = 0.005;
/// States that lie beyond that by at most this part of the axis are not far, and on it all the same.
const FAR: f64 = 0.1;

/// The kept states at every layer, in the reference library's view.
pub(crate) fn kept(view: &View) -> BTreeMap<i64, (Point, Vec<Projected>)> {
    let mut layers: BTreeMap<i64, (Point, Vec<Projected>)> = BTreeMap::new();
    let Some(table) = &view.run.tokens else { return layers };
    let cell = |name: &str, row: usize| table.column(name).map_or(Cell::Null, |column| column.cell(row));
    let state = |row: &usize| {
        let (Cell::Text(group), Cell::Integer(n)) = (cell("group", *row), cell("n", *row)) else { return None };
        let (Cell::Real(x), Cell::Real(y)) = (cell("x", *row), cell("y", *row)) else { return None };
        let id = if let Cell::Integer(id) = cell("group_id", *row) { Some(id) } else { None };
        let token = Token { id, name: group.to_owned() };
        let share = |name: &str| if let Cell::Real(share) = cell(name, *row) { Some(share) } else { None };
        let explained = share("explained_x").zip(share("explained_y")).map(|(x, y)| [x, y]);
        Some(Projected { token, n, is_mean: cell("role", *row) == Cell::Text("mean"), x, y, explained })
    };
    // The points of a layer come in the order of the computation, and the last one stays.
    for ((layer, point), rows) in shown_rows(table, view.states) {
        layers.insert(layer, (point, rows.iter().filter_map(state).collect()));
    }
    layers
}

/// The tokens figures 1 and 8 and table 2 show, frequent first: the kept ones, or those of them that were asked for.
pub(crate) fn chosen(context: &Context, view: &View) -> Result<Vec<Token>, Skip> {
    let layers = kept(view);
    let Some((_, states)) = layers.values().next() else {
        return Err(Skip::of(&view.label, line!["no states of tokens were kept; measure with ", setting("tokens")]));
    };
    let mut tokens: Vec<(i64, Token)> = states.iter().map(|state| (state.n, state.token.clone())).collect();
    tokens.sort_by(|a, b| b.cmp(a));
    tokens.dedup();
    let wanted = &context.settings.tokens;
    let is_wanted = |token: &Token| wanted.is_empty() || wanted.iter().any(|name| name.trim() == token.name.trim());
    let tokens: Vec<Token> = tokens.into_iter().map(|(_, token)| token).filter(is_wanted).collect();
    if tokens.is_empty() {
        Err(Skip::of(&view.label, line!["none of the tokens asked for with ", setting("tokens"), " was kept"]))
    } else {
        Ok(tokens)
    }
}

/// Figure 1: states of chosen tokens, their means labelled, one model.
pub(crate) fn projected(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let names = match chosen(context, view) {
            Ok(names) => names,
            Err(skip) => return vec![Err(skip)],
        };
        let layers = kept(view);
        let points: Vec<(i64, Point)> = layers.iter().map(|(layer, (point, _))| (*layer, *point)).collect();
        let chosen = match context.choose(view, &points, &[0.5]) {
            Ok(chosen) => chosen,
            Err(skip) => return vec![Err(skip)],
        };
        let draw = |at: (i64, Point)| {
            let states: Vec<&Projected> = layers[&at.0].1.iter().filter(|state| names.contains(&state.token)).collect();
            let name = context.name_at("fig1", view, at.0);
            projection(name, view, at, &states)
        };
        chosen.into_iter().map(draw).collect()
    })
}

fn projection(name: String, view: &View, at: (i64, Point), states: &[&Projected]) -> Outcome {
    let log = |state: &Projected| (state.n.max(1) as f64).log10();
    let logs = Scale::around(Kind::Linear, states.iter().map(|state| log(state)));
    let shade = |state: &Projected| logs.place(log(state));
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("group", Cells::Text),
        ("n", Cells::Integer),
        ("role", Cells::Text),
        ("x", Cells::Real),
        ("y", Cells::Real),
    ]);
    for state in states {
        let role = if state.is_mean { "mean" } else { "state" };
        rows.push(&[
            Cell::Text(view.run.model()),
            Cell::Integer(at.0),
            Cell::Text(at.1.name()),
            Cell::Text(&state.token.name),
            Cell::Integer(state.n),
            Cell::Text(role),
            Cell::Real(state.x),
            Cell::Real(state.y),
        ]);
    }
    let mut ordered: Vec<&&Projected> = states.iter().filter(|state| !state.is_mean).collect();
    ordered.sort_by_key(|state| state.n);
    let points = ordered.iter().map(|state| (state.x, state.y, shade(state))).collect();
    let means: Vec<&&Projected> = states.iter().filter(|state| state.is_mean).collect();
    let label = |state: &&Projected| Label {
        x: state.x,
        y: state.y,
        text: Text::plain(drawable(&state.token.name, NAME_CHARACTERS)),
        paint: Paint::Map(shade(state)),
    };
    let explained = means.iter().find_map(|mean| mean.explained);
    let axis = |component: usize, of: fn(&Projected) -> f64| {
        let mut values: Vec<f64> = ordered.iter().map(|state| of(state)).collect();
        let ends = if values.is_empty() { [0.0; 2] } else { [OUTSIDE, 1.0 - OUTSIDE].map(|part| percentile(&mut values, part)) };
        // Means and the origin are always seen.
        let seen = means.iter().map(|mean| of(mean)).chain(ends).chain([0.0]);
        let share = explained.map_or(String::new(), |shares| format!(" ({} % of the variance)", decimals(100.0 * shares[component], 1)));
        Axis::new(Text::plain(format!("PC {}{share}", component + 1)), Scale::around(Kind::Linear, seen).with_room_for(&values, FAR))
    };
    let marks = vec![
        Mark::Points { points, fade: Fade::Pale },
        Mark::Cross { x: 0.0, y: 0.0 },
        Mark::Labels(means.iter().map(|mean| label(mean)).collect()),
    ];
    let mut panel = Panel::new(title_at(view, at), axis(0, |state| state.x), axis(1, |state| state.y), marks);
    panel.equal = true;
    // As high as the data ask for, within reason.
    let (wide, high) = (panel.x.scale.max - panel.x.scale.min, panel.y.scale.max - panel.y.scale.min);
    let ratio = (1.15 * high / wide).clamp(0.5, 1.0);
    let sheet = Sheet {
        panels: vec![panel],
        columns: 1,
        ratio,
        legend: vec![(Key::Cross, Text::plain("origin"))],
        colour_bar: Some(ColourBar { label: Text::math("log_{10} *n*_{t}"), scale: logs }),
        preferred: Preferred::Page,
    };
    let shares = if explained.is_some() { " Percentages are of the variance of means and origin." } else { "" };
    let caption = format!(
        "States of {} tokens in {} at {}, projected onto two principal components of their means and the origin ($\\times$). Means are outlined.{shares} States far beyond their 0.5 and 99.5 percentiles are not shown.",
        means.len(),
        tex::name(&view.name),
        layer_name(at)
    );
    let numbers = vec![("", rows.table().map_err(|error| Skip::new(error.line()))?)];
    Ok(Plate {
        description: format!("{name}: projected states of {} tokens", means.len()),
        name,
        body: Body::Panels(sheet),
        numbers,
        caption,
        shown: view.shown_in_tables(),
        remarks: Remarks::default(),
    })
}

/// Figure 8: V against M with figure 1's tokens labelled, one model.
pub(crate) fn labelled(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let names = match chosen(context, view) {
            Ok(names) => names,
            Err(skip) => return vec![Err(skip)],
        };
        let layers = match context.single_layers(view) {
            Ok(layers) => layers,
            Err(skip) => return vec![Err(skip)],
        };
        let draw = |at: (i64, Point)| {
            let name = context.name_at("fig8", view, at.0);
            among_all(name, view, at, &names)
        };
        layers.into_iter().map(draw).collect()
    })
}

fn among_all(name: String, view: &View, at: (i64, Point), chosen: &[Token]) -> Outcome {
    let mut groups = view.groups_at(at);
    groups.sort_by_key(|group| group.n);
    let tokens: Vec<Group> = chosen.iter().filter_map(|token| groups.iter().find(|group| group.is(token))).copied().collect();
    if tokens.is_empty() {
        return Err(Skip::of(&view.label, "the chosen tokens are not among the groups"));
    }
    let logs = colours(groups.iter());
    let line = fit(&groups, (M, V));
    let clouds = clouds(&groups, (M, V), Fade::Pale, |group| group.selected, |group| logs.place(group.log_n()));
    let mut panel = panel(&groups, (M, V), line, title_at(view, at), clouds);
    if line.is_some() {
        panel.note = panel.note.then(Text::plain(format!(", all {} groups", thousands(groups.len() as i64))));
    }
    let inside = |scale: Scale, values: Vec<f64>| values.into_iter().fold(scale, |scale, value| scale.including(value));
    panel.x.scale = inside(panel.x.scale, tokens.iter().map(|group| group.m).collect());
    panel.y.scale = inside(panel.y.scale, tokens.iter().map(|group| group.v).collect());
    let label = |group: &Group| Label {
        x: group.m,
        y: group.v,
        text: Text::plain(drawable(group.name, NAME_CHARACTERS)),
        paint: Paint::Map(logs.place(group.log_n())),
    };
    panel.marks.push(Mark::Labels(tokens.iter().map(label).collect()));
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("group", Cells::Text),
        ("n", Cells::Integer),
        ("labelled", Cells::Integer),
        ("selected", Cells::Integer),
        ("m", Cells::Real),
        ("v", Cells::Real),
    ]);
    let same = |one: &Group, other: &Group| (one.id, one.name) == (other.id, other.name);
    for group in &groups {
        let shown = tokens.iter().any(|token| same(group, token));
        rows.push(&[
            Cell::Text(view.run.model()),
            Cell::Integer(at.0),
            Cell::Text(at.1.name()),
            Cell::Text(group.name),
            integer(Some(group.n)),
            Cell::Integer(i64::from(shown)),
            Cell::Integer(i64::from(group.selected)),
            real(Some(group.m)),
            real(Some(group.v)),
        ]);
    }
    let faint = groups.iter().any(|group| !group.selected);
    let sheet = Sheet {
        panels: vec![panel],
        columns: 1,
        ratio: 0.72,
        legend: outside(faint),
        colour_bar: Some(ColourBar { label: Text::math("log_{10} *n*_{t}"), scale: logs }),
        preferred: Preferred::Page,
    };
    let fitted = line.map_or(String::new(), |line| {
        let (slope, count) = (tex::number(line.slope, 3), tex::count(groups.len() as i64));
        format!(" The line is fitted to all {count} groups: slope {slope}, $R^2$ {}.", tex::r2(line.r2))
    });
    let mut ranges = Over::default();
    ranges.range(view, view.frequency());
    let others = match (faint, view.frequency()) {
        (false, _) => String::new(),
        (true, None) => " Special tokens are faint.".into(),
        (true, Some(_)) => format!(" Faint are all but {}.", ranges.words()),
    };
    let caption = format!(
        "Variance $V(X_t)$ against $M(X_t)$ in {} at {}, with {} tokens labelled.{fitted}{others}",
        tex::name(&view.name),
        layer_name(at),
        tokens.len()
    );
    let numbers = vec![("", rows.table().map_err(|error| Skip::new(error.line()))?)];
    let description = format!("{name}: V against M, slope {}", line.map_or("undefined".into(), |line| decimals(line.slope, 3)));
    Ok(Plate { name, body: Body::Panels(sheet), numbers, caption, shown: view.shown_in_tables(), remarks: Remarks::default(), description })
}
