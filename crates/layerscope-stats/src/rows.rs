//! The hidden states of one batch at one point.

use std::borrow::Cow;

use layerscope_compute::cpu::Isa;

use crate::batch::{self, BatchInfo};
use crate::error::{Error, Result};
use crate::kernels;
use crate::segments::Segments;

/// Hidden states of one batch at one point, with what every sketch needs of them.
///
/// Making one computes the norms, so it is worth doing before a worker waits for its turn to update the sketches.
pub struct BatchRows<'a> {
    states: &'a [f32],
    dim: usize,
    segments: Cow<'a, Segments>,
    sequences: &'a [u32],
    documents: Option<&'a [u64]>,
    positions: Option<&'a [u32]>,
    slots: &'a [(u32, u32)],
    excluded: u64,
    squares: Vec<f64>,
    norms: Vec<f64>,
    inverses: Vec<f64>,
    isa: Isa,
}

impl<'a> BatchRows<'a> {
    /// `states` are `rows x dim`, and `info` knows what they are.
    pub fn of(states: &'a [f32], dim: usize, info: &'a BatchInfo) -> Result<BatchRows<'a>> {
        BatchRows::new(states, dim, info.segments(), info.sequences())?.regrouped(info)
    }

    /// The same without documents and kept rows; `sequences` are cumulative lengths starting with 0 (empty if rows are no sequences).
    pub fn new(states: &'a [f32], dim: usize, segments: &'a Segments, sequences: &'a [u32]) -> Result<BatchRows<'a>> {
        BatchRows::measured(states, dim, segments, sequences, Isa::detect())
    }

    /// The same with a chosen one of [`Isa::available`]; the bits do not depend on it.
    pub fn with_isa(states: &'a [f32], dim: usize, segments: &'a Segments, sequences: &'a [u32], isa: Isa) -> Result<BatchRows<'a>> {
        assert!(Isa::available().contains(&isa), "{isa:?} is not available on this machine");
        BatchRows::measured(states, dim, segments, sequences, isa)
    }

    fn measured(states: &'a [f32], dim: usize, segments: &'a Segments, sequences: &'a [u32], isa: Isa) -> Result<BatchRows<'a>> {
        let mut batch = BatchRows::unmeasured(states, dim, segments, sequences, isa)?;
        let rows: Vec<u32> = (0..batch.rows() as u32).collect();
        batch.measure(&rows);
        Ok(batch)
    }

    /// Without norms; no memory is taken for them yet.
    pub(crate) fn unmeasured(
        states: &'a [f32],
        dim: usize,
        segments: &'a Segments,
        sequences: &'a [u32],
        isa: Isa,
    ) -> Result<BatchRows<'a>> {
        if dim == 0 || !states.len().is_multiple_of(dim) {
            return Err(Error::Rows(format!("{} numbers do not make rows of {dim} components", states.len())));
        }
        batch::check(states.len() / dim, segments, sequences)?;
        let (squares, norms, inverses) = (Vec::new(), Vec::new(), Vec::new());
        let (segments, documents, positions, slots, excluded) = (Cow::Borrowed(segments), None, None, [].as_slice(), 0);
        Ok(BatchRows { states, dim, segments, sequences, documents, positions, slots, excluded, squares, norms, inverses, isa })
    }

    /// Computes the norms of these rows.
    pub(crate) fn measure(&mut self, rows: &[u32]) {
        let all = self.rows();
        [&mut self.squares, &mut self.norms, &mut self.inverses].into_iter().for_each(|of_rows| of_rows.resize(all, 0.0));
        let mut squares = vec![0.0; rows.len()];
        kernels::square_norms(self.isa, self.states, self.dim, rows, &mut squares);
        for (&row, square) in rows.iter().zip(squares) {
            let (row, norm) = (row as usize, square.sqrt());
            (self.squares[row], self.norms[row]) = (square, norm);
            self.inverses[row] = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        }
    }

    /// The same states with what `info` says about them; norms are not computed again.
    pub fn regrouped<'b>(self, info: &'b BatchInfo) -> Result<BatchRows<'b>>
    where
        'a: 'b,
    {
        info.check(self.rows())?;
        let (segments, sequences, positions) = (Cow::Borrowed(info.segments()), info.sequences(), info.positions());
        Ok(BatchRows { segments, sequences, documents: info.documents(), positions, slots: info.slots(), ..self })
    }

    /// A copy of the states with all that was computed of them, to be [attached](DetachedRows::attached) to the same batch later.
    pub fn detached(self) -> DetachedRows {
        let left_out = match self.segments {
            Cow::Owned(segments) => Some(segments),
            Cow::Borrowed(_) => None,
        };
        DetachedRows {
            states: self.states.to_vec(),
            dim: self.dim,
            segments: left_out,
            excluded: self.excluded,
            squares: self.squares,
            norms: self.norms,
            inverses: self.inverses,
            isa: self.isa,
        }
    }

    /// Counted rows whose states are not finite.
    pub fn not_finite(&self) -> Vec<u32> {
        self.segments.counted().iter().copied().filter(|&row| !self.norms[row as usize].is_finite()).collect()
    }

    /// Leaves some counted rows out, and remembers how many.
    pub fn without(mut self, rows: &[u32]) -> BatchRows<'a> {
        if !rows.is_empty() {
            let (_, rest) = self.segments.partition(|row| rows.contains(&row));
            (self.segments, self.excluded) = (Cow::Owned(rest), self.excluded + rows.len() as u64);
        }
        self
    }

    fn rows(&self) -> usize {
        self.states.len() / self.dim
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The counted rows of each group.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The document of every row, if it is known.
    pub fn documents(&self) -> Option<&'a [u64]> {
        self.documents
    }

    /// The position of a row in what the model read, if that is known.
    pub(crate) fn position(&self, row: u32) -> Option<u32> {
        batch::position(self.positions, self.sequences, row)
    }

    /// Whether a row's norm exceeds a threshold.
    pub(crate) fn exceeds(&self, row: u32, threshold: f64) -> bool {
        self.norms[row as usize] > threshold
    }

    /// (row, slot) of the rows that are kept whole.
    pub fn slots(&self) -> &'a [(u32, u32)] {
        self.slots
    }

    /// How many rows were [left out](BatchRows::without).
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// ||x|| of every row, counted or not.
    pub fn norms(&self) -> &[f64] {
        &self.norms
    }

    /// All rows, counted or not.
    pub(crate) fn states(&self) -> &'a [f32] {
        self.states
    }

    /// One row's state.
    pub fn state(&self, row: u32) -> &'a [f32] {
        &self.states[row as usize * self.dim..][..self.dim]
    }

    /// Counted rows of each sequence.
    pub(crate) fn counted_by_sequence(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = self.segments.counted();
        self.sequences.iter().skip(1).map(move |&end| {
            let (rows, later) = rest.split_at(rest.partition_point(|&row| row < end));
            rest = later;
            rows
        })
    }

    /// Cuts rows into chunks that fit the cache.
    pub(crate) fn chunks<'b>(&'b self, rows: &'b [u32]) -> impl Iterator<Item = Chunk<'b>> {
        rows.chunks(CHUNK).map(|rows| self.chunk(rows, &[]))
    }

    /// These rows in one piece; `ahead` are those that will be needed after them.
    pub(crate) fn chunk<'b>(&'b self, rows: &'b [u32], ahead: &'b [u32]) -> Chunk<'b> {
        Chunk { states: self.states, dim: self.dim, inverses: &self.inverses, rows, ahead }
    }

    /// The instruction set in use.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Count, mean square norm, mean norm and non-zero rows among `rows`.
    pub(crate) fn scalars(&self, rows: &[u32]) -> Scalars {
        let n = rows.len() as f64;
        let mean = |values: &[f64]| rows.iter().map(|&row| values[row as usize]).sum::<f64>() / n;
        let nonzero = rows.iter().filter(|&&row| self.inverses[row as usize] > 0.0).count();
        Scalars { n: rows.len() as u64, nonzero: nonzero as u64, square: mean(&self.squares), norm: mean(&self.norms) }
    }
}

/// [`BatchRows`] that borrow nothing.
pub struct DetachedRows {
    states: Vec<f32>,
    dim: usize,
    /// Those of the batch unless rows were left out.
    segments: Option<Segments>,
    excluded: u64,
    squares: Vec<f64>,
    norms: Vec<f64>,
    inverses: Vec<f64>,
    isa: Isa,
}

impl DetachedRows {
    /// The rows again, once; `info` is that of their batch.
    pub fn attached<'a>(&'a mut self, info: &'a BatchInfo) -> BatchRows<'a> {
        BatchRows {
            states: &self.states,
            dim: self.dim,
            segments: self.segments.take().map_or(Cow::Borrowed(info.segments()), Cow::Owned),
            sequences: info.sequences(),
            documents: info.documents(),
            positions: info.positions(),
            slots: info.slots(),
            excluded: self.excluded,
            squares: std::mem::take(&mut self.squares),
            norms: std::mem::take(&mut self.norms),
            inverses: std::mem::take(&mut self.inverses),
            isa: self.isa,
        }
    }
}

/// Rows per merge: few enough to stay in the first-level cache, and to keep plain sums as good as exact.
pub(crate) const CHUNK: usize = 64;

/// Some rows of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'a> {
    pub states: &'a [f32],
    pub dim: usize,
    /// 1 / ||x|| of every row of the batch, 0 for zero rows.
    pub inverses: &'a [f64],
    pub rows: &'a [u32],
    /// Rows worth fetching meanwhile.
    pub ahead: &'a [u32],
}

/// What a chunk contributes beside vectors.
pub(crate) struct Scalars {
    pub n: u64,
    pub nonzero: u64,
    pub square: f64,
    pub norm: f64,
}

impl Scalars {
    /// From ||x||^2 of every row, where unit vectors are not kept.
    pub fn of_squares(squares: &[f64]) -> Scalars {
        let n = squares.len() as f64;
        let norm = squares.iter().map(|square| square.sqrt()).sum::<f64>() / n;
        Scalars { n: squares.len() as u64, nonzero: 0, square: squares.iter().sum::<f64>() / n, norm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::NOT_COUNTED;

    #[test]
    fn batches_that_do_not_fit_together_are_refused() {
        let segments = Segments::new(&[0, 0]);
        assert!(BatchRows::new(&[0.0; 3], 2, &segments, &[]).is_err());
        assert!(BatchRows::new(&[0.0; 2], 2, &segments, &[]).is_err());
        assert!(BatchRows::new(&[0.0; 4], 0, &segments, &[]).is_err());
        assert!(BatchRows::new(&[0.0; 4], 2, &segments, &[0, 3]).is_err());
        assert!(BatchRows::new(&[0.0; 4], 2, &segments, &[0, 2, 1]).is_err());
        assert!(BatchRows::new(&[0.0; 4], 2, &segments, &[0, 1, 2]).is_ok());
    }

    #[test]
    fn rows_that_are_left_out_are_counted() {
        let info = BatchInfo::new(vec![4, 0, 4, NOT_COUNTED], vec![0, 4]).with_slots(vec![(2, 7)]);
        let states = [1.0, f32::NAN, f32::INFINITY, f32::NAN];
        let rows = BatchRows::of(&states, 1, &info).unwrap();
        let bad = rows.not_finite();
        assert_eq!(bad, [1, 2]);
        let rows = rows.without(&bad);
        assert_eq!(*rows.segments(), Segments::new(&[4]));
        assert_eq!((rows.excluded(), rows.slots()), (2, &[(2, 7)][..]));
        assert!(BatchRows::of(&states[..2], 1, &info).is_err());
        assert!(BatchRows::of(&states, 1, &info.clone().with_documents(vec![1; 3])).is_err());
        assert!(BatchRows::of(&states, 1, &info.with_slots(vec![(4, 0)])).is_err());
    }

    #[test]
    fn positions_are_places_in_sequences_unless_given() {
        let info = BatchInfo::new(vec![0; 5], vec![0, 2, 4]);
        let at = |rows: &BatchRows| (0..5).map(|row| rows.position(row)).collect::<Vec<_>>();
        assert_eq!(at(&BatchRows::of(&[1.0; 5], 1, &info).unwrap()), [Some(0), Some(1), Some(0), Some(1), None]);
        let info = info.with_positions(vec![7, 8, 9, 0, 1]);
        assert_eq!(at(&BatchRows::of(&[1.0; 5], 1, &info).unwrap()), [7, 8, 9, 0, 1].map(Some));
        assert!(BatchRows::of(&[1.0; 5], 1, &info.with_positions(vec![1])).is_err());
    }

    #[test]
    fn sequences_get_their_counted_rows() {
        let segments = Segments::new(&[0, NOT_COUNTED, 1, NOT_COUNTED, 0]);
        let batch = BatchRows::new(&[1.0; 5], 1, &segments, &[0, 2, 2, 5]).unwrap();
        assert_eq!(batch.counted_by_sequence().collect::<Vec<_>>(), [&[0u32][..], &[], &[2, 4]]);
    }
}
