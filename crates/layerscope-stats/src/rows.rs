//! One batch of hidden states at one point, and which of its rows count for which group.

use layerscope_compute::cpu::Isa;

use crate::error::{Error, Result};
use crate::kernels;

/// The group of a row that is not counted (special tokens, context that another window counts, rows that are not finite).
pub const NOT_COUNTED: u32 = u32::MAX;

/// The rows of one group within [`Segments::order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The group.
    pub group: u32,
    /// Its first place in the order.
    pub start: u32,
    /// One past its last place.
    pub end: u32,
}

/// Counted rows sorted by group. Built once per batch, used at every point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    order: Vec<u32>,
    segments: Vec<Segment>,
    counted: Vec<u32>,
}

impl Segments {
    /// From the group of every row; [`NOT_COUNTED`] leaves a row out. Rows of one group keep their order.
    pub fn new(groups: &[u32]) -> Segments {
        Segments::of(groups.iter().enumerate().filter(|(_, group)| **group != NOT_COUNTED).map(|(row, &group)| (group, row as u32)))
    }

    /// From (group, row), rows ascending.
    pub(crate) fn of(pairs: impl Iterator<Item = (u32, u32)>) -> Segments {
        let most = pairs.size_hint().1.unwrap_or(0);
        let (mut groups, mut counted) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for (group, row) in pairs {
            groups.push(group);
            counted.push(row);
        }
        let largest = groups.iter().max().map_or(0, |&group| group as usize);
        match largest < 2 * groups.len() {
            true => Segments::counted_out(&groups, counted, largest + 1),
            false => Segments::sorted(&groups, counted),
        }
    }

    /// Few groups: every one's rows are counted, then each row is put in its place.
    fn counted_out(groups: &[u32], counted: Vec<u32>, known: usize) -> Segments {
        let mut places = vec![0; known];
        groups.iter().for_each(|&group| places[group as usize] += 1);
        let (mut segments, mut start) = (Vec::with_capacity(known.min(groups.len())), 0);
        for (group, place) in places.iter_mut().enumerate() {
            let end = start + *place;
            if end > start {
                segments.push(Segment { group: group as u32, start, end });
            }
            *place = start;
            start = end;
        }
        let mut order = vec![0; counted.len()];
        for (&group, &row) in groups.iter().zip(&counted) {
            let place = &mut places[group as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        Segments { order, segments, counted }
    }

    fn sorted(groups: &[u32], counted: Vec<u32>) -> Segments {
        let mut keys: Vec<u64> = groups.iter().zip(&counted).map(|(&group, &row)| u64::from(group) << 32 | u64::from(row)).collect();
        keys.sort_unstable();
        let mut segments: Vec<Segment> = Vec::new();
        for (place, &key) in keys.iter().enumerate() {
            let (group, place) = ((key >> 32) as u32, place as u32);
            match segments.last_mut() {
                Some(last) if last.group == group => last.end = place + 1,
                _ => segments.push(Segment { group, start: place, end: place + 1 }),
            }
        }
        Segments { order: keys.iter().map(|&key| key as u32).collect(), segments, counted }
    }

    /// The same rows of groups with other names: `g` becomes `names[g]`. Groups may not ascend any more.
    pub fn renamed(&self, names: &[u32]) -> Segments {
        let rename = |segment: &Segment| Segment { group: names[segment.group as usize], ..*segment };
        Segments { segments: self.segments.iter().map(rename).collect(), ..self.clone() }
    }

    /// Every group with its rows, groups ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.segments.iter().map(|segment| (segment.group, &self.order[segment.start as usize..segment.end as usize]))
    }

    /// Counted rows sorted by group.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where each group lies in the order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Counted rows as they come.
    pub fn counted(&self) -> &[u32] {
        &self.counted
    }

    /// Those rows for which `apart` holds, and the others.
    pub(crate) fn partition(&self, apart: impl Fn(u32) -> bool) -> (Segments, Segments) {
        let mut pairs: Vec<(u32, u32)> = self.iter().flat_map(|(group, rows)| rows.iter().map(move |&row| (group, row))).collect();
        pairs.sort_unstable_by_key(|&(_, row)| row);
        let (apart, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|&(_, row)| apart(row));
        (Segments::of(apart.into_iter()), Segments::of(rest.into_iter()))
    }
}

/// Hidden states of one batch at one point, with what every sketch needs of them.
///
/// Making one computes the norms, so it is worth doing before a worker waits for its turn to update the sketches.
pub struct BatchRows<'a> {
    states: &'a [f32],
    dim: usize,
    segments: &'a Segments,
    sequences: &'a [u32],
    squares: Vec<f64>,
    norms: Vec<f64>,
    inverses: Vec<f64>,
    isa: Isa,
}

impl<'a> BatchRows<'a> {
    /// `states` are `rows x dim`; `sequences` are cumulative lengths starting with 0 (empty if rows are no sequences).
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

    /// Without norms, and memory for them.
    pub(crate) fn unmeasured(
        states: &'a [f32],
        dim: usize,
        segments: &'a Segments,
        sequences: &'a [u32],
        isa: Isa,
    ) -> Result<BatchRows<'a>> {
        if dim == 0 || !states.len().is_multiple_of(dim) {
            return Err(Error::Rows(format!("{} numbers are no rows of {dim} components", states.len())));
        }
        check(states.len() / dim, segments, sequences)?;
        let (squares, norms, inverses) = (Vec::new(), Vec::new(), Vec::new());
        Ok(BatchRows { states, dim, segments, sequences, squares, norms, inverses, isa })
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

    /// The same states with other groups and sequences; norms are not computed again.
    pub fn regrouped<'b>(self, segments: &'b Segments, sequences: &'b [u32]) -> Result<BatchRows<'b>>
    where
        'a: 'b,
    {
        check(self.rows(), segments, sequences)?;
        Ok(BatchRows { segments, sequences, ..self })
    }

    fn rows(&self) -> usize {
        self.states.len() / self.dim
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Which rows count for which group.
    pub fn segments(&self) -> &'a Segments {
        self.segments
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
    pub(crate) fn counted_by_sequence(&self) -> impl Iterator<Item = &'a [u32]> {
        let mut rest = self.segments.counted.as_slice();
        self.sequences.iter().skip(1).map(move |&end| {
            let (rows, later) = rest.split_at(rest.partition_point(|&row| row < end));
            rest = later;
            rows
        })
    }

    /// Cuts rows into pieces that fit the cache, with their shared numbers.
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

/// Refuses groups and sequences that reach beyond the rows.
fn check(rows: usize, segments: &Segments, sequences: &[u32]) -> Result<()> {
    if let Some(&last) = segments.counted.last().filter(|row| **row as usize >= rows) {
        return Err(Error::Rows(format!("row {last} is counted, but the batch has {rows} rows")));
    }
    let ascending = sequences.is_sorted() && sequences.first().is_none_or(|first| *first == 0);
    if !ascending || sequences.last().is_some_and(|end| *end as usize > rows) {
        return Err(Error::Rows(format!("sequence offsets must start with 0, ascend and end within the batch of {rows} rows")));
    }
    Ok(())
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
    /// Rows that are worth fetching meanwhile.
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
    /// From ||x||^2 of every row, for those who do not ask for unit vectors.
    pub fn of_squares(squares: &[f64]) -> Scalars {
        let n = squares.len() as f64;
        let norm = squares.iter().map(|square| square.sqrt()).sum::<f64>() / n;
        Scalars { n: squares.len() as u64, nonzero: 0, square: squares.iter().sum::<f64>() / n, norm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_group_stay_in_order() {
        let segments = Segments::new(&[7, 2, NOT_COUNTED, 7, 2]);
        assert_eq!(segments.order(), [1, 4, 0, 3]);
        assert_eq!(segments.counted(), [0, 1, 3, 4]);
        assert_eq!(segments.segments(), [Segment { group: 2, start: 0, end: 2 }, Segment { group: 7, start: 2, end: 4 }]);
        assert_eq!(segments.renamed(&[0, 0, 5, 0, 0, 0, 0, 1]).iter().collect::<Vec<_>>(), [(5, &[1u32, 4][..]), (1, &[0, 3])]);
        let (apart, rest) = segments.partition(|row| row == 3);
        assert_eq!(apart, Segments::new(&[NOT_COUNTED, NOT_COUNTED, NOT_COUNTED, 7]));
        assert_eq!(rest, Segments::new(&[7, 2, NOT_COUNTED, NOT_COUNTED, 2]));
    }

    #[test]
    fn counting_and_sorting_give_the_same_order() {
        let groups: Vec<u32> = (0..500).map(|row| row * row % 37 * 3).collect();
        let rows: Vec<u32> = (0..500).map(|row| 2 * row).collect();
        assert_eq!(Segments::counted_out(&groups, rows.clone(), 200), Segments::sorted(&groups, rows));
    }

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
    fn sequences_get_their_counted_rows() {
        let segments = Segments::new(&[0, NOT_COUNTED, 1, NOT_COUNTED, 0]);
        let batch = BatchRows::new(&[1.0; 5], 1, &segments, &[0, 2, 2, 5]).unwrap();
        assert_eq!(batch.counted_by_sequence().collect::<Vec<_>>(), [&[0u32][..], &[], &[2, 4]]);
    }
}
