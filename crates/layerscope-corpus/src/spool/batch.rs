//! Batches: sequences in order, cut by their lengths alone.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::format::{HEADER_BYTES, SEQUENCE_BYTES};
use super::{Sequence, Spool};
use crate::error::{Error, Result};
use crate::group::{CONTINUES, UNCOUNTED};

/// Where the batches of a spool begin, for one batch size. Takes 24 bytes per batch and gives access to any batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// The first sequence of every batch, and the end.
    starts: Vec<u64>,
    /// Rows before every batch, and all of them.
    rows: Vec<u64>,
    /// Documents that begin before every batch, and all of them.
    documents: Vec<u64>,
}

/// How many rows a batch has at most, from some sequence on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSize {
    /// The first sequence of the first such batch.
    pub from: u64,
    /// Rows.
    pub tokens: usize,
}

impl BatchSize {
    /// The same from the first sequence to the last.
    pub fn everywhere(tokens: usize) -> BatchSize {
        BatchSize { from: 0, tokens }
    }
}

impl BatchPlan {
    fn begin(&mut self, sequence: u64, rows: u64, documents: u64) {
        self.starts.push(sequence);
        self.rows.push(rows);
        self.documents.push(documents);
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no batch at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows of the largest batch.
    pub fn largest(&self) -> usize {
        self.largest_from(0)
    }

    /// Rows of the largest batch from one on.
    pub fn largest_from(&self, batch: usize) -> usize {
        self.rows[batch..].windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0) as usize
    }

    /// The sequences of a batch.
    pub fn sequences(&self, batch: usize) -> Range<u64> {
        self.starts[batch]..self.starts[batch + 1]
    }

    /// The first sequence of a batch; behind the last one, their number.
    pub fn first_sequence(&self, batch: usize) -> u64 {
        self.starts[batch]
    }

    /// The rows of some batches, counted from the first batch's first.
    pub fn rows(&self, batches: Range<usize>) -> Range<u64> {
        self.rows[batches.start]..self.rows[batches.end]
    }

    /// Documents that begin before a batch.
    pub fn documents_before(&self, batch: usize) -> u64 {
        self.documents[batch]
    }
}

/// Some sequences of the spool, packed one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolBatch {
    /// Its number among the batches.
    pub index: usize,
    /// Token ids of all sequences.
    pub ids: Vec<u32>,
    /// The group word of every row, see [`crate::group`].
    pub groups: Vec<u32>,
    /// Cumulative lengths, starting with 0.
    pub offsets: Vec<u32>,
    /// Which sequences these are.
    pub sequences: Vec<Sequence>,
}

impl SpoolBatch {
    /// Number of rows.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Rows of each sequence.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.offsets.windows(2).map(|bounds| bounds[0] as usize..bounds[1] as usize)
    }

    /// The ids of each sequence.
    pub fn sequence_ids(&self) -> impl Iterator<Item = &[u32]> + '_ {
        self.ranges().map(|range| &self.ids[range])
    }

    /// Each row's place among all rows of its document's sequences: with the document's id it names a state, in every shard alike.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.sequences.iter().flat_map(|sequence| (0..sequence.length).map(|place| sequence.row + place))
    }
}

/// Sequences in order, at most `tokens` rows together; a longer sequence is alone.
struct Cutter {
    tokens: u64,
    filled: u64,
}

impl Cutter {
    /// Whether this sequence begins a new batch.
    fn begins(&mut self, length: u32, first: bool) -> bool {
        let begins = first || self.filled + u64::from(length) > self.tokens;
        self.filled = if begins { 0 } else { self.filled } + u64::from(length);
        begins
    }
}

impl Spool {
    /// Reads the index once and finds where batches of at most `batch_tokens` rows begin.
    pub fn plan(&self, batch_tokens: usize) -> Result<BatchPlan> {
        self.plan_sizes(&[BatchSize::everywhere(batch_tokens)])
    }

    /// The same where the size changes on the way: in the order of the sequences, the first from the first sequence.
    pub fn plan_sizes(&self, sizes: &[BatchSize]) -> Result<BatchPlan> {
        let mut sizes = sizes.iter().peekable();
        let mut cutter = Cutter { tokens: 0, filled: 0 };
        let mut plan = BatchPlan { starts: Vec::new(), rows: Vec::new(), documents: Vec::new() };
        let (mut rows, mut documents) = (0, 0);
        for (number, sequence) in self.sequences().enumerate() {
            let (number, sequence) = (number as u64, sequence?);
            let mut is_first = number == 0;
            while let Some(size) = sizes.next_if(|size| size.from <= number) {
                (cutter.tokens, is_first) = (size.tokens as u64, true);
            }
            if cutter.begins(sequence.length, is_first) {
                plan.begin(number, rows, documents);
            }
            rows += u64::from(sequence.length);
            documents += u64::from(sequence.row == 0);
        }
        self.check_rows(rows)?;
        plan.begin(self.header.sequences, rows, documents);
        Ok(plan)
    }

    /// One batch of a plan, whole; from any thread.
    pub fn batch(&self, plan: &BatchPlan, index: usize) -> Result<SpoolBatch> {
        self.slice(plan.sequences(index), index)
    }

    /// All batches in order.
    pub fn batches(&self, batch_tokens: usize) -> Result<impl Iterator<Item = Result<SpoolBatch>> + '_> {
        self.batches_from(batch_tokens, 0)
    }

    /// All batches from number `first` on.
    pub fn batches_from(&self, batch_tokens: usize, first: usize) -> Result<impl Iterator<Item = Result<SpoolBatch>> + '_> {
        let plan = self.plan(batch_tokens)?;
        Ok((first..plan.len()).map(move |index| self.batch(&plan, index)))
    }

    /// Any sequences, packed as a batch of the given number.
    pub fn slice(&self, sequences: Range<u64>, index: usize) -> Result<SpoolBatch> {
        if sequences.start > sequences.end || sequences.end > self.header.sequences {
            let problem =
                format!("it has {} sequences, but {} to {} were requested", self.header.sequences, sequences.start, sequences.end);
            return Err(Error::spool(&self.path, problem));
        }
        let entries = self.entries(self.header.index_start(), sequences.start, sequences.end - sequences.start)?;
        let batch = self.pack(entries, index)?;
        let is_known = |&word: &u32| word & UNCOUNTED == UNCOUNTED || ((word & !CONTINUES) as usize) < self.details.groups.len();
        match batch.groups.iter().all(is_known) {
            true => Ok(batch),
            false => Err(Error::damaged_spool(&self.path, "a token has a group that is not in its dictionary")),
        }
    }

    /// The first documents of the whole corpus, the same in every shard, in batches. The group words of those that belong to other
    /// shards only say whether a row counts: their group is 0.
    pub fn pilot(&self, batch_tokens: usize) -> Result<Vec<SpoolBatch>> {
        let entries = self.entries(self.header.pilot_start(), 0, self.header.pilot)?;
        self.check_rows(entries.iter().map(|entry| u64::from(entry.length)).sum())?;
        let mut cutter = Cutter { tokens: batch_tokens as u64, filled: 0 };
        let mut parts: Vec<Vec<Sequence>> = Vec::new();
        for entry in entries {
            let begins = cutter.begins(entry.length, parts.is_empty());
            match parts.last_mut() {
                Some(part) if !begins => part.push(entry),
                _ => parts.push(vec![entry]),
            }
        }
        parts.into_iter().enumerate().map(|(index, part)| self.pack(part, index)).collect()
    }

    /// Reads the tokens of some sequences, neighbours on disk together.
    fn pack(&self, entries: Vec<Sequence>, index: usize) -> Result<SpoolBatch> {
        let rows: usize = entries.iter().map(|entry| entry.length as usize).sum();
        self.check_rows(rows as u64)?;
        let mut batch =
            SpoolBatch { index, ids: Vec::with_capacity(rows), groups: Vec::with_capacity(rows), offsets: vec![0], sequences: entries };
        let neighbours = |a: &Sequence, b: &Sequence| a.offset + u64::from(a.length) == b.offset;
        for run in batch.sequences.chunk_by(neighbours) {
            let count: u64 = run.iter().map(|entry| u64::from(entry.length)).sum();
            let bytes = self.read(HEADER_BYTES as u64 + run[0].offset * 8, count * 8)?;
            let mut numbers = bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number));
            for entry in run {
                batch.ids.extend(numbers.by_ref().take(entry.length as usize));
                batch.groups.extend(numbers.by_ref().take(entry.length as usize));
                batch.offsets.push(batch.ids.len() as u32);
            }
        }
        match batch.ids.iter().all(|&id| id <= self.header.largest_id) && batch.ranges().all(|range| range.len() <= self.longest()) {
            true => Ok(batch),
            false => Err(Error::damaged_spool(&self.path, "a sequence is longer, or a token's id larger, than its header says")),
        }
    }

    /// Refuses sequences that have more rows together than the file: each row belongs to one, and perhaps to the pilot.
    fn check_rows(&self, rows: u64) -> Result<()> {
        match rows <= self.header.rows {
            true => Ok(()),
            false => Err(Error::damaged_spool(&self.path, format!("its sequences have {rows} rows, the file {}", self.header.rows))),
        }
    }

    /// Bytes a spool of so many rows and sequences takes on disk, dictionary aside.
    pub fn disk_bytes(rows: u64, sequences: u64) -> u64 {
        HEADER_BYTES as u64 + rows * 8 + sequences * SEQUENCE_BYTES as u64
    }
}
