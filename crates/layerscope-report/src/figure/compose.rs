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
/// A title over a narrow panel is set smaller, down to this share, before it is cut.
const SMALLEST_TITLE: f64 = 0.85;
/// Between titles of neighbours.
const BETWEEN_TITLES: f64 = 14.0;
/// Panels are not made narrower than this.
const NARROWEST: f64 = 92.0;
/// Panels with names of points are not made lower than this.
const ROOM_FOR_NAMES: f64 = 230.0;
/// Between ticks and their labels.
const PAD: f64 = 4.0;
/// What pictures of points may take in a file, in bytes.
const PICTURES: usize = 240_000;

/// The figure, `width` points wide.
pub(crate) fn compose(sheet: &Sheet, look: &Look, width: f64, title: Option<&Text>) -> Scene {
    let points: usize = sheet.panels.iter().flat_map(|panel| &panel.marks).map(points).sum();
    if points <= VECTOR_POINTS {
        return laid_out(sheet, look, width, title, None);
    }
    // As sharp as fits into a small file.
    let mut scenes = [600.0, 450.0, 300.0].into_iter().map(|dots| laid_out(sheet, look, width, title, Some(dots)));
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
    right: f64,
    x_label: bool,
    y_label: bool,
}

fn laid_out(sheet: &Sheet, look: &Look, width: f64, title: Option<&Text>, dots_per_inch: Option<f64>) -> Scene {
    let dots = dots(sheet, dots_per_inch);
    let bar = sheet.colour_bar.as_ref().map_or(0.0, legend::bar_width);
    let inner = width - 2.0 * MARGIN - bar;
    let narrowest = if sheet.panels.iter().any(|panel| panel.right.is_some()) { 1.4 * NARROWEST } else { NARROWEST };
    let columns = sheet.columns.min(sheet.panels.len()).min((inner / narrowest) as usize).max(1);
    let named = sheet.panels.iter().flat_map(|panel| &panel.marks).any(|mark| matches!(mark, Mark::Labels(_)));
    let height = (inner / columns as f64 * sheet.ratio * 0.8).min(inner * 0.95).max(if named { ROOM_FOR_NAMES } else { 0.0 });
    let slots: Vec<Slot> = (0..sheet.panels.len()).map(|i| slot(sheet, i, columns, height)).collect();
    let side = |column: usize, of: fn(&Slot) -> f64| slots.iter().skip(column).step_by(columns).map(of).fold(0.0, f64::max);
    let lefts: Vec<f64> = (0..columns).map(|column| side(column, |slot| slot.left)).collect();
    let rights: Vec<f64> = (0..columns).map(|column| side(column, |slot| slot.right)).collect();
    let plot = ((inner - lefts.iter().sum::<f64>() - rights.iter().sum::<f64>()) / columns as f64).max(20.0);

    let mut scene = Scene::new(width, 0.0, look.background);
    let mut y = MARGIN;
    if let Some(title) = title {
        draw_title(&mut scene, look, title);
        y += TITLE_ROW;
    }
    legend::draw(&mut scene, look, &sheet.legend, MARGIN, y, width - 2.0 * MARGIN);
    y += legend::height(&sheet.legend, width - 2.0 * MARGIN);
    let top = y;
    for (row, panels) in sheet.panels.chunks(columns).enumerate() {
        let slots = &slots[row * columns..];
        let has = |text: fn(&Panel) -> &Text| panels.iter().any(|panel| !text(panel).is_empty());
        let (titled, noted) = (has(|panel| &panel.title), has(|panel| &panel.note));
        let head = if titled { TITLE * 1.35 } else { 2.0 } + if noted { TICK * 1.45 } else { 0.0 };
        let mut x = MARGIN;
        for (column, panel) in panels.iter().enumerate() {
            let area = Area { x: x + lefts[column], y: y + head, width: plot, height };
            // A title may reach over the margin up to the next panel's, and over the room of panels that are not there.
            let reach = match column + 1 {
                next if next < panels.len() => plot + rights[column] + lefts[next] - BETWEEN_TITLES,
                next if next < columns => MARGIN + inner - area.x,
                _ => width - MARGIN - area.x,
            };
            draw_panel(&mut scene, look, panel, area, &slots[column], &dots, noted, reach);
            x = area.right() + rights[column];
        }
        let labelled = slots.iter().take(panels.len()).any(|slot| slot.x_label);
        y += head + height + PAD + TICK * 1.1 + if labelled { LABEL * 1.45 } else { 0.0 } + 4.0;
    }
    if let Some(bar) = &sheet.colour_bar {
        legend::draw_bar(&mut scene, look, bar, MARGIN + inner, top, y - top - LABEL * 2.5);
    }
    scene.height = y + MARGIN - 2.0;
    scene
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
    let said_below = planned && sheet.panels.get(i + columns).is_some_and(|below| below.x.label == panel.x.label);
    let y_label = factor != 0 || !said_left;
    let x_label = panel.x.scale.ticks(4).1 != 0 || !said_below;
    let right = panel.right.as_ref().map_or(6.0, |axis| widest(&axis.scale.ticks(room(height, 20.0)).0) + PAD + 4.0 + LABEL * 1.4);
    let left = widest(&ticks) + PAD + 2.0 + if y_label && !panel.y.label.is_empty() { LABEL * 1.4 } else { 0.0 } + 3.0;
    Slot { left, right, x_label, y_label }
}

fn room(length: f64, each: f64) -> usize {
    ((length / each) as usize).clamp(2, 7)
}

fn widest(ticks: &[Tick]) -> f64 {
    ticks.iter().filter_map(|tick| tick.label.as_ref()).map(|label| label.width(TICK)).fold(0.0, f64::max)
}

#[allow(clippy::too_many_arguments)] // one call, everything that the layout decided
fn draw_panel(scene: &mut Scene, look: &Look, panel: &Panel, area: Area, slot: &Slot, dots: &Dots, noted: bool, reach: f64) {
    let (x, y) = if panel.equal { equal(panel.x.scale, panel.y.scale, &area) } else { (panel.x.scale, panel.y.scale) };
    let frame = Frame { area, x, y, right: panel.right.as_ref().map(|axis| axis.scale) };
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
    vertical_ticks(scene, look, &area, &y, &y_ticks, false);
    if slot.x_label {
        let text = fitted(with_factor(&panel.x, x_factor), LABEL, area.width + slot.left);
        scene.text((area.x + area.width / 2.0, area.bottom() + PAD + TICK * 1.1 + LABEL), Anchor::Middle, text, LABEL, look.text);
    }
    if slot.y_label {
        let at = area.x - PAD - 2.0 - widest(&y_ticks) - LABEL * 0.45;
        upright(scene, look, fitted(with_factor(&panel.y, y_factor), LABEL, area.height + 16.0), (at, area.y + area.height / 2.0));
    }
    if let Some(right) = &panel.right {
        let (ticks, factor) = right.scale.ticks(room(area.height, 20.0));
        scene.line((area.right(), area.y), (area.right(), area.bottom()), axis);
        vertical_ticks(scene, look, &area, &right.scale, &ticks, true);
        let at = area.right() + PAD + 2.0 + widest(&ticks) + LABEL;
        upright(scene, look, fitted(with_factor(right, factor), LABEL, area.height + 16.0), (at, area.y + area.height / 2.0));
    }
    let title = panel.title.clone().in_style(Style::SemiBold);
    let size = LABEL * (reach / title.width(LABEL)).clamp(SMALLEST_TITLE, 1.0);
    let above = if noted { TICK * 1.45 } else { 0.0 };
    scene.text((area.x, area.y - 3.5 - above), Anchor::Start, shortened(title, size, reach), size, look.text);
    scene.text((area.x, area.y - 3.5), Anchor::Start, fitted(panel.note.clone(), TICK, reach), TICK, look.quiet);
}

fn vertical_ticks(scene: &mut Scene, look: &Look, area: &Area, scale: &Scale, ticks: &[Tick], right: bool) {
    let (edge, away, anchor) = if right { (area.right(), 1.0, Anchor::Start) } else { (area.x, -1.0, Anchor::End) };
    for tick in ticks {
        let at = area.bottom() - area.height * scale.place(tick.value);
        let length = if tick.label.is_some() { 2.2 } else { 1.3 };
        scene.line((edge, at), (edge + away * length, at), Stroke::solid(look.axis, 0.6));
        if let Some(label) = &tick.label {
            scene.text((edge + away * PAD, at + TICK * CAPITALS / 2.0), anchor, label.clone(), TICK, look.quiet);
        }
    }
}

fn upright(scene: &mut Scene, look: &Look, text: Text, (x, y): (f64, f64)) {
    if !text.is_empty() {
        scene.add(Item::Text { x, y, anchor: Anchor::Middle, text, size: LABEL, colour: look.text, upwards: true });
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

/// As many ticks as have room for their labels beside each other.
fn without_overlap(scale: &Scale, area: &Area) -> (Vec<Tick>, i32) {
    let gap = if scale.kind == Kind::Layers { 5.0 } else { 8.0 };
    let fits = |ticks: &[Tick]| {
        let mut end = f64::NEG_INFINITY;
        ticks.iter().filter_map(|tick| tick.label.as_ref().map(|label| (tick.value, label.width(TICK)))).all(|(value, width)| {
            let start = area.width * scale.place(value) - width / 2.0;
            let free = start > end + gap;
            end = start + width;
            free
        })
    };
    let all: Vec<(Vec<Tick>, i32)> = (1..=7).rev().map(|room| scale.ticks(room)).collect();
    all.iter().find(|(ticks, _)| fits(ticks)).or(all.last()).cloned().unwrap_or_default()
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
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle_and_never_the_layer() {
        let title = || Text::plain("SmolLM2-135M-Instruct.Q4_1").then(Text::plain(", layer 15"));
        let whole = title().width(LABEL);
        assert_eq!(shortened(title(), LABEL, whole), title());
        for share in [0.5, 0.7, 0.9] {
            let short = shortened(title(), LABEL, share * whole);
            let characters = short.characters();
            assert!(short.width(LABEL) <= share * whole && characters.ends_with(", layer 15"), "{characters}");
            assert!(characters.starts_with("Smo") && characters.contains("…") && characters.contains("_1,"), "{characters}");
        }
    }

    #[test]
    fn points_are_as_large_in_every_panel() {
        let cloud = |count: usize, fade: Fade| Mark::Points { points: vec![(0.0, 0.0, 0.0); count], fade };
        let axis = || Axis::new(Text::default(), Scale::linear(0.0, 1.0));
        let panel = |marks: Vec<Mark>| Panel::new(Text::default(), axis(), axis(), marks);
        let panels = vec![panel(vec![cloud(290, Fade::Full), cloud(10, Fade::Faint)]), panel(vec![cloud(310, Fade::Full)])];
        let preferred = super::super::sheet::Preferred::Page;
        let sheet = Sheet { panels, columns: 1, ratio: 1.0, legend: Vec::new(), colour_bar: None, preferred };
        let radii = dots(&sheet, None).radii;
        assert_eq!((radii[0].1, radii[2].1), (scatter::radius(310), scatter::radius(10)));
    }
}
