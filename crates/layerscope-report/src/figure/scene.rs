//! What is drawn: shapes, text and pictures in points (1/72 inch), y downwards. Three writers turn it into SVG, PDF and PNG.

use super::text::Text;

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// Between this colour and another; 0 is this one.
    pub fn mix(self, other: Colour, part: f64) -> Colour {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

/// A rectangle by its left, top, width and height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// Whether the insides of two rectangles meet.
    pub fn overlaps(&self, other: &Area) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    pub fn contains(&self, other: &Area) -> bool {
        self.x <= other.x && self.y <= other.y && other.right() <= self.right() && other.bottom() <= self.bottom()
    }

    fn scaled(&self, by: f64) -> Area {
        Area { x: self.x * by, y: self.y * by, width: self.width * by, height: self.height * by }
    }

    /// Larger by this much on every side.
    pub fn grown(&self, by: f64) -> Area {
        Area { x: self.x - by, y: self.y - by, width: self.width + 2.0 * by, height: self.height + 2.0 * by }
    }
}

/// How an outline is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub colour: Colour,
    pub width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static [f64],
}

impl Stroke {
    pub fn solid(colour: Colour, width: f64) -> Stroke {
        Stroke { colour, width, dash: &[] }
    }
}

/// An outline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Rectangle {
        area: Area,
        radius: f64,
    },
    Circle {
        x: f64,
        y: f64,
        radius: f64,
    },
    /// Filled circles of one size; only their fill is drawn.
    Dots {
        points: Vec<(f64, f64)>,
        radius: f64,
    },
    /// Straight lines through points, back to the first one if closed.
    Lines {
        points: Vec<(f64, f64)>,
        closed: bool,
    },
}

/// Where text begins, is centred or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture with at most 255 colours; index 0 is transparent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raster {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
    /// The colours of index 1, 2, ...
    pub palette: Vec<Colour>,
}

/// Something drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Shape {
        shape: Shape,
        fill: Option<Colour>,
        stroke: Option<Stroke>,
        opacity: f64,
    },
    /// `upwards` turns the text by a quarter, to be read from below.
    Text {
        x: f64,
        y: f64,
        anchor: Anchor,
        text: Text,
        size: f64,
        colour: Colour,
        upwards: bool,
    },
    Picture {
        area: Area,
        raster: Raster,
    },
    /// Items of which nothing outside of an area is seen.
    Clipped {
        area: Area,
        items: Vec<Item>,
    },
}

/// A figure, ready to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scene {
    pub width: f64,
    pub height: f64,
    pub background: Colour,
    /// What it shows, for those who cannot see it.
    pub description: String,
    pub items: Vec<Item>,
}

impl Scene {
    pub fn new(width: f64, height: f64, background: Colour) -> Scene {
        Scene { width, height, background, description: String::new(), items: Vec::new() }
    }

    /// All of it smaller, or larger.
    pub fn scaled(mut self, by: f64) -> Scene {
        self.width *= by;
        self.height *= by;
        self.items.iter_mut().for_each(|item| item.scale(by));
        self
    }
}

impl Item {
    /// Makes it smaller or larger; dashes are as long as before.
    fn scale(&mut self, by: f64) {
        let point = |(x, y): &mut (f64, f64)| (*x, *y) = (*x * by, *y * by);
        match self {
            Item::Shape { shape, stroke, .. } => {
                stroke.iter_mut().for_each(|stroke| stroke.width *= by);
                match shape {
                    Shape::Rectangle { area, radius } => (*area, *radius) = (area.scaled(by), *radius * by),
                    Shape::Circle { x, y, radius } => (*x, *y, *radius) = (*x * by, *y * by, *radius * by),
                    Shape::Dots { points, radius } => {
                        points.iter_mut().for_each(point);
                        *radius *= by;
                    }
                    Shape::Lines { points, .. } => points.iter_mut().for_each(point),
                }
            }
            Item::Text { x, y, size, .. } => (*x, *y, *size) = (*x * by, *y * by, *size * by),
            Item::Picture { area, .. } => *area = area.scaled(by),
            Item::Clipped { area, items } => {
                *area = area.scaled(by);
                items.iter_mut().for_each(|item| item.scale(by));
            }
        }
    }

    /// Moves it down.
    pub fn lower(&mut self, by: f64) {
        match self {
            Item::Shape { shape, .. } => match shape {
                Shape::Rectangle { area, .. } => area.y += by,
                Shape::Circle { y, .. } => *y += by,
                Shape::Dots { points, .. } | Shape::Lines { points, .. } => points.iter_mut().for_each(|point| point.1 += by),
            },
            Item::Text { y, .. } => *y += by,
            Item::Picture { area, .. } => area.y += by,
            Item::Clipped { area, items } => {
                area.y += by;
                items.iter_mut().for_each(|item| item.lower(by));
            }
        }
    }
}

/// Things to draw on: a scene, or a list of items to be clipped.
pub(crate) trait Canvas {
    fn add(&mut self, item: Item);

    fn fill(&mut self, shape: Shape, colour: Colour) {
        self.add(Item::Shape { shape, fill: Some(colour), stroke: None, opacity: 1.0 });
    }

    fn stroke(&mut self, shape: Shape, stroke: Stroke) {
        self.add(Item::Shape { shape, fill: None, stroke: Some(stroke), opacity: 1.0 });
    }

    fn outlined(&mut self, shape: Shape, fill: Colour, stroke: Stroke) {
        self.add(Item::Shape { shape, fill: Some(fill), stroke: Some(stroke), opacity: 1.0 });
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        self.stroke(Shape::Lines { points: vec![from, to], closed: false }, stroke);
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: Text, size: f64, colour: Colour) {
        if !text.is_empty() {
            self.add(Item::Text { x: at.0, y: at.1, anchor, text, size, colour, upwards: false });
        }
    }
}

impl Canvas for Scene {
    fn add(&mut self, item: Item) {
        self.items.push(item);
    }
}

impl Canvas for Vec<Item> {
    fn add(&mut self, item: Item) {
        self.push(item);
    }
}
