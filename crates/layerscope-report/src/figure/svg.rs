//! A scene as SVG: text stays text, names are escaped, the fonts travel inside the file.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::font::Style;
use super::png;
use super::scene::{Anchor, Area, Colour, Item, Scene, Shape, Stroke};
use super::text::Text;

/// What viewers that ignore the fonts inside (editors, mostly) fall back to.
const FAMILY: &str = "Inter, Helvetica, Arial, sans-serif";

const MM_PER_POINT: f64 = 25.4 / 72.0;

/// The file. `fonts` says whether the fonts it uses are put inside.
pub(crate) fn write(scene: &Scene, fonts: bool) -> String {
    let mut svg = String::new();
    let (width, height) = (number(scene.width), number(scene.height));
    let (mm_width, mm_height) = (number(scene.width * MM_PER_POINT), number(scene.height * MM_PER_POINT));
    let _ = write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{mm_width}mm" height="{mm_height}mm" viewBox="0 0 {width} {height}" role="img" font-family="{FAMILY}">"#
    );
    let _ = write!(svg, "\n<title>{}</title>\n", escaped(&scene.description));
    if fonts {
        style(&scene.items, &mut svg);
    }
    let _ = writeln!(svg, r#"<rect width="{width}" height="{height}" fill="{}"/>"#, hex(scene.background));
    let mut writer = Writer { svg, clips: 0 };
    scene.items.iter().for_each(|item| writer.item(item));
    writer.svg.push_str("</svg>\n");
    writer.svg
}

fn style(items: &[Item], svg: &mut String) {
    let mut used = BTreeSet::new();
    styles(items, &mut used);
    if used.is_empty() {
        return;
    }
    svg.push_str("<style>");
    for style in used {
        let (weight, slant) = face(style);
        let data = base64(style.web_bytes());
        let _ = write!(
            svg,
            "@font-face{{font-family:Inter;font-weight:{weight};font-style:{slant};src:url(data:font/woff2;base64,{data}) format('woff2')}}"
        );
    }
    svg.push_str("</style>\n");
}

fn styles(items: &[Item], used: &mut BTreeSet<Style>) {
    for item in items {
        match item {
            Item::Text { text, .. } => used.extend(text.0.iter().map(|span| span.style)),
            Item::Clipped { items, .. } => styles(items, used),
            _ => {}
        }
    }
}

fn face(style: Style) -> (u32, &'static str) {
    match style {
        Style::Regular => (400, "normal"),
        Style::SemiBold => (600, "normal"),
        Style::Italic => (400, "italic"),
    }
}

struct Writer {
    svg: String,
    clips: usize,
}

impl Writer {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Shape { shape, fill, stroke, opacity } => self.shape(shape, *fill, *stroke, *opacity),
            Item::Text { x, y, anchor, text, size, colour, upwards } => self.text((*x, *y), *anchor, text, *size, *colour, *upwards),
            Item::Picture { area, raster } => {
                let data = base64(&png::indexed(raster));
                let _ = write!(self.svg, r#"<image {} preserveAspectRatio="none" href="data:image/png;base64,{data}"/>"#, place(area));
                self.svg.push('\n');
            }
            Item::Clipped { area, items } => {
                self.clips += 1;
                let id = self.clips;
                let _ = writeln!(self.svg, r##"<clipPath id="c{id}"><rect {}/></clipPath><g clip-path="url(#c{id})">"##, place(area));
                items.iter().for_each(|item| self.item(item));
                self.svg.push_str("</g>\n");
            }
        }
    }

    fn shape(&mut self, shape: &Shape, fill: Option<Colour>, stroke: Option<Stroke>, opacity: f64) {
        let svg = &mut self.svg;
        let _ = match shape {
            Shape::Rectangle { area, radius } if *radius > 0.0 => write!(svg, r#"<rect {} rx="{}""#, place(area), number(*radius)),
            Shape::Rectangle { area, .. } => write!(svg, "<rect {}", place(area)),
            Shape::Circle { x, y, radius } => {
                write!(svg, r#"<circle cx="{}" cy="{}" r="{}""#, number(*x), number(*y), number(*radius))
            }
            Shape::Dots { points, radius } => {
                // Lines of no length with round ends: a tenth of the bytes of as many circles.
                svg.push_str("<path d=\"");
                points.iter().for_each(|(x, y)| svg.push_str(&format!("M{} {}h0", number(*x), number(*y))));
                let _ = writeln!(
                    svg,
                    r#"" stroke="{}" stroke-width="{}" stroke-linecap="round"/>"#,
                    fill.map_or("none".into(), hex),
                    number(2.0 * radius)
                );
                return;
            }
            Shape::Lines { points, closed } => {
                svg.push_str("<path d=\"");
                for (i, (x, y)) in points.iter().enumerate() {
                    let _ = write!(svg, "{}{} {}", if i == 0 { "M" } else { "L" }, number(*x), number(*y));
                }
                write!(svg, "{}\"", if *closed { "Z" } else { "" })
            }
        };
        let _ = write!(svg, r#" fill="{}""#, fill.map_or("none".into(), hex));
        if let Some(stroke) = stroke {
            let _ = write!(svg, r#" stroke="{}" stroke-width="{}""#, hex(stroke.colour), number(stroke.width));
            if !stroke.dash.is_empty() {
                let dash: Vec<String> = stroke.dash.iter().map(|length| number(*length)).collect();
                let _ = write!(svg, r#" stroke-dasharray="{}""#, dash.join(" "));
            }
            if matches!(shape, Shape::Lines { .. }) {
                svg.push_str(r#" stroke-linejoin="round""#);
            }
        }
        if opacity < 1.0 {
            let _ = write!(svg, r#" opacity="{}""#, number(opacity));
        }
        svg.push_str("/>\n");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &Text, size: f64, colour: Colour, upwards: bool) {
        let svg = &mut self.svg;
        let (x, y) = (number(x), number(y));
        let _ = match upwards {
            true => write!(svg, r#"<text transform="translate({x} {y}) rotate(-90)""#),
            false => write!(svg, r#"<text x="{x}" y="{y}""#),
        };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = write!(svg, r#" font-size="{}" fill="{}"{anchor} xml:space="preserve">"#, number(size), hex(colour));
        let mut rise = 0.0;
        for span in &text.0 {
            let mut attributes = String::new();
            let (weight, slant) = face(span.style);
            if weight != 400 {
                let _ = write!(attributes, r#" font-weight="{weight}""#);
            }
            if slant != "normal" {
                let _ = write!(attributes, r#" font-style="{slant}""#);
            }
            if span.scale != 1.0 {
                let _ = write!(attributes, r#" font-size="{}""#, number(size * span.scale));
            }
            if span.rise != rise {
                let _ = write!(attributes, r#" dy="{}""#, number((rise - span.rise) * size));
                rise = span.rise;
            }
            let _ = match attributes.is_empty() {
                true => write!(svg, "{}", escaped(&span.text)),
                false => write!(svg, "<tspan{attributes}>{}</tspan>", escaped(&span.text)),
            };
        }
        svg.push_str("</text>\n");
    }
}

fn place(area: &Area) -> String {
    let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(number);
    format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#)
}

/// At most two decimals: 1/100 of a point is far below what a printer resolves.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

fn hex(colour: Colour) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// Text that is neither markup nor a character XML forbids.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ if crate::text::is_hidden(character) || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                safe.extend(character.escape_unicode())
            }
            _ => safe.push(character),
        }
    }
    safe
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, i| word << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::scene::Canvas;

    #[test]
    fn names_cannot_become_markup() {
        let mut scene = Scene::new(10.0, 10.0, Colour(255, 255, 255));
        scene.description = "</title><script>".into();
        scene.text((1.0, 2.0), Anchor::Start, Text::plain("<script>\"'&\u{0}\u{202e}]]>"), 7.0, Colour(0, 0, 0));
        let svg = write(&scene, false);
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;&quot;&#39;&amp;\\u{0}\\u{202e}]]&gt;</text>"), "{svg}");
    }

    #[test]
    fn base64_by_the_standard() {
        assert_eq!(["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, 1.5, -0.001, 12.345].map(number), ["1", "1.5", "0", "12.35"]);
    }
}
