//! What happened to every record on its way.

use std::fmt::Write;

use crate::filter::Filters;

/// Counts of the first phase. Up to `kept` they are of the whole corpus, the same in every shard; from `documents` on, of
/// this shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records read and numbered, bad ones included.
    pub records: u64,
    /// Records that could not be used and were skipped.
    pub bad: u64,
    /// Records the sample left out.
    pub unsampled: u64,
    /// Documents of white space alone.
    pub blank: u64,
    /// Documents with too many words.
    pub too_long: u64,
    /// Exact repeats.
    pub repeated: u64,
    /// Documents that passed all filters.
    pub kept: u64,
    /// Documents of this shard in the spool.
    pub documents: u64,
    /// Documents of this shard without a word, where words are grouped.
    pub without_tokens: u64,
    /// Documents of this shard the tokenizer refused and that were skipped.
    pub untokenized: u64,
    /// Sequences the model will read.
    pub sequences: u64,
    /// Tokens the model will read.
    pub tokens: u64,
    /// States that enter the statistics: tokens, or words where words are grouped.
    pub counted: u64,
}

impl Counters {
    /// Every skipped document, for the report of `--on-error skip`.
    pub fn skipped(&self) -> u64 {
        self.bad + self.untokenized
    }

    /// One line that says why nothing is left.
    pub(crate) fn nothing_left(&self, filters: &Filters) -> String {
        if self.records == 0 {
            return "the corpus is empty: no record in any input".into();
        }
        let mut line = format!("nothing is left of the corpus: {} records read", self.records);
        let mut lost = |count: u64, how: String| {
            if count > 0 {
                let _ = write!(line, ", {count} {how}");
            }
        };
        lost(self.bad, "bad and skipped".into());
        lost(self.unsampled, format!("left out by --sample {}", filters.sample));
        lost(self.blank, "blank".into());
        lost(self.too_long, format!("with more words than --max-words {}", filters.max_words.unwrap_or(0)));
        lost(self.repeated, "repeated".into());
        lost(self.untokenized, "refused by the tokenizer and skipped".into());
        lost(self.without_tokens, "without words".into());
        line
    }
}
