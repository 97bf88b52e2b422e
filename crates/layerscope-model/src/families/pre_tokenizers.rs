//! How byte-level vocabularies cut a text before merging, by the names that GGUF files have for it (`tokenizer.ggml.pre`).

use serde_json::{Value, json};

/// What a name stands for.
pub(super) struct PreTokenizer {
    /// As `tokenizer.json` writes it.
    pub json: Value,
    /// Whether the text is brought to Unicode's composed form first.
    pub composed: bool,
    /// Whether a word of the vocabulary is taken whole, whatever the merges.
    pub whole_words: bool,
    /// Whether BOS is added where the file does not say.
    pub adds_bos: bool,
}

/// The ways to cut a text.
#[derive(Clone, Copy)]
enum Cut {
    /// The regular expression of GPT-2.
    Gpt2,
    /// The same, every digit apart.
    Digits,
    /// Runs of punctuation apart, GPT-2's, then numbers in threes.
    Falcon,
    /// A regular expression.
    Pattern(&'static str),
}

const LLAMA_3: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|[.,!?…。，、।۔،])]+";

/// Names, their cut, whether the text is composed, whether words are taken whole, whether BOS is added by default.
const KNOWN: &[(&[&str], Cut, bool, bool, bool)] = &[
    // Files older than these names say nothing or `default`; the reference library reads them so.
    (&["default", "gpt-2", "phi-2", "mpt"], Cut::Gpt2, false, false, false),
    (&["olmo"], Cut::Gpt2, true, false, false),
    (&["smollm", "starcoder", "refact", "codeshell"], Cut::Digits, false, false, false),
    (&["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"], Cut::Pattern(LLAMA_3), false, true, true),
    (&["dbrx", "smaug-bpe"], Cut::Pattern(LLAMA_3), false, false, false),
    (&["qwen2", "deepseek-r1-qwen"], Cut::Pattern(QWEN_2), true, false, false),
    (&["tekken"], Cut::Pattern(TEKKEN), false, true, true),
    (&["bloom"], Cut::Pattern(BLOOM), false, false, false),
    (&["falcon"], Cut::Falcon, false, false, false),
];

/// What a name stands for; an unknown one gives the line that refuses it.
pub(super) fn named(name: &str) -> Result<PreTokenizer, String> {
    let Some((_, cut, composed, whole_words, adds_bos)) = KNOWN.iter().find(|(names, ..)| names.contains(&name)) else {
        let all: Vec<_> = KNOWN.iter().flat_map(|(names, ..)| *names).copied().collect();
        let found = name.escape_debug();
        return Err(format!("`tokenizer.ggml.pre` = `{found}` is not known; Layerscope reads {}", all.join(", ")));
    };
    Ok(PreTokenizer { json: cut.json(), composed: *composed, whole_words: *whole_words, adds_bos: *adds_bos })
}

impl Cut {
    fn json(self) -> Value {
        let bytes =
            |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
        let split = |pattern: &str| json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
        let sequence = |parts: Vec<Value>| json!({ "type": "Sequence", "pretokenizers": parts });
        match self {
            Cut::Gpt2 => bytes(true),
            Cut::Digits => sequence(vec![json!({ "type": "Digits", "individual_digits": true }), bytes(true)]),
            Cut::Falcon => sequence(vec![
                json!({ "type": "Punctuation", "behavior": "Contiguous" }),
                bytes(true),
                json!({ "type": "Digits", "individual_digits": false }),
                split("[0-9][0-9][0-9]"),
            ]),
            Cut::Pattern(pattern) => sequence(vec![split(pattern), bytes(false)]),
        }
    }
}
