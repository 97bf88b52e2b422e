//! Text and numbers in a form that is safe to show.

/// How many characters [`shortened`] keeps.
pub const SHOWN_CHARACTERS: usize = 100;

/// How many characters of a text go into a cell of Markdown: no formula or name of ours comes near.
pub(crate) const CELL_CHARACTERS: usize = 500;

/// Significant digits people are shown.
const DIGITS: i32 = 5;

/// Whether a character is invisible, or moves, reorders or hides the text around it.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' // marks, zero width
            | '\u{2028}'..='\u{202e}' // line separators, embeddings, overrides
            | '\u{2060}'..='\u{206f}' // isolates, invisible operators
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}' // tags
        )
}

/// The text with hidden characters as `\u{..}`: safe in a terminal, and always on one line.
pub fn visible(text: &str) -> String {
    text.chars().flat_map(|character| pieces(character, is_hidden(character))).collect()
}

/// JSON with hidden characters as `\u....`: the same for a program, and safe in a terminal. Line ends stay.
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hidden(character) && character != '\n' {
            push_json_escape(character, &mut shown);
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A character as JSON writes it in ASCII.
pub(crate) fn push_json_escape(character: char, out: &mut String) {
    let mut units = [0; 2];
    out.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
}

/// [`visible`], cut to [`SHOWN_CHARACTERS`] with an ellipsis, but never inside an escape.
pub fn shortened(text: &str) -> String {
    shortened_to(text, SHOWN_CHARACTERS)
}

/// [`visible`], and cut to this many characters with an ellipsis, never inside an escape.
pub(crate) fn shortened_to(text: &str, characters: usize) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for character in text.chars() {
        let escape = is_hidden(character);
        length += pieces(character, escape).count();
        if length > characters {
            shown.push('…');
            break;
        }
        shown.extend(pieces(character, escape));
    }
    shown
}

/// A character as it is, or as its escape.
fn pieces(character: char, escape: bool) -> impl Iterator<Item = char> {
    let escaped = escape.then(|| character.escape_unicode()).into_iter().flatten();
    (!escape).then_some(character).into_iter().chain(escaped)
}

/// A finite number with as many digits as it takes to read back the same number.
pub fn exact(number: f64) -> String {
    format!("{number:?}")
}

/// A finite number with five significant digits, and with an exponent (`1.2346e9`) if it is very large or very small.
pub fn rounded(number: f64) -> String {
    if number == 0.0 {
        return "0".into();
    }
    let scientific = format!("{number:.*e}", (DIGITS - 1) as usize);
    let exponent = scientific.rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match exponent {
        Some(exponent @ -4..=6) => format!("{number:.*}", (DIGITS - 1 - exponent).max(0) as usize),
        _ => scientific,
    }
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Ascending numbers as `3, 4 and 12 to 14`.
pub fn listed(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: Vec<i64> = numbers.into_iter().collect();
    let parts = numbers.chunk_by(|one, next| next - one == 1).flat_map(|run| match run {
        [first, _, .., last] => vec![format!("{first} to {last}")],
        few => few.iter().map(i64::to_string).collect(),
    });
    match parts.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The names, made distinct: a repeated name gets a number appended.
pub fn distinct(names: Vec<String>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let mut candidates = std::iter::once(name.clone()).chain((2..).map(|i| format!("{name} {i}")));
        taken.push(candidates.find(|candidate| !taken.contains(candidate)).expect("an endless list"));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_in_runs() {
        let said = [&[3, 4, 12, 13, 14][..], &[0, 1, 2], &[5], &[1, 2], &[1, 3, 5], &[]].map(|numbers| listed(numbers.iter().copied()));
        assert_eq!(said, ["3, 4 and 12 to 14", "0 to 2", "5", "1 and 2", "1, 3 and 5", ""]);
    }

    #[test]
    fn hidden_characters_are_seen() {
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\n\0é字\u{85}"), "a\\u{1b}[31m\\u{202e}b\\u{a}\\u{0}é字\\u{85}");
        assert_eq!(visible("👩\u{200d}🔬"), "👩\u{200d}🔬"); // joined, as written
    }

    #[test]
    fn json_is_the_same_to_a_program() {
        let text = "a\u{1b}\u{202e}é\u{e0001}\u{7f}";
        let json = serde_json::json!({ "name": text });
        let shown = visible_json(&serde_json::to_string_pretty(&json).unwrap());
        assert_eq!(shown, "{\n  \"name\": \"a\\u001b\\u202eé\\udb40\\udc01\\u007f\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }

    #[test]
    fn long_text_is_shortened_between_characters() {
        assert_eq!(shortened(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(shortened(&"é".repeat(10_000)), "é".repeat(100) + "…");
        assert_eq!(shortened(&"\n".repeat(10_000)), "\\u{a}".repeat(20) + "…");
        assert_eq!(shortened(&("x".repeat(99) + "\n")), "x".repeat(99) + "…");
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 30522, 1_234_567].map(grouped), ["0", "999", "1,000", "30,522", "1,234,567"]);
    }

    #[test]
    fn distinct_names() {
        assert_eq!(distinct(["a", "b", "a", "a 2", "a"].map(str::to_owned).to_vec()), ["a", "b", "a 2", "a 2 2", "a 3"]);
    }

    #[test]
    fn exact_numbers_are_read_back() {
        let numbers = [0.1, -0.0, 1.0, 1e300, 5e-324, f64::MAX, 1.0 / 3.0, 123_456_789.123];
        assert!(numbers.iter().all(|&number| exact(number).parse::<f64>().unwrap().to_bits() == number.to_bits()));
        assert_eq!([1.0, 0.1, 1e300, 1e-7, -0.0].map(exact), ["1.0", "0.1", "1e300", "1e-7", "-0.0"]);
    }

    #[test]
    fn rounded_numbers_have_five_digits() {
        let numbers = [0.0, 1.0, -0.123456, 0.000123456, 0.0000123456, 99999.96, 1234567.8, 12345678.9, 9.999999, f64::MAX];
        let shown = ["0", "1.0000", "-0.12346", "0.00012346", "1.2346e-5", "100000", "1234568", "1.2346e7", "10.000", "1.7977e308"];
        assert_eq!(numbers.map(rounded), shown);
    }
}
