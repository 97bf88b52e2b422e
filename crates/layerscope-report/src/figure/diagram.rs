//! Drawings: what the symbols mean (figure 3), and the models' blocks (figure 21).

use super::block::{Step, parse};
use super::compose::fitted;
use super::context::Context;
use super::font::{CAPITALS, Style, drawable};
use super::plate::{Body, Outcome, Plate, Skip};
use super::remarks::Remarks;
use super::rows::{Kind as Cells, Rows};
use super::scene::{Anchor, Area, Canvas, Scene, Shape, Stroke};
use super::sheet::Preferred;
use super::shown::Shown;
use super::tex;
use super::text::Text;
use super::theme::{LABEL, Look, TICK};
use crate::table::Cell;

const MARGIN: f64 = 6.0;

/// Figure 3: groups, their means, and the parts of the norm.
pub(crate) fn definitions(_: &Context) -> Vec<Outcome> {
    let caption = "Left: the states $X_t$ of one group, their mean $\\mu(X_t)$, and $Q(X_t) = M(X_t) + V(X_t)$. Right: all states $X$; their variance is the mean variance within groups $V_W(X)$ and the variance of the groups' means $V_B(X)$.";
    vec![Ok(Plate {
        name: "fig3".into(),
        body: Body::Drawing(Preferred::Page, Box::new(clouds)),
        numbers: Vec::new(),
        caption: caption.into(),
        shown: Shown::Any,
        remarks: Remarks::alone(),
        description: "fig3: what M, V, V_W and V_B are".into(),
    })]
}

/// Two pictures side by side, with their formulas below.
fn clouds(look: &Look, width: f64) -> Scene {
    // Beside each other where there is room, else one above the other.
    let columns = if width >= 340.0 { 2 } else { 1 };
    let half = (width - MARGIN * (columns + 1) as f64) / columns as f64;
    let height = half * 0.66 + 2.0 * MARGIN + 2.2 * LABEL;
    let mut scene = Scene::new(width, height * (2 / columns) as f64 + MARGIN, look.background);
    for side in 0..2 {
        let left = MARGIN + (side % columns) as f64 * (half + MARGIN);
        let top = MARGIN + (side / columns) as f64 * height;
        // Fractions of half the width in both directions, so that clouds are round.
        let at = |x: f64, y: f64| (left + x * half, top + y * half);
        if side == 0 {
            one_group(&mut scene, look, &at)
        } else {
            all_groups(&mut scene, look, &at)
        }
        let formula =
            if side == 0 { "*Q*(*X*_{t}) = *M*(*X*_{t}) + *V*(*X*_{t})" } else { "*Q*(*X*) = *M*(*X*) + *V*_{W}(*X*) + *V*_{B}(*X*)" };
        scene.text((left + half / 2.0, top + half * 0.66 + 2.0 * LABEL), Anchor::Middle, Text::math(formula), LABEL + 0.5, look.text);
    }
    scene
}

type At<'a> = &'a dyn Fn(f64, f64) -> (f64, f64);

fn one_group(scene: &mut Scene, look: &Look, at: At) {
    let (origin, mean, radius) = (at(0.08, 0.60), at(0.66, 0.25), 0.21);
    dots(scene, look, at, (0.66, 0.25), radius, 70, 0);
    norm(scene, look, origin, mean, "√*M*(*X*_{t}) = ||*μ*(*X*_{t})||");
    let edge = at(0.66 + radius * 0.72, 0.25 + radius * 0.72);
    arrow(scene, mean, edge, Stroke::solid(look.accent, 1.1));
    halo(scene, look, (edge.0 + 3.0, edge.1 + 8.0), Anchor::Start, "√*V*(*X*_{t})");
    mark(scene, look, mean, look.colour(0));
    halo(scene, look, (mean.0 - 6.0, mean.1 - 5.0), Anchor::End, "*μ*(*X*_{t})");
    let (x, y) = at(0.66 + radius * 1.02, 0.25 - radius * 0.8);
    halo(scene, look, (x, y), Anchor::Start, "*X*_{t}");
}

fn all_groups(scene: &mut Scene, look: &Look, at: At) {
    let groups = [((0.55, 0.13), 0.105, 0), ((0.83, 0.22), 0.12, 1), ((0.66, 0.45), 0.115, 2)];
    let (origin, centre) = (at(0.08, 0.60), (0.68, 0.267));
    let mean = at(centre.0, centre.1);
    for ((x, y), radius, series) in groups {
        dots(scene, look, at, (x, y), radius, 30, series);
    }
    norm(scene, look, origin, mean, "√*M*(*X*) = ||*μ*(*X*)||");
    for ((x, y), _, series) in groups {
        scene.line(mean, at(x, y), Stroke { colour: look.accent, width: 1.1, dash: &[2.5, 1.8] });
        mark(scene, look, at(x, y), look.colour(series));
    }
    mark(scene, look, mean, look.background);
    halo(scene, look, (mean.0 - 7.0, mean.1 + 1.0), Anchor::End, "*μ*(*X*)");
    let below = at(0.66, 0.45 + 0.115 * 1.15);
    halo(scene, look, (below.0, below.1 + 8.0), Anchor::Middle, "*V*_{W}: within groups");
    let right = at(0.99, 0.40);
    halo(scene, look, right, Anchor::End, "*V*_{B}: between");
    halo(scene, look, (right.0, right.1 + 9.0), Anchor::End, "groups");
}

fn dots(scene: &mut Scene, look: &Look, at: At, (x, y): (f64, f64), radius: f64, count: usize, series: usize) {
    let points = cloud(count, series).map(|(dx, dy)| at(x + dx * radius, y + dy * radius)).collect();
    scene.fill(Shape::Dots { points, radius: 1.4 }, look.colour(series).mix(look.background, 0.4));
}

/// The arrow from the origin to a mean.
fn norm(scene: &mut Scene, look: &Look, origin: (f64, f64), mean: (f64, f64), label: &str) {
    arrow(scene, origin, mean, Stroke::solid(look.text, 1.1));
    super::legend::cross(scene, look, origin);
    halo(scene, look, (origin.0 + 8.0, origin.1 + 4.0), Anchor::Start, "origin");
    let along = (origin.0 + (mean.0 - origin.0) * 0.40, origin.1 + (mean.1 - origin.1) * 0.40);
    halo(scene, look, (along.0 - 5.0, along.1 - 5.0), Anchor::End, label);
}

fn mark(scene: &mut Scene, look: &Look, (x, y): (f64, f64), fill: super::scene::Colour) {
    scene.outlined(Shape::Circle { x, y, radius: 2.8 }, fill, Stroke::solid(look.text, 0.9));
}

/// Text on a patch of background, so that lines and points behind it do not disturb.
fn halo(scene: &mut Scene, look: &Look, (x, y): (f64, f64), anchor: Anchor, markup: &str) {
    let text = Text::math(markup);
    let width = text.width(LABEL);
    let left = x + super::png::start(anchor, width);
    let area = Area { x: left - 1.5, y: y - LABEL * 0.95, width: width + 3.0, height: LABEL * 1.35 };
    scene.add(super::scene::Item::Shape {
        shape: Shape::Rectangle { area, radius: 1.5 },
        fill: Some(look.background),
        stroke: None,
        opacity: 0.8,
    });
    scene.text((x, y), anchor, text, LABEL, look.text);
}

/// Points around (0, 0) by a fixed rule: a sunflower with its rings pulled towards the middle.
fn cloud(count: usize, turn: usize) -> impl Iterator<Item = (f64, f64)> {
    (0..count).map(move |i| {
        let radius = ((i as f64 + 0.7) / count as f64).powf(0.62);
        let angle = i as f64 * 2.399_963 + turn as f64;
        (radius * angle.cos(), radius * angle.sin())
    })
}

fn arrow(scene: &mut Scene, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
    let length = (to.0 - from.0).hypot(to.1 - from.1).max(1e-9);
    let (dx, dy) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
    let (size, end) = (4.5, (to.0 - dx * 2.0, to.1 - dy * 2.0));
    let base = (end.0 - dx * size, end.1 - dy * size);
    scene.line(from, base, stroke);
    let points = vec![end, (base.0 - dy * size * 0.42, base.1 + dx * size * 0.42), (base.0 + dy * size * 0.42, base.1 - dx * size * 0.42)];
    scene.fill(Shape::Lines { points, closed: true }, stroke.colour);
}

/// Figure 21: the block of every model, from the drawing in its manifest.
pub(crate) fn blocks(context: &Context) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut drawn: Vec<(String, Vec<Step>)> = Vec::new();
    let mut rows = Rows::new(&[("model", Cells::Text), ("line", Cells::Integer), ("drawing", Cells::Text)]);
    for view in &context.views {
        let Some(text) = &view.run.manifest.model.diagram else {
            outcomes.push(Err(Skip::of(&view.label, "the manifest has no drawing of the block")));
            continue;
        };
        match parse(text) {
            Some(steps) => drawn.push((view.label.clone(), steps)),
            None => {
                outcomes.push(Err(Skip::of(&view.label, "the drawing of the block in the manifest is not readable")));
                continue;
            }
        }
        text.lines()
            .enumerate()
            .for_each(|(i, line)| rows.push(&[Cell::Text(view.run.model()), Cell::Integer(i as i64 + 1), Cell::Text(line)]));
    }
    if drawn.is_empty() {
        return outcomes;
    }
    let names: Vec<String> = drawn.iter().map(|(name, _)| tex::name(name)).collect();
    let preferred = if drawn.len() > 1 { Preferred::Page } else { Preferred::Column };
    let caption = format!("One block of {}. The hidden state runs down on the left.", names.join(", "));
    outcomes.push(rows.table().map_err(|error| Skip::new(error.line())).map(|table| Plate {
        name: "fig21".into(),
        body: Body::Drawing(preferred, Box::new(move |look, width| draw_blocks(look, width, &drawn))),
        numbers: vec![("", table)],
        caption,
        shown: Shown::Any,
        remarks: Remarks::alone(),
        description: "fig21: the models' blocks".into(),
    }));
    outcomes
}

const BOX: f64 = 19.0;
const SPACE: f64 = 9.0;

/// Height of a step, so that blocks beside each other end together.
fn height(step: &Step) -> f64 {
    let boxes = |count: usize| count as f64 * (BOX + SPACE);
    match step {
        Step::Norm(_) => BOX * 0.75 + SPACE,
        Step::Half(parts) => SPACE + boxes(parts.len()) + SPACE * 2.0,
        Step::Parallel { shared, branches } => {
            SPACE + boxes(usize::from(shared.is_some()) + branches.iter().map(Vec::len).max().unwrap_or(0)) + SPACE * 1.9
        }
    }
}

fn draw_blocks(look: &Look, width: f64, models: &[(String, Vec<Step>)]) -> Scene {
    let forked = models.iter().flat_map(|(_, steps)| steps).any(|step| matches!(step, Step::Parallel { .. }));
    let columns = models.len().min(((width - 2.0 * MARGIN) / if forked { 200.0 } else { 140.0 }) as usize).clamp(1, 3);
    let column = (width - 2.0 * MARGIN) / columns as f64;
    let mut scene = Scene::new(width, 0.0, look.background);
    let mut top = MARGIN;
    for row in models.chunks(columns) {
        let highest = row.iter().map(|(_, steps)| steps.iter().map(height).sum::<f64>()).fold(0.0, f64::max) + 3.4 * LABEL + 2.0 * SPACE;
        for (i, (name, steps)) in row.iter().enumerate() {
            let area = Area { x: MARGIN + column * i as f64, y: top, width: column - 8.0, height: highest };
            draw_block(&mut scene, look, &area, name, steps);
        }
        top += highest + MARGIN;
    }
    scene.height = top;
    scene
}

fn draw_block(scene: &mut Scene, look: &Look, area: &Area, name: &str, steps: &[Step]) {
    let title = fitted(Text::styled(drawable(name, 60), Style::SemiBold), LABEL, area.width);
    scene.text((area.x, area.y + LABEL), Anchor::Start, title, LABEL, look.text);
    let stream = area.x + 30.0;
    let line = Stroke::solid(look.text, 0.9);
    let mut y = area.y + 2.6 * LABEL;
    scene.text((stream, y), Anchor::Middle, Text::math("*x*"), LABEL, look.text);
    y += 3.0;
    let from = y;
    let mut drawings: Vec<(f64, &Step)> = Vec::new();
    y += SPACE * 0.5;
    for step in steps {
        drawings.push((y, step));
        y += height(step);
    }
    arrow(scene, (stream, from), (stream, y + SPACE + 2.0), line);
    scene.text((stream, y + SPACE + LABEL + 2.0), Anchor::Middle, Text::math("*x*′"), LABEL, look.text);
    let branch = Area { x: stream + 20.0, width: area.right() - stream - 20.0, ..*area };
    for (y, step) in drawings {
        match step {
            Step::Norm(text) => {
                labelled_box(scene, look, Area { x: stream - 29.0, y: y + SPACE * 0.3, width: 58.0, height: BOX * 0.75 }, text, 0)
            }
            Step::Half(parts) => branches(scene, look, stream, &branch, y, None, std::slice::from_ref(parts)),
            Step::Parallel { shared, branches: both } => branches(scene, look, stream, &branch, y, shared.as_deref(), both),
        }
    }
}

/// Branches off the stream and back onto it.
fn branches(scene: &mut Scene, look: &Look, stream: f64, area: &Area, top: f64, shared: Option<&str>, parts: &[Vec<String>]) {
    let line = Stroke::solid(look.text, 0.9);
    let gap = 6.0;
    let width = (area.width - gap * (parts.len() - 1) as f64) / parts.len() as f64;
    let middle = |i: usize| area.x + (width + gap) * i as f64 + width / 2.0;
    let centre = area.x + area.width / 2.0;
    let mut y = top + SPACE * 0.6;
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    let bottom = y + SPACE * 0.4 + (most + usize::from(shared.is_some())) as f64 * (BOX + SPACE) + SPACE * 0.4;
    let first = if shared.is_some() { centre } else { middle(parts.len() - 1) };
    scene.line((stream, y), (first, y), line);
    if let Some(shared) = shared {
        arrow(scene, (centre, y), (centre, y + SPACE + 1.0), line);
        labelled_box(scene, look, Area { x: centre - 34.0, y: y + SPACE, width: 68.0, height: BOX * 0.75 }, shared, 0);
        y += BOX + SPACE;
        scene.line((centre, y - BOX * 0.25), (centre, y), line);
        scene.line((middle(0), y), (middle(parts.len() - 1), y), line);
    }
    for (i, branch) in parts.iter().enumerate() {
        let x = middle(i);
        let mut at = y;
        for part in branch {
            arrow(scene, (x, at), (x, at + SPACE + 1.0), line);
            let is_norm = part.ends_with("Norm");
            let (height, inset) = if is_norm { (BOX * 0.75, width * 0.18) } else { (BOX, 0.0) };
            labelled_box(
                scene,
                look,
                Area { x: x - width / 2.0 + inset, y: at + SPACE, width: width - 2.0 * inset, height },
                part,
                usize::from(!is_norm),
            );
            at += SPACE + height;
        }
        scene.line((x, at), (x, bottom), line);
    }
    scene.line((middle(parts.len() - 1), bottom), (middle(0), bottom), line);
    arrow(scene, (middle(0), bottom), (stream + 5.5, bottom), line);
    let plus = Shape::Circle { x: stream, y: bottom, radius: 5.0 };
    scene.outlined(plus, look.background, line);
    scene.line((stream - 2.8, bottom), (stream + 2.8, bottom), line);
    scene.line((stream, bottom - 2.8), (stream, bottom + 2.8), line);
}

/// A box with a text: what it is, and in smaller print on a second line what it is like.
fn labelled_box(scene: &mut Scene, look: &Look, area: Area, text: &str, tint: usize) {
    let colour = if tint == 0 { look.colour(4) } else { look.colour(5) };
    scene.outlined(Shape::Rectangle { area, radius: 2.5 }, colour.mix(look.background, 0.72), Stroke::solid(colour, 0.8));
    let text = drawable(text, 120);
    let end = [", ", " of "].iter().filter_map(|separator| text.find(separator)).min().unwrap_or(text.len());
    let (name, details) = (&text[..end], text[end..].trim_start_matches(", ").trim_start());
    let (x, middle) = (area.x + area.width / 2.0, area.y + area.height / 2.0);
    let up = if details.is_empty() { TICK * CAPITALS / 2.0 } else { -0.8 };
    scene.text((x, middle + up), Anchor::Middle, fitted(Text::plain(name), TICK, area.width - 4.0), TICK, look.text);
    scene.text(
        (x, middle + TICK - 0.2),
        Anchor::Middle,
        fitted(Text::plain(details), TICK - 1.2, area.width - 4.0),
        TICK - 1.2,
        look.quiet,
    );
}
