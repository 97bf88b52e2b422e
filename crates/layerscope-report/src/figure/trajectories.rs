//! Over training: hidden states and embedding matrices, step by step.

use layerscope_error::line;

use super::context::Context;
use super::data::{Found, Key, Point, Profile, Row, View, bounded};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip, matrices_come_from};
use super::remarks::{Few, Remarks};
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, ColourBar, Key as LegendKey, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use crate::table::{Cell, Table};

/// The paper's own estimator: a line through the origin, fitted to batches, which are averaged.
const DIMENSION: &[Option<&str>] = &[Some("twonn_razzhigaev")];
/// The paper averages batches too; a run that kept no states has none.
const ANISOTROPY_OF_BATCHES: &[Option<&str>] = &[Some("batch4096"), Some("corpus"), None];

/// The Shape of Learning, figure 2: intrinsic dimension averaged over blocks, by step.
///
/// The embedding is left out: in models with rotary positions its states are rows of a matrix, whatever the context.
pub(crate) fn shape2(context: &Context) -> Vec<Outcome> {
    let mut numbers = Rows::new(&[
        ("model", Cells::Text),
        ("step", Cells::Integer),
        ("selection", Cells::Text),
        ("variant", Cells::Text),
        ("mean_intrinsic_dimension", Cells::Real),
        ("layers", Cells::Integer),
    ]);
    let (mut lines, mut drawn, mut outcomes, mut sentences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut shown = Shown::Any;
    for view in &context.views {
        let found = view.found("intrinsic_dimension", DIMENSION).filter(|_| view.is_trajectory());
        let Some(found) = found else {
            let reason = "the run is not a trajectory (layerscope track) with the variant twonn_razzhigaev of intrinsic_dimension";
            outcomes.push(Err(Skip::of(&view.label, reason)));
            continue;
        };
        shown = shown.and(view.shown(found.selection));
        let mut points = Vec::new();
        for step in view.steps() {
            // The reference library's view: the last layer once, after its norm.
            let profile = Profile::of_step(&found.rows, Some(step));
            let blocks = profile.rows.iter().filter(|row| row.point != Point::Embedding);
            let values: Vec<f64> = blocks.filter_map(|row| row.value).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            let variant = found.variant.map_or(Cell::Null, Cell::Text);
            let place = [Cell::Text(view.run.model()), Cell::Integer(step), Cell::Text(found.selection), variant];
            numbers.push(&[&place[..], &[real(mean), Cell::Integer(values.len() as i64)]].concat());
            points.push((step as f64, mean));
        }
        if let Some((step, mean)) =
            points.iter().filter_map(|(step, mean)| mean.map(|mean| (*step, mean))).max_by(|a, b| a.1.total_cmp(&b.1))
        {
            sentences.push(format!("{}: largest {} at step {}.", tex::name(&view.name), tex::number(mean, 1), tex::count(step as i64)));
        }
        lines.push(Line::of_series(points, view.series));
        drawn.push(view.series);
    }
    if lines.is_empty() {
        return outcomes;
    }
    let panel = panel_of_steps("", "mean intrinsic dimension", lines);
    let caption = format!(
        "Intrinsic dimension (TwoNN as Razzhigaev et al. fit it, means over batches), averaged over blocks, by training step. The embedding layer is left out. {}",
        sentences.join(" ")
    );
    outcomes.push(finish("shape2".into(), vec![panel], context.legend(&drawn, false), None, numbers, caption, shown));
    outcomes
}

/// The name of an axis of anisotropy of this variant.
pub(super) fn anisotropy_label(variant: Option<&str>) -> &'static str {
    match variant {
        Some("batch4096") => "*λ*_{1} / Σ*λ* in batches of ≤ 4,096",
        _ => "anisotropy *λ*_{1} / Σ*λ*",
    }
}

/// The Shape of Learning, figures 3 and 4: anisotropy by layer, one line per step, one model.
pub(crate) fn shape3(context: &Context) -> Vec<Outcome> {
    context.each(|view| {
        let steps = view.steps();
        let found = view.found("anisotropy_svd", ANISOTROPY_OF_BATCHES).filter(|_| view.is_trajectory());
        let Some(found) = found else {
            return vec![Err(Skip::of(&view.label, "the run is not a trajectory (layerscope track) with anisotropy_svd"))];
        };
        let mut numbers = Rows::new(&[
            ("model", Cells::Text),
            ("step", Cells::Integer),
            ("layer", Cells::Integer),
            ("point", Cells::Text),
            ("selection", Cells::Text),
            ("variant", Cells::Text),
            ("anisotropy_svd", Cells::Real),
        ]);
        let scale = Scale::around(Kind::Steps, steps.iter().map(|step| *step as f64));
        let (mut lines, mut hollow) = (Vec::new(), false);
        for step in &steps {
            let profile = Profile::of_step(&found.rows, Some(*step));
            for row in profile.all() {
                let place = [Cell::Text(view.run.model()), Cell::Integer(*step), integer(row.layer), Cell::Text(row.point.name())];
                let variant = found.variant.map_or(Cell::Null, Cell::Text);
                numbers.push(&[&place[..], &[Cell::Text(found.selection), variant, real(row.value)]].concat());
            }
            hollow |= profile.before_norm.is_some();
            lines.push(profile.line(Paint::Map(scale.place(*step as f64)), |layer| layer as f64));
        }
        let last = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(1.0, f64::max);
        let heights: Vec<f64> = lines.iter().flat_map(|line| line.heights().collect::<Vec<f64>>()).collect();
        let x = Axis::new(Text::plain("layer"), Scale { kind: Kind::Layers, min: 0.0, max: last * 1.02 });
        let y = Axis::new(Text::math(anisotropy_label(found.variant)), Scale::from_zero(heights));
        let panel = Panel::new(context.title(view), x, y, lines.into_iter().map(Mark::Line).collect());
        let bar = ColourBar { label: Text::plain("training step"), scale };
        let caption = format!(
            "Anisotropy by layer in {} at {} training steps, from step {} to step {}: {}.",
            tex::name(&view.name),
            steps.len(),
            tex::count(steps[0]),
            tex::count(steps[steps.len() - 1]),
            if found.variant == ANISOTROPY_OF_BATCHES[0] { "means over batches of kept states" } else { "of all states at once" }
        );
        let shown = view.shown(found.selection);
        vec![finish(context.name("shape3", view), vec![panel], context.legend(&[], hollow), Some(bar), numbers, caption, shown)]
    })
}

/// Where a number is taken: an embedding matrix or the last hidden state.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Input,
    Output,
    LastState,
}

impl Place {
    fn title(self) -> &'static str {
        match self {
            Place::Input => "Input embedding",
            Place::Output => "Output embedding",
            Place::LastState => "Last hidden state",
        }
    }

    /// The rows of a measure here, and their selection: a matrix has all of its rows, and states those that are shown.
    fn rows(self, view: &View, measure: &str, variants: &[Option<&'static str>]) -> (Vec<Row>, &'static str) {
        let matrix = |point: Point| {
            let rows = variants.iter().map(|variant| view.rows(Key { measure, variant: *variant, selection: "all" }));
            let mut here = rows.map(|rows| rows.iter().filter(|row| row.point == point).copied().collect::<Vec<Row>>());
            (here.find(|rows| !rows.is_empty()).unwrap_or_default(), "all")
        };
        match self {
            Place::Input => matrix(Point::InputEmbedding),
            Place::Output => matrix(Point::OutputEmbedding),
            Place::LastState => {
                let Some(Found { mut rows, selection, .. }) = view.found(measure, variants) else {
                    return (Vec::new(), "all");
                };
                let last = rows.iter().map(|row| (row.layer, row.point)).max();
                rows.retain(|row| Some((row.layer, row.point)) == last);
                (rows, selection)
            }
        }
    }
}

/// Machina and Mercer: I(W) of the embedding matrices and of the last hidden state, unchanged and mean-centred.
pub(crate) fn machina1(context: &Context) -> Vec<Outcome> {
    let variants: [(&str, &[Option<&'static str>]); 2] =
        [("as it is", &[Some("default"), Some("machina"), None]), ("mean-centred", &[Some("default_centred"), Some("machina_centred")])];
    let caption = "Isotropy $I(W)$ of the embedding matrices and of the last hidden states that were kept (1 is isotropic), unchanged and mean-centred.";
    vec![by_step_or_size(context, "machina1", "partition", "*I*(*W*)", &variants, caption)]
}

/// Machina and Mercer: mean cosine of the embedding matrices and of the last hidden state.
pub(crate) fn machina2(context: &Context) -> Vec<Outcome> {
    let variants: [(&str, &[Option<&'static str>]); 1] = [("", &[None])];
    let caption = "Mean cosine of the rows of the embedding matrices and of the last hidden states.";
    vec![by_step_or_size(context, "machina2", "mean_cosine", "mean cosine", &variants, caption)]
}

/// A panel per place; along training steps where there are trajectories, else along the models' sizes.
fn by_step_or_size(
    context: &Context,
    id: &str,
    measure: &str,
    label: &str,
    variants: &[(&str, &[Option<&'static str>])],
    caption: &str,
) -> Outcome {
    let training = context.views.iter().any(View::is_trajectory);
    let mut numbers = Rows::new(&[
        ("model", Cells::Text),
        ("place", Cells::Text),
        ("selection", Cells::Text),
        ("variant", Cells::Text),
        ("step", Cells::Integer),
        ("parameters", Cells::Integer),
        (measure, Cells::Real),
    ]);
    let (mut panels, mut drawn) = (Vec::new(), Vec::new());
    let mut used = vec![false; variants.len()];
    let (mut shown, mut over, mut few) = (Shown::Any, Over::default(), Few::default());
    for place in [Place::Input, Place::Output, Place::LastState] {
        let (mut lines, mut markers) = (Vec::new(), Vec::new());
        for view in &context.views {
            let size = view.run.manifest.model.parameters.map(bounded);
            for (i, (variant, names)) in variants.iter().enumerate() {
                let (mut rows, selection) = place.rows(view, measure, names);
                rows.retain(|row| row.value.is_some() && (!training || row.step.is_some()));
                rows.sort_by_key(|row| row.step);
                for row in &rows {
                    numbers.push(&[
                        Cell::Text(view.run.model()),
                        Cell::Text(place.title()),
                        Cell::Text(selection),
                        Cell::Text(variant),
                        integer(row.step),
                        integer(size),
                        real(row.value),
                    ]);
                }
                if rows.is_empty() {
                    continue;
                }
                if place == Place::LastState {
                    shown = shown.and(view.shown(selection));
                    over.selection(view, "", selection);
                    few.push_found(view, measure, names[0], selection);
                }
                drawn.push(view.series);
                used[i] = true;
                if training {
                    let points = rows.iter().map(|row| (row.step.unwrap_or(0) as f64, row.value)).collect();
                    lines.push(Line { dashed: i > 0, marker: (i == 0).then_some(view.series), ..Line::of_series(points, view.series) });
                } else if let Some(row) = rows.last() {
                    markers.push((size.unwrap_or(1).max(1) as f64, row.value.unwrap_or(0.0), view.series, i > 0));
                }
            }
        }
        if !lines.is_empty() {
            panels.push(panel_of_steps(place.title(), label, lines));
        } else if !markers.is_empty() {
            let x = Axis::new(Text::plain("parameters"), Scale::around(Kind::Log, markers.iter().map(|marker| marker.0)));
            let y = Axis::new(Text::math(label), Scale::from_zero(markers.iter().map(|marker| marker.1)));
            panels.push(Panel::new(Text::plain(place.title()), x, y, vec![Mark::Markers(markers)]));
        }
    }
    if panels.is_empty() {
        return Err(Skip::new(line![format!("no run has {measure} of the embedding matrices; use "), matrices_come_from()]));
    }
    let mut legend = context.legend(&drawn, false);
    if !training {
        legend.iter_mut().for_each(|(key, _)| {
            if let LegendKey::Series(series) = *key {
                *key = LegendKey::Marker(series)
            }
        });
    }
    if used.iter().filter(|used| **used).count() > 1 {
        let keys = if training {
            [LegendKey::Line(Paint::Quiet, false), LegendKey::Line(Paint::Quiet, true)]
        } else {
            [LegendKey::Dot(Paint::Quiet), LegendKey::Hollow]
        };
        legend.extend(keys.into_iter().zip(variants).map(|(key, (name, _))| (key, Text::plain(*name))));
    }
    let states = if over.is_empty() { String::new() } else { format!(" Hidden states: {}.", over.words()) };
    let plate = finish(id.into(), panels, legend, None, numbers, format!("{caption}{states}"), shown);
    plate.map(|plate| Plate { remarks: few.remarks(), ..plate })
}

pub(super) fn panel_of_steps(title: &str, label: &str, lines: Vec<Line>) -> Panel {
    let steps = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    let x = Axis::new(Text::plain("training step"), Scale::around(Kind::Steps, steps));
    let heights: Vec<f64> = lines.iter().flat_map(|line| line.heights().collect::<Vec<f64>>()).collect();
    let y = Axis::new(Text::math(label), Scale::from_zero(heights));
    Panel::new(Text::plain(title), x, y, lines.into_iter().map(Mark::Line).collect())
}

pub(super) fn finish(
    name: String,
    panels: Vec<Panel>,
    legend: Vec<(LegendKey, Text)>,
    colour_bar: Option<ColourBar>,
    numbers: Rows,
    caption: String,
    shown: Shown,
) -> Outcome {
    let columns = panels.len();
    let preferred = if columns > 1 { Preferred::Page } else { Preferred::Column };
    let sheet = Sheet { columns, ratio: if columns > 1 { 0.92 } else { 0.75 }, legend, colour_bar, preferred, panels };
    let table: Table = numbers.table().map_err(|error| Skip::new(error.line()))?;
    let description = format!("{name}: {}", sheet.panels.iter().map(|panel| panel.y.label.characters()).collect::<Vec<_>>().join(", "));
    Ok(Plate {
        name,
        body: Body::Panels(sheet),
        numbers: vec![("", table)],
        caption: caption.trim().into(),
        shown,
        remarks: Remarks::default(),
        description,
    })
}
