//! Which records become documents, in a fixed order:
//!
//! number -> sample -> clean, cut -> blank -> words -> lower-case -> repeats -> limit -> shard
//!
//! Everything up to the limit looks at the whole corpus, so sharding never changes which documents are kept. Every shard reads all
//! the text and keeps its own part.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use layerscope_error::{line, setting};

use crate::clean::Clean;
use crate::counters::Counters;
use crate::document::{Document, DocumentId, Record};
use crate::error::{Error, Result};
use crate::hash::{Hasher128, hash64, hash128};

const SAMPLE_KEY: u64 = u64::from_le_bytes(*b"sampling");
const REPEAT_KEY: [u64; 2] = [u64::from_le_bytes(*b"document"), u64::from_le_bytes(*b"repeated")];
const FINGERPRINT_KEY: [u64; 2] = [u64::from_le_bytes(*b"document"), u64::from_le_bytes(*b"contents")];

/// Which part of the corpus is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Filters {
    /// Fraction of the records kept, chosen by [`sample_hash`].
    pub sample: f64,
    /// The sample's seed.
    pub seed: u64,
    /// Strip mark-up from each record.
    pub clean: Option<Clean>,
    /// Cut each record into documents of this many characters (Unicode scalar values); the last one may be shorter.
    pub chunk_chars: Option<usize>,
    /// Keep only documents with at most this many words, as separated by white space.
    pub max_words: Option<usize>,
    /// Lower-case the text.
    pub lowercase: bool,
    /// Drop exact repeats of earlier documents. Takes about 20 bytes of memory per document.
    pub dedup: bool,
    /// Keep only the first documents that remain, this many; reading stops after them.
    pub limit: Option<u64>,
}

impl Default for Filters {
    fn default() -> Self {
        Filters { sample: 1.0, seed: 0, clean: None, chunk_chars: None, max_words: None, lowercase: false, dedup: false, limit: None }
    }
}

impl Filters {
    /// Refuses values that would leave no text.
    pub fn check(&self) -> Result<()> {
        let empty =
            |name: &'static str, what: &str| Err(Error::usage(line![setting(name).to(0), format!(" leaves no {what}; give at least 1")]));
        if !(self.sample > 0.0 && self.sample <= 1.0) {
            let problem = line![setting("sample").to(self.sample), " is not a fraction; give a number above 0 and at most 1"];
            return Err(Error::usage(problem));
        }
        if self.chunk_chars == Some(0) {
            return empty("chunk-chars", "text");
        }
        if self.max_words == Some(0) {
            return empty("max-words", "document");
        }
        if self.limit == Some(0) {
            return empty("limit", "document");
        }
        Ok(())
    }
}

/// One worker's part of the documents: those whose ordinal modulo `count` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0 to `count` - 1.
    pub index: u32,
    /// How many workers there are.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { index: 0, count: 1 }
    }
}

impl Shard {
    /// Refuses an index that is not below the count.
    pub fn check(&self) -> Result<()> {
        if self.index < self.count {
            return Ok(());
        }
        let shard = setting("shard").to(format!("{}/{}", self.index, self.count));
        Err(Error::usage(line![shard, " does not exist; shards are numbered from 0 to N-1"]))
    }

    /// Whether the document with this ordinal belongs here.
    pub fn holds(&self, ordinal: u64) -> bool {
        ordinal % u64::from(self.count) == u64::from(self.index)
    }
}

/// The number that decides whether a record is sampled: SipHash-2-4 with the key (seed, "sampling" as a little-endian word) of the
/// file's number and the record's, 8 little-endian bytes each. A record is kept when the upper 53 bits, as a fraction in
/// [0, 1), lie below the fraction asked for; so a smaller sample is part of a larger one.
pub fn sample_hash(seed: u64, file: u32, record: u64) -> u64 {
    let mut message = [0; 16];
    message[..8].copy_from_slice(&u64::from(file).to_le_bytes());
    message[8..].copy_from_slice(&record.to_le_bytes());
    hash64([seed, SAMPLE_KEY], &message)
}

fn sampled(filters: &Filters, file: u32, record: u64) -> bool {
    filters.sample >= 1.0 || ((sample_hash(filters.seed, file, record) >> 11) as f64 / (1u64 << 53) as f64) < filters.sample
}

/// The filters at work, from the first record to the last.
pub(crate) struct Sieve {
    filters: Filters,
    seen: HashSet<u128>,
    fingerprint: Hasher128,
    /// Filled up to `kept`.
    pub counters: Counters,
}

impl Sieve {
    pub fn new(filters: Filters) -> Self {
        Sieve { filters, seen: HashSet::new(), fingerprint: Hasher128::new(FINGERPRINT_KEY), counters: Counters::default() }
    }

    /// A hash over the ids and texts of all kept documents so far, whatever the shard.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint.finish()
    }

    /// Passes one record on as none, one or many documents. Breaks off when the limit is reached.
    pub fn offer(
        &mut self,
        file: u32,
        number: u64,
        record: Record,
        keep: &mut impl FnMut(Document) -> Result<()>,
    ) -> Result<ControlFlow<()>> {
        if !sampled(&self.filters, file, number) {
            self.counters.unsampled += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let text = self.filters.clean.map_or(Cow::Borrowed(record.text.as_str()), |clean| clean.apply(&record.text).into());
        for (chunk, text) in pieces(&text, self.filters.chunk_chars).enumerate() {
            let chunk = u32::try_from(chunk)
                .map_err(|_| Error::usage(line![setting("chunk-chars"), " is too small for this corpus; give more"]))?;
            let id = DocumentId { file, record: number, chunk };
            if let Some(document) = self.document(id, text, &record) {
                keep(document)?;
                if self.filters.limit == Some(self.counters.kept) {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn document(&mut self, id: DocumentId, text: &str, record: &Record) -> Option<Document> {
        if text.trim().is_empty() {
            self.counters.blank += 1;
            return None;
        }
        if self.filters.max_words.is_some_and(|most| words(text) > most) {
            self.counters.too_long += 1;
            return None;
        }
        let text = if self.filters.lowercase { text.to_lowercase() } else { text.to_owned() };
        if self.filters.dedup && !self.seen.insert(hash128(REPEAT_KEY, text.as_bytes())) {
            self.counters.repeated += 1;
            return None;
        }
        let ordinal = self.counters.kept;
        self.counters.kept += 1;
        self.note(id, &text, record);
        Some(Document { id, ordinal, text, column: record.column.clone(), part: record.part.clone() })
    }

    fn note(&mut self, id: DocumentId, text: &str, record: &Record) {
        self.fingerprint.write(&id.file.to_le_bytes());
        self.fingerprint.write(&id.record.to_le_bytes());
        self.fingerprint.write(&id.chunk.to_le_bytes());
        for part in [text, record.column.as_deref().unwrap_or("")].into_iter().chain(record.part.as_deref()) {
            self.fingerprint.write(&(part.len() as u64).to_le_bytes());
            self.fingerprint.write(part.as_bytes());
        }
    }
}

/// How many words white space separates.
pub(crate) fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Cuts a text into pieces of `chars` characters; one piece when nothing is to be cut.
fn pieces(text: &str, chars: Option<usize>) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let cut = chars.and_then(|chars| text.char_indices().nth(chars)).map_or(text.len(), |(at, _)| at);
        rest = (cut < text.len()).then(|| &text[cut..]);
        Some(&text[..cut])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        Record { text: text.into(), ..Record::default() }
    }

    fn keep(filters: Filters, texts: &[&str]) -> (Vec<(DocumentId, String)>, Counters) {
        let mut sieve = Sieve::new(filters);
        let mut kept = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let flow = sieve.offer(0, number as u64, record(text), &mut |document| {
                assert_eq!(document.ordinal, kept.len() as u64);
                kept.push((document.id, document.text));
                Ok(())
            });
            if flow.unwrap().is_break() {
                break;
            }
        }
        (kept, sieve.counters)
    }

    fn numbers(kept: &[(DocumentId, String)]) -> Vec<u64> {
        kept.iter().map(|(id, _)| id.record).collect()
    }

    /// Computed by tools/sample_hash_vectors.py from the definition.
    #[test]
    fn sample_vectors() {
        for (seed, file, record, expected) in SAMPLE_VECTORS {
            assert_eq!(sample_hash(seed, file, record), expected, "seed {seed}, file {file}, record {record}");
        }
    }

    const SAMPLE_VECTORS: [(u64, u32, u64, u64); 6] = [
        (0, 0, 0, 0x495a_a893_8fb2_3033),
        (0, 0, 1, 0x1bdf_bfd8_f28d_a841),
        (0, 1, 0, 0xdc4a_bb4c_3bd8_a55a),
        (1, 0, 0, 0x0789_2f9e_cc19_8836),
        (42, 7, 123_456_789, 0x24cc_5792_957a_aca4),
        (u64::MAX, u32::MAX, u64::MAX, 0x2ec2_6daa_6a73_2594),
    ];

    #[test]
    fn samples_are_nested_and_about_as_large_as_asked() {
        let texts = vec!["x"; 20_000];
        let of = |sample| numbers(&keep(Filters { sample, seed: 3, ..Filters::default() }, &texts).0);
        let (small, large) = (of(0.01), of(0.1));
        assert!((150..250).contains(&small.len()), "{}", small.len());
        assert!((1850..2150).contains(&large.len()), "{}", large.len());
        assert!(small.iter().all(|number| large.contains(number)));
        assert_ne!(small, numbers(&keep(Filters { sample: 0.01, seed: 4, ..Filters::default() }, &texts).0));
    }

    #[test]
    fn words_are_counted_before_repeats_and_repeats_after_lower_case() {
        let texts = ["One two", "ONE TWO", "one two three", "  ", "four", "one two", "five"];
        let filters = Filters { max_words: Some(2), lowercase: true, dedup: true, limit: Some(2), ..Filters::default() };
        let (kept, counters) = keep(filters.clone(), &texts);
        assert_eq!(numbers(&kept), [0, 4]);
        assert_eq!(kept[0].1, "one two");
        // Nothing is looked at once the limit is reached.
        assert_eq!((counters.blank, counters.too_long, counters.repeated, counters.kept), (1, 1, 1, 2));
        let (kept, _) = keep(Filters { lowercase: false, limit: None, ..filters }, &texts);
        assert_eq!(numbers(&kept), [0, 1, 4, 5, 6]);
    }

    #[test]
    fn a_sample_is_taken_before_anything_else() {
        let texts: Vec<String> = (0..500).map(|number| if number % 2 == 0 { "same".into() } else { format!("text {number}") }).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let filters = Filters { sample: 0.3, dedup: true, max_words: Some(1), ..Filters::default() };
        let (kept, counters) = keep(filters.clone(), &texts);
        let first = (0..500).find(|&number| number % 2 == 0 && sampled(&filters, 0, number)).unwrap();
        assert_eq!(numbers(&kept), [first]);
        let chosen = (0..500).filter(|&number| sampled(&filters, 0, number)).count() as u64;
        assert_eq!(counters.unsampled, 500 - chosen);
        assert_eq!(counters.too_long + counters.repeated + 1, chosen);
    }

    #[test]
    fn records_are_cut_by_characters() {
        let (kept, counters) =
            keep(Filters { chunk_chars: Some(3), max_words: Some(1), ..Filters::default() }, &["äöüxyz", "ab", "a b    c"]);
        let kept: Vec<_> = kept.iter().map(|(id, text)| (id.record, id.chunk, text.as_str())).collect();
        assert_eq!(kept, [(0, 0, "äöü"), (0, 1, "xyz"), (1, 0, "ab"), (2, 2, " c")]);
        assert_eq!((counters.too_long, counters.blank), (1, 1));
    }

    #[test]
    fn the_fingerprint_knows_texts_and_ids() {
        let of = |texts: &[&str]| {
            let mut sieve = Sieve::new(Filters::default());
            for (number, text) in texts.iter().enumerate() {
                sieve.offer(0, number as u64, record(text), &mut |_| Ok(())).unwrap().is_break();
            }
            sieve.fingerprint()
        };
        let all = [of(&["a", "b"]), of(&["ab"]), of(&["b", "a"]), of(&["", "a", "b"]), of(&["a", "b", "c"])];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert_eq!(of(&["a", "b"]), of(&["a", "b", " "]));
    }
}
