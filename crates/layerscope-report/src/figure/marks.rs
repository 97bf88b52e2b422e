//! Marks of a panel, drawn into its area.

use super::font::CAPITALS;
use super::labels::{Wish, place};
use super::legend::cross;
use super::scatter;
use super::scene::{Anchor, Area, Canvas, Item, Shape, Stroke};
use super::sheet::{Bar, Fade, Label, Line, Mark, Panel};
use super::theme::{Look, MARKER, marker};
use super::ticks::Scale;

/// Size of points' names.
const NAME: f64 = 6.0;

/// Numbers to places in an area.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub area: Area,
    pub x: Scale,
    pub y: Scale,
}

impl Frame {
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.area.x + self.area.width * self.x.place(x), self.area.bottom() - self.area.height * self.y.place(y))
    }
}

/// How points are drawn.
pub(crate) struct Dots {
    /// Where points become pictures.
    pub dots_per_inch: Option<f64>,
    /// How large points are.
    pub radii: [(Fade, f64); 3],
}

impl Dots {
    fn radius(&self, fade: Fade) -> f64 {
        self.radii.iter().find(|(own, _)| *own == fade).map_or(1.0, |(_, radius)| *radius)
    }
}

/// Draws the marks, each clipped as it should be.
pub(crate) fn draw(canvas: &mut impl Canvas, look: &Look, panel: &Panel, frame: &Frame, dots: &Dots) {
    let mut clipped: Vec<Item> = Vec::new();
    let mut over: Vec<Item> = Vec::new();
    for mark in &panel.marks {
        match mark {
            Mark::Line(one) => line(&mut clipped, &mut over, look, one, frame),
            Mark::Points { points, fade } => {
                let places: Vec<(f64, f64, f64)> = points
                    .iter()
                    .map(|(x, y, shade)| {
                        let (x, y) = frame.at(*x, *y);
                        (x, y, *shade)
                    })
                    .collect();
                let radius = dots.radius(*fade);
                let look = &look.faded(*fade);
                match dots.dots_per_inch {
                    Some(resolution) => {
                        let raster = scatter::picture(look, &places, radius, &frame.area, resolution);
                        clipped.add(Item::Picture { area: frame.area, raster });
                    }
                    None => scatter::circles(&mut clipped, look, &places, radius, &frame.area),
                }
            }
            Mark::Markers(markers) => {
                for (x, y, series, hollow) in markers {
                    marker(&mut over, look, *series, frame.at(*x, *y), MARKER, *hollow);
                }
            }
            Mark::Bars(bars) => bars.iter().for_each(|one| bar(&mut clipped, look, one, frame)),
            Mark::Slope { slope, intercept, paint, dashed } => {
                let value = |x: f64| intercept + slope * x;
                let dash: &[f64] = if *dashed { &[3.0, 2.0] } else { &[] };
                let (from, to) = (frame.at(frame.x.min, value(frame.x.min)), frame.at(frame.x.max, value(frame.x.max)));
                clipped.line(from, to, Stroke { colour: paint.colour(look), width: 1.1, dash });
            }
            Mark::Vertical { x, paint } => {
                let (from, to) = (frame.at(*x, frame.y.min), frame.at(*x, frame.y.max));
                clipped.line(from, to, Stroke { colour: paint.colour(look), width: 1.0, dash: &[3.0, 2.0] });
            }
            Mark::Horizontal { y } => {
                let (from, to) = (frame.at(frame.x.min, *y), frame.at(frame.x.max, *y));
                clipped.line(from, to, Stroke { colour: look.quiet, width: 0.6, dash: &[2.0, 2.0] });
            }
            Mark::Labels(all) => labels(&mut over, look, all, frame, &crosses(panel, frame)),
            Mark::Cross { x, y } => cross(&mut over, look, frame.at(*x, *y)),
            Mark::Ring { x, y } => {
                let (x, y) = frame.at(*x, *y);
                over.outlined(Shape::Circle { x, y, radius: MARKER * 1.3 }, look.background, Stroke::solid(look.text, 1.0));
            }
        }
    }
    if !clipped.is_empty() {
        canvas.add(Item::Clipped { area: frame.area, items: clipped });
    }
    over.into_iter().for_each(|item| canvas.add(item));
}

fn line(clipped: &mut Vec<Item>, over: &mut Vec<Item>, look: &Look, line: &Line, frame: &Frame) {
    let colour = line.paint.colour(look);
    if line.band.len() > 1 {
        let there = line.band.iter().map(|(x, _, high)| frame.at(*x, *high));
        let back = line.band.iter().rev().map(|(x, low, _)| frame.at(*x, *low));
        let shape = Shape::Lines { points: there.chain(back).collect(), closed: true };
        clipped.add(Item::Shape { shape, fill: Some(colour), stroke: None, opacity: 0.18 });
    }
    let mut stroke = match line.paint {
        super::sheet::Paint::Series(series) => look.line(series, line.width),
        _ => Stroke::solid(colour, line.width),
    };
    if line.dashed {
        stroke.dash = &[3.0, 2.0];
    }
    for run in line.points.split(|(_, y)| y.is_none()) {
        let points: Vec<(f64, f64)> = run.iter().filter_map(|(x, y)| y.map(|y| frame.at(*x, y))).collect();
        if points.len() > 1 {
            clipped.stroke(Shape::Lines { points, closed: false }, stroke);
        }
    }
    for (from, to) in &line.hollow {
        clipped.line(frame.at(from.0, from.1), frame.at(to.0, to.1), Stroke { colour, width: 0.7, dash: &[1.2, 1.2] });
    }
    // Many points: smaller markers, so that the line is still seen.
    let radius = if line.points.len() > 30 { MARKER * 0.7 } else { MARKER };
    let seen = |y: f64| y >= frame.y.min.min(frame.y.max) && y <= frame.y.max;
    for (_, to) in line.hollow.iter().filter(|(_, to)| seen(to.1)) {
        let (x, y) = frame.at(to.0, to.1);
        match line.marker {
            Some(series) => marker(over, look, series, (x, y), radius, true),
            None => over.outlined(Shape::Circle { x, y, radius }, look.background, Stroke::solid(colour, 0.8)),
        }
    }
    if let Some(series) = line.marker {
        for (x, y) in line.points.iter().filter_map(|(x, y)| y.map(|y| (*x, y))).filter(|(_, y)| seen(*y)) {
            marker(over, look, series, frame.at(x, y), radius, false);
        }
    }
}

fn bar(canvas: &mut Vec<Item>, look: &Look, bar: &Bar, frame: &Frame) {
    let ((left, bottom), (right, top)) = (frame.at(bar.x0, bar.y0), frame.at(bar.x1, bar.y1));
    let bottom = bottom.min(frame.area.bottom());
    if bottom > top && right > left {
        let area = Area { x: left, y: top, width: right - left, height: bottom - top };
        canvas.fill(Shape::Rectangle { area, radius: 0.0 }, bar.paint.colour(look));
    }
}

/// What names must not cover.
fn crosses(panel: &Panel, frame: &Frame) -> Vec<Area> {
    let area = |mark: &Mark| {
        let Mark::Cross { x, y } = mark else { return None };
        let (x, y) = frame.at(*x, *y);
        Some(Area { x, y, width: 0.0, height: 0.0 }.grown(5.0))
    };
    panel.marks.iter().filter_map(area).collect()
}

fn labels(canvas: &mut Vec<Item>, look: &Look, labels: &[Label], frame: &Frame, obstacles: &[Area]) {
    const RADIUS: f64 = 2.0;
    let inside = |label: &&Label| {
        let (x, y) = frame.at(label.x, label.y);
        frame.area.contains(&Area { x, y, width: 0.0, height: 0.0 })
    };
    let labels: Vec<&Label> = labels.iter().filter(inside).collect();
    let wishes: Vec<Wish> = labels
        .iter()
        .map(|label| {
            let (x, y) = frame.at(label.x, label.y);
            Wish { x, y, radius: RADIUS + 0.3, width: label.text.width(NAME) + 1.6, height: NAME * 1.15 }
        })
        .collect();
    let places = place(&wishes, frame.area.grown(-1.0), obstacles);
    for (place, label) in places.iter().zip(&labels) {
        if let Some((from, to)) = place.as_ref().and_then(|place| place.leader) {
            canvas.line(from, to, Stroke::solid(look.text, 0.5));
        }
        let (x, y) = frame.at(label.x, label.y);
        canvas.outlined(Shape::Circle { x, y, radius: RADIUS }, label.paint.colour(look), Stroke::solid(look.text, 0.7));
    }
    for (place, label) in places.iter().zip(labels) {
        let Some(place) = place else { continue };
        let shape = Shape::Rectangle { area: place.area, radius: 1.0 };
        canvas.add(Item::Shape { shape, fill: Some(look.background), stroke: None, opacity: 0.72 });
        let baseline = place.area.y + place.area.height / 2.0 + NAME * CAPITALS / 2.0;
        canvas.text((place.area.x + 0.8, baseline), Anchor::Start, label.text.clone(), NAME, look.text);
    }
}
