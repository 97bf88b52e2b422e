//! What a batch says about its rows, whatever point their states come from.

use std::ops::Range;

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
}
