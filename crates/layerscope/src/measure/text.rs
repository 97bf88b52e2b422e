//! The text of a run as tokens: written once, found again by every continuation and every checkpoint of a training.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use layerscope_corpus::source::{STANDARD_INPUT, Source, is_assumed};
use layerscope_corpus::{Counters, KnownText, Spool, Tokenizer, check_text, write_spool};
use layerscope_error::{Line, line, setting};
use layerscope_remote::is_address;
use serde::{Deserialize, Serialize};

use super::event::{Event, Show};
use super::timings::Phase;
use crate::error::{Error, Result};
use crate::process::cancel::CancelToken;
use crate::settings::Choices;
use crate::store::stamp::InputStamp;
use crate::store::state::{Fingerprint, differences};
use crate::store::stored::StoredRun;
use crate::store::work::{Work, expect_same};
use crate::text::{counted, grouped};

const SPOOL: &str = "spool";
const RECORD: &str = "text.json";

/// Says of files with an ending that says nothing that they were read as text.
fn tell_assumed(spool: &Spool, show: &mut Show<'_>) {
    let assumed: Vec<&String> = spool.inputs().iter().filter(|name| is_assumed(name)).collect();
    if let [first, more @ ..] = &assumed[..] {
        let others = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        show(Event::note(format!("{first}{others}: read as text, a line a document")));
    }
}

/// What a spool was written from.
#[derive(Serialize, Deserialize)]
struct Record {
    fingerprint: Fingerprint,
    inputs: Vec<InputStamp>,
    corpus: String,
    /// Which spool this is.
    spool: String,
}

/// The text that a plan asks for, and the folder that keeps its spool.
pub struct Text<'a> {
    /// The folder of the run, for messages.
    pub out: &'a Path,
    /// Where the spool is kept.
    pub work: &'a Work,
    /// What to read and how to cut it.
    pub settings: &'a layerscope_corpus::Settings,
    /// Everything that decides the tokens.
    pub fingerprint: Fingerprint,
    /// Whether something depends on the spool already, so that another text is refused.
    pub begun: bool,
    /// The fingerprint of the text that it depends on, where no record of the spool is left.
    pub corpus: Option<String>,
}

/// How a spool was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was written now.
    New,
    /// It was there, and its text has not changed.
    Unchanged,
    /// Its text was touched, read again, and says the same.
    Touched,
}

impl Text<'_> {
    /// Where the spool lies.
    pub fn path(&self) -> PathBuf {
        self.work.path(SPOOL)
    }

    /// The spool of an earlier start, or a new one.
    pub fn open(&self, tokenizer: impl FnOnce() -> Result<Tokenizer>, cancel: &CancelToken, show: &mut Show<'_>) -> Result<(Spool, Found)> {
        let path = self.path();
        let record = self.record(show)?;
        let mut is_lost = false;
        if let Some(record) = &record
            && path.exists()
            && record.inputs.iter().all(InputStamp::is_unchanged)
        {
            if let Some(spool) = self.whole_spool(record)? {
                // A pattern may match other files by now, and standard input bring another text.
                spool.check_corpus(self.settings, cancel.flag())?;
                return Ok((spool, Found::Unchanged));
            }
            show(Event::warning(format!("{}: damaged; the text is read again", path.display())));
            self.work.set_aside(SPOOL)?;
            is_lost = true;
        }
        let again = self.work.path("spool.again");
        let spool = self.write(&again, tokenizer, cancel, show).map_err(|error| match is_lost && self.is_piped() {
            true => Error::refused(line![
                format!("{}: damaged; give the same text on standard input again, or start again with ", path.display()),
                setting("overwrite")
            ]),
            false => error,
        })?;
        let known = record.as_ref().map(|record| &record.corpus).or(self.corpus.as_ref());
        if known.is_some_and(|known| *known != spool.fingerprint()) {
            let _ = std::fs::remove_file(&again);
            let changed = record.iter().flat_map(|record| &record.inputs).find(|stamp| !stamp.is_unchanged());
            let unnamed = if self.is_piped() { "the text on standard input" } else { "the corpus" };
            let what = changed.map_or(unnamed, |stamp| stamp.path.as_str());
            return Err(Error::changed(line![
                format!("{what} changed since the run in {} began; start again with ", self.out.display()),
                setting("overwrite")
            ]));
        }
        std::fs::rename(&again, &path).map_err(|source| Error::io(&path, source))?;
        self.remember(&spool)?;
        Ok((Spool::open(&path)?, if known.is_some() { Found::Touched } else { Found::New }))
    }

    /// Writes a new spool. What the tokenizer's threads do at the same time counts once; the rest of the time is reading.
    fn write(
        &self,
        path: &Path,
        tokenizer: impl FnOnce() -> Result<Tokenizer>,
        cancel: &CancelToken,
        show: &mut Show<'_>,
    ) -> Result<Spool> {
        let start = Instant::now();
        show(Event::Reading(layerscope_corpus::Progress::default()));
        let tokenizer = tokenizer()?;
        let (loading, mut working) = (start.elapsed().as_secs_f64(), Duration::ZERO);
        let mut progress = |progress: &layerscope_corpus::Progress| {
            working = progress.tokenizing;
            show(Event::Reading(*progress));
        };
        let spool = write_spool(self.settings, &tokenizer, path, &mut progress, cancel.flag())?;
        tell_assumed(&spool, show);
        let tokenizing = loading + working.as_secs_f64() / self.settings.threads.max(1) as f64;
        let timings = self.work.timings();
        timings.add(Phase::Tokenize, tokenizing);
        timings.add(Phase::Read, (start.elapsed().as_secs_f64() - tokenizing).max(0.0));
        Ok(spool)
    }

    /// The spool that belongs to a record; None where it is damaged, or another one.
    fn whole_spool(&self, record: &Record) -> Result<Option<Spool>> {
        match Spool::open(&self.path()) {
            Ok(spool) => Ok(Some(spool).filter(|spool| spool.identity() == record.spool)),
            Err(layerscope_corpus::Error::Spool { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_piped(&self) -> bool {
        self.settings.inputs.iter().any(|input| input == STANDARD_INPUT)
    }

    /// What the spool there was written from; None where it may be written anew.
    fn record(&self, show: &mut Show<'_>) -> Result<Option<Record>> {
        let record: Option<Record> = match self.work.read_json(RECORD) {
            Err(error @ Error::Damaged { .. }) => {
                show(Event::warning(format!("{error}; the text is read again")));
                self.work.set_aside(RECORD)?;
                None
            }
            record => record?,
        };
        match record {
            Some(record) if self.begun => expect_same(self.out, &record.fingerprint, &self.fingerprint).map(|()| Some(record)),
            record => Ok(record.filter(|record| differences(&record.fingerprint, &self.fingerprint).is_empty())),
        }
    }

    fn remember(&self, spool: &Spool) -> Result<()> {
        let inputs = spool.inputs().iter().filter_map(|input| InputStamp::of(input)).collect();
        let (corpus, spool) = (spool.fingerprint(), spool.identity());
        self.work.write_json(RECORD, &Record { fingerprint: self.fingerprint.clone(), inputs, corpus, spool })
    }
}

/// Fewer documents than this are hardly what a preset's sample is meant for.
const FEW_DOCUMENTS: u64 = 1000;

/// A warning where the sample of a preset, which is made for large corpora, leaves little of a small one.
pub fn little_left(choices: &Choices, counters: &Counters) -> Option<Line> {
    let Counters { kept, records, .. } = *counters;
    // A larger sample gives no more than the limit.
    let is_limit = choices.text("limit").is_some_and(|limit| limit == kept.to_string());
    let is_little = choices.is_of_preset("sample") && kept < FEW_DOCUMENTS && counters.unsampled > 0 && !is_limit;
    is_little.then(|| {
        line![
            format!("{} of {} left by the preset's ", grouped(kept as usize), counted_are(records, "document")),
            setting("sample").to(choices.text("sample").unwrap_or_default()),
            "; add ",
            setting("sample").to(1)
        ]
    })
}

/// `1 document is`, `2 documents are`.
fn counted_are(count: u64, thing: &str) -> String {
    format!("{} {}", counted(count, thing), if count == 1 { "is" } else { "are" })
}

/// Refuses to call a run finished whose text has changed since it was read. `folder` holds the run.
pub fn expect_same_text(folder: &Path, run: &StoredRun, settings: &layerscope_corpus::Settings, cancel: &CancelToken) -> Result<()> {
    let corpus = &run.facts.corpus;
    let Some(fingerprint) = run.state.about().fingerprint.get("corpus").and_then(|corpus| corpus.as_str()) else { return Ok(()) };
    let known = KnownText { inputs: &corpus.inputs, fingerprint };
    let written = std::fs::metadata(run.state.path()).and_then(|state| state.modified()).ok();
    // Older programs did not note how inputs looked.
    let is_unchanged = |source: &Source| match corpus.stamps.is_empty() || is_address(&source.name) {
        true => source.modified.zip(written).is_none_or(|(modified, written)| modified < written),
        false => corpus.stamps.iter().any(|stamp| stamp.path == source.name && stamp.is_unchanged()),
    };
    Ok(check_text(settings, &known, is_unchanged, folder, cancel.flag())?)
}
