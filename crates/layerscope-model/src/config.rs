//! Reading `config.json`: every key that is read is recorded, every problem is collected, all are reported at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use layerscope_compute::Activation;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Keys that never change hidden states at inference: training, generation, bookkeeping and output heads.
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
];

/// No configuration comes near.
const LARGEST_FILE: u64 = 64 << 20;

/// More layers than any model has. A larger number is damage and would fill the memory.
const MAX_LAYERS: usize = 10_000;

/// The keys of a `config.json`, read one by one by a family.
///
/// A getter never fails on the spot: a missing or mistyped key is remembered and a stand-in returned, so that
/// [`ConfigReader::finish`] can name everything that is wrong in one line.
#[derive(Debug)]
pub struct ConfigReader {
    file: PathBuf,
    keys: Map<String, Value>,
    read: BTreeSet<String>,
    missing: Vec<String>,
    problems: Vec<String>,
    /// Keys that the file calls otherwise, with its names for them.
    renamed: Vec<(String, String)>,
}

impl ConfigReader {
    /// Reads a configuration file.
    pub fn open(file: &Path) -> Result<Self> {
        let facts = std::fs::metadata(file).map_err(|source| Error::io(file, source))?;
        if !facts.is_file() || facts.len() > LARGEST_FILE {
            return Err(Error::config(file, format!("not a file of at most {} MiB; is this the configuration?", LARGEST_FILE >> 20)));
        }
        let bytes = std::fs::read(file).map_err(|source| Error::io(file, source))?;
        Self::parse(file, &bytes)
    }

    /// Parses the content of a configuration file.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(keys)) => Ok(Self::from_map(file, keys)),
            Ok(_) => Err(Error::config(file, "not a JSON object")),
            Err(error) => Err(Error::config(file, format!("not JSON: {error}"))),
        }
    }

    fn from_map(file: &Path, keys: Map<String, Value>) -> Self {
        let (missing, problems) = (Vec::new(), Vec::new());
        ConfigReader { file: file.to_owned(), keys, read: BTreeSet::new(), missing, problems, renamed: Vec::new() }
    }

    /// Keys out of another kind of file, each with that file's name for it, which messages use.
    pub(crate) fn translated(file: &Path, keys: Map<String, Value>, renamed: Vec<(String, String)>) -> Self {
        ConfigReader { renamed, ..Self::from_map(file, keys) }
    }

    /// The file this came from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The raw value of a key, `None` where it is absent or null.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        self.read.insert(key.to_owned());
        self.keys.get(key).filter(|value| !value.is_null()).cloned()
    }

    /// Whether a key is present and null, where the reference library tells that from absent.
    pub fn is_null(&mut self, key: &str) -> bool {
        self.read.insert(key.to_owned());
        self.keys.get(key).is_some_and(Value::is_null)
    }

    /// An empty nested object, where the file has none.
    pub fn empty_section(&self) -> ConfigReader {
        Self::from_map(&self.file, Map::new())
    }

    /// A nested object, as a reader of its own.
    pub fn section(&mut self, key: &str) -> Option<ConfigReader> {
        match self.value(key)? {
            Value::Object(keys) => Some(Self::from_map(&self.file, keys)),
            other => {
                self.mistyped(key, "an object", &other);
                None
            }
        }
    }

    /// A required count.
    pub fn count(&mut self, key: &str) -> usize {
        self.count_any(&[key])
    }

    /// A required count under the first of several names that is present.
    pub fn count_any(&mut self, names: &[&str]) -> usize {
        for key in names {
            match self.optional_count(key) {
                Some(0) => self.problems.push(format!("`{key}` should be at least 1, found 0")),
                Some(found) => return found,
                None => {}
            }
        }
        if !names.iter().any(|key| self.keys.get(*key).is_some_and(|value| !value.is_null())) {
            self.missing.push(names.join(" or "));
        }
        1
    }

    /// A required number of layers, of a size that a model can have.
    pub fn layers(&mut self, names: &[&str]) -> usize {
        let layers = self.count_any(names);
        self.ensure(layers <= MAX_LAYERS, || format!("`{}` = {layers} is not a number of layers", names.join(" or ")));
        layers.min(MAX_LAYERS)
    }

    /// An optional count.
    pub fn optional_count(&mut self, key: &str) -> Option<usize> {
        let value = self.value(key)?;
        match value.as_u64() {
            // Larger numbers cannot be sizes; refusing them here keeps products of two from overflowing.
            Some(count) if count <= u32::MAX as u64 => Some(count as usize),
            _ => {
                self.mistyped(key, "a count", &value);
                None
            }
        }
    }

    /// A count with the reference library's default.
    pub fn count_or(&mut self, key: &str, default: usize) -> usize {
        self.optional_count(key).unwrap_or(default)
    }

    /// A required number.
    pub fn number(&mut self, key: &str) -> f32 {
        if self.value(key).is_none() {
            self.missing.push(key.to_owned());
        }
        self.number_or(key, 1.0)
    }

    /// An optional number.
    pub fn optional_number(&mut self, key: &str) -> Option<f32> {
        self.optional_real(key).map(|number| number as f32)
    }

    /// An optional number in double precision.
    pub fn optional_real(&mut self, key: &str) -> Option<f64> {
        let value = self.value(key)?;
        match value.as_f64() {
            Some(number) if (number as f32).is_finite() => Some(number),
            _ => {
                self.mistyped(key, "a finite number", &value);
                None
            }
        }
    }

    /// A number with the reference library's default.
    pub fn number_or(&mut self, key: &str, default: f32) -> f32 {
        let number = self.optional_number(key).unwrap_or(default);
        // What norms add so as not to divide by 0.
        if number < 0.0 && (key.ends_with("eps") || key.ends_with("epsilon")) {
            self.problems.push(format!("`{key}` is {number}, less than 0"));
        }
        number
    }

    /// A flag with the reference library's default.
    pub fn flag_or(&mut self, key: &str, default: bool) -> bool {
        match self.value(key) {
            None => default,
            Some(Value::Bool(flag)) => flag,
            Some(other) => {
                self.mistyped(key, "true or false", &other);
                default
            }
        }
    }

    /// A word with the reference library's default.
    pub fn word_or(&mut self, key: &str, default: &str) -> String {
        match self.value(key) {
            None => default.to_owned(),
            Some(Value::String(word)) => word,
            Some(other) => {
                self.mistyped(key, "a string", &other);
                default.to_owned()
            }
        }
    }

    /// An optional list of words.
    pub fn optional_words(&mut self, key: &str) -> Option<Vec<String>> {
        let value = self.value(key)?;
        let words = value.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if words.is_none() {
            self.mistyped(key, "a list of strings", &value);
        }
        words
    }

    /// An activation by the reference library's name for it.
    pub fn activation_or(&mut self, key: &str, default: &str) -> Activation {
        let name = self.word_or(key, default);
        match name.as_str() {
            "gelu" | "gelu_python" => Activation::GeluErf,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_accurate" => Activation::GeluTanh,
            "quick_gelu" => Activation::GeluQuick,
            "relu" => Activation::Relu,
            "relu2" => Activation::ReluSquared,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            _ => {
                self.refuse(key, &name);
                Activation::GeluErf
            }
        }
    }

    /// Accepts a key only when absent or equal to the one value this family computes.
    pub fn only(&mut self, key: &str, accepted: impl Into<Value>) {
        let accepted = accepted.into();
        if let Some(found) = self.value(key) {
            let equal = match (found.as_f64(), accepted.as_f64()) {
                (Some(a), Some(b)) => a == b,
                _ => found == accepted,
            };
            if !equal {
                self.refuse(key, &found.to_string());
            }
        }
    }

    /// Accepts a key only when absent, null, or an empty list or object.
    pub fn only_empty(&mut self, key: &str) {
        if let Some(found) = self.value(key) {
            let empty = found.as_array().is_some_and(Vec::is_empty) || found.as_object().is_some_and(Map::is_empty);
            if !empty {
                self.refuse(key, &found.to_string());
            }
        }
    }

    /// Declares keys of this family that do not change hidden states.
    pub fn harmless(&mut self, keys: &[&str]) {
        self.read.extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// Records a setting that changes the computation in a way Layerscope does not implement.
    pub fn refuse(&mut self, key: &str, found: &str) {
        self.problems.push(format!("`{key}` = {found} changes the computation in a way Layerscope does not implement"));
    }

    /// The width of one of `parts` equal slices of `whole`, both given with their keys.
    pub fn divide(&mut self, (whole_key, whole): (&str, usize), (parts_key, parts): (&str, usize)) -> usize {
        self.ensure(parts > 0 && whole % parts == 0, || format!("`{parts_key}` = {parts} does not divide `{whole_key}` = {whole}"));
        whole / parts.max(1)
    }

    /// Records a contradiction unless `holds`.
    pub fn ensure(&mut self, holds: bool, contradiction: impl FnOnce() -> String) {
        // While keys are missing, stand-ins would contradict what is there.
        if !holds && self.missing.is_empty() {
            self.problems.push(contradiction());
        }
    }

    /// Adds the problems and unknown keys of a nested reader, under its key.
    pub fn absorb(&mut self, key: &str, mut nested: ConfigReader) {
        nested.check_common();
        self.missing.extend(nested.missing.iter().map(|name| format!("{key}.{name}")));
        self.problems.extend(nested.problems.iter().map(|problem| format!("{key}: {problem}")));
        for name in nested.unknown() {
            self.keys.insert(format!("{key}.{name}"), Value::Bool(true));
        }
    }

    /// Settings of every family: nothing may quantize, prune or cross-attend.
    fn check_common(&mut self) {
        self.only_empty("quantization_config");
        self.only_empty("pruned_heads");
        self.only("is_encoder_decoder", false);
        self.only("add_cross_attention", false);
        self.only("cross_attention_hidden_size", Value::Null);
    }

    /// Keys that no getter read. They may change the computation, so the user is warned.
    pub fn unknown(&self) -> Vec<String> {
        let known = |key: &String| {
            self.read.contains(key)
                || HARMLESS.contains(&key.as_str())
                || key.ends_with("_dropout")
                || key.ends_with("_pdrop")
                || key.ends_with("dropout_prob")
        };
        self.keys.keys().filter(|key| !known(key)).cloned().collect()
    }

    /// The verdict: everything missing, contradictory or refused in one error, or the unknown keys.
    pub fn finish(mut self) -> Result<Vec<String>> {
        self.check_common();
        if !self.missing.is_empty() {
            let names: Vec<_> = self.missing.iter().map(|name| format!("`{name}`")).collect();
            self.problems.insert(0, format!("missing {}", names.join(", ")));
        }
        if self.problems.is_empty() {
            return Ok(self.unknown());
        }
        let mut line = self.problems.join("; ");
        for (key, name) in &self.renamed {
            line = line.replace(&format!("`{key}`"), &format!("`{name}`"));
        }
        Err(Error::config(&self.file, line))
    }

    fn mistyped(&mut self, key: &str, expected: &str, found: &Value) {
        let mut found = found.to_string();
        if found.chars().count() > 40 {
            found = found.chars().take(40).collect::<String>() + "...";
        }
        self.problems.push(format!("`{key}` should be {expected}, found {found}"));
    }
}
