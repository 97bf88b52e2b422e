//! The spool: the whole corpus as tokens on disk, written once and read in pieces.
//!
//! One file, little-endian, the same bytes for the same text and settings whatever the number of threads:
//!
//! | part | content |
//! |---|---|
//! | header, 128 bytes | magic, version, sizes, fingerprint of the corpus, checksums (CRC-32) of every part |
//! | tokens | per sequence its ids (u32 each), then its group words (u32 each) |
//! | index | 40 bytes a sequence: document, places, offset, length |
//! | pilot | the same for the first documents of the whole corpus |
//! | details | counters, sentence lengths, inputs, group dictionary |
//!
//! A spool has its name only when it is complete. Memory to read one: the dictionary, a piece of the index, and a batch.

mod batch;
mod code;
mod format;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use layerscope_files::Positioned;

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::group::Group;

pub use batch::{BatchPlan, BatchSize, SpoolBatch};
pub use format::Sequence;
pub(crate) use write::{NewSequence, SpoolWriter};

use format::{HEADER_BYTES, Header, SEQUENCE_BYTES};

/// Index entries read at a time.
const INDEX_PIECE: u64 = 4096;

/// A complete spool, open for reading from any number of threads.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    header: Header,
    details: Details,
}

/// What a spool says about its corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    pub counters: Counters,
    pub lengths: BTreeMap<u64, u64>,
    pub inputs: Vec<String>,
    pub skipped: Vec<String>,
    pub groups: Vec<Group>,
    pub whole: Option<Vec<Group>>,
}

impl Spool {
    /// Opens a spool and checks all of it: version, sizes, checksums.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io(path, error))?;
        let bytes = file.metadata().map_err(|error| Error::io(path, error))?.len();
        let mut start = [0; HEADER_BYTES];
        if bytes >= HEADER_BYTES as u64 {
            file.read_exact_at(&mut start, 0).map_err(|error| Error::io(path, error))?;
        }
        let header = Header::decode(&start, bytes).map_err(|problem| Error::damaged_spool(path, problem))?;
        let mut spool = Spool { path: path.to_owned(), file, header, details: Details::default() };
        for (part, range, expected) in spool.header.parts() {
            if spool.checksum(range)? != expected {
                return Err(Error::damaged_spool(path, format!("its {part} is damaged")));
            }
        }
        let details = spool.read(spool.header.details_start(), spool.header.details_bytes)?;
        spool.details = code::decode(&details).ok_or_else(|| Error::damaged_spool(path, "its details cannot be decoded"))?;
        Ok(spool)
    }

    /// A hash over ids and texts of all documents the filters kept, the same in every shard.
    pub fn fingerprint(&self) -> String {
        format!("{:032x}", self.header.fingerprint)
    }

    /// The checksums of all its parts: no other spool has them, not even that of another shard.
    pub fn identity(&self) -> String {
        self.header.parts().iter().map(|(_, _, sum)| format!("{sum:08x}")).collect()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it was completed.
    pub(crate) fn modified(&self) -> Result<SystemTime> {
        self.file.metadata().and_then(|metadata| metadata.modified()).map_err(|error| Error::io(&self.path, error))
    }

    /// How many records and documents took which way.
    pub fn counters(&self) -> &Counters {
        &self.details.counters
    }

    /// The dictionary: group number -> group.
    pub fn groups(&self) -> &[Group] {
        &self.details.groups
    }

    /// The groups of the whole corpus with their counts: those of this spool, unless a shard [counted](crate::Settings::count_whole) all.
    pub fn whole_groups(&self) -> &[Group] {
        self.details.whole.as_deref().unwrap_or(&self.details.groups)
    }

    /// Words per document, as separated by white space -> number of documents.
    pub fn sentence_lengths(&self) -> &BTreeMap<u64, u64> {
        &self.details.lengths
    }

    /// The sorted list of inputs, which [`crate::DocumentId::file`] indexes.
    pub fn inputs(&self) -> &[String] {
        &self.details.inputs
    }

    /// The errors of the first few skipped records.
    pub fn skipped(&self) -> &[String] {
        &self.details.skipped
    }

    /// Number of special tokens before and after every sequence.
    pub fn around(&self) -> (usize, usize) {
        (self.header.prefix.into(), self.header.suffix.into())
    }

    /// Rows of the longest sequence, pilot included.
    pub fn longest(&self) -> usize {
        self.header.longest as usize
    }

    /// The largest token id of any sequence.
    pub fn largest_id(&self) -> u32 {
        self.header.largest_id
    }

    /// All sequences in order, read from the index a piece at a time.
    pub fn sequences(&self) -> impl Iterator<Item = Result<Sequence>> + '_ {
        self.index(self.header.index_start(), self.header.sequences)
    }

    /// `count` index entries from byte `start` on.
    fn index(&self, start: u64, count: u64) -> impl Iterator<Item = Result<Sequence>> + '_ {
        let pieces = (0..count).step_by(INDEX_PIECE as usize);
        pieces.flat_map(move |first| match self.entries(start, first, INDEX_PIECE.min(count - first)) {
            Ok(entries) => entries.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    }

    fn entries(&self, start: u64, first: u64, count: u64) -> Result<Vec<Sequence>> {
        let bytes = self.read(start + first * SEQUENCE_BYTES as u64, count * SEQUENCE_BYTES as u64)?;
        let entries: Vec<Sequence> = bytes.as_chunks().0.iter().map(Sequence::decode).collect();
        let inside = |entry: &Sequence| entry.offset.checked_add(entry.length.into()).is_some_and(|end| end <= self.header.rows);
        let numbered = |entry: &Sequence| entry.row.checked_add(entry.length).is_some();
        if !entries.iter().all(|entry| inside(entry) && numbered(entry)) {
            return Err(Error::damaged_spool(&self.path, "its index points outside the file"));
        }
        Ok(entries)
    }

    fn read(&self, start: u64, count: u64) -> Result<Vec<u8>> {
        let mut buffer = vec![0; count as usize];
        self.file.read_exact_at(&mut buffer, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::damaged_spool(&self.path, "it shrank while it was being read"),
            _ => Error::io(&self.path, error),
        })?;
        Ok(buffer)
    }

    fn checksum(&self, range: std::ops::Range<u64>) -> Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut at = range.start;
        while at < range.end {
            let piece = self.read(at, (range.end - at).min(1 << 20))?;
            hasher.update(&piece);
            at += piece.len() as u64;
        }
        Ok(hasher.finalize())
    }
}
