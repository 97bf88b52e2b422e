//! Everything that decides what the spool holds.

use layerscope_error::{line, setting};
use layerscope_remote::Options;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::filter::{Filters, Shard};
use crate::group::{Grouping, UNCOUNTED};
use crate::source::MAX_RECORD_BYTES;
use crate::tokenize::Tokenizer;
use crate::window::{Context, Windows};

/// Bytes of memory for every byte of a record while it is read and filtered.
const MEMORY_OF_RECORD: u64 = 6;

/// Bytes of memory for every byte of a document while it is tokenized: the library keeps every piece of a text with its places, before and
/// after normalization. Measured: 130 for words, 180 where nearly every letter is a token.
const MEMORY_OF_DOCUMENT: u64 = 256;

/// Texts up to this size are read whatever the memory: where there is too little for them, there is too little for the run, which says so.
const SHORT_TEXT: u64 = 64 * 1024;

/// What to do with a record that cannot be used. Missing, truncated or damaged files are always an error, because their lost records
/// cannot be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop.
    #[default]
    Fail,
    /// Count it and continue.
    Skip,
}

/// Whether the special tokens around a sequence enter the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specials {
    /// The model reads them, but the statistics leave them out.
    #[default]
    Exclude,
    /// They count like any other token, in every window.
    Include,
    /// They count, but their groups are never selected by frequency.
    Count,
}

/// What to read and how to cut it. What is wrapped around sequences is up to the [`Tokenizer`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Files, patterns, addresses, or `-`.
    pub inputs: Vec<String>,
    /// How object stores are reached; from the environment by default. Does not affect the spool.
    pub stores: Options,
    /// The text column of JSON lines and Parquet, `text` by default. If it is set, standard input is read as JSON lines.
    pub text_column: Option<String>,
    /// What to do with bad records.
    pub on_error: OnError,
    /// Which documents are kept.
    pub filters: Filters,
    /// Which part of them is written.
    pub shard: Shard,
    /// The column that splits the corpus into parts, if any.
    pub split: Option<String>,
    /// The part that is written, where `shard` is one of the parts: the documents with this value, or without one. `None` where
    /// documents belong to shards by their numbers.
    pub part: Option<Option<String>>,
    /// What makes a group.
    pub grouping: Grouping,
    /// Whether special tokens count. They are no words: where words are grouped, they never do.
    pub specials: Specials,
    /// The model reads this many first rows of every sequence, special tokens included, but nothing counts them.
    pub skip_first: usize,
    /// Tokens per window, including special tokens.
    pub window: usize,
    /// Tokens from the start of one window to the next; without it windows do not overlap.
    pub stride: Option<usize>,
    /// On which side the model sees context.
    pub context: Context,
    /// Number of token embeddings of the model; a larger id is an error.
    pub vocabulary: Option<usize>,
    /// Every shard also keeps this many first documents of the whole corpus, see [`crate::Spool::pilot`].
    pub pilot: u64,
    /// Whether a shard also counts the groups of the whole corpus, see [`crate::Spool::whole_groups`]. It then tokenizes all documents.
    pub count_whole: bool,
    /// Threads that tokenize. Does not affect the spool.
    pub threads: usize,
    /// Bytes of memory that reading may take. A record or document that needs more is refused. Does not affect the spool.
    pub memory: u64,
}

impl Settings {
    /// The defaults for these inputs and a model that reads `window` tokens at a time.
    pub fn new(inputs: impl IntoIterator<Item = impl Into<String>>, window: usize) -> Self {
        Settings {
            inputs: inputs.into_iter().map(Into::into).collect(),
            stores: Options::from_env(),
            text_column: None,
            on_error: OnError::default(),
            filters: Filters::default(),
            shard: Shard::default(),
            split: None,
            part: None,
            grouping: Grouping::default(),
            specials: Specials::default(),
            skip_first: 0,
            window,
            stride: None,
            context: Context::default(),
            vocabulary: None,
            pilot: 0,
            count_whole: false,
            threads: 1,
            memory: u64::MAX,
        }
    }

    /// The longest record that is read: it is there as bytes, cleaned, and cut into documents.
    pub(crate) fn longest_record(&self) -> u64 {
        MAX_RECORD_BYTES.min(self.memory / MEMORY_OF_RECORD).max(SHORT_TEXT)
    }

    /// The longest text that is given to the tokenizer as a whole; every thread may have one.
    pub(crate) fn longest_document(&self) -> u64 {
        (self.memory / MEMORY_OF_DOCUMENT / self.threads.max(1) as u64).max(SHORT_TEXT)
    }

    /// Whether a document belongs to this shard.
    pub(crate) fn owns(&self, document: &Document) -> bool {
        self.part.as_ref().map_or_else(|| self.shard.holds(document.ordinal), |value| *value == document.part)
    }

    /// Whether documents of other shards are tokenized too, to count their groups.
    pub(crate) fn counts_whole(&self) -> bool {
        self.count_whole && self.shard.count > 1
    }

    /// Refuses settings that cannot work, and returns how documents are cut.
    pub fn check(&self, tokenizer: &Tokenizer) -> Result<Windows> {
        self.filters.check()?;
        self.shard.check()?;
        let around = tokenizer.prefix().len() + tokenizer.suffix().len();
        let window = || setting("window").to(self.window);
        if self.window <= around {
            return Err(Error::usage(line![window(), format!(" leaves no room for text beside {around} special tokens; give more")]));
        }
        if self.window >= UNCOUNTED as usize {
            return Err(Error::usage(line![window(), format!(" is too large; give less than {UNCOUNTED}")]));
        }
        if self.skip_first >= self.window {
            let nothing = format!(" leaves nothing to count in a window of {} tokens; give less", self.window);
            return Err(Error::usage(line![setting("skip-first").to(self.skip_first), nothing]));
        }
        let room = self.window - around;
        if let Some(stride) = self.stride
            && !(1..=room).contains(&stride)
        {
            let holds = format!(" would lose tokens: a window of {} holds {room} of text; give 1 to {room}", self.window);
            return Err(Error::usage(line![setting("stride").to(stride), holds]));
        }
        Ok(Windows { room, stride: self.stride, context: self.context })
    }
}
