//! Text -> token ids, and token ids -> text that people can read.
//!
//! The model's own tokenizer.json does the work, with its truncation and padding, its threads and its merge dropout switched off. Special
//! tokens are never asked of it: what it puts around a text is found once, as a prefix and a suffix, so that every window of
//! a long document can be wrapped alike.

mod growth;
mod readable;
mod words;
mod wrap;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer as Inner};

use crate::error::{Error, Result};

pub use wrap::Wrap;

/// No vocabulary comes near; tables are as long as the largest id.
const LARGEST_ID: u32 = 50_000_000;

/// A model's tokenizer, with what it puts around every sequence. Clones share the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    file: PathBuf,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    style: readable::Style,
    /// What tells a piece at the start of a word from one inside it, as the vocabulary writes it.
    marks: Vec<String>,
    word_joint: &'static str,
    largest_id: u32,
    /// Where a text is read word by word.
    words: Option<Arc<words::Words>>,
}

impl Tokenizer {
    /// Loads `tokenizer.json` from a model's folder.
    pub fn load(folder: &Path, wrap: Wrap) -> Result<Self> {
        let file = folder.join("tokenizer.json");
        if !file.is_file() {
            let problem = "no tokenizer.json; write one with AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER) of transformers";
            return Err(Error::tokenizer(folder, problem));
        }
        let json = std::fs::read(&file).map_err(|error| Error::tokenizer(&file, format!("cannot be read: {error}")))?;
        Self::new(file, &json, || wrap::named_ends(folder), wrap)
    }

    /// A tokenizer out of another kind of file: as `tokenizer.json` would hold it, and the tokens at both ends of a text as
    /// `tokenizer_config.json` would name them.
    pub fn from_json(file: &Path, json: &[u8], ends: Value, wrap: Wrap) -> Result<Self> {
        Self::new(file.to_owned(), json, || Ok(vec![ends]), wrap)
    }

    /// The library panics on some files that are no tokenizers, and on some that are, but of no use.
    fn new(file: PathBuf, json: &[u8], ends: impl FnOnce() -> Result<Vec<Value>>, wrap: Wrap) -> Result<Self> {
        let unusable =
            || Error::tokenizer(&file, "the tokenizers library fails on it; write it again with save_pretrained of transformers");
        catch_unwind(AssertUnwindSafe(|| Self::read(file.clone(), json, ends, wrap))).unwrap_or_else(|_| Err(unusable()))
    }

    fn read(file: PathBuf, json: &[u8], ends: impl FnOnce() -> Result<Vec<Value>>, wrap: Wrap) -> Result<Self> {
        growth::check(json).map_err(|problem| Error::tokenizer(&file, problem))?;
        let read = catch_unwind(|| Inner::from_bytes(json)).unwrap_or_else(|_| Err("it is not a tokenizer".into()));
        let mut inner = read.map_err(|error| Error::tokenizer(&file, format!("cannot be read: {}", one_line(&error))))?;
        tokenizers::utils::parallelism::set_parallelism(false);
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| Error::tokenizer(&file, one_line(&error)))?;
        if let ModelWrapper::BPE(model) = inner.get_model()
            && model.dropout.is_some()
        {
            let mut model = model.clone();
            model.dropout = None;
            inner.with_model(ModelWrapper::BPE(model));
        }
        let largest_id = inner.get_vocab(true).into_values().max();
        let largest_id = largest_id.ok_or_else(|| Error::tokenizer(&file, "its vocabulary is empty"))?;
        if largest_id > LARGEST_ID {
            return Err(Error::tokenizer(&file, format!("token id {largest_id} is too large; is this a tokenizer?")));
        }
        let (prefix, suffix) = wrap::around(&inner, ends, &file, wrap)?;
        let style = readable::Style::of(&inner);
        let marks = readable::marks(&inner, style);
        let words = words::Words::of(&inner).map(Arc::new);
        let mut tokenizer = Tokenizer { inner: Arc::new(inner), file, prefix, suffix, style, marks, word_joint: " ", largest_id, words };
        tokenizer.word_joint = tokenizer.find_word_joint();
        Ok(tokenizer)
    }

    /// The ids of a text, without special tokens around it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        match &self.words {
            Some(words) => words.encode(text, |text| self.encode_whole(text)),
            None => self.encode_whole(text),
        }
    }

    /// The same, always by the library.
    fn encode_whole(&self, text: &str) -> Result<Vec<u32>, String> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| one_line(&error))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The ids of one word of a text, at its start or further on.
    pub fn encode_word(&self, word: &str, first: bool) -> Result<Vec<u32>, String> {
        if first || self.word_joint.is_empty() { self.encode(word) } else { self.encode(&format!("{}{word}", self.word_joint)) }
    }

    /// The special tokens before every sequence.
    pub fn prefix(&self) -> &[u32] {
        &self.prefix
    }

    /// The special tokens after every sequence.
    pub fn suffix(&self) -> &[u32] {
        &self.suffix
    }

    /// The largest id of the vocabulary.
    pub fn largest_id(&self) -> u32 {
        self.largest_id
    }

    /// The file it came from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether a token has this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.inner.id_to_token(id).is_some()
    }

    /// A token as the vocabulary spells it: `Ġthe`, `##ing`, `▁a`.
    pub fn raw(&self, id: u32) -> String {
        self.inner.id_to_token(id).unwrap_or_else(|| format!("<id {id}>"))
    }

    /// A token as people read it: byte-level and `▁` tokens decoded (`Ġthe` is ` the`), bytes that are no text by themselves as
    /// `\xe2`, control characters escaped; `##ing` stays as it is.
    pub fn readable(&self, id: u32) -> String {
        let raw = self.raw(id);
        if self.inner.get_added_vocabulary().get_added_tokens_decoder().contains_key(&id) {
            return readable::escaped(&raw);
        }
        self.style.readable(&raw)
    }

    /// A vocabulary string as people read it.
    pub fn readable_text(&self, raw: &str) -> String {
        self.style.readable(raw)
    }

    /// The paper's key of a token: its vocabulary string without one leading mark of a word's start or inside. Which marks there are
    /// is up to the tokenizer: `##` in WordPiece, `Ġ` in byte-level and `▁` in sentence-piece vocabularies.
    ///
    /// Special tokens are no text: they keep their strings, and a token that would get the string of one keeps its mark.
    pub fn surface(&self, id: u32) -> String {
        let raw = self.raw(id);
        if self.is_special(id) {
            return raw;
        }
        let bare = self.marks.iter().find_map(|mark| raw.strip_prefix(mark.as_str())).filter(|bare| !bare.is_empty());
        let bare = bare.filter(|bare| self.inner.token_to_id(bare).is_none_or(|other| !self.is_special(other)));
        bare.map_or_else(|| raw.clone(), str::to_owned)
    }

    /// Whether a token is one of those around every sequence.
    pub fn is_around(&self, id: u32) -> bool {
        self.prefix.contains(&id) || self.suffix.contains(&id)
    }

    fn is_special(&self, id: u32) -> bool {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder();
        self.is_around(id) || added.get(&id).is_some_and(|token| token.special)
    }

    /// Some tokenizers mark a word's start by the space before it, others by themselves: which of the two gives the ids of
    /// the joined text?
    fn find_word_joint(&self) -> &'static str {
        let whole = self.encode("the cat");
        let first = self.encode("the");
        let fits = |joint: &str| match (&whole, &first, self.encode(&format!("{joint}cat"))) {
            (Ok(whole), Ok(first), Ok(second)) => *whole == [first.as_slice(), &second].concat(),
            _ => false,
        };
        if fits("") && !fits(" ") { "" } else { " " }
    }
}

/// Names of files, of functions: an error in one line.
fn one_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cased and uncased, with Chinese characters apart and accents taken off or not.
    fn word_pieces(settings: &Value) -> Tokenizer {
        let pieces =
            ["[UNK]", "[CLS]", "[MASK]", "a", "b", "##a", "##b", "é", "e", "##e", "ab", "中", ".", "-", "i", "##i", "σ", "##ς", "##σ"];
        let vocabulary: serde_json::Map<String, Value> = pieces.iter().zip(0..).map(|(piece, id)| ((*piece).into(), id.into())).collect();
        let mut normalizer = serde_json::json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true});
        normalizer.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let added = |content: &str, id: u32| {
            let flags = ["single_word", "rstrip", "normalized"].map(|flag| (flag.to_owned(), Value::from(false)));
            let rest = [("id", Value::from(id)), ("content", content.into()), ("lstrip", true.into()), ("special", true.into())];
            Value::Object(flags.into_iter().chain(rest.map(|(name, value)| (name.to_owned(), value))).collect())
        };
        let model = serde_json::json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary});
        let json = serde_json::json!({"version": "1.0", "truncation": null, "padding": null, "post_processor": null, "decoder": null,
            "added_tokens": [added("[MASK]", 2)], "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model});
        Tokenizer::from_json(Path::new("pieces"), json.to_string().as_bytes(), Value::Null, Wrap::None).expect("a tokenizer")
    }

    #[test]
    fn a_text_read_word_by_word_has_the_ids_of_the_whole() {
        let texts = [
            "",
            "   ",
            "ab ba",
            "  ab\tba\n",
            "a.b-ab",
            "É é e\u{301} ab",
            "ab\u{a0}ba\u{2003}a\u{3000}b",
            "a\u{200b}b a\u{0}b",
            "\u{301}a a\u{301} \u{301}",
            "中a中 中中",
            "ab [MASK] ba",
            "ab[MASK]",
            "a\u{85}b",
            "a\u{b}b a\u{c}b",
            "a\u{2028}b\u{2029}a",
            "ΑΣ ΑΣΑ Σ",
            "İ i̇ I",
            "a\u{feff}b \u{feff}",
            "x xx",
            "a\r\nb",
            &"ab ".repeat(300),
            &"a".repeat(200),
        ];
        for settings in [
            r#"{"strip_accents": null, "lowercase": true}"#,
            r#"{"strip_accents": false, "lowercase": false}"#,
            r#"{"strip_accents": true, "lowercase": false, "handle_chinese_chars": false}"#,
        ] {
            let tokenizer = word_pieces(&serde_json::from_str(settings).unwrap());
            assert!(tokenizer.words.is_some());
            for text in texts.iter().chain(&texts) {
                assert_eq!(tokenizer.encode(text), tokenizer.encode_whole(text), "{text:?}");
            }
        }
    }
}
