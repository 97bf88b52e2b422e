//! Layouts of made-up panels.

use super::super::sheet::{ColourBar, Key, Paint, Preferred};
use super::super::theme::Theme;
use super::*;

/// In points.
const COLUMN: f64 = 218.0;

/// Panels of these titles and labels of y, without marks.
fn sheet(panels: &[(&str, &str)], columns: usize) -> Sheet {
    let panel = |(title, label): &(&str, &str)| {
        let axis = |label: &str| Axis::new(Text::plain(label), Scale::linear(0.0, 1.0));
        Panel::new(Text::plain(*title), axis("layer"), axis(label), Vec::new())
    };
    let panels = panels.iter().map(panel).collect();
    Sheet { panels, columns, ratio: 0.55, legend: Vec::new(), colour_bar: None, preferred: Preferred::Page }
}

/// A text that was drawn: characters, place, size, and how long it is.
struct Written {
    characters: String,
    x: f64,
    y: f64,
    size: f64,
    length: f64,
}

fn drawn(sheet: &Sheet, width: f64) -> (Scene, Vec<Written>) {
    let scene = compose(sheet, &Look::of(Theme::Light), width, None);
    let written = |item: &Item| {
        let Item::Text { x, y, text, size, .. } = item else { return None };
        Some(Written { characters: text.characters(), x: *x, y: *y, size: *size, length: text.width(*size) })
    };
    let texts = scene.items.iter().filter_map(written).collect();
    (scene, texts)
}

fn find<'t>(texts: &'t [Written], characters: &str) -> Vec<&'t Written> {
    texts.iter().filter(|text| text.characters == characters).collect()
}

#[test]
fn labels_of_axes_are_whole_and_never_above_their_panel() {
    let long = "a long label of a narrow panel";
    let mut narrow = sheet(&[("", long), ("", "b"), ("", "c")], 2);
    narrow.legend = vec![(Key::Line(Paint::Text, false), Text::plain("legend"))];
    let (scene, texts) = drawn(&narrow, COLUMN);
    let (label, legend) = (find(&texts, long)[0], find(&texts, "legend")[0]);
    assert!(label.y - label.length / 2.0 > legend.y + 1.0 && label.y + label.length / 2.0 < scene.height);
    // Below the second panel there is no other: both panels of the first row say what they are over.
    assert_eq!(find(&texts, "layer").len(), 3);
    assert_eq!(find(&drawn(&sheet(&[("", "a"); 4], 2), COLUMN).1, "layer").len(), 2);
    // A label with a power of ten does not speak for the panel above.
    let mut powers = sheet(&[("", "a"); 3], 1);
    powers.panels[2].x.scale = Scale::linear(0.0, 1e7);
    let texts = drawn(&powers, COLUMN).1;
    assert_eq!((find(&texts, "layer").len(), texts.iter().filter(|text| text.characters.starts_with("layer")).count()), (1, 2));
}

#[test]
fn titles_of_a_row_have_one_size_and_are_said_once() {
    let (_, texts) = drawn(&sheet(&[("short", "a"), ("a title that is not short", "b")], 2), COLUMN);
    let (short, long) = (find(&texts, "short")[0], find(&texts, "a title that is not short")[0]);
    assert!(short.size == long.size && short.size < LABEL && long.x + long.length <= COLUMN, "{} {}", short.size, long.size);
    let (_, texts) = drawn(&sheet(&[("one title for both of two panels", "a"), ("one title for both of two panels", "b")], 2), COLUMN);
    assert_eq!(find(&texts, "one title for both of two panels").iter().map(|text| text.size).collect::<Vec<_>>(), [LABEL]);
    // What is too long for one line has several.
    let title = "a title that is much too long for one line";
    let (_, texts) = drawn(&sheet(&[(title, "y"), ("x", "y")], 2), COLUMN);
    let mut lines: Vec<&Written> = texts.iter().filter(|text| text.characters.len() > 3 && title.contains(&text.characters)).collect();
    lines.sort_by(|a, b| a.y.total_cmp(&b.y));
    assert_eq!(lines.iter().map(|line| line.characters.as_str()).collect::<Vec<_>>().join(" "), title);
    assert!(lines.len() > 1 && lines.iter().all(|line| line.x == lines[0].x && line.x + line.length < find(&texts, "x")[0].x));
}

#[test]
fn rows_of_a_grid_stay_together() {
    let mut grid = sheet(&[("1", "q"), ("1", "m"), ("1", "v"), ("1", "r"), ("2", "q"), ("2", "m"), ("2", "v"), ("2", "r")], 4);
    grid.colour_bar = Some(ColourBar { label: Text::plain("n"), scale: Scale::linear(0.0, 1.0) });
    assert!(grid.is_grid());
    let (scene, texts) = drawn(&grid, COLUMN);
    assert_eq!(scene.width, COLUMN);
    for label in ["q", "m", "v", "r"] {
        let found = find(&texts, label);
        assert!(found.len() == 2 && found[0].x == found[1].x && found[0].size < LABEL, "{label}");
    }
    assert!(texts.iter().all(|text| text.x > 0.0 && text.x < scene.width && text.y < scene.height));
    assert_eq!(find(&drawn(&grid, 600.0).1, "q")[0].size, LABEL, "a wide one is not made smaller");
    // Panels of one kind may be laid out anyhow.
    assert!(!sheet(&[("1", "q"); 8], 4).is_grid() && !sheet(&[("", "q"), ("", "m")], 2).is_grid());
}

#[test]
fn numbers_below_a_very_narrow_panel_do_not_overlap() {
    let area = |width: f64| Area { x: 0.0, y: 0.0, width, height: 50.0 };
    let labels = |width: f64| {
        let (ticks, _) = without_overlap(&Scale::linear(900.0, 3500.0), &area(width));
        ticks.into_iter().filter_map(|tick| tick.label).map(|label| label.characters()).collect::<Vec<_>>()
    };
    assert_eq!(labels(90.0), ["1000", "2000", "3000"]);
    assert_eq!(labels(35.0), ["1000", "3000"]);
}

#[test]
fn a_scene_is_scaled_with_everything_in_it() {
    let mut scene = Scene::new(100.0, 50.0, Look::of(Theme::Light).background);
    let stroke = Stroke::solid(scene.background, 2.0);
    scene.line((10.0, 20.0), (30.0, 40.0), stroke);
    scene.text((8.0, 6.0), Anchor::Start, Text::plain("a"), 10.0, stroke.colour);
    let mut half = Scene::new(50.0, 25.0, scene.background);
    half.line((5.0, 10.0), (15.0, 20.0), Stroke { width: 1.0, ..stroke });
    half.text((4.0, 3.0), Anchor::Start, Text::plain("a"), 5.0, stroke.colour);
    assert_eq!(scene.scaled(0.5), half);
}

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
    let sheet = Sheet { panels, ..sheet(&[], 1) };
    let radii = dots(&sheet, None).radii;
    assert_eq!((radii[0].1, radii[2].1), (scatter::radius(310), scatter::radius(10)));
}
