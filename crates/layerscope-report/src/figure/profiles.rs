//! Measures along the layers, one line per model.

use super::by_layer::{SELECTED, is_selected, overall};
use super::context::Context;
use super::data::{Key, Profile, Row, View};
use super::fits::percentile;
use super::plate::{Body, Outcome, Plate, Skip};
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::{Ranges, Shown};
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use crate::table::Cell;

/// One panel: a measure and how its axis is called.
pub(super) struct Curve {
    pub title: &'static str,
    pub label: &'static str,
    pub measure: &'static str,
    /// The first that the run has.
    pub variants: &'static [Option<&'static str>],
    pub selections: &'static [&'static str],
    /// The spread to draw around the line, as a variant of the same measure.
    pub band: Option<&'static str>,
    /// A value worth a thin line: 0, 1, -1.
    pub mark: Option<f64>,
    /// Whether models may differ by orders of magnitude, and the larger ones go to an axis of their own.
    pub sizes: bool,
}

/// How many times its smallest the largest value is before the axis is logarithmic.
const WIDE: f64 = 40.0;

/// What is smaller than this part of the largest value is not on a logarithmic axis.
const SMALLEST: f64 = 1e-5;

/// A figure of such panels.
pub(super) struct Plan {
    pub id: &'static str,
    pub curves: &'static [Curve],
    pub columns: usize,
    pub preferred: Preferred,
    pub caption: &'static str,
    /// The first measure in LaTeX: the one whose extremes the caption tells.
    pub key: &'static str,
    /// Whether measures over groups follow the frequency range that was asked for.
    pub over_groups: bool,
}

/// Anisotropy against relative depth; encoders and decoders apart. Means over batches, as in the paper; band = standard deviation.
pub(crate) fn shape1(context: &Context) -> Vec<Outcome> {
    const CURVE: Curve = Curve {
        variants: &[Some("batch4096"), Some("corpus"), None],
        selections: &["sample", "all"],
        band: Some("batch4096_std"),
        ..overall("", "anisotropy *λ*_{1} / Σ*λ*", "anisotropy_svd")
    };
    let kinds = [("Encoders", false), ("Decoders", true)];
    let mut panels = Vec::new();
    let mut rows = columns();
    let mut drawn = Vec::new();
    let mut sentences = Vec::new();
    let mut shown = Shown::Any;
    for (title, causal) in kinds {
        let views: Vec<&View> = context.views.iter().filter(|view| (view.run.manifest.model.causal == Some(true)) == causal).collect();
        let mut lines = Vec::new();
        for view in views {
            let Some(found) = profile(view, &CURVE, false) else { continue };
            let depth = found.profile.rows.iter().filter_map(|row| row.layer).max().unwrap_or(1).max(1) as f64;
            push(&mut rows, title, view, &CURVE, &found);
            shown = shown.and(view.shown(found.selection));
            let batches = if found.variant == CURVE.variants[0] { "" } else { " (of all states at once: the run has no batches)" };
            sentences.push(extremes(view, &found.profile) + batches);
            lines.push(line(view, &found, |layer| layer as f64 / depth));
            drawn.push(view.series);
        }
        if !lines.is_empty() {
            panels.push((title, lines));
        }
    }
    if panels.is_empty() {
        return vec![Err(missing(&[CURVE]))];
    }
    let heights: Vec<f64> = panels.iter().flat_map(|(_, lines)| lines).flat_map(|line| line.heights().collect::<Vec<f64>>()).collect();
    let scale = Scale::from_zero(heights);
    let hollow = panels.iter().flat_map(|(_, lines)| lines).any(|line| !line.hollow.is_empty());
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(title, lines)| {
            let x = Axis::new(Text::plain("relative depth"), Scale::linear(-0.02, 1.02));
            Panel::new(Text::plain(title), x, Axis::new(Text::math(CURVE.label), scale), lines.into_iter().map(Mark::Line).collect())
        })
        .collect();
    let preferred = if panels.len() > 1 { Preferred::Page } else { Preferred::Column };
    let sheet = Sheet { panels, columns: 2, ratio: 0.75, legend: context.legend(&drawn, hollow), colour_bar: None, preferred };
    let caption = format!(
        "Anisotropy (share of the largest eigenvalue of the covariance) by relative depth: means over batches of kept states, with bands of one standard deviation. By model: {}.",
        sentences.join("; ")
    );
    vec![plate("shape1", sheet, rows, caption, shown)]
}

/// A profile with what is drawn around it.
struct Found {
    profile: Profile,
    selection: &'static str,
    variant: Option<&'static str>,
    band: Option<Profile>,
    /// The frequencies of its groups; none where it is over all of them.
    range: Option<(i64, i64)>,
}

fn profile(view: &View, curve: &Curve, over_groups: bool) -> Option<Found> {
    let found = view.found(curve.measure, curve.variants, curve.selections);
    // The table has one range. Groups know every other, but only what follows from them.
    let (asked, own) = (view.frequency(), view.own_frequency());
    let is_asked = asked == own && found.as_ref().is_some_and(|found| is_selected(found.selection));
    if let Some(profile) = (over_groups && !is_asked).then(|| view.profile_over_groups(curve.measure)).flatten() {
        return Some(Found { profile, selection: view.states.of("selected"), variant: None, band: None, range: asked });
    }
    let found = found?;
    let batches = found.variant.is_some_and(|variant| curve.band.is_some_and(|band| band.starts_with(variant)));
    let band = curve.band.filter(|_| batches).map(|band| {
        let key = Key { measure: curve.measure, variant: Some(band), selection: found.selection };
        Profile::of_last_step(view.rows(key))
    });
    let range = own.filter(|_| is_selected(found.selection));
    Some(Found { profile: Profile::of_last_step(&found.rows), selection: found.selection, variant: found.variant, band, range })
}

fn line(view: &View, found: &Found, x: impl Fn(i64) -> f64) -> Line {
    let rows = &found.profile.rows;
    let place = |row: &Row| x(row.layer.unwrap_or(0));
    let mut line = Line { marker: Some(view.series), ..found.profile.line(Paint::Series(view.series), &x) };
    if let Some(band) = &found.band {
        let around = |row: &Row| {
            let spread = band.rows.iter().find(|other| other.layer == row.layer && other.point == row.point)?.value?;
            let value = row.value?;
            Some((place(row), value - spread, value + spread))
        };
        line.band = rows.iter().filter_map(around).collect();
    }
    line
}

/// The figure of a plan.
pub(super) fn draw(context: &Context, plan: &Plan) -> Outcome {
    let mut rows = columns();
    let (mut panels, mut drawn, mut sentences, mut hollow) = (Vec::new(), Vec::new(), Vec::new(), false);
    let (mut ranges, mut shown) = (Ranges::default(), Shown::Any);
    for curve in plan.curves {
        let mut lines = Vec::new();
        for view in &context.views {
            let Some(found) = profile(view, curve, plan.over_groups) else { continue };
            ranges.push(view, found.range);
            shown = shown.and(view.shown(found.selection));
            push(&mut rows, curve.measure, view, curve, &found);
            if panels.is_empty() {
                sentences.push(extremes(view, &found.profile));
            }
            hollow |= found.profile.before_norm.is_some();
            lines.push(line(view, &found, |layer| layer as f64));
            drawn.push(view.series);
        }
        if !lines.is_empty() {
            panels.push(panel(context, curve, lines));
        }
    }
    if panels.is_empty() {
        return Err(missing(plan.curves));
    }
    let single = panels.len() == 1;
    let sheet = Sheet {
        columns: plan.columns.min(panels.len()),
        ratio: if single { 0.72 } else { 0.92 },
        legend: context.legend(&drawn, hollow),
        colour_bar: None,
        preferred: plan.preferred,
        panels,
    };
    let range = if plan.curves[0].selections == SELECTED { format!(" Over {}.", ranges.words()) } else { String::new() };
    plate(plan.id, sheet, rows, format!("{}{range} {}, by model: {}", plan.caption, plan.key, sentences.join("; ") + "."), shown)
}

/// A panel; lines of a very different size go to a second, logarithmic axis.
fn panel(context: &Context, curve: &Curve, mut lines: Vec<Line>) -> Panel {
    let title = Text::plain(curve.title);
    let last = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(1.0, f64::max);
    let room = last * 0.02;
    let x = Axis::new(Text::plain("layer"), Scale { kind: Kind::Layers, min: -room, max: last + room });
    let mut large = if curve.sizes { very_large(&lines) } else { Vec::new() };
    // A final norm can change the size a hundredfold: then all share one logarithmic axis, or the others would lie flat on theirs.
    let wide = curve.sizes && is_wide(lines.iter().enumerate().filter(|(i, _)| !large.contains(i)).map(|(_, line)| line));
    if wide {
        large.clear();
    }
    for i in &large {
        lines[*i].right = true;
    }
    let heights = |right: bool| lines.iter().filter(move |line| line.right == right).flat_map(|line| line.heights().collect::<Vec<f64>>());
    let kind = if wide { Kind::Log } else { Kind::Linear };
    // Zeros (no variance within groups before the first block of a rotary model) fall off a logarithmic axis.
    let least = heights(false).fold(0.0f64, f64::max) * SMALLEST;
    let shown = heights(false).filter(|value| !wide || *value >= least);
    let mut scale = Scale::around(kind, shown);
    if scale.min < 0.0 && heights(false).all(|value| value >= 0.0) {
        scale.min = 0.0;
    }
    let near = |mark: &f64| *mark >= scale.min - 0.6 * (scale.max - scale.min) && *mark <= scale.max + 0.6 * (scale.max - scale.min);
    let mark = curve.mark.filter(near);
    if let Some(mark) = mark {
        let room = 0.03 * (scale.max - scale.min);
        scale = scale.including(mark - room).including(mark + room);
    }
    let right = (!large.is_empty()).then(|| {
        let names: Vec<String> = context
            .views
            .iter()
            .filter(|view| lines.iter().any(|line| line.right && line.marker == Some(view.series)))
            .map(|view| view.label.clone())
            .collect();
        Axis::new(Text::plain(format!("{} (log)", names.join(", "))), Scale::around(Kind::Log, heights(true)))
    });
    let marks = mark.map(|y| Mark::Horizontal { y }).into_iter().chain(lines.into_iter().map(Mark::Line)).collect();
    Panel { right, ..Panel::new(title, x, Axis::new(Text::math(curve.label), scale), marks) }
}

/// Whether the largest value is many times the smallest, none being negative.
fn is_wide<'a>(lines: impl Iterator<Item = &'a Line>) -> bool {
    let values: Vec<f64> = lines.flat_map(|line| line.heights().collect::<Vec<f64>>()).collect();
    let high = values.iter().copied().fold(0.0, f64::max);
    let low = values.iter().copied().filter(|value| *value > high * SMALLEST).fold(high, f64::min);
    high > WIDE * low && values.iter().all(|value| *value >= 0.0)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    percentile(&mut values, 0.5)
}

/// The lines above the widest gap between their medians, if that gap is tenfold, all of them are positive and at most two: more of them
/// share one logarithmic axis with the others.
fn very_large(lines: &[Line]) -> Vec<usize> {
    let mut sizes: Vec<(f64, usize)> = lines.iter().enumerate().map(|(i, line)| (median(line.heights()), i)).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let gap = |i: &usize| if sizes[i - 1].0 > 0.0 { sizes[*i].0 / sizes[i - 1].0 } else { 0.0 };
    let Some(widest) = (1..sizes.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))) else { return Vec::new() };
    let large: Vec<usize> = sizes[widest..].iter().map(|(_, i)| *i).collect();
    let positive = large.iter().all(|i| lines[*i].heights().all(|value| value > 0.0));
    if gap(&widest) >= 10.0 && positive && large.len() <= 2 { large } else { Vec::new() }
}

fn columns() -> Rows {
    Rows::new(&[
        ("panel", Cells::Text),
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("selection", Cells::Text),
        ("measure", Cells::Text),
        ("variant", Cells::Text),
        ("value", Cells::Real),
        ("se", Cells::Real),
        ("band", Cells::Real),
    ])
}

fn push(rows: &mut Rows, panel: &str, view: &View, curve: &Curve, found: &Found) {
    for row in found.profile.all() {
        let band =
            found.band.as_ref().and_then(|band| band.all().find(|other| other.layer == row.layer && other.point == row.point)?.value);
        let variant = found.variant.map_or(Cell::Null, Cell::Text);
        let name = Cell::Text(view.run.model());
        rows.push(&[
            Cell::Text(panel),
            name,
            integer(row.layer),
            Cell::Text(row.point.name()),
            Cell::Text(found.selection),
            Cell::Text(curve.measure),
            variant,
            real(row.value),
            real(row.se),
            real(band),
        ]);
    }
}

/// "name smallest 0.1 at layer 3, largest 0.5 at layer 9"
fn extremes(view: &View, profile: &Profile) -> String {
    let defined: Vec<(i64, f64)> = profile.rows.iter().filter_map(|row| Some((row.layer?, row.value?))).collect();
    let by = |a: &&(i64, f64), b: &&(i64, f64)| a.1.total_cmp(&b.1);
    match (defined.iter().min_by(by), defined.iter().max_by(by)) {
        (Some(low), Some(high)) => {
            let digits = if high.1.abs() >= 100.0 { 1 } else { 3 };
            let name = tex::name(&view.name);
            format!(
                "{name} smallest {} at layer {}, largest {} at layer {}",
                tex::number(low.1, digits),
                low.0,
                tex::number(high.1, digits),
                high.0
            )
        }
        _ => String::new(),
    }
}

fn missing(curves: &[Curve]) -> Skip {
    let mut names: Vec<&str> = curves.iter().map(|curve| curve.measure).collect();
    names.dedup();
    Skip::new(format!("no run has {}", names.join(", ")))
}

fn plate(id: &str, sheet: Sheet, rows: Rows, caption: String, shown: Shown) -> Outcome {
    let table = rows.table().map_err(|error| Skip::new(error.line()))?;
    let description = format!(
        "{id}: {}",
        sheet
            .panels
            .iter()
            .map(|panel| format!("{} by {}", panel.y.label.characters(), panel.x.label.characters()))
            .collect::<Vec<_>>()
            .join("; ")
    );
    let (body, numbers) = (Body::Panels(sheet), vec![("", table)]);
    Ok(Plate { name: id.into(), body, numbers, caption: caption.trim().into(), shown, description })
}
