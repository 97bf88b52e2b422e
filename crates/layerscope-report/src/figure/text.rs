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

    /// In lines of this width. They are cut after commas, and between words only where what is between two commas is too long.
    pub fn lines(&self, size: f64, width: f64) -> Vec<Text> {
        let mut lines: Vec<Text> = Vec::new();
        let fits = |text: &Text| text.clone().without_end().width(size) <= width;
        if !self.is_empty() && fits(self) {
            return vec![self.clone()];
        }
        let mut add = |piece: Text| match lines.last_mut() {
            Some(line) if fits(&line.clone().joined(&piece)) => *line = std::mem::take(line).joined(&piece),
            _ => lines.push(piece),
        };
        for part in self.words().chunk_by(|word, _| !word.characters().ends_with(", ")) {
            let whole = part.iter().fold(Text::default(), Text::joined);
            if fits(&whole) { add(whole) } else { part.iter().cloned().for_each(&mut add) }
        }
        lines.into_iter().map(Text::without_end).collect()
    }

    /// The same as before it was cut into words.
    fn joined(mut self, other: &Text) -> Text {
        let characters = other.0.iter().flat_map(|span| span.text.chars().map(move |character| (span, character)));
        characters.for_each(|(span, character)| push(&mut self.0, character, span.style, span.scale, span.rise));
        self
    }

    /// Each with the space after it.
    fn words(&self) -> Vec<Text> {
        let mut words: Vec<Text> = Vec::new();
        let mut is_new = true;
        for (span, character) in self.0.iter().flat_map(|span| span.text.chars().map(move |character| (span, character))) {
            if is_new {
                words.push(Text::default());
            }
            push(&mut words.last_mut().expect("one was begun").0, character, span.style, span.scale, span.rise);
            is_new = character == ' ';
        }
        words
    }

    /// Without a space at its end.
    fn without_end(mut self) -> Text {
        if let Some(last) = self.0.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
        }
        self
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
    fn lines_are_cut_after_commas_and_else_between_words() {
        let text = Text::math("slope 0.5, *R*² 0.25").then(Text::plain(", 1,200 groups"));
        let lines = |width: f64| text.lines(10.0, width).iter().map(Text::characters).collect::<Vec<_>>();
        let width = |characters: &str| Style::Regular.width(characters, 10.0);
        assert_eq!(lines(f64::INFINITY), ["slope 0.5, R² 0.25, 1,200 groups"]);
        assert_eq!(text.lines(10.0, f64::INFINITY).first(), Some(&text), "with all its runs");
        assert_eq!(lines(width("slope 0.5, R² 0.25, 1,200")), ["slope 0.5, R² 0.25,", "1,200 groups"]);
        assert_eq!(lines(width("1,200 groups,")), ["slope 0.5,", "R² 0.25,", "1,200 groups"]);
        assert_eq!(lines(1.05 * width("R² 0.25,")), ["slope", "0.5,", "R² 0.25,", "1,200", "groups"]);
        assert!(Text::default().lines(10.0, 1.0).is_empty());
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!([decimals(-1.0079, 3), decimals(-0.0001, 3), decimals(2.5, 0)], ["−1.008", "0.000", "2"]);
        assert_eq!([0, 999, 1000, 12_384_011, -1234].map(thousands), ["0", "999", "1,000", "12,384,011", "−1,234"]);
    }
}
