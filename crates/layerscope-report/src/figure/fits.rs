//! Scatter plots of groups with regression lines.

use layerscope_error::{Line, line, setting};
use layerscope_stats::measure::{Line as Fit, fit_line};

use super::context::{Context, beside, layer_name};
use super::data::{Group, Point, View};
use super::plate::{Body, Outcome, Plate, Skip};
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, ColourBar, Mark, Paint, Panel, Preferred, Sheet};
use super::tex;
use super::text::{Text, decimals};
use super::ticks::{Kind, Scale};
use crate::error::Result;
use crate::table::{Cell, Table};

/// A number of a group, and how its axis is called.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    pub name: &'static str,
    pub label: &'static str,
    pub of: fn(&Group) -> f64,
}

const LOG_N: Quantity = Quantity { name: "log10_n", label: "log_{10} *n*_{t}", of: |group| group.log_n() };
pub(crate) const Q: Quantity = Quantity { name: "q", label: "*Q*(*X*_{t})", of: |group| group.q };
pub(crate) const M: Quantity = Quantity { name: "m", label: "*M*(*X*_{t})", of: |group| group.m };
pub(crate) const V: Quantity = Quantity { name: "v", label: "*V*(*X*_{t})", of: |group| group.v };
const LOG_Q: Quantity = Quantity { name: "log10_1p_q", label: "log_{10}(1 + *Q*)", of: |group| (1.0 + group.q).log10() };
const LOG_M: Quantity = Quantity { name: "log10_1p_m", label: "log_{10}(1 + *M*)", of: |group| (1.0 + group.m).log10() };
const LOG_V: Quantity = Quantity { name: "log10_1p_v", label: "log_{10}(1 + *V*)", of: |group| (1.0 + group.v).log10() };

/// A pair of numbers to plot against each other.
type Pair = (Quantity, Quantity);

/// Figure 2: V against M, one panel per model.
pub(crate) fn trade_off(context: &Context) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut chosen = Vec::new();
    for view in &context.views {
        match context.single_layers(view) {
            Ok(layers) => chosen.push((view, layers)),
            Err(skip) => outcomes.push(Err(skip)),
        }
    }
    let files = chosen.iter().map(|(_, layers)| layers.len()).max().unwrap_or(0);
    for i in 0..files {
        let cells: Vec<(&View, (i64, Point), Pair)> =
            chosen.iter().filter_map(|(view, layers)| Some((*view, *layers.get(i)?, (M, V)))).collect();
        let name = if files > 1 { format!("fig2-layer{}", context.settings.layers[i]) } else { "fig2".into() };
        let title = |view: &View, at| Text::plain(format!("{}, {}", view.label, layer_name(at)));
        let what = "Variance $V(X_t)$ against squared norm of the mean $M(X_t)$ of every group, with the least-squares line.";
        outcomes.push(scatter(&name, &cells, true, true, beside(cells.len()), &title, what));
    }
    outcomes
}

/// Figure 7: Q, M and V against log10 n, one model.
pub(crate) fn by_frequency(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let layers = match context.single_layers(view) {
            Ok(layers) => layers,
            Err(skip) => return vec![Err(skip)],
        };
        let several = layers.len() > 1;
        let draw = |at: (i64, Point)| {
            let cells: Vec<_> = [Q, M, V].map(|quantity| (view, at, (LOG_N, quantity))).into();
            let name = context.name("fig7", view) + &if several { format!("-layer{}", at.0) } else { String::new() };
            let what =
                format!("$Q(X_t)$, $M(X_t)$ and $V(X_t)$ against $\\log_{{10}} n_t$ in {} at {}.", tex::name(&view.name), layer_name(at));
            scatter(&name, &cells, true, false, 3, &|_, at| Text::plain(format!("{}, {}", view.label, layer_name(at))), &what)
        };
        layers.into_iter().map(draw).collect()
    })
}

/// Figures 11 to 13: four plots for each of five layers, one model.
pub(crate) fn five_layers(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let layers = match context.several_layers(view) {
            Ok(layers) => layers,
            Err(skip) => return vec![Err(skip)],
        };
        let pairs = [(LOG_N, LOG_Q), (LOG_N, LOG_M), (LOG_N, LOG_V), (M, V)];
        let cells: Vec<_> = layers.iter().flat_map(|at| pairs.map(|pair| (view, *at, pair))).collect();
        let what = format!(
            "Norm and variance against frequency, and $V(X_t)$ against $M(X_t)$, at {} layers of {}.",
            layers.len(),
            tex::name(&view.name)
        );
        vec![scatter(&context.name("fig11", view), &cells, true, true, 4, &|_, at| Text::plain(layer_name(at)), &what)]
    })
}

/// Figure 22: words, coloured by their number of subwords; no filter, no regression.
pub(crate) fn words(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        if view.grouping() != "word" {
            return vec![Err(Skip::of(&view.label, grouped_otherwise(view.grouping())))];
        }
        let layers = match context.several_layers(view) {
            Ok(layers) => layers,
            Err(skip) => return vec![Err(skip)],
        };
        let pairs = [(LOG_N, Q), (LOG_N, M), (LOG_N, V), (M, V)];
        let cells: Vec<_> = layers.iter().flat_map(|at| pairs.map(|pair| (view, *at, pair))).collect();
        let what = format!(
            "Norm and variance of words against their frequency, and $V$ against $M$, coloured by the number of subwords, in {}.",
            tex::name(&view.name)
        );
        vec![scatter(&context.name("fig22", view), &cells, false, true, 4, &|_, at| Text::plain(layer_name(at)), &what)]
    })
}

fn grouped_otherwise(grouping: &str) -> Line {
    line![format!("states are grouped by {grouping}, not by word; measure with "), setting("group").to("word")]
}

/// Panels of groups in the order of their frequency; `fitted` ones are of the frequency range and have a line.
fn scatter(
    name: &str,
    cells: &[(&View, (i64, Point), Pair)],
    fitted: bool,
    bar: bool,
    columns: usize,
    title: &dyn Fn(&View, (i64, Point)) -> Text,
    what: &str,
) -> Outcome {
    let shade = |group: &Group| if fitted { group.log_n() } else { group.subwords.unwrap_or(1) as f64 };
    let mut all: Vec<Vec<Group>> = cells.iter().map(|(view, at, _)| view.groups_at(*at, fitted)).collect();
    all.iter_mut().for_each(|groups| groups.sort_by(|a, b| shade(a).total_cmp(&shade(b))));
    let shades: Vec<f64> = all.iter().flatten().map(shade).collect();
    if shades.is_empty() {
        let reason = "no group has a frequency in the range";
        let one = cells.first().filter(|(first, ..)| cells.iter().all(|(view, ..)| view.series == first.series));
        return Err(one.map_or_else(|| Skip::new(reason), |(view, ..)| Skip::of(&view.label, reason)));
    }
    let (low, high) = shades.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let kind = if fitted { Kind::Linear } else { Kind::Layers }; // subwords are whole
    let scale = Scale { kind, min: low, max: if high > low { high } else { low + 1.0 } };
    let mut fits = Fits::new();
    let mut panels = Vec::new();
    for ((view, at, pair), groups) in cells.iter().zip(&all) {
        let fit = fitted.then(|| fit(groups, *pair)).flatten();
        if fitted {
            fits.push(view, *at, *pair, fit, groups.len());
        }
        panels.push(panel(groups, *pair, fit, title(view, *at), |group| scale.place(shade(group))));
    }
    let label = if fitted { "log_{10} *n*_{t}" } else { "subwords" };
    let sheet = Sheet {
        columns,
        ratio: if columns == 1 { 0.85 } else { 1.0 },
        legend: Vec::new(),
        colour_bar: bar.then(|| ColourBar { label: Text::math(label), scale }),
        preferred: if columns == 1 { Preferred::Column } else { Preferred::Page },
        panels,
    };
    let numbers = numbers(cells, &all, fitted)
        .and_then(|table| Ok(if fitted { vec![("", table), ("-fit", fits.rows.table()?)] } else { vec![("", table)] }));
    let caption = match cells.first().filter(|_| fitted) {
        Some((view, ..)) => {
            let (low, high) = view.frequency();
            format!(
                "{what} Groups with {} to {} states; axes end at the 0.1 and 99.9 percentiles. {}",
                tex::count(low),
                tex::count(high),
                fits.sentences.join(" ")
            )
        }
        None => format!("{what} All groups are shown; axes end at the 0.1 and 99.9 percentiles."),
    };
    Ok(Plate {
        name: name.into(),
        body: Body::Panels(sheet),
        numbers: numbers.map_err(|error| Skip::new(error.line()))?,
        caption: caption.trim().into(),
        description: format!("{name}: scatter plots of groups of states"),
    })
}

pub(crate) fn fit(groups: &[Group], (x, y): Pair) -> Option<Fit> {
    let of = |quantity: Quantity| groups.iter().map(quantity.of).collect::<Vec<f64>>();
    fit_line(&of(x), &of(y))
}

/// One panel: points, line, and what the line is.
pub(crate) fn panel(groups: &[Group], (x, y): Pair, fit: Option<Fit>, title: Text, shade: impl Fn(&Group) -> f64) -> Panel {
    let points: Vec<(f64, f64, f64)> = groups.iter().map(|group| ((x.of)(group), (y.of)(group), shade(group))).collect();
    let axis = |quantity: Quantity| {
        let mut values: Vec<f64> = groups.iter().map(quantity.of).collect();
        let (low, high) = (percentile(&mut values, 0.001), percentile(&mut values, 0.999));
        Axis::new(Text::math(quantity.label), Scale::around(Kind::Linear, [low, high]))
    };
    let mut panel = Panel::new(title, axis(x), axis(y), vec![Mark::Points { points, faded: false }]);
    if let Some(fit) = fit {
        panel.marks.push(Mark::Slope { slope: fit.slope, intercept: fit.intercept, paint: Paint::Accent, dashed: false });
        let r2 = fit.r2.map_or("undefined".to_owned(), |r2| decimals(r2, 3));
        panel.note = Text::math(&format!("slope {}, *R*² {r2}", decimals(fit.slope, 3)));
    }
    panel
}

/// By linear interpolation between the two nearest of the sorted values; 0 without values.
pub(crate) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = part * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    values[below] + (values[above] - values[below]) * (place - below as f64)
}

/// The fitted lines, as numbers and in words.
struct Fits {
    rows: Rows,
    sentences: Vec<String>,
}

impl Fits {
    fn new() -> Fits {
        let columns = [("model", Cells::Text), ("layer", Cells::Integer), ("point", Cells::Text), ("x", Cells::Text), ("y", Cells::Text)];
        let numbers = [("slope", Cells::Real), ("intercept", Cells::Real), ("r2", Cells::Real), ("groups", Cells::Integer)];
        Fits { rows: Rows::new(&[&columns[..], &numbers[..]].concat()), sentences: Vec::new() }
    }

    fn push(&mut self, view: &View, (layer, point): (i64, Point), (x, y): Pair, fit: Option<Fit>, groups: usize) {
        let value = |of: fn(&Fit) -> Option<f64>| real(fit.as_ref().and_then(of));
        let place = [Cell::Text(view.run.model()), Cell::Integer(layer), Cell::Text(point.name()), Cell::Text(x.name), Cell::Text(y.name)];
        let line = [value(|fit| Some(fit.slope)), value(|fit| Some(fit.intercept)), value(|fit| fit.r2), Cell::Integer(groups as i64)];
        self.rows.push(&[&place[..], &line[..]].concat());
        if let Some(fit) = fit.filter(|_| (x.name, y.name) == ("m", "v")) {
            let (slope, r2) = (tex::number(fit.slope, 3), tex::r2(fit.r2));
            self.sentences.push(format!(
                "{}, layer {layer}: slope {slope}, $R^2$ {r2}, {} groups.",
                tex::name(&view.name),
                tex::count(groups as i64)
            ));
        }
    }
}

/// Each group once per point, with every number that is plotted there.
fn numbers(cells: &[(&View, (i64, Point), Pair)], all: &[Vec<Group>], fitted: bool) -> Result<Table> {
    let mut quantities: Vec<Quantity> = Vec::new();
    for quantity in cells.iter().flat_map(|(_, _, (x, y))| [*x, *y]) {
        if !quantities.iter().any(|other| other.name == quantity.name) {
            quantities.push(quantity);
        }
    }
    let mut columns =
        vec![("model", Cells::Text), ("layer", Cells::Integer), ("point", Cells::Text), ("group", Cells::Text), ("n", Cells::Integer)];
    if !fitted {
        columns.push(("subwords", Cells::Integer));
    }
    columns.extend(quantities.iter().map(|quantity| (quantity.name, Cells::Real)));
    let mut rows = Rows::new(&columns);
    let mut seen: Vec<(usize, (i64, Point))> = Vec::new();
    for ((view, at, _), groups) in cells.iter().zip(all) {
        if seen.contains(&(view.series, *at)) {
            continue;
        }
        seen.push((view.series, *at));
        for group in groups {
            let mut row = vec![
                Cell::Text(view.run.model()),
                Cell::Integer(at.0),
                Cell::Text(at.1.name()),
                Cell::Text(group.name),
                Cell::Integer(group.n),
            ];
            if !fitted {
                row.push(integer(group.subwords));
            }
            row.extend(quantities.iter().map(|quantity| Cell::Real((quantity.of)(group))));
            rows.push(&row);
        }
    }
    rows.table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_variance_has_a_slope_and_no_r2() {
        let group = |m: f64| Group { id: None, name: "", n: 10, q: m, m, v: 0.0, subwords: None };
        let groups = [group(1.0), group(2.0), group(4.0)];
        let fitted = fit(&groups, (M, V)).unwrap();
        assert_eq!((fitted.slope, fitted.intercept, fitted.r2), (0.0, 0.0, None));
        let note: String =
            panel(&groups, (M, V), Some(fitted), Text::default(), |_| 0.0).note.0.into_iter().map(|span| span.text).collect();
        assert_eq!(note, "slope 0.000, R² undefined");
        assert_eq!(tex::r2(fitted.r2), "undefined");
    }

    #[test]
    fn percentiles_interpolate() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.5, 1.0, 0.25].map(|part| percentile(&mut values, part)), [1.0, 2.5, 4.0, 1.75]);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
