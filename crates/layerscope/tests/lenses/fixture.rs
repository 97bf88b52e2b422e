//! A tokenizer for the tiny checkpoints, and text for it.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::support::{copy_of, empty_folder};

const WORDS: [&str; 22] = [
    "the", "of", "and", "to", "in", "it", "was", "that", "he", "she", "house", "time", "old", "little", "day", "said", "on", "winter",
    "violin", "sea", "never", "again",
];

/// A fixture's checkpoint with a tokenizer of 80 tokens, as many as every fixture has: words, letters and what marks a sentence.
pub fn model(fixture: &str, name: &str) -> PathBuf {
    let folder = copy_of(fixture, name);
    let mut tokens: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", ","].map(str::to_owned).into();
    tokens.extend(WORDS.map(str::to_owned));
    tokens.extend(('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]));
    assert_eq!(tokens.len(), 80);
    let vocabulary: Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let special = |id: usize| json!({ "id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true });
    let around = |id: usize| json!({ "id": tokens[id], "ids": [id], "tokens": [tokens[id]] });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "decoder": null,
        "added_tokens": (0..4).map(special).collect::<Vec<_>>(),
        "normalizer": { "type": "Lowercase" }, "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing", "pair": [], "special_tokens": { "[CLS]": around(2), "[SEP]": around(3) },
            "single": [
                { "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": "[SEP]", "type_id": 0 } },
            ],
        },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary,
        },
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("a tokenizer");
    folder
}

/// Sentences of 2 to 13 words, the first ones of the list the most frequent.
pub fn corpus(name: &str, count: u64) -> PathBuf {
    let random = |sentence: u64, at: u64| layerscope_corpus::hash::hash64([sentence, at], b"text");
    let word = |sentence, at| {
        let draw = (random(sentence, at) >> 11) as f64 / (1u64 << 53) as f64;
        WORDS[((WORDS.len() as f64).powf(draw) - 1.0) as usize]
    };
    let sentence = |s: u64| (0..2 + random(s, 99) % 12).map(|at| word(s, at)).collect::<Vec<_>>().join(" ") + ".";
    let path = empty_folder(name).join("corpus.txt");
    std::fs::write(&path, (0..count).map(sentence).collect::<Vec<_>>().join("\n")).expect("a corpus");
    path
}
