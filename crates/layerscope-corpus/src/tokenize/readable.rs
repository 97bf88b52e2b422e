//! How vocabularies write tokens, and how people do.

use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer};

/// What a vocabulary writes before pieces of words: its model's prefix of pieces inside a word, and its style's sign for the space
/// before one.
pub(super) fn marks(tokenizer: &Tokenizer, style: Style) -> Vec<String> {
    let inside = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => Some(model.continuing_subword_prefix.clone()),
        ModelWrapper::BPE(model) => model.continuing_subword_prefix.clone(),
        _ => None,
    };
    let start = match style {
        Style::ByteLevel => Some("Ġ".to_owned()),
        Style::Metaspace => Some("▁".to_owned()),
        Style::Plain => None,
    };
    [inside, start].into_iter().flatten().filter(|mark| !mark.is_empty()).collect()
}

/// How a vocabulary writes its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Each byte as one printable character (GPT-2's table).
    ByteLevel,
    /// Spaces as `▁`.
    Metaspace,
    /// As they are (WordPiece, words, characters).
    Plain,
}

impl Style {
    /// Looks at the decoder, then at what prepares the text.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let parts = [
            serde_json::to_value(tokenizer.get_decoder()),
            serde_json::to_value(tokenizer.get_pre_tokenizer()),
            serde_json::to_value(tokenizer.get_normalizer()),
        ];
        let parts: Vec<Value> = parts.into_iter().flatten().collect();
        if parts.iter().any(|part| mentions(part, "ByteLevel")) {
            Style::ByteLevel
        } else if parts.iter().any(|part| mentions(part, "Metaspace") || mentions(part, "▁")) {
            Style::Metaspace
        } else {
            Style::Plain
        }
    }

    /// A vocabulary string as people read it.
    pub fn readable(self, raw: &str) -> String {
        match self {
            Style::ByteLevel => match raw.chars().map(byte_of).collect::<Option<Vec<u8>>>() {
                Some(bytes) => decoded(&bytes),
                None => escaped(raw),
            },
            Style::Metaspace => escaped(&raw.replace('▁', " ")),
            Style::Plain => escaped(raw),
        }
    }
}

/// Whether a string stands anywhere in the values of a tokenizer's part.
fn mentions(value: &Value, string: &str) -> bool {
    match value {
        Value::String(text) => text == string,
        Value::Array(items) => items.iter().any(|item| mentions(item, string)),
        Value::Object(items) => items.values().any(|item| mentions(item, string)),
        _ => false,
    }
}

/// The byte behind a character of GPT-2's table: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on.
fn byte_of(character: char) -> Option<u8> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(character) {
        code @ 0..=0xff => Some(code as u8).filter(printable),
        code @ 0x100..0x144 => (0..=255u8).filter(|byte| !printable(byte)).nth(code as usize - 0x100),
        _ => None,
    }
}

/// Bytes as text; what is no UTF-8 by itself as `\xe2`.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&escaped(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Text whose control characters are written `\n`, `\t`, `\u{7f}`, so that a name stays on its line.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() { out.extend(character.escape_default()) } else { out.push(character) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let back: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        let mut sorted = back.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn byte_level_tokens() {
        for (raw, text) in [
            ("Ġthe", " the"),
            ("Ċ", "\\n"),
            ("ĠâĤ¬", " €"),
            ("âĤ", "\\xe2\\x82"),
            ("aâĤ", "a\\xe2\\x82"),
            ("¬", "\\xac"),
            ("Ã©", "é"),
            ("日", "日"), // not in the table: an added token, as it is
        ] {
            assert_eq!(Style::ByteLevel.readable(raw), text, "{raw}");
        }
        assert_eq!(Style::Metaspace.readable("▁the"), " the");
        assert_eq!(Style::Plain.readable("##ing"), "##ing");
    }
}
