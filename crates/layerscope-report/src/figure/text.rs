//! Text in runs of one style: words, italic symbols, indices.

use super::font::Style;

/// A run of characters in one style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub text: String,
    pub style: Style,
    /// Of the surrounding text's size.
    pub scale: f64,
    /// How far above the line, in sizes of the surrounding text; below if negative.
    pub rise: f64,
}

/// One line of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text(pub Vec<Span>);

impl Text {
    /// Plain characters: nothing in them is markup.
    pub fn plain(text: impl Into<String>) -> Text {
        Text::styled(text, Style::Regular)
    }

    pub fn styled(text: impl Into<String>, style: Style) -> Text {
        Text(vec![Span { text: text.into(), style, scale: 1.0, rise: 0.0 }])
    }

    /// Our own markup, never used on names: `*x*` is italic, `_{x}` an index, `^{x}` an exponent.
    pub fn math(markup: &str) -> Text {
        let mut spans: Vec<Span> = Vec::new();
        let (mut style, mut scale, mut rise) = (Style::Regular, 1.0, 0.0);
        let mut characters = markup.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '*' => style = if style == Style::Italic { Style::Regular } else { Style::Italic },
                '_' | '^' if characters.peek() == Some(&'{') => {
                    characters.next();
                    (scale, rise) = (0.72, if character == '_' { -0.22 } else { 0.36 });
                }
                '}' if rise != 0.0 => (scale, rise) = (1.0, 0.0),
                '-' if rise != 0.0 => push(&mut spans, '−', style, scale, rise),
                _ => push(&mut spans, character, style, scale, rise),
            }
        }
        Text(spans)
    }

    /// This text followed by another.
    pub fn then(mut self, other: Text) -> Text {
        self.0.extend(other.0);
        self
    }

    /// Upright runs in another style.
    pub fn in_style(mut self, style: Style) -> Text {
        self.0.iter_mut().filter(|span| span.style == Style::Regular).for_each(|span| span.style = style);
        self
    }

    pub fn width(&self, size: f64) -> f64 {
        self.0.iter().map(|span| span.style.width(&span.text, size * span.scale)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| span.text.is_empty())
    }

    /// The characters alone.
    pub fn characters(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }
}

fn push(spans: &mut Vec<Span>, character: char, style: Style, scale: f64, rise: f64) {
    match spans.last_mut() {
        Some(last) if last.style == style && last.rise == rise => last.text.push(character),
        _ => spans.push(Span { text: character.into(), style, scale, rise }),
    }
}

/// A number for people: three decimals, a true minus sign.
pub(crate) fn decimals(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if zero { text.trim_start_matches('-').to_owned() } else { text.replace('-', "−") }
}

/// A count with separators: 12,384,011.
pub(crate) fn thousands(count: i64) -> String {
    let digits = count.unsigned_abs().to_string();
    let mut text = String::from(if count < 0 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_makes_spans() {
        let text = Text::math("*V*_{W}(*X*)/*R*^{-2}");
        assert_eq!(text.characters(), "VW(X)/R−2");
        assert_eq!(text.0[0].style, Style::Italic);
        assert!(text.0[1].rise < 0.0 && text.0[1].scale < 1.0);
        assert!(text.0.last().unwrap().rise > 0.0);
        assert_eq!(Text::plain("*a*_{b}").characters(), "*a*_{b}");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!([decimals(-1.0079, 3), decimals(-0.0001, 3), decimals(2.5, 0)], ["−1.008", "0.000", "2"]);
        assert_eq!([0, 999, 1000, 12_384_011, -1234].map(thousands), ["0", "999", "1,000", "12,384,011", "−1,234"]);
    }
}
