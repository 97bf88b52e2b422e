//! The fonts of the figures: one family, embedded, so that text is as wide as it was measured, in every file and on every machine.
//!
//! The fonts (Inter, OFL) have Latin, Greek, Cyrillic and the signs of mathematics. A character they lack (Chinese, Arabic,
//! emoji, ...) is written as its escape, `\u{4f60}`, as [`crate::text::visible`] writes hidden ones: never an empty box.

use std::sync::OnceLock;

use ttf_parser::{Face, GlyphId};

use crate::text::is_hidden;

/// A cut of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Style {
    Regular,
    SemiBold,
    Italic,
}

impl Style {
    pub const ALL: [Style; 3] = [Style::Regular, Style::SemiBold, Style::Italic];

    /// The font file.
    pub fn bytes(self) -> &'static [u8] {
        &crate::assets::FONTS[self as usize]
    }

    /// A smaller set of characters, compressed, to put inside SVG files.
    pub fn web_bytes(self) -> &'static [u8] {
        match self {
            Style::Regular => include_bytes!("../../assets/fonts/regular.woff2"),
            Style::SemiBold => include_bytes!("../../assets/fonts/semibold.woff2"),
            Style::Italic => include_bytes!("../../assets/fonts/italic.woff2"),
        }
    }

    pub fn face(self) -> &'static Face<'static> {
        static FACES: OnceLock<Vec<Face<'static>>> = OnceLock::new();
        let parse = |style: Style| Face::parse(style.bytes(), 0).expect("the embedded font is a font");
        &FACES.get_or_init(|| Style::ALL.map(parse).into_iter().collect())[self as usize]
    }

    /// The glyph of a character; that of `?` where there is none, which [`drawable`] avoids.
    pub fn glyph(self, character: char) -> GlyphId {
        let face = self.face();
        face.glyph_index(character).or_else(|| face.glyph_index('?')).unwrap_or_default()
    }

    /// How far a character moves the pen, at size 1.
    pub fn advance(self, character: char) -> f64 {
        let face = self.face();
        f64::from(face.glyph_hor_advance(self.glyph(character)).unwrap_or(0)) / f64::from(face.units_per_em())
    }

    /// How wide a text is.
    pub fn width(self, text: &str, size: f64) -> f64 {
        text.chars().map(|character| self.advance(character)).sum::<f64>() * size
    }
}

/// Height of capitals, at size 1.
pub(crate) const CAPITALS: f64 = 0.727;

/// How many characters of a name are drawn.
pub(crate) const NAME_CHARACTERS: usize = 28;

/// A name from anywhere as it is drawn: characters without a glyph as `\u{..}`, cut after `limit` characters, never inside an escape.
pub(crate) fn drawable(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for character in text.chars() {
        let seen = !is_hidden(character) && Style::Regular.face().glyph_index(character).is_some();
        let piece = if seen { character.to_string() } else { character.escape_unicode().to_string() };
        length += piece.chars().count();
        if length > limit {
            shown.push('…');
            break;
        }
        shown.push_str(&piece);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_character_has_a_glyph() {
        let hostile = "né Ġthe λ² дом \u{202e}rtl\u{7} 你好 😀 \u{627}\u{644} ▁x";
        let shown = drawable(hostile, 1000);
        assert!(shown.chars().all(|character| Style::Regular.face().glyph_index(character).is_some()), "{shown}");
        assert!(shown.contains("né Ġthe λ² дом \\u{202e}rtl\\u{7} \\u{4f60}"), "{shown}");
    }

    #[test]
    fn long_names_are_cut_between_escapes() {
        assert_eq!(drawable(&"x".repeat(10_000), 5), "xxxxx…");
        assert_eq!(drawable("abc你", 5), "abc…");
        assert_eq!(drawable("", 5), "");
    }

    #[test]
    fn widths_are_sums_of_advances() {
        for style in Style::ALL {
            let one = style.width("M", 10.0);
            assert!(one > 5.0 && one < 12.0, "{one}");
            assert!((style.width("MMM", 10.0) - 3.0 * one).abs() < 1e-12);
            assert!(" −²×ρλμ≤".chars().all(|character| style.face().glyph_index(character).is_some()));
        }
    }
}
