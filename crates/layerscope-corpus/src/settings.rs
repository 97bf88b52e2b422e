//! Everything that decides what the spool holds.

use layerscope_remote::Options;

use crate::error::{Error, Result};
use crate::filter::{Filters, Shard};
use crate::group::{Grouping, UNCOUNTED};
use crate::tokenize::Tokenizer;
use crate::window::{Context, Windows};

/// What to do with a record that cannot be used. Files that are absent, cut or damaged always fail: what they lost cannot be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop.
    #[default]
    Fail,
    /// Count it and go on.
    Skip,
}

/// Whether the tokens put around a sequence enter the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specials {
    /// The model reads them, nothing counts them.
    #[default]
    Exclude,
    /// They count like any other, in every window.
    Include,
}

/// What to read and how to cut it. Wrapping is the tokenizer's.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Files, patterns, addresses, or `-`.
    pub inputs: Vec<String>,
    /// How object stores are reached, as the environment says by default. Does not change a byte of the spool.
    pub stores: Options,
    /// The column of the text in JSON lines and Parquet, `text` by default. Naming it makes standard input JSON lines.
    pub text_column: Option<String>,
    /// What to do with bad records.
    pub on_error: OnError,
    /// What is kept.
    pub filters: Filters,
    /// Which part of it is ours.
    pub shard: Shard,
    /// What makes a group.
    pub grouping: Grouping,
    /// Whether special tokens count.
    pub specials: Specials,
    /// Tokens of a window, special tokens included.
    pub window: usize,
    /// Tokens from one window to the next; windows do not overlap without it.
    pub stride: Option<usize>,
    /// On which side the model sees context.
    pub context: Context,
    /// The model's number of embeddings: an id beyond it is an error.
    pub vocabulary: Option<usize>,
    /// Every shard also keeps the first so many documents of the whole corpus, see [`crate::Spool::pilot`].
    pub pilot: u64,
    /// Threads that tokenize. Does not change a byte of the spool.
    pub threads: usize,
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
            grouping: Grouping::default(),
            specials: Specials::default(),
            window,
            stride: None,
            context: Context::default(),
            vocabulary: None,
            pilot: 0,
            threads: 1,
        }
    }

    /// Refuses what makes no sense, and says how documents are cut.
    pub fn check(&self, tokenizer: &Tokenizer) -> Result<Windows> {
        self.filters.check()?;
        self.shard.check()?;
        let around = tokenizer.prefix().len() + tokenizer.suffix().len();
        if self.window <= around || self.window >= UNCOUNTED as usize {
            let problem = format!("--window {} leaves no room beside {around} special tokens, or is absurdly large", self.window);
            return Err(Error::Usage(problem));
        }
        let room = self.window - around;
        if let Some(stride) = self.stride
            && !(1..=room).contains(&stride)
        {
            let problem =
                format!("--stride {stride} would lose tokens: a window of {} holds {room} of text; give 1 to {room}", self.window);
            return Err(Error::Usage(problem));
        }
        Ok(Windows { room, stride: self.stride, context: self.context })
    }
}
