//! One document -> the sequences the model will read.

use std::collections::HashMap;

use layerscope_error::{Line, line, setting};

use crate::document::{Document, DocumentId};
use crate::error::{Error, Result, or_skip};
use crate::filter;
use crate::group::{self, CONTINUES, Grouping, LocalName, UNCOUNTED};
use crate::settings::{Settings, Specials};
use crate::source::{Format, Source};
use crate::tokenize::Tokenizer;
use crate::window::{Span, Windows};

/// A document cut into sequences, before its groups have numbers.
pub(crate) struct Prepared {
    pub id: DocumentId,
    /// Words of its text, as white space separates them.
    pub words: u64,
    pub sequences: Vec<PreparedSequence>,
    /// What the group words of words and columns refer to.
    pub names: Vec<LocalName>,
}

/// One sequence with local group words: token ids, positions, or places in [`Prepared::names`].
pub(crate) struct PreparedSequence {
    /// The place of its first token of text in the document.
    pub first: u32,
    /// Rows of the document's earlier sequences.
    pub row: u32,
    pub ids: Vec<u32>,
    pub words: Vec<u32>,
}

/// Tokenizes and cuts; shared by all threads, which may outlive the work that they were started for.
pub(crate) struct Preparer {
    settings: Settings,
    tokenizer: Tokenizer,
    sources: Vec<Source>,
    windows: Windows,
    surfaces: Vec<u32>,
}

/// Ids of a document's text and, where words are grouped, which of them start a word and which word it is.
struct Text {
    ids: Vec<u32>,
    items: Option<Vec<u32>>,
    names: Vec<LocalName>,
}

impl Preparer {
    pub fn new(settings: &Settings, tokenizer: &Tokenizer, sources: &[Source]) -> Result<Self> {
        let windows = settings.check(tokenizer)?;
        let surfaces = if settings.grouping == Grouping::Surface { group::least_of_surface(tokenizer) } else { Vec::new() };
        let (settings, tokenizer, sources) = (settings.clone(), tokenizer.clone(), sources.to_vec());
        let preparer = Preparer { settings, tokenizer, sources, windows, surfaces };
        [preparer.tokenizer.prefix(), preparer.tokenizer.suffix()].into_iter().try_for_each(|ids| preparer.check_vocabulary(ids))?;
        Ok(preparer)
    }

    /// The document's sequences; `None` when the choice of words leaves nothing of it.
    pub fn prepare(&self, document: &Document) -> Result<Option<Prepared>> {
        let bad = |problem: Line| self.bad(document.id, problem);
        let skip = || setting("on-error").to("skip");
        let (size, longest) = (document.text.len() as u64, self.settings.longest_document());
        if size > longest {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let problem =
                format!("{:.1} MiB are too long a text for the memory there is, which holds {:.1} MiB; ", mib(size), mib(longest));
            return Err(bad(line![problem, "cut it with ", setting("chunk-chars"), " ", or_skip()]));
        }
        let refused = |problem: String| bad(line![format!("the tokenizer refuses it: {problem}; use "), skip()]);
        let text = self.read(document).map_err(refused)?;
        if text.ids.is_empty() {
            return match self.settings.grouping {
                Grouping::Word => Ok(None), // a text without words is no fault
                _ => Err(bad(line!["the tokenizer finds no token in it; remove it ", or_skip()])),
            };
        }
        self.check_vocabulary(&text.ids)?;
        let starts = |at: usize| text.items.as_ref().is_none_or(|items| items[at] & CONTINUES == 0);
        let too_long = || format!("one of its words is longer than a window of {} tokens; use a larger ", self.settings.window);
        let spans = self.windows.cut(text.ids.len(), starts).map_err(|_| bad(line![too_long(), setting("window")]))?;
        let mut sequences = Vec::with_capacity(spans.len());
        let mut row = 0;
        for span in spans {
            let sequence = self.sequence(&text, &span, row);
            let next = sequence.and_then(|sequence| Some((row.checked_add(sequence.ids.len() as u32)?, sequence)));
            let (next, sequence) = next.ok_or_else(|| bad(line!["it has too many tokens; cut it with ", setting("chunk-chars")]))?;
            row = next;
            sequences.push(sequence);
        }
        let words = filter::words(&document.text) as u64;
        Ok(Some(Prepared { id: document.id, words, sequences, names: text.names }))
    }

    /// An error that says where the document came from.
    pub fn bad(&self, id: DocumentId, problem: Line) -> Error {
        let source = &self.sources[id.file as usize];
        let unit = match source.format {
            Format::Parquet => "row",
            Format::Text if self.settings.filters.clean.is_some() => "record",
            _ => "line",
        };
        Error::record(&source.name, format!("{unit} {}", id.record + 1), problem)
    }

    fn read(&self, document: &Document) -> Result<Text, String> {
        match &self.settings.grouping {
            Grouping::Word => self.read_words(&document.text),
            Grouping::Column(_) => {
                let name = LocalName { text: document.column.clone().unwrap_or_default(), subwords: 0 };
                Ok(Text { ids: self.tokenizer.encode(&document.text)?, items: None, names: vec![name] })
            }
            _ => Ok(Text { ids: self.tokenizer.encode(&document.text)?, items: None, names: Vec::new() }),
        }
    }

    /// Words one by one, joined again.
    fn read_words(&self, text: &str) -> Result<Text, String> {
        let mut read = Text { ids: Vec::new(), items: Some(Vec::new()), names: Vec::new() };
        let mut known: HashMap<String, u32> = HashMap::new();
        for word in group::words(text) {
            let ids = self.tokenizer.encode_word(&word, read.ids.is_empty())?;
            let local = match known.get(&word) {
                Some(&local) => local,
                None => {
                    let inside = if read.ids.is_empty() { self.tokenizer.encode_word(&word, false)?.len() } else { ids.len() };
                    let local = read.names.len() as u32;
                    read.names.push(LocalName { text: word.clone(), subwords: inside as u32 });
                    known.insert(word, local);
                    local
                }
            };
            let items = read.items.get_or_insert_default();
            items.extend((0..ids.len()).map(|place| if place == 0 { local } else { local | CONTINUES }));
            read.ids.extend(ids);
        }
        Ok(read)
    }

    /// Wraps a window and gives every row its local group word; `None` when a number does not fit.
    fn sequence(&self, text: &Text, span: &Span, row: u32) -> Option<PreparedSequence> {
        let Settings { grouping, specials, skip_first, .. } = &self.settings;
        let counts_specials = *specials != Specials::Exclude && *grouping != Grouping::Word;
        let (prefix, suffix) = (self.tokenizer.prefix(), self.tokenizer.suffix());
        let ids = [prefix, &text.ids[span.read.clone()], suffix].concat();
        let mut words = Vec::with_capacity(ids.len());
        let mut skipping = false;
        for (place, &id) in ids.iter().enumerate() {
            let at = span.read.start + place.wrapping_sub(prefix.len());
            let inside = place >= prefix.len() && at < span.read.end;
            let item = if inside { text.items.as_ref().map(|items| items[at]) } else { None };
            let continues = item.unwrap_or(0) & CONTINUES;
            // A word that begins among the skipped rows is left out whole.
            skipping = place < *skip_first || (skipping && continues != 0);
            let counted = if inside { span.counted.contains(&at) } else { counts_specials };
            words.push(if counted && !skipping { self.local(id, place, item) } else { UNCOUNTED | continues });
        }
        Some(PreparedSequence { first: u32::try_from(span.read.start).ok()?, row, ids, words })
    }

    fn local(&self, id: u32, place: usize, item: Option<u32>) -> u32 {
        match &self.settings.grouping {
            Grouping::Token => id,
            Grouping::Surface => self.surfaces[id as usize],
            Grouping::Position => place as u32,
            Grouping::Sequence | Grouping::Column(_) | Grouping::None => 0,
            Grouping::Word => item.unwrap_or(UNCOUNTED),
        }
    }

    fn check_vocabulary(&self, ids: &[u32]) -> Result<()> {
        let limit = self.settings.vocabulary.unwrap_or(usize::MAX).min(self.tokenizer.largest_id() as usize + 1);
        let Some(&id) = ids.iter().find(|&&id| id as usize >= limit) else { return Ok(()) };
        let token = self.tokenizer.readable(id);
        let problem = format!("token `{token}` has id {id}, outside the model's vocabulary of {limit}: is this the model's own tokenizer?");
        Err(Error::tokenizer(self.tokenizer.file(), problem))
    }
}
