//! The first phase on one page: one thread reads and filters, some tokenize, the caller's writes, in the order of the documents.
//!
//! Documents travel in parcels. A parcel is sent only when a permit is free, and its permit comes back once it is written, so that a
//! slow parcel cannot pile up the ones behind it: memory is bounded whatever the corpus.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use layerscope_error::{line, setting};
use layerscope_remote::Remote;

use crate::counters::Counters;
use crate::document::{Document, DocumentId};
use crate::error::{Error, Result};
use crate::filter::Sieve;
use crate::group::{Book, CONTINUES, Group, Grouping, LocalName, UNCOUNTED};
use crate::prepare::{Prepared, Preparer};
use crate::settings::{OnError, Settings};
use crate::source::{Columns, STANDARD_INPUT, Source, Watch, sources};
use crate::spool::{Details, NewSequence, Spool, SpoolWriter};
use crate::tokenize::Tokenizer;

/// Text of a parcel, about.
const PARCEL_BYTES: usize = 64 * 1024;
const PARCEL_DOCUMENTS: usize = 256;

/// How many skipped records are remembered with their errors.
const EXAMPLES: usize = 10;

/// How far the first phase has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records read.
    pub records: u64,
    /// Documents of the whole corpus that were kept.
    pub kept: u64,
    /// Tokens written.
    pub tokens: u64,
    /// Bytes of the inputs read, as stored (compressed or not).
    pub bytes: u64,
    /// Bytes of all inputs, if known.
    pub total_bytes: Option<u64>,
    /// Documents that are done: tokenized and written, or counted where another shard has them.
    pub done: u64,
    /// The most documents that will be kept.
    pub limit: Option<u64>,
    /// Time that the tokenizing threads have worked, all of them together.
    pub tokenizing: Duration,
}

impl Progress {
    /// Which part of the text is done, if it is known: of the limit, or of all bytes less what waits for the tokenizer.
    pub fn fraction(&self) -> Option<f64> {
        let part = |done: u64, of: u64| done as f64 / of.max(1) as f64;
        let of_bytes = self.total_bytes.map(|total| part(self.bytes, total).min(1.0) * part(self.done, self.kept).min(1.0));
        let of_limit = self.limit.map(|limit| part(self.done, limit).min(1.0));
        [of_bytes, of_limit].into_iter().flatten().reduce(f64::max)
    }
}

/// Reads the corpus into a spool at `path`. `progress` is called after every parcel; setting `cancel` stops the work quickly and leaves
/// no files behind.
pub fn write_spool(
    settings: &Settings,
    tokenizer: &Tokenizer,
    path: &Path,
    progress: &mut dyn FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Spool> {
    let remote = Remote::new(settings.stores.clone());
    let sources = sources(&settings.inputs, settings.text_column.as_deref(), &remote, cancel)?;
    let preparer = Arc::new(Preparer::new(settings, tokenizer, &sources)?);
    let mut writer = SpoolWriter::create(path, (tokenizer.prefix().len(), tokenizer.suffix().len()))?;
    let mut books = Books::new(settings, tokenizer);
    let mut ledger = Ledger::default();
    let shared = Arc::new(Shared::default());
    let threads = settings.threads.max(1);

    let reading = std::thread::scope(|scope| {
        let (permits, returned) = sync_channel(4 * threads + 4);
        let (parcels, waiting) = channel();
        let (results, arriving) = channel();
        let (waiting, shared, sources, remote) = (Arc::new(Mutex::new(waiting)), &shared, &sources, &remote);
        let scratch = path.parent().unwrap_or(Path::new("."));
        let reader = scope.spawn(move || {
            Reader { reading: Reading { settings, sources, remote, shared, stop: &shared.stop }, permits, parcels }.run(scratch)
        });
        // Not of the scope: a long document is one call of the tokenizer, and whoever is asked to stop does not wait for its end.
        let start = || {
            let (waiting, results, preparer) = (Arc::clone(&waiting), results.clone(), Arc::clone(&preparer));
            let shared = Arc::clone(shared);
            std::thread::spawn(move || tokenize(&preparer, &waiting, &results, &shared))
        };
        let tokenizing: Vec<_> = (0..threads).map(|_| start()).collect();
        drop((waiting, results));
        let total_bytes = sources.iter().map(|source| source.bytes).sum::<Option<u64>>();
        let (mut done, limit) = (0, settings.filters.limit);
        progress(&Progress { total_bytes, limit, ..Progress::default() });
        let mut write = |batch: Vec<Outcome>| -> Result<()> {
            done += batch.len() as u64;
            batch.into_iter().try_for_each(|outcome| ledger.enter(outcome, settings, &mut books, &mut writer))?;
            let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let (records, kept, bytes) = (load(&shared.records), load(&shared.kept), load(&shared.bytes));
            let tokenizing = Duration::from_nanos(load(&shared.tokenizing));
            progress(&Progress { records, kept, tokens: ledger.counters.tokens, bytes, total_bytes, done, limit, tokenizing });
            Ok(())
        };
        let written = in_order(arriving, returned, cancel, &mut write);
        shared.stop.store(true, Ordering::Relaxed);
        if written.is_ok() {
            tokenizing.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.and(read)
    });
    let read = match reading {
        Err(_) if cancel.load(Ordering::Relaxed) => return Err(Error::Interrupted),
        reading => reading?,
    };
    let counters = ledger.totals(&read.counters);
    if counters.kept == 0 || (settings.shard.count == 1 && counters.sequences == 0) {
        return Err(Error::Nothing(counters.nothing_left(&settings.filters)));
    }
    if settings.shard.count == 1 && counters.counted == 0 {
        let short = " leaves nothing to count: no sequence is longer; give less";
        return Err(Error::Nothing(line![setting("skip-first").to(settings.skip_first), short]));
    }
    let skipped = read.examples.into_iter().chain(ledger.examples).take(EXAMPLES).collect();
    let inputs = sources.iter().map(|source| source.name.clone()).collect();
    let (groups, whole) = books.finish();
    writer.finish(read.fingerprint, &Details { counters, lengths: ledger.lengths, inputs, skipped, groups, whole })?;
    Spool::open(path)
}

/// What the threads share while they work.
#[derive(Default)]
pub(crate) struct Shared {
    stop: AtomicBool,
    pub bytes: Arc<AtomicU64>,
    records: AtomicU64,
    /// Records of standard input.
    pub piped: AtomicU64,
    kept: AtomicU64,
    /// Nanoseconds.
    tokenizing: AtomicU64,
}

/// A document on its way: whether it is ours, and whether it is of the pilot.
struct Job {
    document: Document,
    own: bool,
    pilot: bool,
}

struct Outcome {
    prepared: Result<Option<Prepared>>,
    own: bool,
    pilot: bool,
}

type Parcel<T> = (u64, Vec<T>);

/// The thread that reads and filters.
struct Reader<'a> {
    reading: Reading<'a>,
    permits: SyncSender<()>,
    parcels: Sender<Parcel<Job>>,
}

/// What the reader knows at the end.
struct Read {
    counters: Counters,
    fingerprint: u128,
    examples: Vec<String>,
}

impl Reader<'_> {
    fn run(self, scratch: &Path) -> Result<Read> {
        let Reading { settings, shared, .. } = self.reading;
        let mut sieve = Sieve::new(settings.filters.clone());
        let mut examples = Vec::new();
        let mut parcel = Vec::new();
        let (mut bytes, mut number) = (0, 0);
        let mut send = |parcel: &mut Vec<Job>| {
            let gone = |_| Error::Interrupted;
            self.permits.send(()).map_err(gone)?;
            self.parcels.send((number, std::mem::take(parcel))).map_err(|_| Error::Interrupted)?;
            number += 1;
            Ok(())
        };
        let mut keep = |document: Document| {
            let (own, pilot) = (settings.owns(&document), document.ordinal < settings.pilot);
            shared.kept.fetch_add(1, Ordering::Relaxed);
            if own || pilot || settings.counts_whole() {
                bytes += document.text.len();
                parcel.push(Job { document, own, pilot });
            }
            if bytes >= PARCEL_BYTES || parcel.len() >= PARCEL_DOCUMENTS {
                bytes = 0;
                send(&mut parcel)?;
            }
            Ok(())
        };
        // What was read before an error is still worked on, so that the first error in the corpus' order is the one reported.
        let read = self.reading.read(scratch, &mut sieve, &mut examples, &mut keep);
        if !parcel.is_empty() {
            send(&mut parcel)?;
        }
        read?;
        Ok(Read { counters: sieve.counters, fingerprint: sieve.fingerprint(), examples })
    }
}

/// What is read, and how.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub settings: &'a Settings,
    pub sources: &'a [Source],
    pub remote: &'a Remote,
    pub shared: &'a Shared,
    /// Asks to stop.
    pub stop: &'a AtomicBool,
}

impl Reading<'_> {
    /// Passes every record through the sieve, to the end or the limit.
    pub fn read(
        &self,
        scratch: &Path,
        sieve: &mut Sieve,
        examples: &mut Vec<String>,
        keep: &mut impl FnMut(Document) -> Result<()>,
    ) -> Result<()> {
        let text = self.settings.text_column.clone().unwrap_or_else(|| "text".into());
        let group = if let Grouping::Column(name) = &self.settings.grouping { Some(name.clone()) } else { None };
        let columns = Columns { text, group, split: self.settings.split.clone() };
        let watch = Watch { bytes: &self.shared.bytes, cancel: self.stop, remote: self.remote, longest: self.settings.longest_record() };
        for (file, source) in self.sources.iter().enumerate() {
            let mut records = source.open(&columns, self.settings.filters.clean, scratch, watch)?;
            let mut number = 0;
            while let Some(record) = records.next_record() {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Error::Interrupted);
                }
                let flow = match record {
                    Err(error @ Error::Record { .. }) if self.settings.on_error == OnError::Skip => {
                        sieve.counters.bad += 1;
                        if examples.len() < EXAMPLES {
                            examples.push(error.to_string());
                        }
                        std::ops::ControlFlow::Continue(())
                    }
                    record => {
                        let record = record?;
                        sieve.offer(file as u32, number, record, keep)?
                    }
                };
                number += 1;
                sieve.counters.records += 1;
                self.shared.records.fetch_add(1, Ordering::Relaxed);
                self.shared.piped.fetch_add(u64::from(source.name == STANDARD_INPUT), Ordering::Relaxed);
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A thread that tokenizes, until there is nothing more or nobody listens.
fn tokenize(preparer: &Preparer, waiting: &Mutex<Receiver<Parcel<Job>>>, results: &Sender<Parcel<Outcome>>, shared: &Shared) {
    let (time, stop) = (&shared.tokenizing, &shared.stop);
    loop {
        let next = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok((number, jobs)) = next else { break };
        let prepare = |job: Job| {
            // Nobody waits for what is left of a parcel.
            if stop.load(Ordering::Relaxed) {
                return Outcome { prepared: Err(Error::Interrupted), own: job.own, pilot: job.pilot };
            }
            // A defect of the tokenizer on one document must not take the run down.
            let attempt = catch_unwind(AssertUnwindSafe(|| preparer.prepare(&job.document)));
            let failed = |_| Err(preparer.bad(job.document.id, line!["the tokenizer fails on it; use ", setting("on-error").to("skip")]));
            Outcome { prepared: attempt.unwrap_or_else(failed), own: job.own, pilot: job.pilot }
        };
        let start = Instant::now();
        let outcomes = jobs.into_iter().map(prepare).collect();
        time.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        if results.send((number, outcomes)).is_err() {
            break;
        }
    }
}

/// Hands parcels on in the order of their numbers, looking at `cancel` all the while.
fn in_order(
    arriving: Receiver<Parcel<Outcome>>,
    returned: Receiver<()>,
    cancel: &AtomicBool,
    write: &mut impl FnMut(Vec<Outcome>) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        match arriving.recv_timeout(Duration::from_millis(50)) {
            Ok((number, parcel)) => early.insert(number, parcel),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        while let Some(parcel) = early.remove(&next) {
            write(parcel)?;
            next += 1;
            let _ = returned.recv();
        }
    }
}

/// The dictionary of this shard and, where it is asked for, that of the whole corpus.
struct Books<'a> {
    own: Book<'a>,
    whole: Option<Book<'a>>,
}

impl<'a> Books<'a> {
    fn new(settings: &'a Settings, tokenizer: &'a Tokenizer) -> Self {
        let book = || Book::new(settings, tokenizer);
        Books { own: book(), whole: settings.counts_whole().then(book) }
    }

    /// Counts a sequence of any shard.
    fn count(&mut self, words: &[u32], names: &[LocalName], sequence: &str) -> Result<()> {
        self.whole.as_mut().map_or(Ok(()), |whole| whole.enter(&mut words.to_vec(), names, sequence))
    }

    fn finish(self) -> (Vec<Group>, Option<Vec<Group>>) {
        (self.own.finish(), self.whole.map(Book::finish))
    }
}

/// What the writer knows so far.
#[derive(Default)]
struct Ledger {
    counters: Counters,
    lengths: BTreeMap<u64, u64>,
    examples: Vec<String>,
}

impl Ledger {
    fn enter(&mut self, outcome: Outcome, settings: &Settings, books: &mut Books<'_>, writer: &mut SpoolWriter) -> Result<()> {
        let Outcome { prepared, own, pilot } = outcome;
        let prepared = match prepared {
            Err(error @ Error::Record { .. }) if settings.on_error == OnError::Skip => {
                self.counters.untokenized += u64::from(own);
                if own && self.examples.len() < EXAMPLES {
                    self.examples.push(error.to_string());
                }
                return Ok(());
            }
            prepared => prepared?,
        };
        let Some(prepared) = prepared else {
            self.counters.without_tokens += u64::from(own);
            return Ok(());
        };
        let Prepared { id: document, words: length, sequences, names } = prepared;
        for mut sequence in sequences {
            let DocumentId { file, record, chunk } = document;
            let name = format!("{file}:{record}:{chunk}:{}", sequence.first);
            books.count(&sequence.words, &names, &name)?;
            if own {
                books.own.enter(&mut sequence.words, &names, &name)?;
            } else if !pilot {
                continue;
            } else {
                sequence.words.iter_mut().filter(|word| **word & !CONTINUES != UNCOUNTED).for_each(|word| *word &= CONTINUES);
            }
            let (first, row, ids, words) = (sequence.first, sequence.row, &sequence.ids, &sequence.words);
            let counted = writer.add(&NewSequence { document, first, row, ids, words, own, pilot })?;
            if own {
                self.counters.sequences += 1;
                self.counters.tokens += ids.len() as u64;
                self.counters.counted += u64::from(counted);
            }
        }
        if own {
            self.counters.documents += 1;
            *self.lengths.entry(length).or_default() += 1;
        }
        Ok(())
    }

    /// The reader's counts of the whole corpus beside the writer's of this shard.
    fn totals(&self, read: &Counters) -> Counters {
        let Counters { documents, without_tokens, untokenized, sequences, tokens, counted, .. } = self.counters;
        Counters { documents, without_tokens, untokenized, sequences, tokens, counted, ..*read }
    }
}
