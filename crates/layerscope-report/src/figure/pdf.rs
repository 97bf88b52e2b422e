//! A scene as a PDF of one page: text stays text, in subsets of the fonts; pictures keep their palette.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};
use pdf_writer::types::{CidFontType, FontFlags, LineCapStyle, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use subsetter::GlyphRemapper;

use super::font::{CAPITALS, Style};
use super::png::{ROUND, start};
use super::scene::{Anchor, Area, Colour, Item, Raster, Scene, Shape};
use super::text::Text;
use crate::error::{Error, Result};

const IDENTITY: SystemInfo<'static> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

/// The file.
pub(crate) fn write(scene: &Scene) -> Result<Vec<u8>> {
    let mut page = Page { content: Content::new(), fonts: BTreeMap::new(), pictures: Vec::new(), opacities: Vec::new() };
    let height = scene.height as f32;
    page.content.transform([1.0, 0.0, 0.0, -1.0, 0.0, height]); // y downwards, as in the scene
    page.content.set_line_join(LineJoinStyle::RoundJoin);
    let area = Area { x: 0.0, y: 0.0, width: scene.width, height: scene.height };
    page.shape(&Shape::Rectangle { area, radius: 0.0 }, Some(scene.background), None, 1.0);
    scene.items.iter().for_each(|item| page.item(item));
    page.finish(scene)
}

/// The glyphs that are used of a font, and their characters.
#[derive(Default)]
struct Used {
    glyphs: GlyphRemapper,
    characters: BTreeMap<u16, char>,
}

struct Page<'a> {
    content: Content,
    fonts: BTreeMap<Style, Used>,
    pictures: Vec<&'a Raster>,
    /// In hundredths.
    opacities: Vec<u32>,
}

impl<'a> Page<'a> {
    fn item(&mut self, item: &'a Item) {
        match item {
            Item::Shape { shape, fill, stroke, opacity } => self.shape(shape, *fill, stroke.as_ref(), *opacity),
            Item::Text { x, y, anchor, text, size, colour, upwards } => self.text((*x, *y), *anchor, text, *size, *colour, *upwards),
            Item::Picture { area, raster } => {
                self.content.save_state();
                let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(|value| value as f32);
                self.content.transform([width, 0.0, 0.0, -height, x, y + height]);
                self.content.x_object(Name(format!("P{}", self.pictures.len()).as_bytes()));
                self.content.restore_state();
                self.pictures.push(raster);
            }
            Item::Clipped { area, items } => {
                self.content.save_state();
                self.path(&Shape::Rectangle { area: *area, radius: 0.0 });
                self.content.clip_nonzero();
                self.content.end_path();
                items.iter().for_each(|item| self.item(item));
                self.content.restore_state();
            }
        }
    }

    fn shape(&mut self, shape: &Shape, fill: Option<Colour>, stroke: Option<&super::scene::Stroke>, opacity: f64) {
        if let (Shape::Dots { points, radius }, Some(colour)) = (shape, fill) {
            return self.dots(points, *radius, colour);
        }
        self.content.save_state();
        if opacity < 1.0 {
            let hundredths = (opacity * 100.0).round() as u32;
            if !self.opacities.contains(&hundredths) {
                self.opacities.push(hundredths);
            }
            self.content.set_parameters(Name(format!("O{hundredths}").as_bytes()));
        }
        if let Some(colour) = fill {
            let [r, g, b] = rgb(colour);
            self.content.set_fill_rgb(r, g, b);
        }
        if let Some(stroke) = stroke {
            let [r, g, b] = rgb(stroke.colour);
            self.content.set_stroke_rgb(r, g, b);
            self.content.set_line_width(stroke.width as f32);
            if !stroke.dash.is_empty() {
                self.content.set_dash_pattern(stroke.dash.iter().map(|length| *length as f32), 0.0);
            }
        }
        self.path(shape);
        match (fill, stroke) {
            (Some(_), Some(_)) => self.content.fill_nonzero_and_stroke(),
            (Some(_), None) => self.content.fill_nonzero(),
            (None, Some(_)) => self.content.stroke(),
            (None, None) => self.content.end_path(),
        };
        self.content.restore_state();
    }

    /// Lines of no length with round ends.
    fn dots(&mut self, points: &[(f64, f64)], radius: f64, colour: Colour) {
        let [r, g, b] = rgb(colour);
        self.content.save_state();
        self.content.set_line_cap(LineCapStyle::RoundCap).set_line_width(2.0 * radius as f32).set_stroke_rgb(r, g, b);
        for (x, y) in points {
            // Finer than any printer, and shorter to write than all digits.
            let [x, y] = [*x, *y].map(|value| ((value * 100.0).round() / 100.0) as f32);
            self.content.move_to(x, y).line_to(x, y);
        }
        self.content.stroke();
        self.content.restore_state();
    }

    fn path(&mut self, shape: &Shape) {
        let content = &mut self.content;
        match shape {
            Shape::Rectangle { area, radius } if *radius > 0.0 => rounded(content, area, *radius),
            Shape::Rectangle { area, .. } => {
                content.rect(area.x as f32, area.y as f32, area.width as f32, area.height as f32);
            }
            Shape::Circle { x, y, radius } => {
                rounded(content, &Area { x: x - radius, y: y - radius, width: 2.0 * radius, height: 2.0 * radius }, *radius);
            }
            Shape::Dots { .. } => {}
            Shape::Lines { points, closed } => {
                for (i, (x, y)) in points.iter().enumerate() {
                    match i {
                        0 => content.move_to(*x as f32, *y as f32),
                        _ => content.line_to(*x as f32, *y as f32),
                    };
                }
                if *closed {
                    content.close_path();
                }
            }
        }
    }

    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &Text, size: f64, colour: Colour, upwards: bool) {
        let mut pen = start(anchor, text.width(size));
        let [r, g, b] = rgb(colour);
        self.content.set_fill_rgb(r, g, b);
        self.content.begin_text();
        for span in &text.0 {
            let used = self.fonts.entry(span.style).or_default();
            let mut codes = Vec::new();
            for character in span.text.chars() {
                let glyph = used.glyphs.remap(span.style.glyph(character).0);
                used.characters.insert(glyph, character);
                codes.extend(glyph.to_be_bytes());
            }
            let rise = span.rise * size;
            // Along the line and away from it, in the scene's directions.
            let matrix = match upwards {
                false => [1.0, 0.0, 0.0, -1.0, at.0 + pen, at.1 - rise],
                true => [0.0, -1.0, -1.0, 0.0, at.0 - rise, at.1 - pen],
            };
            self.content.set_font(Name(font_name(span.style).as_bytes()), (size * span.scale) as f32);
            self.content.set_text_matrix(matrix.map(|value| value as f32));
            self.content.show(Str(&codes));
            pen += span.style.width(&span.text, size * span.scale);
        }
        self.content.end_text();
    }

    fn finish(self, scene: &Scene) -> Result<Vec<u8>> {
        let mut pdf = Pdf::new();
        let mut next = 1;
        let mut reference = || {
            next += 1;
            Ref::new(next - 1)
        };
        let (catalog, pages, page_id, content_id, information) = (reference(), reference(), reference(), reference(), reference());
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page_id]).count(1);
        pdf.document_info(information).title(TextStr(&scene.description)).creator(TextStr("Layerscope"));
        let fonts: Vec<(Style, Ref)> = self.fonts.keys().map(|style| (*style, reference())).collect();
        let pictures: Vec<Ref> = self.pictures.iter().map(|_| reference()).collect();
        let mut page = pdf.page(page_id);
        page.media_box(Rect::new(0.0, 0.0, scene.width as f32, scene.height as f32)).parent(pages).contents(content_id);
        let mut resources = page.resources();
        let mut dictionary = resources.fonts();
        fonts.iter().for_each(|(style, id)| {
            dictionary.pair(Name(font_name(*style).as_bytes()), id);
        });
        dictionary.finish();
        let mut dictionary = resources.x_objects();
        pictures.iter().enumerate().for_each(|(i, id)| {
            dictionary.pair(Name(format!("P{i}").as_bytes()), id);
        });
        dictionary.finish();
        let mut dictionary = resources.ext_g_states();
        for hundredths in &self.opacities {
            let opacity = *hundredths as f32 / 100.0;
            let mut state = dictionary.insert(Name(format!("O{hundredths}").as_bytes())).start::<pdf_writer::writers::ExtGraphicsState>();
            state.non_stroking_alpha(opacity).stroking_alpha(opacity);
        }
        dictionary.finish();
        resources.finish();
        page.finish();
        pdf.stream(content_id, &deflated(&self.content.finish())?).filter(Filter::FlateDecode);
        for (raster, id) in self.pictures.iter().zip(pictures) {
            picture(&mut pdf, id, raster)?;
        }
        for ((style, id), used) in fonts.into_iter().zip(self.fonts.values()) {
            font(&mut pdf, id, style, used, &mut reference)?;
        }
        Ok(pdf.finish())
    }
}

fn rgb(colour: Colour) -> [f32; 3] {
    [colour.0, colour.1, colour.2].map(|value| f32::from(value) / 255.0)
}

fn rounded(content: &mut Content, area: &Area, radius: f64) {
    let [left, top, right, bottom, r] = [area.x, area.y, area.right(), area.bottom(), radius].map(|value| value as f32);
    let k = r * (1.0 - ROUND as f32);
    content.move_to(left + r, top).line_to(right - r, top);
    content.cubic_to(right - k, top, right, top + k, right, top + r).line_to(right, bottom - r);
    content.cubic_to(right, bottom - k, right - k, bottom, right - r, bottom).line_to(left + r, bottom);
    content.cubic_to(left + k, bottom, left, bottom - k, left, bottom - r).line_to(left, top + r);
    content.cubic_to(left, top + k, left + k, top, left + r, top).close_path();
}

fn font_name(style: Style) -> &'static str {
    match style {
        Style::Regular => "Regular",
        Style::SemiBold => "SemiBold",
        Style::Italic => "Italic",
    }
}

fn deflated(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// One byte a pixel into a palette; index 0 is masked.
fn picture(pdf: &mut Pdf, id: Ref, raster: &Raster) -> Result<()> {
    let palette: Vec<u8> = [0, 0, 0].into_iter().chain(raster.palette.iter().flat_map(|colour| [colour.0, colour.1, colour.2])).collect();
    let pixels = deflated(&raster.pixels)?;
    let mut image = pdf.image_xobject(id, &pixels);
    image.filter(Filter::FlateDecode);
    image.width(raster.width as i32).height(raster.height as i32).bits_per_component(8);
    image.color_space().indexed(Name(b"DeviceRGB"), raster.palette.len() as i32, &palette);
    image.color_mask([0, 0]);
    Ok(())
}

/// A composite font of the used glyphs, with the way back from glyphs to characters.
fn font(pdf: &mut Pdf, id: Ref, style: Style, used: &Used, reference: &mut dyn FnMut() -> Ref) -> Result<()> {
    let (descendant, descriptor, file, unicode) = (reference(), reference(), reference(), reference());
    let name = format!("{}+Inter-{}", tag(used), font_name(style));
    let name = Name(name.as_bytes());
    let face = style.face();
    let thousandths = |units: i16| f32::from(units) * 1000.0 / f32::from(face.units_per_em());
    pdf.type0_font(id).base_font(name).encoding_predefined(Name(b"Identity-H")).descendant_font(descendant).to_unicode(unicode);
    let mut cid = pdf.cid_font(descendant);
    cid.subtype(CidFontType::Type2).base_font(name).system_info(IDENTITY).font_descriptor(descriptor);
    cid.default_width(0.0).cid_to_gid_map_predefined(Name(b"Identity"));
    let width = |glyph: u16| face.glyph_hor_advance(ttf_parser::GlyphId(glyph)).map_or(0.0, |advance| thousandths(advance as i16));
    cid.widths().consecutive(0, used.glyphs.remapped_gids().map(width));
    cid.finish();
    let bounds = face.global_bounding_box();
    let bounds = Rect::new(thousandths(bounds.x_min), thousandths(bounds.y_min), thousandths(bounds.x_max), thousandths(bounds.y_max));
    pdf.font_descriptor(descriptor)
        .name(name)
        .flags(if style == Style::Italic { FontFlags::SYMBOLIC | FontFlags::ITALIC } else { FontFlags::SYMBOLIC })
        .bbox(bounds)
        .italic_angle(face.italic_angle())
        .ascent(thousandths(face.ascender()))
        .descent(thousandths(face.descender()))
        .cap_height(CAPITALS as f32 * 1000.0)
        .stem_v(if style == Style::SemiBold { 120.0 } else { 80.0 })
        .font_file2(file);
    let subset =
        subsetter::subset(style.bytes(), 0, &used.glyphs).map_err(|error| Error::table(format!("cannot subset the font: {error}")))?;
    pdf.stream(file, &deflated(&subset)?).filter(Filter::FlateDecode).pair(Name(b"Length1"), subset.len() as i32);
    let mut map = UnicodeCmap::new(Name(b"Custom"), IDENTITY);
    used.characters.iter().for_each(|(glyph, character)| map.pair(*glyph, *character));
    pdf.stream(unicode, &deflated(&map.finish())?).filter(Filter::FlateDecode);
    Ok(())
}

/// Six capitals that differ between subsets, as the format asks for.
fn tag(used: &Used) -> String {
    let mut hash =
        used.characters.values().fold(0xcbf2_9ce4_8422_2325u64, |hash, character| (hash ^ *character as u64).wrapping_mul(0x100_0000_01b3));
    let mut letter = || {
        let letter = char::from(b'A' + (hash % 26) as u8);
        hash /= 26;
        letter
    };
    (0..6).map(|_| letter()).collect()
}
