//! What a figure of panels contains, before it has a size or colours.

use super::scene::Colour;
use super::text::Text;
use super::theme::Look;
use super::ticks::Scale;

/// A colour by its meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Paint {
    /// Of the model of this number, the same in all figures.
    Series(usize),
    /// A place on the colour map, 0 to 1.
    Map(f64),
    Text,
    Quiet,
    Accent,
}

impl Paint {
    pub fn colour(self, look: &Look) -> Colour {
        match self {
            Paint::Series(series) => look.colour(series),
            Paint::Map(part) => look.map(part),
            Paint::Text => look.text,
            Paint::Quiet => look.quiet,
            Paint::Accent => look.accent,
        }
    }
}

/// Numbers along one side of a panel.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub label: Text,
    pub scale: Scale,
}

impl Axis {
    pub fn new(label: Text, scale: Scale) -> Axis {
        Axis { label, scale }
    }
}

/// A line through points; a gap where there is none.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub points: Vec<(f64, Option<f64>)>,
    pub paint: Paint,
    pub width: f64,
    /// The number of the marker at every point.
    pub marker: Option<usize>,
    /// Low and high at x.
    pub band: Vec<(f64, f64, f64)>,
    /// Points beside the line, joined to the one before them: the last block's own output.
    pub hollow: Vec<((f64, f64), (f64, f64))>,
    pub dashed: bool,
}

impl Line {
    pub fn new(points: Vec<(f64, Option<f64>)>, paint: Paint) -> Line {
        Line { points, paint, width: 1.1, marker: None, band: Vec::new(), hollow: Vec::new(), dashed: false }
    }

    /// The line of a model.
    pub fn of_series(points: Vec<(f64, Option<f64>)>, series: usize) -> Line {
        Line { marker: Some(series), ..Line::new(points, Paint::Series(series)) }
    }

    /// The numbers that points stand for.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().filter_map(|(_, y)| *y).chain(self.hollow.iter().map(|(_, (_, y))| *y))
    }

    /// All numbers along y, to find a scale for.
    pub fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        self.values().chain(self.band.iter().flat_map(|(_, low, high)| [*low, *high]))
    }
}

/// A labelled point.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub x: f64,
    pub y: f64,
    pub text: Text,
    /// The colour of the point.
    pub paint: Paint,
}

/// A rectangle from (x0, y0) to (x1, y1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub x0: f64,
    pub x1: f64,
    pub y0: f64,
    pub y1: f64,
    pub paint: Paint,
}

/// How far points stand back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fade {
    /// In full colour.
    Full,
    /// Paler than what stands out from them.
    Pale,
    /// Not a part of what was computed.
    Faint,
}

/// What a panel shows, in the order of drawing.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    Line(Line),
    /// x, y and place on the colour map, in the order of drawing.
    Points {
        points: Vec<(f64, f64, f64)>,
        fade: Fade,
    },
    /// Markers of models: x, y, number of the model, hollow or not.
    Markers(Vec<(f64, f64, usize, bool)>),
    Bars(Vec<Bar>),
    /// y = intercept + slope x.
    Slope {
        slope: f64,
        intercept: f64,
        paint: Paint,
        dashed: bool,
    },
    Vertical {
        x: f64,
        paint: Paint,
    },
    Horizontal {
        y: f64,
    },
    Labels(Vec<Label>),
    /// The origin.
    Cross {
        x: f64,
        y: f64,
    },
    /// A hollow point of no model, seen on any colour.
    Ring {
        x: f64,
        y: f64,
    },
}

/// One frame with two axes.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub title: Text,
    /// A second line under the title: what was fitted, so that it never covers data.
    pub note: Text,
    pub x: Axis,
    pub y: Axis,
    pub marks: Vec<Mark>,
    /// Whether one unit is as long on both axes.
    pub equal: bool,
}

impl Panel {
    pub fn new(title: Text, x: Axis, y: Axis, marks: Vec<Mark>) -> Panel {
        Panel { title, note: Text::default(), x, y, marks, equal: false }
    }
}

/// What stands before a text of the legend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    /// Line and marker of a model.
    Series(usize),
    /// The marker alone.
    Marker(usize),
    Line(Paint, bool),
    Swatch(Paint),
    /// A filled point of no model.
    Dot(Paint),
    /// A point in the middle of the colour map that is not a part of what was computed.
    Faint,
    Hollow,
    Cross,
}

/// The colours of points, explained.
#[derive(Clone, Debug)]
pub(crate) struct ColourBar {
    pub label: Text,
    pub scale: Scale,
}

/// How wide a figure is if nobody says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preferred {
    /// One column of two.
    Column,
    /// The page.
    Page,
}

/// Panels in rows, with everything they share.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub panels: Vec<Panel>,
    /// At most; fewer where a panel would get too narrow.
    pub columns: usize,
    /// Height of a panel over its width.
    pub ratio: f64,
    pub legend: Vec<(Key, Text)>,
    pub colour_bar: Option<ColourBar>,
    pub preferred: Preferred,
}

impl Sheet {
    /// Whether the panels of a row differ and every row repeats them: then columns mean something, and a row is not broken.
    pub fn is_grid(&self) -> bool {
        let Some((first, others)) = self.panels.split_at_checked(self.columns) else { return false };
        let repeats = |row: &[Panel]| row.len() == first.len() && row.iter().zip(first).all(|(own, above)| own.y.label == above.y.label);
        let differs = |panel: &Panel| (&panel.x.label, &panel.y.label) != (&first[0].x.label, &first[0].y.label);
        !others.is_empty() && others.chunks(self.columns).all(repeats) && first.iter().any(differs)
    }
}
