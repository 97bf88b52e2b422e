//! `figures.tex`: every figure and table with its caption, ready to be included.

use crate::export::latex::escaped;

use super::font::drawable;

/// A name inside of a caption: harmless, and only characters that every engine knows.
pub(crate) fn name(text: &str) -> String {
    let mut plain = String::new();
    for character in drawable(text, 60).chars() {
        match character {
            '…' => plain.push('…'),
            character if character.is_ascii() => plain.push(character),
            character => plain.extend(character.escape_unicode()),
        }
    }
    escaped(&plain)
}

/// A number in mathematics, with this many decimals.
pub(crate) fn number(value: f64, digits: usize) -> String {
    format!("${value:.digits$}$")
}

/// R^2, which a constant has none of.
pub(crate) fn r2(value: Option<f64>) -> String {
    value.map_or("undefined".to_owned(), |value| number(value, 3))
}

/// A count with separators that keep its digits together.
pub(crate) fn count(value: i64) -> String {
    super::text::thousands(value).replace(',', "{,}").replace('−', "$-$")
}

/// A figure by its file and caption.
pub(crate) fn figure(file: &str, caption: &str, wide: bool) -> String {
    let environment = if wide { "figure*" } else { "figure" };
    format!(
        "\\begin{{{environment}}}[t]\n  \\centering\n  \\includegraphics[width=\\linewidth]{{{file}.pdf}}\n  \\caption{{{caption}}}\n  \\label{{fig:{file}}}\n\\end{{{environment}}}\n"
    )
}

/// A table by its file and caption.
pub(crate) fn table(file: &str, caption: &str) -> String {
    format!(
        "\\begin{{table}}[t]\n  \\centering\\small\n  \\input{{{file}.tex}}\n  \\caption{{{caption}}}\n  \\label{{tab:{file}}}\n\\end{{table}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless() {
        assert_eq!(name("a_b%\\x{}$你"), "a\\_b\\%\\textbackslash{}x\\{\\}\\$\\textbackslash{}u\\{4f60\\}");
        assert_eq!(name("\u{202e}<"), "\\textbackslash{}u\\{202e\\}\\textless{}");
        assert_eq!((number(-1.0079, 3), count(12_384_011)), ("$-1.008$".into(), "12{,}384{,}011".into()));
    }
}
