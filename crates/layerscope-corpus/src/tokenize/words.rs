//! Words that were read before, for tokenizers that read a text word by word.
//!
//! Most words of a text are the same few. Where a tokenizer cuts at white space before anything else and changes text letter by letter, a
//! text's ids are those of its words, one after another, and a word need be read only once.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, Tokenizer as Inner};

/// Parts of the memory, so that threads seldom want the same one.
const PARTS: usize = 64;
/// Words of a part, and bytes of a word that is kept: a few megabytes altogether.
const WORDS: usize = 2048;
const LONGEST: usize = 48;

type Known = HashMap<Box<str>, Box<[u32]>>;

/// White space that is also a control character: some tokenizers take it out instead.
fn is_odd_space(letter: char) -> bool {
    letter.is_control() && letter.is_whitespace() && !matches!(letter, '\t' | '\n' | '\r')
}

/// The ids of words.
pub(super) struct Words {
    parts: Vec<RwLock<Known>>,
    hasher: std::hash::RandomState,
    /// Tokens that stand for themselves wherever they are, also across words: a text with one is read as a whole.
    added: Vec<String>,
}

impl Words {
    /// None for a tokenizer to which white space is more than the end of a word.
    pub fn of(inner: &Inner) -> Option<Words> {
        let cuts = matches!(inner.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_)));
        let by_letters =
            matches!(inner.get_normalizer(), None | Some(NormalizerWrapper::BertNormalizer(_) | NormalizerWrapper::Lowercase(_)));
        if !(cuts && by_letters) {
            return None;
        }
        let added = inner.get_added_vocabulary().get_added_tokens_decoder().values().map(|token| token.content.clone()).collect();
        Some(Words { parts: (0..PARTS).map(|_| RwLock::default()).collect(), hasher: std::hash::RandomState::new(), added })
    }

    /// The ids of a text; `read` gives those of words that are new, and of a text that must be read as a whole.
    pub fn encode(&self, text: &str, read: impl Fn(&str) -> Result<Vec<u32>, String>) -> Result<Vec<u32>, String> {
        if self.added.iter().any(|added| text.contains(added.as_str())) || text.contains(is_odd_space) {
            return read(text);
        }
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        for word in text.split_whitespace() {
            let part = &self.parts[self.hasher.hash_one(word) as usize % PARTS];
            if let Some(known) = part.read().unwrap_or_else(PoisonError::into_inner).get(word) {
                ids.extend_from_slice(known);
                continue;
            }
            let new = read(word)?;
            ids.extend_from_slice(&new);
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            if word.len() <= LONGEST && part.len() < WORDS {
                part.insert(word.into(), new.into());
            }
        }
        Ok(ids)
    }
}
