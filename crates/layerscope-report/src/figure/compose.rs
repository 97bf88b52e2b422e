//! Panels laid out on a page: margins from measured text, shared labels said once, nothing over anything.

use super::font::{CAPITALS, Style};
use super::legend;
use super::marks::{self, Dots, Frame};
use super::scatter::{self, VECTOR_POINTS};
use super::scene::{Anchor, Area, Canvas, Item, Scene, Stroke};
use super::sheet::{Axis, Fade, Mark, Panel, Sheet};
use super::svg;
use super::text::Text;
use super::theme::{LABEL, Look, TICK, TITLE};
use super::ticks::{Kind, Scale, Tick};

/// Around everything.
const MARGIN: f64 = 4.0;
/// Height of the line over a figure.
pub(crate) const TITLE_ROW: f64 = TITLE * 1.7;
/// Titles over narrow panels are set smaller, down to this share, before they are broken into lines or cut.
const SMALLEST_TITLE: f64 = 0.85;
/// Between titles of neighbours.
const BETWEEN_TITLES: f64 = 14.0;
/// Panels are not made narrower than this.
const NARROWEST: f64 = 92.0;
/// Nor those of a grid, whose columns stay together: it is drawn smaller as a whole.
const NARROWEST_OF_GRID: f64 = 75.0;
/// Panels with names of points are not made lower than this.
const ROOM_FOR_NAMES: f64 = 230.0;
/// To the right of a panel.
const RIGHT: f64 = 6.0;
/// Between ticks and their labels.
const PAD: f64 = 4.0;
/// The line of numbers below a panel.
const TICK_ROW: f64 = PAD + TICK * 1.1;
/// From a line of a title to the next.
const TITLE_LINE: f64 = LABEL * 1.25;
/// Height of a line under a title.
const NOTE_ROW: f64 = TICK * 1.45;
/// What pictures of points may take in a file, in bytes.
const PICTURES: usize = 240_000;

/// The figure, `width` points wide.
pub(crate) fn compose(sheet: &Sheet, look: &Look, width: f64, title: Option<&Text>) -> Scene {
    let needed = if sheet.is_grid() { sheet.columns as f64 * NARROWEST_OF_GRID + bar_width(sheet) + 2.0 * MARGIN } else { 0.0 };
    let part = (width / needed).min(1.0);
    let draw = |dots: Option<f64>| laid_out(sheet, look, width / part, title, dots).scaled(part);
    let points: usize = sheet.panels.iter().flat_map(|panel| &panel.marks).map(points).sum();
    if points <= VECTOR_POINTS {
        return draw(None);
    }
    // As sharp as fits into a small file.
    let mut scenes = [600.0, 450.0, 300.0].into_iter().map(|dots| draw(Some(dots)));
    let fits = |scene: &Scene| svg::write(scene, false).len() < PICTURES;
    let mut last = scenes.next().expect("three of them");
    for scene in scenes {
        if fits(&last) {
            break;
        }
        last = scene;
    }
    last
}

fn points(mark: &Mark) -> usize {
    if let Mark::Points { points, .. } = mark { points.len() } else { 0 }
}

/// Points of one kind have one size in all panels: that of the largest cloud.
fn dots(sheet: &Sheet, dots_per_inch: Option<f64>) -> Dots {
    let marks = || sheet.panels.iter().flat_map(|panel| &panel.marks);
    let of = |wanted: Fade| marks().filter(|mark| matches!(mark, Mark::Points { fade, .. } if *fade == wanted)).map(points).max();
    Dots { dots_per_inch, radii: [Fade::Full, Fade::Pale, Fade::Faint].map(|fade| (fade, scatter::radius(of(fade).unwrap_or(0)))) }
}

/// Sizes of one panel's surroundings.
struct Slot {
    left: f64,
    x_label: bool,
    y_label: bool,
}

/// Where panels stand beside each other.
struct Columns {
    lefts: Vec<f64>,
    plot: f64,
    end: f64,
}

impl Columns {
    /// Where the frame of a panel begins.
    fn x(&self, column: usize) -> f64 {
        MARGIN + self.lefts[..=column].iter().sum::<f64>() + (self.plot + RIGHT) * column as f64
    }

    /// How long a text over a panel may be: up to that over another one, or over the room of panels that are not there.
    fn reach(&self, column: usize, next: Option<usize>) -> f64 {
        next.map_or(self.end, |next| self.x(next) - BETWEEN_TITLES) - self.x(column)
    }

    /// The titles of a row in lines, with their reach. Neighbours that share one say it once.
    fn titles(&self, panels: &[Panel]) -> Vec<(Vec<Text>, f64)> {
        let is_said = |column: &usize| *column == 0 || panels[*column].title != panels[column - 1].title;
        let title = |column: usize| {
            let reach = self.reach(column, (column + 1..panels.len()).find(is_said));
            let said = Some(&panels[column].title).filter(|_| is_said(&column)).cloned().unwrap_or_default();
            (said.in_style(Style::SemiBold).lines(LABEL * SMALLEST_TITLE, reach), reach)
        };
        (0..panels.len()).map(title).collect()
    }

    /// What is written under the titles of a row, in lines.
    fn notes(&self, panels: &[Panel]) -> Vec<Vec<Text>> {
        let next = |column: usize| Some(column + 1).filter(|next| *next < panels.len());
        panels.iter().enumerate().map(|(column, panel)| panel.note.lines(TICK, self.reach(column, next(column)))).collect()
    }
}

/// What stands over a panel.
struct Head {
    title: Vec<Text>,
    size: f64,
    notes: Vec<Text>,
    reach: f64,
}

fn bar_width(sheet: &Sheet) -> f64 {
    sheet.colour_bar.as_ref().map_or(0.0, legend::bar_width)
}

fn laid_out(sheet: &Sheet, look: &Look, width: f64, title: Option<&Text>, dots_per_inch: Option<f64>) -> Scene {
    let dots = dots(sheet, dots_per_inch);
    let inner = width - 2.0 * MARGIN - bar_width(sheet);
    let planned = sheet.columns.min(sheet.panels.len());
    let columns = if sheet.is_grid() { planned } else { planned.min((inner / NARROWEST) as usize).max(1) };
    let height = height(sheet, inner, columns);
    let slots: Vec<Slot> = (0..sheet.panels.len()).map(|i| slot(sheet, i, columns, height)).collect();
    let left = |column: usize| slots.iter().skip(column).step_by(columns).map(|slot| slot.left).fold(0.0, f64::max);
    let lefts: Vec<f64> = (0..columns).map(left).collect();
    let plot = ((inner - lefts.iter().sum::<f64>()) / columns as f64 - RIGHT).max(20.0);
    let places = Columns { lefts, plot, end: MARGIN + inner + if sheet.colour_bar.is_some() { RIGHT } else { 0.0 } };

    let mut scene = Scene::new(width, 0.0, look.background);
    let mut y = MARGIN;
    if let Some(title) = title {
        draw_title(&mut scene, look, title);
        y += TITLE_ROW;
    }
    legend::draw(&mut scene, look, &sheet.legend, MARGIN, y, width - 2.0 * MARGIN);
    y += legend::height(&sheet.legend, width - 2.0 * MARGIN);
    let top = y;
    let titles = sheet.panels.chunks(columns).flat_map(|row| places.titles(row));
    let parts = titles.flat_map(|(lines, reach)| lines.into_iter().map(move |line| reach / line.width(LABEL)));
    let size = LABEL * parts.fold(1.0, f64::min).max(SMALLEST_TITLE);
    for (row, panels) in sheet.panels.chunks(columns).enumerate() {
        let slots = &slots[row * columns..];
        let (titles, notes) = (places.titles(panels), places.notes(panels));
        let title_lines = titles.iter().map(|(lines, _)| lines.len()).max().unwrap_or(0);
        let note_lines = notes.iter().map(Vec::len).max().unwrap_or(0);
        let below_title = NOTE_ROW * note_lines as f64;
        let head = if title_lines > 0 { TITLE * 1.35 + TITLE_LINE * (title_lines - 1) as f64 } else { 2.0 } + below_title;
        for (column, ((title, reach), notes)) in titles.into_iter().zip(notes).enumerate() {
            let area = Area { x: places.x(column), y: y + head, width: plot, height };
            draw_panel(&mut scene, look, &panels[column], area, &slots[column], &dots);
            draw_head(&mut scene, look, (area.x, area.y - 3.5 - below_title), Head { title, size, notes, reach });
        }
        let labelled = slots.iter().take(panels.len()).any(|slot| slot.x_label);
        y += head + height + TICK_ROW + if labelled { LABEL * 1.45 } else { 0.0 } + 4.0;
    }
    if let Some(bar) = &sheet.colour_bar {
        legend::draw_bar(&mut scene, look, bar, MARGIN + inner, top, y - top - LABEL * 2.5);
    }
    scene.height = y + MARGIN - 2.0;
    scene
}

/// How high panels are: there is room for names of points, and for the longest label of an axis.
fn height(sheet: &Sheet, inner: f64, columns: usize) -> f64 {
    let height = (inner / columns as f64 * sheet.ratio * 0.8).min(inner * 0.95);
    let is_named = sheet.panels.iter().flat_map(|panel| &panel.marks).any(|mark| matches!(mark, Mark::Labels(_)));
    let label = |panel: &Panel| with_factor(&panel.y, panel.y.scale.ticks(room(height, 20.0)).1).width(LABEL) - TICK_ROW;
    sheet.panels.iter().map(label).fold(height.max(if is_named { ROOM_FOR_NAMES } else { 0.0 }), f64::max)
}

/// The line over a figure.
pub(crate) fn draw_title(scene: &mut Scene, look: &Look, title: &Text) {
    let text = fitted(title.clone().in_style(Style::SemiBold), TITLE + 1.0, scene.width - 2.0 * MARGIN);
    scene.text((scene.width / 2.0, MARGIN + TITLE), Anchor::Middle, text, TITLE + 1.0, look.text);
}

/// A quiet line under a figure.
pub(crate) fn draw_footnote(scene: &mut Scene, look: &Look, words: &str) {
    let text = fitted(Text::plain(words), TICK, scene.width - 2.0 * MARGIN);
    scene.height += TICK * 1.3;
    scene.text((scene.width - MARGIN, scene.height - MARGIN), Anchor::End, text, TICK, look.quiet);
}

/// Labels are said once where neighbours share them, but always where they carry a power of ten.
fn slot(sheet: &Sheet, i: usize, columns: usize, height: f64) -> Slot {
    let panel = &sheet.panels[i];
    let (ticks, factor) = panel.y.scale.ticks(room(height, 20.0));
    let said_left = !i.is_multiple_of(columns) && sheet.panels[i - 1].y.label == panel.y.label;
    // Rows that were not planned have panels of another kind below each other: there every panel says what it is over.
    let planned = columns == sheet.columns.min(sheet.panels.len());
    // All panels of a row say it, or none: below the last of them there may be no other.
    let is_full_below = planned && sheet.panels.len() >= (i / columns + 2) * columns;
    let has_power = |panel: &Panel| panel.x.scale.ticks(4).1 != 0;
    let says_the_same = |below: &Panel| below.x.label == panel.x.label && !has_power(below);
    let said_below = is_full_below && says_the_same(&sheet.panels[i + columns]);
    let y_label = factor != 0 || !said_left;
    let x_label = has_power(panel) || !said_below;
    let left = widest(&ticks) + PAD + 2.0 + if y_label && !panel.y.label.is_empty() { LABEL * 1.4 } else { 0.0 } + 3.0;
    Slot { left, x_label, y_label }
}

fn room(length: f64, each: f64) -> usize {
    ((length / each) as usize).clamp(2, 7)
}

fn widest(ticks: &[Tick]) -> f64 {
    ticks.iter().filter_map(|tick| tick.label.as_ref()).map(|label| label.width(TICK)).fold(0.0, f64::max)
}

fn draw_panel(scene: &mut Scene, look: &Look, panel: &Panel, area: Area, slot: &Slot, dots: &Dots) {
    let (x, y) = if panel.equal { equal(panel.x.scale, panel.y.scale, &area) } else { (panel.x.scale, panel.y.scale) };
    let frame = Frame { area, x, y };
    let (x_ticks, x_factor) = without_overlap(&x, &area);
    let (y_ticks, y_factor) = y.ticks(room(area.height, 20.0));
    grid(scene, look, &frame, &x_ticks, &y_ticks);
    marks::draw(scene, look, panel, &frame, dots);
    let (corner, axis) = ((area.x, area.bottom()), Stroke::solid(look.axis, 0.6));
    scene.line(corner, (area.right(), area.bottom()), axis);
    scene.line(corner, (area.x, area.y), axis);
    for tick in &x_ticks {
        let at = area.x + area.width * x.place(tick.value);
        let length = if tick.label.is_some() { 2.2 } else { 1.3 };
        scene.line((at, area.bottom()), (at, area.bottom() + length), axis);
        if let Some(label) = &tick.label {
            scene.text((at, area.bottom() + PAD + TICK * CAPITALS), Anchor::Middle, label.clone(), TICK, look.quiet);
        }
    }
    for tick in &y_ticks {
        let at = area.bottom() - area.height * y.place(tick.value);
        let length = if tick.label.is_some() { 2.2 } else { 1.3 };
        scene.line((area.x, at), (area.x - length, at), axis);
        if let Some(label) = &tick.label {
            scene.text((area.x - PAD, at + TICK * CAPITALS / 2.0), Anchor::End, label.clone(), TICK, look.quiet);
        }
    }
    if slot.x_label {
        let text = fitted(with_factor(&panel.x, x_factor), LABEL, area.width + slot.left);
        scene.text((area.x + area.width / 2.0, area.bottom() + TICK_ROW + LABEL), Anchor::Middle, text, LABEL, look.text);
    }
    let label = with_factor(&panel.y, y_factor);
    if slot.y_label && !label.is_empty() {
        let text = fitted(label, LABEL, area.height + TICK_ROW);
        // Longer than the panel, it goes on below: above are legend and titles.
        let middle = area.y + area.height.max(text.width(LABEL)) / 2.0;
        let x = area.x - PAD - 2.0 - widest(&y_ticks) - LABEL * 0.45;
        scene.add(Item::Text { x, y: middle, anchor: Anchor::Middle, text, size: LABEL, colour: look.text, upwards: true });
    }
}

/// The title ends at `base`, and what is under it begins there.
fn draw_head(scene: &mut Scene, look: &Look, (x, base): (f64, f64), head: Head) {
    for (above, line) in head.title.into_iter().rev().enumerate() {
        let text = shortened(line, head.size, head.reach);
        scene.text((x, base - TITLE_LINE * above as f64), Anchor::Start, text, head.size, look.text);
    }
    for (below, note) in head.notes.into_iter().enumerate() {
        scene.text((x, base + NOTE_ROW * (below + 1) as f64), Anchor::Start, fitted(note, TICK, head.reach), TICK, look.quiet);
    }
}

fn grid(scene: &mut Scene, look: &Look, frame: &Frame, x: &[Tick], y: &[Tick]) {
    let Some(colour) = look.grid else { return };
    let (area, stroke) = (&frame.area, Stroke::solid(colour, 0.5));
    for tick in x.iter().filter(|tick| tick.label.is_some()) {
        let at = area.x + area.width * frame.x.place(tick.value);
        scene.line((at, area.y), (at, area.bottom()), stroke);
    }
    for tick in y.iter().filter(|tick| tick.label.is_some()) {
        let at = area.bottom() - area.height * frame.y.place(tick.value);
        scene.line((area.x, at), (area.right(), at), stroke);
    }
}

/// As many ticks as have room for their labels beside each other; where two are too many, some have none.
fn without_overlap(scale: &Scale, area: &Area) -> (Vec<Tick>, i32) {
    let thinned = |ticks: &[Tick], gap: f64| -> Vec<Tick> {
        let mut end = f64::NEG_INFINITY;
        let mut keep = |tick: &Tick| {
            let width = tick.label.as_ref()?.width(TICK);
            let start = area.width * scale.place(tick.value) - width / 2.0;
            let is_free = start > end + gap;
            end = if is_free { start + width } else { end };
            tick.label.clone().filter(|_| is_free)
        };
        ticks.iter().map(|tick| Tick { label: keep(tick), ..tick.clone() }).collect()
    };
    let all: Vec<(Vec<Tick>, i32)> = (1..=7).rev().map(|room| scale.ticks(room)).collect();
    let gap = if scale.kind == Kind::Layers { 5.0 } else { 8.0 };
    let fitting = all.iter().find(|(ticks, _)| thinned(ticks, gap) == *ticks).cloned();
    fitting.or_else(|| all.last().map(|(ticks, factor)| (thinned(ticks, 3.0), *factor))).unwrap_or_default()
}

fn with_factor(axis: &Axis, factor: i32) -> Text {
    match factor {
        0 => axis.label.clone(),
        _ => axis.label.clone().then(Text::math(&format!(" (×10^{{{factor}}})"))),
    }
}

/// Both ranges widened so that one unit is as long on both axes.
fn equal(x: Scale, y: Scale, area: &Area) -> (Scale, Scale) {
    let unit = ((x.max - x.min) / area.width).max((y.max - y.min) / area.height);
    let widened = |scale: Scale, length: f64| {
        let (middle, half) = ((scale.min + scale.max) / 2.0, unit * length / 2.0);
        Scale { min: middle - half, max: middle + half, ..scale }
    };
    (widened(x, area.width), widened(y, area.height))
}

/// The text with its first run cut in the middle until it is this narrow: a name, whose ends tell it from others. What follows a name
/// stays whole.
fn shortened(mut text: Text, size: f64, width: f64) -> Text {
    let name: Vec<char> = text.0.first().map_or(Vec::new(), |span| span.text.chars().collect());
    for kept in (2..name.len()).rev() {
        if text.width(size) <= width {
            break;
        }
        let (start, end) = (kept.div_ceil(2), name.len() - kept / 2);
        text.0[0].text = name[..start].iter().chain(&['…']).chain(&name[end..]).collect();
    }
    fitted(text, size, width)
}

/// The text, cut at its end until it is this narrow.
pub(crate) fn fitted(mut text: Text, size: f64, width: f64) -> Text {
    if text.width(size) <= width {
        return text;
    }
    let ellipsis = Style::Regular.width("…", size);
    while text.width(size) + ellipsis > width {
        let Some(last) = text.0.last_mut() else { return text };
        if last.text.pop().is_none() {
            text.0.pop();
        }
    }
    text.then(Text::plain("…"))
}

#[cfg(test)]
mod tests;
