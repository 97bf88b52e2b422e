//! How many records and documents took which way.

use layerscope_error::{Line, line, setting};

use crate::filter::Filters;

/// Counts of the first phase. Those up to `kept` cover the whole corpus and are the same in every shard; those from `documents` on
/// cover this shard.
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
    /// Documents of this shard that the tokenizer refused and that were skipped.
    pub untokenized: u64,
    /// Sequences the model will read.
    pub sequences: u64,
    /// Tokens the model will read.
    pub tokens: u64,
    /// States that enter the statistics: tokens, or words where words are grouped.
    pub counted: u64,
}

impl Counters {
    /// Documents skipped because they could not be used.
    pub fn skipped(&self) -> u64 {
        self.bad + self.untokenized
    }

    /// One line that says why nothing is left.
    pub(crate) fn nothing_left(&self, filters: &Filters) -> Line {
        if self.records == 0 {
            return "the corpus is empty: no record in any input".into();
        }
        let lost = [
            (self.bad, "bad and skipped".into()),
            (self.unsampled, line!["left out by ", setting("sample").to(filters.sample)]),
            (self.blank, "blank".into()),
            (self.too_long, line!["with more words than ", setting("max-words").to(filters.max_words.unwrap_or(0))]),
            (self.repeated, "repeated".into()),
            (self.untokenized, "refused by the tokenizer and skipped".into()),
            (self.without_tokens, "without words".into()),
        ];
        let s = if self.records == 1 { "" } else { "s" };
        let read = Line::from(format!("nothing is left of the corpus: {} record{s} read", self.records));
        let lost = lost.into_iter().filter(|(count, _)| *count > 0).map(|(count, how)| line![format!(", {count} "), how]);
        Line::join([read].into_iter().chain(lost))
    }
}
