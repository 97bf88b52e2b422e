//! Drawings: what the symbols mean (figure 3), and the models' blocks (figure 21).

use super::block::{Step, parse};
use super::compose::fitted;
use super::context::Context;
use super::font::{CAPITALS, Style, drawable};
use super::plate::{Body, Outcome, Plate, Skip};
use super::rows::{Kind as Cells, Rows};
use super::scene::{Anchor, Area, Canvas, Scene, Shape, Stroke};
use super::sheet::Preferred;
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
        description: "fig3: what M, V, V_W and V_B are".into(),
    })]
}

/// Two pictures side by side, with their formulas below.
fn clouds(look: &Look, width: f64) -> Scene {
    let half = width / 2.0 - MARGIN;
    let height = half * 0.62;
    let mut scene = Scene::new(width, height + 2.0 * MARGIN + 2.6 * LABEL, look.background);
    let groups = [((0.70, 0.24), 0.085, 0usize), ((0.84, 0.55), 0.10, 1), ((0.53, 0.52), 0.075, 2)];
    for side in 0..2 {
        let at = |x: f64, y: f64| (MARGIN + side as f64 * (half + MARGIN) + x * half, MARGIN + y * height);
        let origin = at(0.1, 0.9);
        let shown = if side == 0 { &groups[..1] } else { &groups[..] };
        let centre = shown.iter().fold((0.0, 0.0), |sum, ((x, y), ..)| (sum.0 + x / shown.len() as f64, sum.1 + y / shown.len() as f64));
        for ((x, y), spread, series) in shown {
            let spread = if side == 0 { spread * 1.9 } else { *spread };
            for (dx, dy) in cloud(if side == 0 { 60 } else { 34 }, *series) {
                let (px, py) = at(x + dx * spread, y + dy * spread * 1.5);
                let shape = Shape::Circle { x: px, y: py, radius: 1.5 };
                scene.fill(shape, look.colour(*series).mix(look.background, 0.35));
            }
        }
        let mean = at(centre.0, centre.1);
        arrow(&mut scene, origin, mean, Stroke::solid(look.text, 1.0));
        let label = |scene: &mut Scene, at: (f64, f64), anchor, markup: &str| halo(scene, look, at, anchor, markup);
        if side == 0 {
            let (edge, start) = (at(centre.0 + 0.085 * 1.9 * 1.25, centre.1), at(centre.0, centre.1));
            arrow(&mut scene, start, edge, Stroke::solid(look.accent, 1.0));
            label(&mut scene, ((start.0 + edge.0) / 2.0 + 4.0, start.1 - 5.0), Anchor::Middle, "√*V*(*X*_{t})");
            label(&mut scene, (mean.0 - 5.0, mean.1 - 7.0), Anchor::End, "*μ*(*X*_{t})");
            let cloud = at(0.70, 0.24 - 0.085 * 1.9 * 1.5 - 0.02);
            label(&mut scene, (cloud.0 + 40.0, cloud.1 + 10.0), Anchor::Start, "*X*_{t}");
        } else {
            for ((x, y), _, series) in shown {
                let own = at(*x, *y);
                scene.line(mean, own, Stroke { colour: look.accent, width: 1.0, dash: &[2.5, 1.8] });
                scene.outlined(Shape::Circle { x: own.0, y: own.1, radius: 2.8 }, look.colour(*series), Stroke::solid(look.text, 0.8));
            }
            let (a, b) = (at(0.84, 0.55), mean);
            label(&mut scene, ((a.0 + b.0) / 2.0 + 2.0, (a.1 + b.1) / 2.0 + 13.0), Anchor::Middle, "*V*_{B}: means");
            let within = at(0.84, 0.55);
            label(&mut scene, (within.0 + 4.0, within.1 + 0.30 * height * 0.75), Anchor::Middle, "*V*_{W}: within groups");
            label(&mut scene, (mean.0 - 7.0, mean.1 - 6.0), Anchor::End, "*μ*(*X*)");
        }
        scene.outlined(
            Shape::Circle { x: mean.0, y: mean.1, radius: 2.8 },
            if side == 0 { look.colour(0) } else { look.background },
            Stroke::solid(look.text, 0.9),
        );
        super::legend::cross(&mut scene, look, origin);
        label(&mut scene, (origin.0 + 7.0, origin.1 + 4.0), Anchor::Start, "origin");
        let norm = if side == 0 { "√*M*(*X*_{t}) = ||*μ*(*X*_{t})||" } else { "√*M*(*X*) = ||*μ*(*X*)||" };
        let along = (origin.0 + (mean.0 - origin.0) * 0.42, origin.1 + (mean.1 - origin.1) * 0.42);
        label(&mut scene, (along.0 - 6.0, along.1 - 6.0), Anchor::End, norm);
        let formula = if side == 0 {
            "*Q*(*X*_{t}) = *M*(*X*_{t}) + *V*(*X*_{t})"
        } else {
            "*Q*(*X*) = *M*(*X*) + *V*(*X*),   *V*(*X*) = *V*_{W}(*X*) + *V*_{B}(*X*)"
        };
        let (x, _) = at(0.5, 1.0);
        scene.text((x, MARGIN + height + 1.9 * LABEL), Anchor::Middle, Text::math(formula), LABEL + 0.5, look.text);
    }
    scene
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
        let radius = ((i as f64 + 0.7) / count as f64).powf(0.62) * 1.25;
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
        let Some(text) = view.run.manifest["model"]["diagram"].as_str() else {
            outcomes.push(Err(Skip::of(&view.label, "the manifest has no drawing of the block")));
            continue;
        };
        match parse(text) {
            Some(steps) => drawn.push((view.label.clone(), steps)),
            None => {
                outcomes.push(Err(Skip::of(&view.label, "the drawing of the block in the manifest cannot be read")));
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
    let caption = format!("One block of {}; the hidden state runs down the left.", names.join(", "));
    outcomes.push(rows.table().map_err(|error| Skip::new(error.to_string())).map(|table| Plate {
        name: "fig21".into(),
        body: Body::Drawing(preferred, Box::new(move |look, width| draw_blocks(look, width, &drawn))),
        numbers: vec![("", table)],
        caption,
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
        Step::Half(parts) => SPACE + boxes(parts.len()) + SPACE * 1.6,
        Step::Parallel { shared, branches } => {
            SPACE + boxes(usize::from(shared.is_some()) + branches.iter().map(Vec::len).max().unwrap_or(0)) + SPACE * 1.9
        }
    }
}

fn draw_blocks(look: &Look, width: f64, models: &[(String, Vec<Step>)]) -> Scene {
    let columns = models.len().min(((width - 2.0 * MARGIN) / 150.0) as usize).clamp(1, 3);
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
    let bottom =
        y + SPACE * 0.4 + (most + usize::from(shared.is_some())) as f64 * (BOX + SPACE) + if parts.len() > 1 { SPACE * 0.3 } else { 0.0 };
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
    let (name, details) = text.split_once(", ").unwrap_or((&text, ""));
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
