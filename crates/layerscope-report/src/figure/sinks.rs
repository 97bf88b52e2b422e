//! What a few massive states do to measures of all states: along the layers, with them and without them.
//!
//! In pre-norm decoders the first token is an attention sink with a huge norm. It makes the states of the middle layers look like one
//! direction: the compression valley (Queipo-de-Llano et al. 2025). Without such states the valley is gone, or it is not theirs.

use super::context::Context;
use super::data::{Found, Profile, View};
use super::over::Over;
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Few;
use super::rows::{Kind as Cells, Rows, integer, real};
use super::sheet::{Axis, Key, Line, Mark, Paint, Panel, Preferred, Sheet};
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::ticks::{Kind, Scale};
use crate::lead::SELECTIONS;
use crate::states::{States, massive_line};
use crate::table::{Cell, Table};

/// A panel: a measure, its variants, the name of its axis, and its name in the caption.
struct Curve {
    measure: &'static str,
    variants: &'static [Option<&'static str>],
    label: &'static str,
    name: &'static str,
}

/// The cause. Without massive states it is 0, so it has one line.
const SHARE: Curve =
    Curve { measure: "massive_share_of_q", variants: &[None], label: "massive share of *Q*(*X*)", name: "massive share of $Q$" };

/// What it does.
const CURVES: [Curve; 3] = [
    Curve {
        measure: "anisotropy_svd",
        variants: &[Some("corpus"), Some("batch4096")],
        label: "anisotropy *λ*_{1} / Σ*λ*",
        name: "anisotropy",
    },
    Curve { measure: "matrix_entropy", variants: &[None], label: "matrix entropy", name: "matrix entropy" },
    Curve { measure: "mean_cosine", variants: &[None], label: "mean cosine", name: "mean cosine" },
];

/// Colour and marker of the states.
fn series(states: States) -> usize {
    match states {
        States::Typical => 0,
        States::All => 1,
    }
}

/// The same states with and without the massive ones, one model.
pub(crate) fn with_and_without(context: &Context) -> Vec<Outcome> {
    context.each(|view| vec![of_run(context.name("sinks", view), view)])
}

fn of_run(name: String, view: &View) -> Outcome {
    if !view.has_massive {
        return Err(Skip::of(&view.label, "no state is massive"));
    }
    let mut rows = Rows::new(&[
        ("model", Cells::Text),
        ("layer", Cells::Integer),
        ("point", Cells::Text),
        ("step", Cells::Integer),
        ("selection", Cells::Text),
        ("measure", Cells::Text),
        ("variant", Cells::Text),
        ("value", Cells::Real),
        ("se", Cells::Real),
    ]);
    let (mut over, mut few) = (Over::default(), Few::default());
    let mut of = |curve: &Curve, states: &[States]| {
        let found = found(view, curve, states)?;
        over.selection(view, curve.name, found[0].selection);
        few.push_found(view, curve.measure, found[0].variant, found[0].selection);
        Some(profiles(view, curve, &found, &mut rows))
    };
    let share = of(&SHARE, &[States::All]);
    let compared: Vec<(&Curve, Vec<Profile>)> =
        CURVES.iter().filter_map(|curve| Some((curve, of(curve, &[States::All, States::Typical])?))).collect();
    if compared.is_empty() {
        let reason = "anisotropy_svd, matrix_entropy and mean_cosine were not measured both with and without massive states";
        return Err(Skip::of(&view.label, reason));
    }
    let mut panels: Vec<Panel> = share.iter().map(|profiles| panel(&SHARE, profiles)).collect();
    panels.extend(compared.iter().map(|(curve, profiles)| panel(curve, profiles)));
    let profiles = || share.iter().flatten().chain(compared.iter().flat_map(|(_, profiles)| profiles));
    let mut legend = vec![
        (Key::Series(series(States::All)), Text::plain("all states")),
        (Key::Series(series(States::Typical)), Text::plain("without massive states")),
    ];
    if profiles().any(|profile| profile.before_norm.is_some()) {
        legend.push((Key::Hollow, Text::plain("last block, before the final norm")));
    }
    let sheet = Sheet { columns: 2, ratio: 0.55, legend, colour_bar: None, preferred: Preferred::Page, panels };
    let numbers = vec![("", rows.table().map_err(|error| Skip::new(error.line()))?)];
    Ok(Plate {
        description: format!("{name}: measures by layer, with and without massive states"),
        name,
        body: Body::Panels(sheet),
        numbers,
        caption: caption(view, share.as_deref(), &compared, &over),
        shown: Shown::Any,
        remarks: few.remarks(),
    })
}

/// The measure of these states each, in the first variant and selection in which all of them have it.
fn found(view: &View, curve: &Curve, states: &[States]) -> Option<Vec<Found<'static>>> {
    let selections = SELECTIONS.into_iter().filter(|selection| !view.over_all || *selection != "selected");
    let mut ways = curve.variants.iter().flat_map(|variant| selections.clone().map(move |selection| (*variant, selection)));
    ways.find_map(|(variant, selection)| states.iter().map(|states| view.found_of(curve.measure, variant, states.of(selection))).collect())
}

/// The measure along the layers, and its numbers.
fn profiles(view: &View, curve: &Curve, found: &[Found<'static>], rows: &mut Rows) -> Vec<Profile> {
    let profile = |found: &Found<'static>| {
        let profile = Profile::of_last_step(&found.rows);
        for row in profile.all() {
            let place = [Cell::Text(view.run.model()), integer(row.layer), Cell::Text(row.point.name()), integer(row.step)];
            let measure = [Cell::Text(found.selection), Cell::Text(curve.measure), found.variant.map_or(Cell::Null, Cell::Text)];
            rows.push(&[&place[..], &measure, &[real(row.value), real(row.se)]].concat());
        }
        profile
    };
    found.iter().map(profile).collect()
}

/// All states first, then those without the massive ones.
fn panel(curve: &Curve, profiles: &[Profile]) -> Panel {
    let line = |(states, profile): (States, &Profile)| {
        let series = series(states);
        Line { marker: Some(series), ..profile.line(Paint::Series(series), |layer| layer as f64) }
    };
    let lines: Vec<Line> = [States::All, States::Typical].into_iter().zip(profiles).map(line).collect();
    let last = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(1.0, f64::max);
    let room = last * 0.02;
    let x = Axis::new(Text::plain("layer"), Scale { kind: Kind::Layers, min: -room, max: last + room });
    let y = Axis::new(Text::math(curve.label), Scale::from_zero(lines.iter().flat_map(|line| line.heights().collect::<Vec<f64>>())));
    Panel::new(Text::default(), x, y, lines.into_iter().map(Mark::Line).collect())
}

fn caption(view: &View, share: Option<&[Profile]>, compared: &[(&Curve, Vec<Profile>)], over: &Over) -> String {
    let names: Vec<&str> = share.iter().map(|_| SHARE.name).chain(compared.iter().map(|(curve, _)| curve.name)).collect();
    let missing: Vec<&str> = [&SHARE].into_iter().chain(&CURVES).map(|curve| curve.name).filter(|name| !names.contains(name)).collect();
    let step = view.steps().last().copied();
    let when = step.map_or(String::new(), |step| format!(" at training step {}", tex::count(step)));
    let mut sentences = vec![format!(
        "{}{when}, layer by layer, with and without massive states: {}. A valley of the entropy or a peak of the anisotropy that is there only with these few states is made by them.",
        tex::name(&view.name),
        names.join(", ")
    )];
    sentences.push(over.sentence());
    sentences.extend(of_step(&view.run.layers, step).and_then(|layers| massive_line(&layers)).map(|line| line.replace('%', "\\%") + "."));
    sentences.extend(share.and_then(|profiles| profiles.first()).and_then(|share| at_the_largest(share, compared)));
    sentences.extend((!missing.is_empty()).then(|| format!("Not measured both ways: {}.", missing.join(", "))));
    sentences.join(" ")
}

/// What the measures are where massive states carry most.
fn at_the_largest(share: &Profile, compared: &[(&Curve, Vec<Profile>)]) -> Option<String> {
    let largest = share.all().filter_map(|row| Some((row.value?, row))).max_by(|(a, _), (b, _)| a.total_cmp(b))?.1;
    let there =
        |profile: &Profile| profile.all().find(|row| (row.layer, row.point) == (largest.layer, largest.point)).and_then(|row| row.value);
    let words = |(curve, profiles): &(&Curve, Vec<Profile>)| {
        let (with, without) = (there(profiles.first()?)?, there(profiles.get(1)?)?);
        Some(format!("{} {} with them and {} without", curve.name, tex::number(with, 3), tex::number(without, 3)))
    };
    let words: Vec<String> = compared.iter().filter_map(words).collect();
    (!words.is_empty()).then(|| format!("At layer {}: {}.", largest.layer.unwrap_or(0), words.join(", ")))
}

/// The rows of one step.
fn of_step(layers: &Table, step: Option<i64>) -> Option<Table> {
    let rows: Vec<(usize, usize)> = (0..layers.rows()).filter(|row| layers.integer("step", *row) == step).map(|row| (0, row)).collect();
    Table::gather(&[layers], &rows).ok()
}
