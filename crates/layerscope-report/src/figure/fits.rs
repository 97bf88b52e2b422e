//! Scatter plots of groups with regression lines.

use layerscope_error::{Line, line, setting};
use layerscope_stats::measure::{Line as Fit, fit_line};

use super::context::{Context, beside, layer_name, title_at};
use super::data::{Point, View};
use super::groups::Group;
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, ColourBar, Fade, Key, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::{Text, decimals, thousands};
use super::ticks::{Kind, MARKER, Scale};
use crate::error::Result;
use crate::table::{Cell, Table};
use crate::together::FEW_GROUPS;

/// A number of a group, and how its axis is called.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    pub name: &'static str,
    pub label: &'static str,
    pub of: fn(&Group) -> f64,
    /// Whether its axis has room for every group; a few extremes would press the others of a norm together.
    whole: bool,
}

const fn norm(name: &'static str, label: &'static str, of: fn(&Group) -> f64) -> Quantity {
    Quantity { name, label, of, whole: false }
}

const LOG_N: Quantity = Quantity { name: "log10_n", label: "log_{10} *n*_{t}", of: |group| group.log_n(), whole: true };
pub(crate) const Q: Quantity = norm("q", "*Q*(*X*_{t})", |group| group.q);
pub(crate) const M: Quantity = norm("m", "*M*(*X*_{t})", |group| group.m);
pub(crate) const V: Quantity = norm("v", "*V*(*X*_{t})", |group| group.v);
const LOG_Q: Quantity = norm("log10_1p_q", "log_{10}(1 + *Q*)", |group| (1.0 + group.q).log10());
const LOG_M: Quantity = norm("log10_1p_m", "log_{10}(1 + *M*)", |group| (1.0 + group.m).log10());
const LOG_V: Quantity = norm("log10_1p_v", "log_{10}(1 + *V*)", |group| (1.0 + group.v).log10());

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
    // One file for each layer asked for, of the runs that have it; else one of every run's middle layer.
    let asked = &context.settings.layers;
    for i in 0..asked.len().max(1) {
        let here = |(_, layers): &(_, Vec<(i64, Point)>)| layers.iter().find(|at| asked.get(i).is_none_or(|layer| at.0 == *layer)).copied();
        let cells: Vec<(&View, (i64, Point), Pair)> = chosen.iter().filter_map(|one| Some((one.0, here(one)?, (M, V)))).collect();
        if cells.is_empty() {
            continue;
        }
        let name = "fig2".to_owned() + &asked.get(i).map_or(String::new(), |layer| context.of_layer(*layer));
        let what = "Variance $V(X_t)$ against squared norm of the mean $M(X_t)$ of every group, with a least-squares line.";
        outcomes.push(scatter(&name, &cells, true, true, beside(cells.len()), &title_at, what));
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
        let draw = |at: (i64, Point)| {
            let cells: Vec<_> = [Q, M, V].map(|quantity| (view, at, (LOG_N, quantity))).into();
            let name = context.name_at("fig7", view, at.0);
            let what =
                format!("$Q(X_t)$, $M(X_t)$ and $V(X_t)$ against $\\log_{{10}} n_t$ in {} at {}.", tex::name(&view.name), layer_name(at));
            scatter(&name, &cells, true, false, 3, &title_at, &what)
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

/// Words of so many subwords, or more, share a colour.
const MOST_SUBWORDS: i64 = 4;

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
            "Norm and variance of words against their frequency, and $V$ against $M$, coloured by the number of subwords (1, 2, 3, 4 or more), in {}.",
            tex::name(&view.name)
        );
        vec![scatter(&context.name("fig22", view), &cells, false, true, 4, &|_, at| Text::plain(layer_name(at)), &what)]
    })
}

fn grouped_otherwise(grouping: &str) -> Line {
    line![format!("states are grouped by {grouping}, not by word; measure with "), setting("group").to("word")]
}

/// Panels of all groups in the order of their frequency. `fitted` ones have a line through the selected groups, and the others are faint;
/// else colours tell the number of subwords, and words that occur once are faint.
fn scatter(
    name: &str,
    cells: &[(&View, (i64, Point), Pair)],
    fitted: bool,
    bar: bool,
    columns: usize,
    title: &dyn Fn(&View, (i64, Point)) -> Text,
    what: &str,
) -> Outcome {
    let shade = |group: &Group| if fitted { group.log_n() } else { subwords(group) as f64 };
    let mut all: Vec<Vec<Group>> = cells.iter().map(|(view, at, _)| view.groups_at(*at)).collect();
    all.iter_mut().for_each(|groups| groups.sort_by(|a, b| shade(a).total_cmp(&shade(b))));
    if !all.iter().flatten().any(|group| group.selected || !fitted) {
        let reason = "no group has a frequency in the range";
        let one = cells.first().filter(|(first, ..)| cells.iter().all(|(view, ..)| view.series == first.series));
        return Err(one.map_or_else(|| Skip::new(reason), |(view, ..)| Skip::of(&view.label, reason)));
    }
    let scale = if fitted { colours(all.iter().flatten()) } else { Scale::linear(1.0, MOST_SUBWORDS as f64) };
    let place = |group: &Group| scale.place(shade(group));
    // Where the slope is all that a panel is about, it says what it is over: figure 8 fits other groups.
    let alone = cells.iter().all(|(_, _, (x, y))| (x.name, y.name) == (M.name, V.name));
    let (mut fits, mut panels, mut ranges, mut few) = (Fits::new(), Vec::new(), Over::default(), Few::default());
    for ((view, at, pair), groups) in cells.iter().zip(&all) {
        let selected: Vec<Group> = groups.iter().filter(|group| group.selected).copied().collect();
        let fit = fitted.then(|| fit(&selected, *pair)).flatten();
        if fitted {
            fits.push(view, *at, *pair, fit, selected.len());
            ranges.range(view, view.frequency());
            few.push(view, Some(selected.len()));
        }
        // A word that occurs once has no variance, whatever the word: a stripe that says nothing.
        let stands_out = |group: &Group| if fitted { group.selected } else { group.n > 1 };
        let mut panel = panel(groups, *pair, fit, title(view, *at), clouds(groups, *pair, Fade::Full, stands_out, place));
        if fit.is_some() && (alone || selected.len() < FEW_GROUPS) {
            let of = if view.frequency().is_some() { "selected groups" } else { "groups" };
            panel.note = panel.note.then(Text::plain(format!(", {} {of}", thousands(selected.len() as i64))));
        }
        panels.push(panel);
    }
    let faint = fitted && all.iter().flatten().any(|group| !group.selected);
    let once = !fitted && all.iter().flatten().any(|group| group.n == 1);
    let sheet = Sheet {
        columns,
        ratio: if columns == 1 { 0.85 } else { 1.0 },
        legend: if fitted { outside(faint) } else { subword_keys(&scale, once) },
        colour_bar: (bar && fitted).then(|| ColourBar { label: Text::math("log_{10} *n*_{t}"), scale }),
        preferred: if columns == 1 { Preferred::Column } else { Preferred::Page },
        panels,
    };
    let numbers = numbers(cells, &all, fitted)
        .and_then(|table| Ok(if fitted { vec![("", table), ("-fit", fits.rows.table()?)] } else { vec![("", table)] }));
    let caption = if fitted {
        let others = if faint { "; the others are faint" } else { "" };
        format!(
            "{what} Lines are fitted to {}{others}. Axes of norms end at the 0.1 and 99.9 percentiles. {}",
            ranges.words(),
            fits.sentences.join(" ")
        )
    } else {
        let faint = if once { ", those that occur once faint" } else { "" };
        format!("{what} All groups are shown{faint}; axes of norms end at the 0.1 and 99.9 percentiles.")
    };
    Ok(Plate {
        name: name.into(),
        body: Body::Panels(sheet),
        numbers: numbers.map_err(|error| Skip::new(error.line()))?,
        caption: caption.trim().into(),
        shown: Shown::of_all(cells.iter().map(|(view, ..)| view.shown_in_tables())),
        remarks: few.remarks(),
        description: format!("{name}: scatter plots of groups of states"),
    })
}

/// In how many parts a word was cut; 4 stands for more.
fn subwords(group: &Group) -> i64 {
    group.subwords.unwrap_or(1).clamp(1, MOST_SUBWORDS)
}

/// The colours of words.
fn subword_keys(scale: &Scale, once: bool) -> Vec<(Key, Text)> {
    let key = |count: i64| {
        let name = match count {
            1 => "1 subword".to_owned(),
            MOST_SUBWORDS => format!("{count} or more"),
            _ => count.to_string(),
        };
        (Key::Dot(Paint::Map(scale.place(count as f64))), Text::plain(name))
    };
    let faint = once.then(|| (Key::Faint, Text::plain("occurs once")));
    (1..=MOST_SUBWORDS).map(key).chain(faint).collect()
}

/// The scale of colours of some groups: by their frequency.
pub(crate) fn colours<'g>(groups: impl Iterator<Item = &'g Group<'g>>) -> Scale {
    let logs = groups.map(Group::log_n);
    let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| (low.min(log), high.max(log)));
    Scale::linear(low, if high > low { high } else { low + 1.0 })
}

/// The legend of faint points.
pub(crate) fn outside(faint: bool) -> Vec<(Key, Text)> {
    faint.then(|| (Key::Faint, Text::plain("outside of the frequency range"))).into_iter().collect()
}

pub(crate) fn fit(groups: &[Group], (x, y): Pair) -> Option<Fit> {
    let of = |quantity: Quantity| groups.iter().map(quantity.of).collect::<Vec<f64>>();
    fit_line(&of(x), &of(y))
}

/// What a line is, in words: its slope, and R^2 where y varies.
fn note(slope: f64, r2: Option<f64>) -> Text {
    let r2 = r2.map_or("undefined".to_owned(), |r2| decimals(r2, 3));
    Text::math(&format!("slope {}, *R*² {r2}", decimals(slope, 3)))
}

fn cloud<'g>(groups: impl Iterator<Item = &'g Group<'g>>, (x, y): Pair, fade: Fade, shade: impl Fn(&Group) -> f64) -> Mark {
    Mark::Points { points: groups.map(|group| ((x.of)(group), (y.of)(group), shade(group))).collect(), fade }
}

/// The groups that do not stand out first, so that they are behind the others.
pub(crate) fn clouds(
    groups: &[Group],
    pair: Pair,
    fade: Fade,
    stands_out: impl Fn(&Group) -> bool,
    shade: impl Fn(&Group) -> f64,
) -> Vec<Mark> {
    let of = |part: bool, fade: Fade| cloud(groups.iter().filter(|group| stands_out(group) == part), pair, fade, &shade);
    let is_shown = |mark: &Mark| !matches!(mark, Mark::Points { points, .. } if points.is_empty());
    [of(false, Fade::Faint), of(true, fade)].into_iter().filter(is_shown).collect()
}

/// One panel: points, line, and what the line is. Its axes hold nearly all of the groups.
pub(crate) fn panel(groups: &[Group], (x, y): Pair, fit: Option<Fit>, title: Text, clouds: Vec<Mark>) -> Panel {
    let axis = |quantity: Quantity| {
        let mut values: Vec<f64> = groups.iter().map(quantity.of).collect();
        let outside = if quantity.whole { 0.0 } else { 0.001 };
        let (low, high) = (percentile(&mut values, outside), percentile(&mut values, 1.0 - outside));
        Axis::new(Text::math(quantity.label), Scale::around(Kind::Linear, [low, high]).with_room_for(&values, MARKER))
    };
    let mut panel = Panel::new(title, axis(x), axis(y), clouds);
    if let Some(fit) = fit {
        panel.marks.push(Mark::Slope { slope: fit.slope, intercept: fit.intercept, paint: Paint::Accent, dashed: false });
        panel.note = note(fit.slope, fit.r2);
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
        let value = |of: fn(&Fit) -> f64| real(fit.as_ref().map(of));
        let explained = real(fit.as_ref().and_then(|fit| fit.r2));
        let place = [Cell::Text(view.run.model()), Cell::Integer(layer), Cell::Text(point.name()), Cell::Text(x.name), Cell::Text(y.name)];
        let line = [value(|fit| fit.slope), value(|fit| fit.intercept), explained, Cell::Integer(groups as i64)];
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
    columns.push((if fitted { "selected" } else { "subwords" }, Cells::Integer));
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
            row.push(if fitted { Cell::Integer(i64::from(group.selected)) } else { integer(group.subwords) });
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
    fn words_have_four_colours() {
        let word = |subwords| Group { id: None, name: "", n: 1, q: 1.0, m: 1.0, v: 0.0, subwords, special: false, selected: true };
        assert_eq!([None, Some(1), Some(2), Some(4), Some(9)].map(|parts| subwords(&word(parts))), [1, 1, 2, 4, 4]);
        let keys = subword_keys(&Scale::linear(1.0, MOST_SUBWORDS as f64), true);
        let names: Vec<String> = keys.iter().map(|(_, text)| text.characters()).collect();
        assert_eq!(names, ["1 subword", "2", "3", "4 or more", "occurs once"]);
    }

    #[test]
    fn an_undefined_r2_is_said_to_be_so() {
        assert_eq!(note(-1.0, Some(0.5)).characters(), "slope −1.000, R² 0.500");
        assert_eq!(note(0.0, None).characters(), "slope 0.000, R² undefined");
        assert_eq!((tex::r2(Some(0.5)), tex::r2(None)), ("$0.500$".into(), "undefined".into()));
    }

    #[test]
    fn percentiles_interpolate() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.5, 1.0, 0.25].map(|part| percentile(&mut values, part)), [1.0, 2.5, 4.0, 1.75]);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
