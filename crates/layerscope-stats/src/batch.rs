//! What a batch says about its rows, whatever point their states come from.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::segments::Segments;

/// Groups, sequences, documents and kept rows of a batch. Made once per batch and used at every point.
///
/// A row of the statistics is an item: a row of the model, or the mean of several (a word of several tokens).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchInfo {
    groups: Vec<u32>,
    segments: Segments,
    sequences: Vec<u32>,
    documents: Option<Vec<u64>>,
    positions: Option<Vec<u32>>,
    slots: Vec<(u32, u32)>,
    pooled: Option<Vec<Range<u32>>>,
}

impl BatchInfo {
    /// From the group of every row ([`NOT_COUNTED`](crate::NOT_COUNTED) where it is only read) and the cumulative lengths of the
    /// sequences, starting with 0 (empty if rows are no sequences).
    pub fn new(groups: Vec<u32>, sequences: Vec<u32>) -> BatchInfo {
        let (segments, slots) = (Segments::new(&groups), Vec::new());
        BatchInfo { segments, groups, sequences, documents: None, positions: None, slots, pooled: None }
    }

    /// With the number of every row's document; blocks of documents need it.
    pub fn with_documents(self, documents: Vec<u64>) -> BatchInfo {
        BatchInfo { documents: Some(documents), ..self }
    }

    /// With the position of every row, where that is not its place in its sequence here.
    pub fn with_positions(self, positions: Vec<u32>) -> BatchInfo {
        BatchInfo { positions: Some(positions), ..self }
    }

    /// With the rows that are kept whole, each with its slot among the kept states of a point.
    pub fn with_slots(self, slots: Vec<(u32, u32)>) -> BatchInfo {
        BatchInfo { slots, ..self }
    }

    /// With the model's rows of every item, where some items have several.
    pub fn with_pooling(self, pooled: Option<Vec<Range<u32>>>) -> BatchInfo {
        BatchInfo { pooled, ..self }
    }

    /// The items' states from those of the model's rows: an item of several rows is their mean, taken in f64 and rounded once. Means go
    /// into `space`.
    pub fn items<'a>(&self, rows: &'a [f32], dim: usize, space: &'a mut Vec<f32>) -> &'a [f32] {
        let Some(pooled) = &self.pooled else { return rows };
        space.clear();
        for range in pooled {
            let count = f64::from(range.end - range.start);
            let rows = &rows[range.start as usize * dim..range.end as usize * dim];
            let mean = |component: usize| rows.iter().skip(component).step_by(dim).map(|&value| f64::from(value)).sum::<f64>() / count;
            space.extend((0..dim).map(|component| mean(component) as f32));
        }
        space
    }

    /// The group of every row.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// The rows of each group.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Cumulative lengths of the sequences.
    pub fn sequences(&self) -> &[u32] {
        &self.sequences
    }

    /// The document of every row, if it is known.
    pub fn documents(&self) -> Option<&[u64]> {
        self.documents.as_deref()
    }

    /// The position of every row, if it is known.
    pub fn positions(&self) -> Option<&[u32]> {
        self.positions.as_deref()
    }

    /// (row, slot) of the rows that are kept whole.
    pub fn slots(&self) -> &[(u32, u32)] {
        &self.slots
    }

    /// The model's rows of every item, where some items have several.
    pub fn pooled(&self) -> Option<&[Range<u32>]> {
        self.pooled.as_deref()
    }

    /// Refuses what does not fit a batch of so many rows (items).
    pub fn check(&self, rows: usize) -> Result<()> {
        check(rows, &self.segments, &self.sequences)?;
        if let Some(documents) = self.documents().filter(|documents| documents.len() != rows) {
            return Err(Error::Rows(format!("{} documents do not fit {rows} rows: give one for every row", documents.len())));
        }
        if let Some((row, _)) = self.slots.iter().find(|(row, _)| *row as usize >= rows) {
            return Err(Error::Rows(format!("row {row} is to be kept, but the batch has {rows} rows")));
        }
        if let Some(positions) = self.positions().filter(|positions| positions.len() != rows) {
            return Err(Error::Rows(format!("{} positions do not fit {rows} rows: give one for every row", positions.len())));
        }
        Ok(())
    }

    /// The position of a row in what the model read, if that is known.
    pub fn position(&self, row: u32) -> Option<u32> {
        position(self.positions(), &self.sequences, row)
    }

    /// What it says of these rows alone, ascending and one after another. They are no sequences any more, but keep their positions.
    pub fn excerpt(&self, rows: &[u32]) -> BatchInfo {
        let groups = rows.iter().map(|&row| self.groups[row as usize]).collect();
        // No position is so late.
        let positions = rows.iter().map(|&row| self.position(row).unwrap_or(u32::MAX)).collect();
        BatchInfo::new(groups, Vec::new()).with_positions(positions)
    }
}

/// The position of a row: as given, or its place in its sequence.
pub(crate) fn position(positions: Option<&[u32]>, sequences: &[u32], row: u32) -> Option<u32> {
    let in_sequence = || {
        let sequence = sequences.partition_point(|&start| start <= row);
        (sequence > 0 && sequence < sequences.len()).then(|| row - sequences[sequence - 1])
    };
    positions.map(|positions| positions[row as usize]).or_else(in_sequence)
}

/// Refuses groups and sequences that reach beyond the rows.
pub(crate) fn check(rows: usize, segments: &Segments, sequences: &[u32]) -> Result<()> {
    if let Some(&last) = segments.counted().last().filter(|row| **row as usize >= rows) {
        return Err(Error::Rows(format!("row {last} is counted, but the batch has {rows} rows")));
    }
    let ascending = sequences.is_sorted() && sequences.first().is_none_or(|first| *first == 0);
    if !ascending || sequences.last().is_some_and(|end| *end as usize > rows) {
        return Err(Error::Rows(format!("sequence offsets must start with 0, ascend and end within the batch of {rows} rows")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_word_become_one_item() {
        let info = BatchInfo::new(vec![4, 2], vec![0, 2]).with_pooling(Some(vec![0..2, 2..3]));
        let mut space = Vec::new();
        assert_eq!(info.items(&[1.0, 10.0, 2.0, 30.0, 3.0, 0.0], 2, &mut space), [1.5, 20.0, 3.0, 0.0]);
        let plain = BatchInfo::new(vec![4], vec![0, 1]);
        assert_eq!(plain.items(&[1.0, 10.0], 2, &mut space), [1.0, 10.0]);
    }

    #[test]
    fn an_excerpt_knows_groups_and_positions() {
        let info = BatchInfo::new(vec![4, 2, 7, 4, 9], vec![0, 1, 4]);
        let rows = info.excerpt(&[2, 4]);
        assert_eq!((rows.groups(), rows.sequences(), rows.positions()), (&[7, 9][..], &[][..], Some(&[1, u32::MAX][..])));
        assert_eq!((info.position(3), info.position(4)), (Some(2), None));
    }
}
