//! Measures along the layers, one line per model.

use super::by_layer::curve;
use super::context::Context;
use super::data::{Key, Profile, Row, View};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::{Few, Remarks};
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Key as LegendKey, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use super::trajectories::anisotropy_label;
use crate::lead::is_selected;
use crate::table::Cell;
use crate::together::FEW_GROUPS;

/// One panel: a measure and how its axis is called.
pub(super) struct Curve {
    pub title: &'static str,
    pub label: &'static str,
    pub measure: &'static str,
    /// The first that the run has.
    pub variants: &'static [Option<&'static str>],
    /// The spread to draw around the line, as a variant of the same measure.
    pub band: Option<&'static str>,
    /// What the measure cannot exceed: no band does.
    pub limits: (f64, f64),
    /// A value worth a thin line: 0, 1, -1.
    pub mark: Option<f64>,
    /// Whether it is a size, in which models may differ by orders of magnitude: then the axes of all sizes of a figure are logarithmic.
    pub size: bool,
}

impl Curve {
    /// What captions call the measure.
    fn name(&self) -> String {
        if self.label.contains('*') { self.measure.replace('_', " ") } else { self.label.to_owned() }
    }
}

/// How many times its smallest the largest value of a size is before axes are logarithmic.
const WIDE: f64 = 20.0;
/// What is smaller than this part of the largest value is not on a logarithmic axis.
const SMALLEST: f64 = 1e-9;

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
        band: Some("batch4096_std"),
        ..curve("", "anisotropy *λ*_{1} / Σ*λ*", "anisotropy_svd")
    };
    let kinds = [("Encoders", false), ("Decoders", true)];
    let mut panels = Vec::new();
    let mut rows = columns();
    let mut drawn = Vec::new();
    let mut sentences = Vec::new();
    let (mut shown, mut label) = (Shown::Any, CURVE.label);
    for (title, causal) in kinds {
        let views: Vec<&View> = context.views.iter().filter(|view| (view.run.manifest.model.causal == Some(true)) == causal).collect();
        let mut lines = Vec::new();
        for view in views {
            let Some(found) = profile(view, &CURVE, false) else { continue };
            push(&mut rows, title, view, &CURVE, &found);
            shown = shown.and(view.shown(found.selection));
            let batches = if found.variant == CURVE.variants[0] { "" } else { " (of all states at once: the run has no batches)" };
            sentences.push(extremes(view, &found.profile) + batches);
            label = if label == anisotropy_label(CURVE.variants[0]) { label } else { anisotropy_label(found.variant) };
            lines.push(line(view, &found, CURVE.limits, true));
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
            Panel::new(
                Text::plain(title),
                relative_axis(),
                Axis::new(Text::math(label), scale),
                lines.into_iter().map(Mark::Line).collect(),
            )
        })
        .collect();
    let preferred = if panels.len() > 1 { Preferred::Page } else { Preferred::Column };
    let sheet = Sheet { panels, columns: 2, ratio: 0.75, legend: context.legend(&drawn, hollow), colour_bar: None, preferred };
    let caption = format!(
        "Anisotropy (share of the largest eigenvalue of the covariance) by relative depth: means over batches of kept states, with bands of one standard deviation. By model: {}.",
        sentences.join("; ")
    );
    vec![plate("shape1", sheet, rows, caption, shown, Remarks::default())]
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
    let found = view.found(curve.measure, curve.variants);
    // The table has one range, and all groups. Groups know every other range, but only what follows from them.
    let asked = view.frequency();
    let is_in_table = found.is_some() && (view.over_all || asked == view.own_frequency());
    if let Some(profile) = (over_groups && !is_in_table).then(|| view.profile_over_groups(curve.measure)).flatten() {
        let selection = view.states.of(if view.over_all { "all" } else { "selected" });
        return Some(Found { profile, selection, variant: None, band: None, range: asked });
    }
    let found = found?;
    let batches = found.variant.is_some_and(|variant| curve.band.is_some_and(|band| band.starts_with(variant)));
    let band = curve.band.filter(|_| batches).map(|band| {
        let key = Key { measure: curve.measure, variant: Some(band), selection: found.selection };
        Profile::of_last_step(view.rows(key))
    });
    let range = view.own_frequency().filter(|_| is_selected(found.selection));
    Some(Found { profile: Profile::of_last_step(&found.rows), selection: found.selection, variant: found.variant, band, range })
}

/// The line of a run along its layers, or along their share of the depth; around it the spread over batches, or else one standard error.
fn line(view: &View, found: &Found, (lowest, highest): (f64, f64), relative: bool) -> Line {
    let rows = &found.profile.rows;
    let depth = rows.iter().filter_map(|row| row.layer).max().unwrap_or(1).max(1) as f64;
    let x = |layer: i64| if relative { layer as f64 / depth } else { layer as f64 };
    let spread = |row: &Row| match &found.band {
        Some(band) => band.rows.iter().find(|other| other.layer == row.layer && other.point == row.point)?.value,
        None => row.se,
    };
    let around = |row: &Row| {
        let (value, spread) = (row.value?, spread(row)?);
        Some((x(row.layer.unwrap_or(0)), (value - spread).max(lowest), (value + spread).min(highest)))
    };
    let band = rows.iter().filter_map(around).collect();
    Line { marker: Some(view.series), band, ..found.profile.line(Paint::Series(view.series), x) }
}

/// The figure of a plan.
pub(super) fn draw(context: &Context, plan: &Plan) -> Outcome {
    let mut rows = columns();
    let (mut curves, mut drawn, mut sentences, mut hollow) = (Vec::new(), Vec::new(), Vec::new(), false);
    let (mut over, mut shown, mut few) = (Over::default(), Shown::Any, Few::default());
    let (mut errors, mut marked) = (false, false);
    for curve in plan.curves {
        let mut lines = Vec::new();
        for view in &context.views {
            let Some(found) = profile(view, curve, plan.over_groups) else { continue };
            let name = curve.name();
            match found.range {
                Some(_) => over.measure(view, &name, found.range),
                None => over.selection(view, &name, found.selection),
            }
            shown = shown.and(view.shown(found.selection));
            push(&mut rows, curve.measure, view, curve, &found);
            if curves.is_empty() {
                sentences.push(extremes(view, &found.profile));
            }
            hollow |= found.profile.before_norm.is_some();
            let own = line(view, &found, curve.limits, context.settings.relative_depth);
            errors |= found.band.is_none() && !own.band.is_empty();
            // A line of so few groups is marked; what it is over is said below.
            let groups = few.push_found(view, curve.measure, found.variant, found.selection);
            let dashed = plan.over_groups && groups.is_some_and(|groups| groups < FEW_GROUPS);
            marked |= dashed;
            lines.push(Line { dashed, ..own });
            drawn.push(view.series);
        }
        if !lines.is_empty() {
            curves.push((curve, lines));
        }
    }
    if curves.is_empty() {
        return Err(missing(plan.curves));
    }
    let logarithmic = are_logarithmic(&curves);
    let panels: Vec<Panel> = curves.into_iter().zip(logarithmic).map(|((curve, lines), log)| panel(context, curve, lines, log)).collect();
    let single = panels.len() == 1;
    let mut legend = context.legend(&drawn, hollow);
    if marked {
        legend.push((LegendKey::Line(Paint::Quiet, true), Text::plain(format!("fewer than {FEW_GROUPS} groups"))));
    }
    let sheet = Sheet {
        columns: plan.columns.min(panels.len()),
        ratio: if single { 0.72 } else { 0.92 },
        legend,
        colour_bar: None,
        preferred: plan.preferred,
        panels,
    };
    let bands = if errors { " Bands are of one standard error." } else { "" };
    let caption = format!("{} {}{bands} {}, by model: {}", plan.caption, over.sentence(), plan.key, sentences.join("; ") + ".");
    plate(plan.id, sheet, rows, caption, shown, few.remarks())
}

/// A panel of lines that share one axis.
fn panel(context: &Context, curve: &Curve, lines: Vec<Line>, log: bool) -> Panel {
    let x = if context.settings.relative_depth { relative_axis() } else { layer_axis(&lines) };
    let heights = || lines.iter().flat_map(Line::heights);
    // Zeros (no variance within groups before the first block of a rotary model) fall off a logarithmic axis.
    let least = heights().fold(0.0f64, f64::max) * SMALLEST;
    let mut scale = Scale::around(if log { Kind::Log } else { Kind::Linear }, heights().filter(|value| !log || *value >= least));
    if scale.min < 0.0 && heights().all(|value| value >= 0.0) {
        scale.min = 0.0;
    }
    let near = |mark: &f64| *mark >= scale.min - 0.6 * (scale.max - scale.min) && *mark <= scale.max + 0.6 * (scale.max - scale.min);
    let mark = curve.mark.filter(near);
    if let Some(mark) = mark {
        let room = 0.03 * (scale.max - scale.min);
        scale = scale.including(mark - room).including(mark + room);
    }
    let marks = mark.map(|y| Mark::Horizontal { y }).into_iter().chain(lines.into_iter().map(Mark::Line)).collect();
    Panel::new(Text::plain(curve.title), x, Axis::new(Text::math(curve.label), scale), marks)
}

fn relative_axis() -> Axis {
    Axis::new(Text::plain("relative depth"), Scale::linear(-0.02, 1.02))
}

fn layer_axis(lines: &[Line]) -> Axis {
    let last = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(1.0, f64::max);
    let room = last * 0.02;
    Axis::new(Text::plain("layer"), Scale { kind: Kind::Layers, min: -room, max: last + room })
}

/// Which curves have a logarithmic axis: all sizes, where one of them needs it.
fn are_logarithmic(curves: &[(&Curve, Vec<Line>)]) -> Vec<bool> {
    let wide = curves.iter().any(|(curve, lines)| curve.size && is_wide(lines));
    curves.iter().map(|(curve, _)| wide && curve.size).collect()
}

/// Whether the largest value is many times the smallest, none being negative.
fn is_wide(lines: &[Line]) -> bool {
    let values: Vec<f64> = lines.iter().flat_map(Line::values).collect();
    let high = values.iter().copied().fold(0.0, f64::max);
    let low = values.iter().copied().filter(|value| *value > high * SMALLEST).fold(high, f64::min);
    high > WIDE * low && values.iter().all(|value| *value >= 0.0)
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

fn plate(id: &str, sheet: Sheet, rows: Rows, caption: String, shown: Shown, remarks: Remarks) -> Outcome {
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
    Ok(Plate { name: id.into(), body, numbers, caption: caption.trim().into(), shown, remarks, description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_of_a_figure_have_axes_of_one_kind() {
        let (size, share) = (Curve { size: true, ..curve("", "", "q") }, curve("", "", "m_over_q"));
        let lines = |values: &[f64]| values.iter().map(|value| Line::of_series(vec![(0.0, Some(*value))], 0)).collect::<Vec<Line>>();
        let of = |first: &[f64]| are_logarithmic(&[(&size, lines(first)), (&size, lines(&[5.0, 6.0])), (&share, lines(&[0.01, 1.0]))]);
        assert_eq!(of(&[1.0, 21.0]), [true, true, false]);
        assert_eq!(of(&[1.0, 19.0]), [false; 3]);
        assert_eq!(of(&[0.0, 1.0, 19.0]), [false; 3], "a zero has no place on such an axis");
        assert_eq!(of(&[-1.0, 21.0]), [false; 3], "nor has a negative number");
        // What errors reach does not count.
        let mut uncertain = lines(&[1.0, 2.0]);
        uncertain[0].band = vec![(0.0, 0.001, 2.0)];
        assert!(!is_wide(&uncertain));
    }
}
