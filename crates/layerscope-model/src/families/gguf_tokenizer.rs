//! The tokenizer of a GGUF file, written as the `tokenizer.json` that it was made from.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::gguf::{Merges, family};
use super::pre_tokenizers;
use crate::checkpoint::WeightFile;
use crate::error::{Error, Result};
use crate::gguf::{Header, Metadata, header};

/// Types of tokens: always found whole in a text and special; always found whole.
const CONTROL: f64 = 3.0;
const USER_DEFINED: f64 = 4.0;
/// Longer than any token; cutting one in two everywhere takes time by its square.
const LONGEST_TOKEN: usize = 1024;

/// A tokenizer as files beside a model would hold it.
#[derive(Debug)]
pub struct GgufTokenizer {
    /// `tokenizer.json`.
    pub json: Vec<u8>,
    /// The tokens at both ends of a text, as `tokenizer_config.json` names them.
    pub ends: Value,
}

/// The bytes of a GGUF file that decide how text is cut into tokens.
pub fn tokenizer_bytes(path: &Path) -> Result<Vec<u8>> {
    let file = WeightFile::open(path)?;
    let Header { metadata, .. } = header(&file)?;
    let mut all = metadata.text("general.architecture").unwrap_or_default().as_bytes().to_vec();
    for (name, bytes) in metadata.bytes_below("tokenizer.ggml.") {
        all.extend(name.as_bytes());
        all.extend(file.bytes_at(bytes.start, (bytes.end - bytes.start) as usize)?);
    }
    Ok(all)
}

impl GgufTokenizer {
    /// Reads the tokenizer out of a file's metadata.
    pub fn open(path: &Path) -> Result<GgufTokenizer> {
        let file = WeightFile::open(path)?;
        let Header { metadata, .. } = header(&file)?;
        let Some(tokens) = metadata.texts(&file, "tokenizer.ggml.tokens")? else {
            return Err(Error::file(path, "holds no tokenizer (`tokenizer.ggml.tokens`); convert the model again, with its tokenizer"));
        };
        let types = metadata.numbers(&file, "tokenizer.ggml.token_type")?;
        let scores = metadata.numbers(&file, "tokenizer.ggml.scores")?;
        let merges = metadata.texts(&file, "tokenizer.ggml.merges")?;
        Vocabulary { metadata: &metadata, tokens, types, scores, merges }.written().map_err(|problem| Error::file(path, problem))
    }
}

struct Vocabulary<'a> {
    metadata: &'a Metadata,
    tokens: Vec<String>,
    types: Option<Vec<f64>>,
    scores: Option<Vec<f64>>,
    merges: Option<Vec<String>>,
}

/// What differs between the two kinds of vocabularies.
struct Kind {
    model: Value,
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    adds_bos: bool,
}

impl Vocabulary<'_> {
    fn written(mut self) -> Result<GgufTokenizer, String> {
        for (what, list) in [("tokenizer.ggml.token_type", &self.types), ("tokenizer.ggml.scores", &self.scores)] {
            if let Some(list) = list.as_ref().filter(|list| list.len() != self.tokens.len()) {
                return Err(format!("`{what}` has {} values for {} tokens", list.len(), self.tokens.len()));
            }
        }
        let kind = match self.metadata.text("tokenizer.ggml.model") {
            Some("gpt2") => self.byte_level()?,
            Some("llama") => self.sentence_piece()?,
            found => {
                let found = found.unwrap_or("missing").escape_debug();
                return Err(format!(
                    "`tokenizer.ggml.model` = `{found}` is not known; Layerscope reads gpt2 (byte-level BPE) and llama (SentencePiece)"
                ));
            }
        };
        let (bos, eos) = (self.named("bos_token_id")?, self.named("eos_token_id")?);
        let adds = |key: &str, default: bool| self.metadata.flag(&format!("tokenizer.ggml.{key}")).unwrap_or(default);
        let before = bos.filter(|_| adds("add_bos_token", kind.adds_bos));
        let after = eos.filter(|_| adds("add_eos_token", false));
        let json = json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added(),
            "normalizer": kind.normalizer,
            "pre_tokenizer": kind.pre_tokenizer,
            "post_processor": self.template(before, after),
            "decoder": kind.decoder,
            "model": kind.model,
        });
        let text = |id: Option<usize>| id.map(|id| self.tokens[id].clone());
        let ends = json!({ "bos_token": text(bos), "eos_token": text(eos) });
        Ok(GgufTokenizer { json: json.to_string().into_bytes(), ends })
    }

    /// The token that the metadata names for a purpose.
    fn named(&self, key: &str) -> Result<Option<usize>, String> {
        let key = format!("tokenizer.ggml.{key}");
        match self.metadata.count(&key) {
            Some(id) if id >= self.tokens.len() as u64 => Err(format!("`{key}` = {id}, but there are {} tokens", self.tokens.len())),
            id => Ok(id.map(|id| id as usize)),
        }
    }

    /// The id of every token.
    fn ids(&self) -> Result<BTreeMap<&str, usize>, String> {
        let mut ids = BTreeMap::new();
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(first) = ids.insert(token.as_str(), id) {
                return Err(format!("tokens {first} and {id} are both `{}`", token.escape_debug()));
            }
        }
        Ok(ids)
    }

    fn vocabulary(&self) -> Result<Value, String> {
        Ok(Value::Object(self.ids()?.into_iter().map(|(token, id)| (token.to_owned(), id.into())).collect::<Map<_, _>>()))
    }

    /// Tokens that are found whole, before the text is cut.
    fn added(&self) -> Vec<Value> {
        let types = self.types.iter().flatten();
        let whole = types.enumerate().filter(|(id, kind)| [CONTROL, USER_DEFINED].contains(kind) && !self.tokens[*id].is_empty());
        let token = |(id, kind): (usize, &f64)| {
            let rest = json!({ "single_word": false, "lstrip": false, "rstrip": false, "normalized": false });
            let mut token = json!({ "id": id, "content": self.tokens[id], "special": *kind == CONTROL });
            token.as_object_mut().into_iter().for_each(|token| token.extend(rest.as_object().cloned().unwrap_or_default()));
            token
        };
        whole.map(token).collect()
    }

    /// What stands around a text.
    fn template(&self, before: Option<usize>, after: Option<usize>) -> Value {
        let special = |id: usize| json!({ "SpecialToken": { "id": self.tokens[id], "type_id": 0 } });
        let around =
            |sequences: Vec<Value>| -> Vec<Value> { before.map(special).into_iter().chain(sequences).chain(after.map(special)).collect() };
        let sequence = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
        let tokens = before.into_iter().chain(after);
        let specials: Map<String, Value> = tokens
            .map(|id| (self.tokens[id].clone(), json!({ "id": self.tokens[id], "ids": [id], "tokens": [self.tokens[id]] })))
            .collect();
        json!({
            "type": "TemplateProcessing",
            "single": around(vec![sequence("A", 0)]),
            "pair": around(vec![sequence("A", 0), sequence("B", 1)]),
            "special_tokens": specials,
        })
    }

    /// Every byte is a letter, merges are listed.
    fn byte_level(&self) -> Result<Kind, String> {
        let pre = pre_tokenizers::named(self.metadata.text("tokenizer.ggml.pre").unwrap_or("default"))?;
        let merges = self.merges.as_ref().ok_or("no merges (`tokenizer.ggml.merges`); convert the model again")?;
        let merges = merges.iter().map(|merge| merge.split_once(' ').map(|(left, right)| json!([left, right])));
        let merges: Vec<Value> = merges.collect::<Option<_>>().ok_or("`tokenizer.ggml.merges` holds a merge of one part")?;
        let normalizer = if pre.composed { json!({ "type": "NFC" }) } else { Value::Null };
        let mut model = bpe(self.vocabulary()?, merges);
        model["ignore_merges"] = pre.whole_words.into();
        let decoder = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true });
        Ok(Kind { model, normalizer, pre_tokenizer: pre.json, decoder, adds_bos: pre.adds_bos })
    }

    /// Spaces are `▁`, merges follow from the vocabulary, bytes stand in for what it lacks.
    fn sentence_piece(&mut self) -> Result<Kind, String> {
        let (_, gguf) = family(self.metadata)?;
        if let Some(token) = self.tokens.iter().find(|token| token.len() > LONGEST_TOKEN) {
            return Err(format!("a token of {} bytes; is this a vocabulary?", token.len()));
        }
        let merges = match (&self.merges, gguf.merges) {
            (Some(_), _) => return Err("a SentencePiece vocabulary with a list of merges is not known".to_owned()),
            (None, Merges::ByScore) => {
                let scores = self.scores.as_ref().ok_or("no scores (`tokenizer.ggml.scores`); convert the model again")?;
                implied_merges(&self.tokens, &self.ids()?, |id| scores[id])
            }
            (None, Merges::ByPlace) => {
                self.respell_spaces();
                implied_merges(&self.tokens, &self.ids()?, |id| -(id as f64))
            }
        };
        let prefix = self.metadata.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
        let mut model = bpe(self.vocabulary()?, merges);
        model["byte_fallback"] = true.into();
        model["fuse_unk"] = true.into();
        if let Some(unknown) = self.named("unknown_token_id")? {
            model["unk_token"] = self.tokens[unknown].clone().into();
        }
        let scheme = if prefix { "first" } else { "never" };
        let replace = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
        Ok(Kind {
            model,
            normalizer: Value::Null,
            pre_tokenizer: json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false }),
            decoder: json!({ "type": "Sequence", "decoders": [replace, { "type": "ByteFallback" }, { "type": "Fuse" }] }),
            adds_bos: true,
        })
    }

    /// Some vocabularies hold runs of spaces as they are, where merging sees `▁`; as merged tokens, they are not found beforehand.
    fn respell_spaces(&mut self) {
        for (id, token) in self.tokens.iter_mut().enumerate() {
            if token.contains(' ') && token.chars().all(|letter| letter == ' ') {
                *token = "▁".repeat(token.len());
                if let Some(types) = &mut self.types {
                    types[id] = 1.0;
                }
            }
        }
    }
}

fn bpe(vocab: Value, merges: Vec<Value>) -> Value {
    json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": false,
        "vocab": vocab,
        "merges": merges,
    })
}

/// Every way to make a token of two, the best tokens first; of equals, the longer left part, then the longer right one, then by ids.
fn implied_merges(tokens: &[String], ids: &BTreeMap<&str, usize>, score: impl Fn(usize) -> f64) -> Vec<Value> {
    let mut merges = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let mut ways: Vec<(usize, usize)> =
            token.char_indices().skip(1).filter_map(|(at, _)| Some((*ids.get(&token[..at])?, *ids.get(&token[at..])?))).collect();
        ways.sort_unstable();
        merges.extend(ways.into_iter().map(|(left, right)| (score(id), left, right)));
    }
    let letters = |id: usize| tokens[id].chars().count();
    merges.sort_by(|a, b| {
        let lengths = |merge: &(f64, usize, usize)| (letters(merge.1), letters(merge.2));
        b.0.total_cmp(&a.0).then_with(|| lengths(b).cmp(&lengths(a)))
    });
    merges.into_iter().map(|(_, left, right)| json!([tokens[left], tokens[right]])).collect()
}
