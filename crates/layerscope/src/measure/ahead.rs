//! States of the first batches of a run that the pilot has computed already: they are not computed again.
//!
//! The pilot reads the first documents of the whole corpus, a run its own text from the beginning. A state depends on its sequence alone,
//! so where both begin with the same sequences they have the same states, however they are cut into batches.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::items::Items;
use crate::error::Result;

/// More than this is not kept: whoever reads long documents waits longer for everything else.
const MOST_BYTES: usize = 128 << 20;

/// How much is kept, at most, of so many bytes.
pub fn most_bytes(bytes: u64) -> u64 {
    bytes.min(MOST_BYTES as u64)
}

/// The rows of the first batches of a run whose sequences are those with which the pilot begins, as far as their states, of so many bytes a
/// row, are worth keeping. `batch` gives batch after batch until there is none.
pub fn shared_batches(pilot: &[Items], row_bytes: usize, batch: impl Fn(usize) -> Result<Option<Items>>) -> Result<Vec<Range<usize>>> {
    fn sequences(items: &Items) -> impl Iterator<Item = &[u32]> {
        items.batch.ranges().map(|range| &items.batch.ids()[range])
    }
    let mut known = pilot.iter().flat_map(sequences);
    let (mut shared, mut start) = (Vec::new(), 0);
    while let Some(items) = batch(shared.len())? {
        let end = start + items.batch.tokens();
        let is_known = sequences(&items).all(|sequence| known.next() == Some(sequence));
        if !is_known || end.saturating_mul(row_bytes) > MOST_BYTES {
            break;
        }
        shared.push(start..end);
        start = end;
    }
    Ok(shared)
}

/// States of some rows, point by point.
pub type AtPoints = Vec<Vec<f32>>;

/// The states of some first batches at all measured points, each taken once.
#[derive(Debug)]
pub struct Ahead {
    batches: Vec<Mutex<Option<AtPoints>>>,
}

impl Ahead {
    /// Of batches with these rows, from the states of consecutive rows: part after part, in each point after point.
    pub fn new(batches: &[Range<usize>], parts: &[AtPoints], widths: &[usize]) -> Ahead {
        let at_point = |rows: &Range<usize>, point: usize| {
            let (start, end) = (rows.start * widths[point], rows.end * widths[point]);
            let (mut states, mut before) = (Vec::with_capacity(end - start), 0);
            for own in parts.iter().map(|part| &part[point]) {
                let within = |place: usize| place.saturating_sub(before).min(own.len());
                states.extend_from_slice(&own[within(start)..within(end)]);
                before += own.len();
            }
            states
        };
        let batch = |rows: &Range<usize>| Mutex::new(Some((0..widths.len()).map(|point| at_point(rows, point)).collect()));
        Ahead { batches: batches.iter().map(batch).collect() }
    }

    /// The states of a batch at all points, if they are here.
    pub fn take(&self, batch: usize) -> Option<AtPoints> {
        self.batches.get(batch)?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use layerscope_corpus::{DocumentId, Sequence, SpoolBatch};

    use super::*;

    fn items(sequences: &[&[u32]]) -> Items {
        let entry = |ids: &&[u32]| {
            let document = DocumentId { file: 0, record: 0, chunk: 0 };
            Sequence { document, first: 0, row: 0, offset: 0, length: ids.len() as u32, counted: 0 }
        };
        let ends = sequences.iter().scan(0, |end, ids| {
            *end += ids.len() as u32;
            Some(*end)
        });
        let ids = sequences.concat();
        let (groups, offsets) = (vec![0; ids.len()], std::iter::once(0).chain(ends).collect());
        Items::new(SpoolBatch { index: 0, ids, groups, offsets, sequences: sequences.iter().map(entry).collect() })
    }

    #[test]
    fn batches_with_the_sequences_of_the_pilot_are_shared() {
        let pilot = [items(&[&[1, 2]]), items(&[&[3], &[4, 5, 6]]), items(&[&[7]])];
        let shared = |run: &[Items], row_bytes: usize| shared_batches(&pilot, row_bytes, |at| Ok(run.get(at).cloned())).expect("batches");
        assert_eq!(shared(&[items(&[&[1, 2], &[3]]), items(&[&[4, 5, 6]]), items(&[&[7], &[8]])], 1), [0..3, 3..6]);
        assert_eq!(shared(&[items(&[&[1, 2]]), items(&[&[3], &[4, 5, 6], &[7]])], 1), [0..2, 2..7]);
        assert!(shared(&[items(&[&[1], &[2]])], 1).is_empty(), "other sequences of the same tokens");
        assert_eq!(shared(&[items(&[&[1, 2]]), items(&[&[3]])], MOST_BYTES / 2), std::slice::from_ref(&(0..2)), "too much");
    }

    #[test]
    fn states_are_cut_into_the_batches_of_the_run() {
        let row = |row: usize| [row as f32, 0.5 + row as f32];
        let part = |rows: Range<usize>| vec![rows.clone().map(|row| row as f32).collect(), rows.flat_map(row).collect()];
        // The last part was not needed.
        let ahead = Ahead::new(&[0..3, 3..6], &[part(0..2), part(2..3), part(3..7), vec![Vec::new(); 2]], &[1, 2]);
        let wide = |rows: Range<usize>| rows.flat_map(row).collect::<Vec<f32>>();
        assert_eq!(ahead.take(1), Some(vec![vec![3.0, 4.0, 5.0], wide(3..6)]));
        assert_eq!(ahead.take(0), Some(vec![vec![0.0, 1.0, 2.0], wide(0..3)]));
        assert_eq!((ahead.take(1), ahead.take(2)), (None, None));
    }
}
