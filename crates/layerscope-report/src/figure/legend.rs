//! The legend above the panels and the colour bar beside them: outside, so that they never cover data.

use super::font::{CAPITALS, Style};
use super::scene::{Anchor, Area, Canvas, Scene, Shape, Stroke};
use super::sheet::{ColourBar, Fade, Key, Paint};
use super::text::Text;
use super::theme::{LABEL, Look, MARKER, TICK, marker};

const KEY: f64 = 16.0;
const GAP: f64 = 10.0;
const ROW: f64 = LABEL * 1.45;
/// Width of the colour bar itself.
const BAR: f64 = 6.0;
const BAR_TICKS: usize = 7;

/// How many entries each row holds.
fn rows(entries: &[(Key, Text)], width: f64) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut used = f64::INFINITY;
    for (i, (_, text)) in entries.iter().enumerate() {
        let needed = KEY + 3.0 + text.width(LABEL) + GAP;
        if used + needed > width + GAP {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += needed;
        rows.last_mut().expect("a row was begun").push(i);
    }
    rows
}

/// How high the legend is.
pub(crate) fn height(entries: &[(Key, Text)], width: f64) -> f64 {
    let rows = rows(entries, width).len() as f64;
    if rows > 0.0 { rows * ROW + 3.0 } else { 0.0 }
}

/// Draws the legend in rows, centred, below `top`.
pub(crate) fn draw(scene: &mut Scene, look: &Look, entries: &[(Key, Text)], left: f64, top: f64, width: f64) {
    for (row, members) in rows(entries, width).into_iter().enumerate() {
        let length: f64 = members.iter().map(|i| KEY + 3.0 + entries[*i].1.width(LABEL) + GAP).sum::<f64>() - GAP;
        let mut x = left + (width - length).max(0.0) / 2.0;
        let y = top + ROW * (row as f64 + 0.5);
        for i in members {
            let (key, text) = &entries[i];
            draw_key(scene, look, *key, x, y);
            scene.text((x + KEY + 3.0, y + LABEL * CAPITALS / 2.0), Anchor::Start, text.clone(), LABEL, look.text);
            x += KEY + 3.0 + text.width(LABEL) + GAP;
        }
    }
}

fn draw_key(scene: &mut Scene, look: &Look, key: Key, x: f64, y: f64) {
    let middle = (x + KEY / 2.0, y);
    match key {
        Key::Series(series) => {
            scene.line((x, y), (x + KEY, y), look.line(series, 1.1));
            marker(scene, look, series, middle, MARKER, false);
        }
        Key::Marker(series) => marker(scene, look, series, middle, MARKER * 1.2, false),
        Key::Line(paint, dashed) => {
            let stroke = Stroke { colour: paint.colour(look), width: 1.3, dash: if dashed { &[3.0, 2.0] } else { &[] } };
            scene.line((x, y), (x + KEY, y), stroke);
        }
        Key::Swatch(paint) => {
            let area = Area { x: x + KEY - 9.0, y: y - 3.5, width: 9.0, height: 7.0 };
            scene.fill(Shape::Rectangle { area, radius: 0.0 }, paint.colour(look));
        }
        Key::Dot(paint) => scene.fill(Shape::Circle { x: middle.0, y, radius: MARKER }, paint.colour(look)),
        Key::Faint => scene.fill(Shape::Circle { x: middle.0, y, radius: MARKER }, look.faded(Fade::Faint).map(0.0)),
        Key::Hollow => {
            let shape = Shape::Circle { x: middle.0, y, radius: MARKER };
            scene.outlined(shape, look.background, Stroke::solid(Paint::Quiet.colour(look), 0.8));
        }
        Key::Cross => cross(scene, look, middle),
    }
}

/// The mark of the origin.
pub(crate) fn cross(canvas: &mut impl Canvas, look: &Look, (x, y): (f64, f64)) {
    for (colour, width) in [(look.background, 2.6), (look.accent, 1.3)] {
        let stroke = Stroke::solid(colour, width);
        canvas.line((x - 3.0, y - 3.0), (x + 3.0, y + 3.0), stroke);
        canvas.line((x - 3.0, y + 3.0), (x + 3.0, y - 3.0), stroke);
    }
}

/// How wide the colour bar with its labels is.
pub(crate) fn bar_width(bar: &ColourBar) -> f64 {
    let (ticks, _) = bar.scale.ticks(BAR_TICKS);
    let widest = ticks.iter().filter_map(|tick| tick.label.as_ref()).map(|label| label.width(TICK)).fold(0.0, f64::max);
    8.0 + BAR + 4.0 + widest + LABEL * 1.5
}

/// Draws the colour bar to the right of `left`.
pub(crate) fn draw_bar(scene: &mut Scene, look: &Look, bar: &ColourBar, left: f64, top: f64, height: f64) {
    const STEPS: usize = 48;
    let height_of_bar = height.min(130.0);
    let top = top + (height - height_of_bar) / 2.0;
    let x = left + 8.0;
    for step in 0..STEPS {
        let part = step as f64 / STEPS as f64;
        // A little higher than its step, so that no seam is seen.
        let y = top + height_of_bar * (1.0 - part - 1.0 / STEPS as f64);
        let area = Area { x, y, width: BAR, height: (height_of_bar / STEPS as f64 + 0.4).min(top + height_of_bar - y) };
        scene.fill(Shape::Rectangle { area, radius: 0.0 }, look.map((step as f64 + 0.5) / STEPS as f64));
    }
    let (ticks, _) = bar.scale.ticks(BAR_TICKS);
    let mut widest = 0.0f64;
    for tick in ticks {
        let Some(label) = tick.label else { continue };
        let y = top + height_of_bar * (1.0 - bar.scale.place(tick.value));
        scene.line((x + BAR, y), (x + BAR + 2.0, y), Stroke::solid(look.axis, 0.6));
        widest = widest.max(label.width(TICK));
        scene.text((x + BAR + 4.0, y + TICK * CAPITALS / 2.0), Anchor::Start, label, TICK, look.quiet);
    }
    let at = (x + BAR + 4.0 + widest + LABEL * 1.2, top + height_of_bar / 2.0);
    scene.add(super::scene::Item::Text {
        x: at.0,
        y: at.1,
        anchor: Anchor::Middle,
        text: bar.label.clone().in_style(Style::Regular),
        size: LABEL,
        colour: look.text,
        upwards: true,
    });
}
