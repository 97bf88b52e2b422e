//! A scene as PNG, and pictures inside of scenes.

use tiny_skia::{FillRule, FilterQuality, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, PixmapPaint, PremultipliedColorU8, Rect};
use tiny_skia::{StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

use super::scene::{Anchor, Area, Colour, Item, Raster, Scene, Shape, Stroke};
use super::text::Text;
use crate::error::{Error, Result};

/// What journals ask for.
pub(crate) const DOTS_PER_INCH: f64 = 300.0;

/// Four Bézier curves make a circle to 0.03 %.
pub(crate) const ROUND: f64 = 0.552_284_75;

/// The file, at [`DOTS_PER_INCH`].
pub(crate) fn write(scene: &Scene) -> Result<Vec<u8>> {
    let scale = DOTS_PER_INCH / 72.0;
    let pixels = |length: f64| (length * scale).round().max(1.0) as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    let mut pixmap =
        Pixmap::new(width, height).ok_or_else(|| Error::table(format!("a picture of {width} x {height} pixels is too large")))?;
    pixmap.fill(tiny_skia_colour(scene.background));
    let mut painter = Painter { pixmap, transform: Transform::from_scale(scale as f32, scale as f32) };
    scene.items.iter().for_each(|item| painter.item(item, None));
    // The background is opaque, so nothing is left to be seen through.
    let rgb: Vec<u8> = painter.pixmap.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let per_metre = (DOTS_PER_INCH / 0.0254).round() as u32;
    Ok(encode(width, height, png::ColorType::Rgb, None, Some(per_metre), &rgb))
}

/// A picture as a file of its own.
pub(crate) fn indexed(raster: &Raster) -> Vec<u8> {
    let palette = [0, 0, 0].into_iter().chain(raster.palette.iter().flat_map(|colour| [colour.0, colour.1, colour.2])).collect();
    encode(raster.width as u32, raster.height as u32, png::ColorType::Indexed, Some(palette), None, &raster.pixels)
}

fn encode(width: u32, height: u32, colours: png::ColorType, palette: Option<Vec<u8>>, per_metre: Option<u32>, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colours);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(if palette.is_some() { png::Compression::High } else { png::Compression::Balanced });
    if let Some(palette) = palette {
        encoder.set_filter(png::Filter::NoFilter); // neighbouring indices say nothing of each other
        encoder.set_palette(palette);
        encoder.set_trns(vec![0]);
    }
    if let Some(per_metre) = per_metre {
        encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter }));
    }
    let mut writer = encoder.write_header().expect("writing to memory");
    writer.write_image_data(data).expect("as many pixels as announced");
    writer.finish().expect("writing to memory");
    bytes
}

fn tiny_skia_colour(colour: Colour) -> tiny_skia::Color {
    tiny_skia::Color::from_rgba8(colour.0, colour.1, colour.2, 255)
}

struct Painter {
    pixmap: Pixmap,
    transform: Transform,
}

impl Painter {
    fn item(&mut self, item: &Item, clip: Option<&Mask>) {
        match item {
            Item::Shape { shape, fill, stroke, opacity } => {
                let Some(path) = outline(shape) else { return };
                if let Some(colour) = fill {
                    let paint = paint(*colour, *opacity);
                    self.pixmap.fill_path(&path, &paint, FillRule::Winding, self.transform, clip);
                }
                if let Some(stroke) = stroke {
                    self.pixmap.stroke_path(&path, &paint(stroke.colour, *opacity), &pen(stroke), self.transform, clip);
                }
            }
            Item::Text { x, y, anchor, text, size, colour, upwards } => self.text((*x, *y), *anchor, text, *size, *colour, *upwards, clip),
            Item::Picture { area, raster } => self.picture(area, raster, clip),
            Item::Clipped { area, items } => {
                let mut mask = Mask::new(self.pixmap.width(), self.pixmap.height()).expect("as large as the picture");
                if let Some(path) = outline(&Shape::Rectangle { area: *area, radius: 0.0 }) {
                    mask.fill_path(&path, FillRule::Winding, true, self.transform);
                }
                items.iter().for_each(|item| self.item(item, Some(&mask)));
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // the fields of one item
    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &Text, size: f64, colour: Colour, upwards: bool, clip: Option<&Mask>) {
        let mut pen = start(anchor, text.width(size));
        let mut builder = Glyphs { path: PathBuilder::new(), x: 0.0, y: 0.0, scale: 0.0 };
        for span in &text.0 {
            let size_of_span = size * span.scale;
            let face = span.style.face();
            for character in span.text.chars() {
                builder.x = pen as f32;
                builder.y = -(span.rise * size) as f32;
                builder.scale = (size_of_span / f64::from(face.units_per_em())) as f32;
                face.outline_glyph(span.style.glyph(character), &mut builder);
                pen += span.style.advance(character) * size_of_span;
            }
        }
        let Some(path) = builder.path.finish() else { return };
        let mut transform = Transform::from_translate(at.0 as f32, at.1 as f32);
        if upwards {
            transform = transform.pre_rotate(-90.0);
        }
        self.pixmap.fill_path(&path, &paint(colour, 1.0), FillRule::Winding, transform.post_concat(self.transform), clip);
    }

    fn picture(&mut self, area: &Area, raster: &Raster, clip: Option<&Mask>) {
        let Some(mut picture) = Pixmap::new(raster.width as u32, raster.height as u32) else { return };
        for (pixel, index) in picture.pixels_mut().iter_mut().zip(&raster.pixels) {
            if let Some(colour) = usize::from(*index).checked_sub(1).and_then(|index| raster.palette.get(index)) {
                *pixel = PremultipliedColorU8::from_rgba(colour.0, colour.1, colour.2, 255).expect("opaque");
            }
        }
        let scale = ((area.width / raster.width as f64) as f32, (area.height / raster.height as f64) as f32);
        let transform = Transform::from_translate(area.x as f32, area.y as f32).pre_scale(scale.0, scale.1);
        let paint = PixmapPaint { quality: FilterQuality::Bilinear, ..PixmapPaint::default() };
        self.pixmap.draw_pixmap(0, 0, picture.as_ref(), &paint, transform.post_concat(self.transform), clip);
    }
}

/// Where the pen starts, relative to the text's place.
pub(crate) fn start(anchor: Anchor, width: f64) -> f64 {
    match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    }
}

fn paint(colour: Colour, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(colour.0, colour.1, colour.2, (opacity * 255.0).round() as u8);
    paint
}

fn pen(stroke: &Stroke) -> tiny_skia::Stroke {
    tiny_skia::Stroke {
        width: stroke.width as f32,
        line_join: LineJoin::Round,
        dash: StrokeDash::new(stroke.dash.iter().map(|length| *length as f32).collect(), 0.0),
        ..tiny_skia::Stroke::default()
    }
}

fn outline(shape: &Shape) -> Option<Path> {
    let mut path = PathBuilder::new();
    match shape {
        Shape::Rectangle { area, radius } if *radius > 0.0 => {
            let (left, top, right, bottom, r) = (area.x as f32, area.y as f32, area.right() as f32, area.bottom() as f32, *radius as f32);
            let k = r * (1.0 - ROUND as f32);
            path.move_to(left + r, top);
            path.line_to(right - r, top);
            path.cubic_to(right - k, top, right, top + k, right, top + r);
            path.line_to(right, bottom - r);
            path.cubic_to(right, bottom - k, right - k, bottom, right - r, bottom);
            path.line_to(left + r, bottom);
            path.cubic_to(left + k, bottom, left, bottom - k, left, bottom - r);
            path.line_to(left, top + r);
            path.cubic_to(left, top + k, left + k, top, left + r, top);
            path.close();
        }
        Shape::Rectangle { area, .. } => {
            path.push_rect(Rect::from_xywh(area.x as f32, area.y as f32, area.width as f32, area.height as f32)?);
        }
        Shape::Circle { x, y, radius } => path.push_circle(*x as f32, *y as f32, *radius as f32),
        Shape::Dots { points, radius } => points.iter().for_each(|(x, y)| path.push_circle(*x as f32, *y as f32, *radius as f32)),
        Shape::Lines { points, closed } => {
            let mut points = points.iter();
            let first = points.next()?;
            path.move_to(first.0 as f32, first.1 as f32);
            points.for_each(|point| path.line_to(point.0 as f32, point.1 as f32));
            if *closed {
                path.close();
            }
        }
    }
    path.finish()
}

/// Glyphs' outlines, y upwards, put on a line, y downwards.
struct Glyphs {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Glyphs {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Glyphs {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
