//! A batch of the spool as the statistics see it: which rows are counted, as what, and which of them are kept.

use std::ops::Range;

use layerscope_corpus::hash::hash64;
use layerscope_corpus::{CONTINUES, DocumentId, Sequence, SpoolBatch, UNCOUNTED};
use layerscope_model::Batch;
use layerscope_stats::{BatchInfo, NOT_COUNTED};

/// One batch: what the model reads, and the items (tokens, or words made of several) whose states are counted.
#[derive(Clone, Debug)]
pub struct Items {
    /// Its place among the batches.
    pub index: usize,
    /// What the model reads.
    pub batch: Batch,
    /// The group of every item; [`NOT_COUNTED`] where it is only read.
    pub groups: Vec<u32>,
    /// Cumulative number of items of the sequences, starting with 0.
    offsets: Vec<u32>,
    /// The rows of every item, where some items have several.
    pooled: Option<Vec<Range<u32>>>,
    sequences: Vec<Sequence>,
}

/// Which item it is: equal in every shard and for every size of batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemId {
    /// The document.
    pub document: DocumentId,
    /// The place of its (first) row in the document.
    pub position: u32,
    /// The token of its (first) row.
    pub token: u32,
}

impl Items {
    /// From a batch of the spool.
    pub fn new(spooled: SpoolBatch) -> Items {
        let batch = Batch::pack(spooled.sequence_ids());
        let starts: Vec<u32> = (0..spooled.groups.len() as u32).filter(|&row| spooled.groups[row as usize] & CONTINUES == 0).collect();
        let group = |row: u32| match spooled.groups[row as usize] & !CONTINUES {
            UNCOUNTED => NOT_COUNTED,
            group => group,
        };
        let groups: Vec<u32> = starts.iter().map(|&row| group(row)).collect();
        let offsets = spooled.offsets.iter().map(|end| starts.partition_point(|row| row < end) as u32).collect();
        let ends = starts.iter().skip(1).copied().chain([spooled.groups.len() as u32]);
        let pooled =
            (starts.len() < spooled.groups.len()).then(|| starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect());
        Items { index: spooled.index, batch, groups, offsets, pooled, sequences: spooled.sequences }
    }

    /// What the statistics must know of the items.
    pub fn info(&self) -> BatchInfo {
        BatchInfo::new(self.groups.clone(), self.offsets.clone()).with_pooling(self.pooled.clone())
    }

    /// The counted items: each with its place among all items, who it is, and its document as one number.
    pub fn counted(&self) -> impl Iterator<Item = (usize, ItemId, u64)> + '_ {
        let starts = self.batch.offsets();
        let of_sequence = move |(number, entry): (usize, &Sequence)| {
            let (document, first, start) = (entry.document, entry.row, starts[number]);
            let named = document_number(document);
            let items = self.offsets[number] as usize..self.offsets[number + 1] as usize;
            items.filter(|&item| self.groups[item] != NOT_COUNTED).map(move |item| {
                let row = self.pooled.as_ref().map_or(item as u32, |pooled| pooled[item].start);
                (item, ItemId { document, position: first + (row - start), token: self.batch.ids()[row as usize] }, named)
            })
        };
        self.sequences.iter().enumerate().flat_map(of_sequence)
    }

    /// Who a counted item is.
    pub fn id(&self, item: usize) -> Option<ItemId> {
        self.counted().find(|(at, _, _)| *at == item).map(|(_, id, _)| id)
    }

    /// The document of every item, as one number.
    pub fn document_numbers(&self) -> Vec<u64> {
        let items = self.offsets.windows(2).map(|bounds| (bounds[1] - bounds[0]) as usize);
        self.sequences
            .iter()
            .zip(items)
            .flat_map(|(sequence, count)| std::iter::repeat_n(document_number(sequence.document), count))
            .collect()
    }

    /// The documents in it.
    pub fn documents(&self) -> usize {
        self.sequences.iter().filter(|sequence| sequence.row == 0).count()
    }
}

/// A document's id as one number.
pub fn document_number(id: DocumentId) -> u64 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&id.file.to_le_bytes());
    bytes[4..12].copy_from_slice(&id.record.to_le_bytes());
    bytes[12..].copy_from_slice(&id.chunk.to_le_bytes());
    hash64([u64::from_le_bytes(*b"document"), u64::from_le_bytes(*b"numbered")], &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Items {
        let document = |record| DocumentId { file: 0, record, chunk: 0 };
        let sequence = |record, row, length| Sequence { document: document(record), first: 0, row, offset: 0, length, counted: 0 };
        Items::new(SpoolBatch {
            index: 3,
            ids: vec![101, 5, 6, 7, 102, 101, 8],
            groups: vec![UNCOUNTED, 4, 4 | CONTINUES, 2, UNCOUNTED, UNCOUNTED, 9],
            offsets: vec![0, 5, 7],
            sequences: vec![sequence(10, 0, 5), sequence(10, 5, 2)],
        })
    }

    #[test]
    fn rows_of_one_word_become_one_item() {
        let items = batch();
        assert_eq!(items.groups, [NOT_COUNTED, 4, 2, NOT_COUNTED, NOT_COUNTED, 9]);
        assert_eq!(items.offsets, [0, 4, 6]);
        let rows = [0.0, 0.0, 1.0, 10.0, 2.0, 30.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0, 80.0];
        assert_eq!(&items.info().items(&rows, 2, &mut Vec::new())[2..6], [1.5, 20.0, 3.0, 0.0]);
        assert_eq!(items.documents(), 1);
    }

    #[test]
    fn items_are_named_by_document_and_place() {
        let items = batch();
        let named = |(item, id, _): (usize, ItemId, u64)| (item, id.document.record, id.position, id.token);
        assert!(items.counted().map(named).eq([(1, 10, 1, 5), (2, 10, 3, 7), (5, 10, 6, 8)]));
        assert!(items.counted().all(|(_, id, number)| number == document_number(id.document)));
    }
}
