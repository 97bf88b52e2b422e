//! The table of settings. A new setting is a row here, and a line where it is used.
//!
//! The command line and its help, presets, Python's keywords and docstring, the fingerprint of a run and `docs/settings.md` all come from
//! this table.

use layerscope_error::or;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name: a flag without the dashes, or a keyword of Python with `_` for `-`.
    pub name: &'static str,
    /// Where help lists it.
    pub heading: Heading,
    /// What values it takes.
    pub kind: Kind,
    /// Its value when nobody sets it; None is off, or left to the model or the machine.
    pub default: Option<&'static str>,
    /// What it decides.
    pub role: Role,
    /// What it does, in one sentence.
    pub help: &'static str,
}

/// The headings of help, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// What is read.
    Input,
    /// Through what.
    Model,
    /// Which numbers.
    Measured,
    /// Where they go.
    Output,
    /// With what means.
    Resources,
}

impl Heading {
    /// All of them, in order.
    pub const ALL: [Heading; 5] = [Heading::Input, Heading::Model, Heading::Measured, Heading::Output, Heading::Resources];

    /// As help writes it.
    pub fn title(self) -> &'static str {
        match self {
            Heading::Input => "Input",
            Heading::Model => "Model",
            Heading::Measured => "What is measured",
            Heading::Output => "Output",
            Heading::Resources => "Resources",
        }
    }
}

/// What values a setting takes. The second text of a value completes "give ..." in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value: its placeholder, and what to give.
    Value(&'static str, &'static str),
    /// Several values, joined by the separator.
    Values(&'static str, &'static str, Join),
    /// One of a few words.
    Words(&'static str, &'static [&'static str]),
    /// True or false; true if only named.
    Truth,
    /// There or not.
    Switch,
}

/// How several values become one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Values follow the flag one after another; each is kept.
    List,
    /// The flag is repeated; `; ` joins the values.
    Repeated,
}

/// What a setting decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What is measured and where the result goes: no choice of method.
    Request,
    /// The numbers: equal in all shards and for every continuation.
    Numbers,
    /// The order of work: may differ between shards, and not between a run and its continuation.
    Order,
    /// Speed and memory alone.
    Resources,
}

use Heading::{Input, Measured, Model, Output, Resources};
use Kind::{Switch, Truth, Value, Values, Words};
use Role::{Numbers, Order, Request};

const fn row(heading: Heading, name: &'static str, kind: Kind, default: Option<&'static str>, role: Role, help: &'static str) -> Row {
    Row { name, heading, kind, default, role, help }
}

/// The family names of `--measures` that a run computes unless told otherwise.
pub const DEFAULT_MEASURES: &str = "norm,cosine,spectrum,dimension";

/// Every setting of `measure` and `track`.
#[rustfmt::skip] // a table
pub const SETTINGS: &[Row] = &[
    row(Input, "corpus", Values("PATH", "files, globs, URLs, or - for standard input", Join::List), None, Request,
        "Text to read: files or globs (.txt, .jsonl, .parquet, optionally .gz or .zst), URLs, or - for standard input"),
    row(Input, "text-column", Value("NAME", "a name"), None, Numbers,
        "Column that holds the text in .jsonl and .parquet files [default: text]"),
    row(Input, "clean", Words("WHAT", &["wiki"]), None, Numbers,
        "Clean the text first; wiki strips Wikipedia markup, code and tags"),
    row(Input, "chunk-chars", Value("N", "a number of characters"), None, Numbers,
        "Split running text into documents of N characters"),
    row(Input, "sample", Value("FRACTION", "a fraction such as 0.01"), Some("1.0"), Numbers,
        "Keep this fraction of the documents, chosen by hashing document ids"),
    row(Input, "seed", Value("N", "a whole number"), Some("0"), Numbers,
        "Seed for every random choice"),
    row(Input, "max-words", Value("N", "a number of words"), None, Numbers,
        "Drop documents with more than N space-separated words"),
    row(Input, "lowercase", Truth, Some("false"), Numbers,
        "Lowercase the text"),
    row(Input, "dedup", Truth, Some("false"), Numbers,
        "Drop exact duplicate documents"),
    row(Input, "limit", Value("N", "a number of documents"), None, Numbers,
        "Keep the first N documents after filtering"),
    row(Input, "on-error", Words("HOW", &["fail", "skip"]), Some("fail"), Numbers,
        "Fail on or skip bad documents and non-finite states"),

    row(Model, "model", Value("MODEL", "a folder or a Hub id"), None, Request,
        "Model folder (config.json, weights, tokenizer.json), GGUF file, or Hugging Face Hub id such as org/name"),
    row(Model, "revision", Value("REV", "a branch, tag or commit"), None, Request,
        "Branch, tag or commit of a Hub model"),
    row(Model, "window", Value("N", "a number of tokens"), None, Numbers,
        "Split long documents into windows of N tokens [default: the model's maximum length]"),
    row(Model, "stride", Value("N", "a number of tokens"), None, Numbers,
        "Start a new window every N tokens; each token is counted once, where it has the most context"),
    row(Model, "wrap", Words("HOW", &["model", "bos-eos", "none"]), Some("model"), Numbers,
        "Add special tokens around each text; model adds what its tokenizer does"),
    row(Model, "ablate", Values("WHAT", "an alteration such as final-norm", Join::Repeated), None, Numbers,
        "Remove or change norms: final-norm, norm:identity, norm:gamma=1, norm:beta=0 or norm:gamma*=S, optionally at some layers (@0,2-4 or @final); repeatable"),

    row(Measured, "preset", Words("NAME", &super::presets::NAMES), None, Request,
        "Use the settings of a paper (flags override it)"),
    row(Measured, "measures", Value("LIST", "all, or a list of families and measures"), Some(DEFAULT_MEASURES), Numbers,
        "Compute these families of measures: all, or a list of norm, cosine, spectrum, partition, dimension, sequence, layers; a measure such as mean_cosine stands for its family"),
    row(Measured, "layers", Value("LIST", "all, or a list such as 0,6,12"), Some("all"), Numbers,
        "Measure these layers: all, or a list such as 0,6,12"),
    row(Measured, "group", Value("BY", "token, surface, word, position, sequence, cluster:K[,K...], column:NAME or none"), Some("token"), Numbers,
        "Group states by token, surface, word, position, sequence, cluster:K[,K...], column:NAME or none"),
    row(Measured, "split", Value("BY", "column:NAME"), None, Numbers,
        "Also measure the documents of each value of a column as a run of their own, in OUT/split (column:NAME, at most 64 values)"),
    row(Measured, "frequency", Value("MIN:MAX", "MIN:MAX such as 10:100000"), Some("10:100000"), Numbers,
        "Select groups that occur between MIN and MAX times"),
    row(Measured, "specials", Words("HOW", &["exclude", "include", "count"]), Some("exclude"), Numbers,
        "Exclude special tokens from the statistics, include them, or count them but never select them; they are never words"),
    row(Measured, "skip-first", Value("N", "a number of positions"), Some("0"), Numbers,
        "Leave the first N positions of every sequence out of the statistics; the model still reads them"),
    row(Measured, "tokens", Value("LIST", "auto, none or a comma-separated list"), Some("auto"), Numbers,
        "Keep individual states of these tokens: auto, none or a comma-separated list"),
    row(Measured, "token-states", Value("N", "a number of states"), Some("500"), Numbers,
        "Keep up to N states of each of those tokens"),
    row(Measured, "sample-states", Value("N", "a number of states"), Some("20000"), Numbers,
        "Keep a random sample of N states per layer"),
    row(Measured, "massive", Value("X", "a multiple such as 10"), Some("10"), Numbers,
        "Count a state as massive when its norm exceeds X times the median"),
    row(Measured, "confidence", Truth, Some("false"), Numbers,
        "Compute standard errors (uses more memory)"),

    row(Output, "out", Value("DIR", "a folder"), None, Request,
        "Write the run to this folder or object-store address (s3://, gs://, az://)"),
    row(Output, "resume", Switch, None, Request,
        "Resume the unfinished run in --out (happens by itself when the settings match); fail if there is none"),
    row(Output, "overwrite", Switch, None, Request,
        "Start over and replace whatever is in --out"),
    row(Output, "keep-work", Switch, None, Request,
        "Keep the .work folder when the run ends"),

    row(Resources, "device", Value("DEVICE", "auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all"), Some("auto"), Role::Resources,
        "Device to run on: cpu, cuda, cuda:N for the GPU of this number, or auto for a GPU if there is one; cuda:N,M and cuda:all share the text among GPUs"),
    row(Resources, "dtype", Words("TYPE", &["f32", "f32x3", "tf32", "bf16", "f16"]), None, Numbers,
        "Numbers in which the model multiplies. f32x3 (GPUs) is nearly as exact as f32 and several times as fast; tf32, f16 (GPUs) and bf16 are faster still, and move states by up to 1 % [default: f32 on processors, f32x3 on GPUs]"),
    row(Resources, "order", Words("HOW", &["auto", "batch", "block"]), Some("auto"), Role::Resources,
        "Take every batch through the whole model (batch), or all batches through one block after another (block), which needs little memory; auto chooses by the memory"),
    row(Resources, "stretch-tokens", Value("N", "a number of tokens"), None, Role::Resources,
        "Take about N tokens at a time through all blocks in block order [default: as many as the disk holds]"),
    row(Resources, "batch-tokens", Value("N", "a number of tokens"), None, Order,
        "Tokens per batch [default: 512 on processors, 16384 on GPUs]"),
    row(Resources, "threads", Value("N", "a number of threads, at least 1"), None, Role::Resources,
        "Number of worker threads [default: all processors]"),
    row(Resources, "max-memory", Value("SIZE", "bytes, such as 8G or 500M"), None, Role::Resources,
        "Stay below this memory, such as 8G, block by block if needed; refuse to start if that is impossible [default: what the machine has left]"),
    row(Resources, "shard", Value("I/N", "I/N with I from 0 to N-1, or auto"), None, Order,
        "Measure only shard I of N (I counts from 0), or auto to read the index from a Slurm array or Kubernetes indexed job"),
    row(Resources, "checkpoint-seconds", Value("SECONDS", "seconds, such as 60 or 0.5"), Some("60"), Role::Resources,
        "Save a checkpoint every S seconds, or less often if saving would take over 5 % of the time"),
];

impl Row {
    /// The row of this name.
    pub fn named(name: &str) -> Option<&'static Row> {
        SETTINGS.iter().find(|row| row.name == name)
    }

    /// Its keyword in Python.
    pub fn keyword(&self) -> String {
        self.name.replace('-', "_")
    }

    /// What to give, to complete an error.
    pub fn example(&self) -> String {
        match self.kind {
            Value(_, example) | Values(_, example, _) => example.to_owned(),
            Words(_, words) => or(words),
            Truth | Switch => "true or false".to_owned(),
        }
    }

    /// Help with possible values and default, in the words of the argument parser.
    pub fn help_text(&self) -> String {
        let values = match self.kind {
            Words(_, words) => format!(" [possible values: {}]", words.join(", ")),
            _ => String::new(),
        };
        let default = match (self.kind, self.default) {
            (Truth, _) | (_, None) => String::new(),
            (_, Some(default)) => format!(" [default: {default}]"),
        };
        format!("{}{values}{default}", self.help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
        let mut names: Vec<&str> = SETTINGS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len(), "a name stands twice");
        for row in SETTINGS {
            assert!(!row.help.ends_with('.') && !row.help.is_empty(), "{}", row.name);
            if let (Words(_, words), Some(default)) = (row.kind, row.default) {
                assert!(words.contains(&default), "{}", row.name);
            }
            assert!(row.kind != Switch || row.role == Request, "{}: a switch cannot be recorded", row.name);
        }
        let headings: Vec<Heading> = SETTINGS.chunk_by(|a, b| a.heading == b.heading).map(|rows| rows[0].heading).collect();
        assert_eq!(headings, Heading::ALL, "rows stand under their headings");
    }
}
