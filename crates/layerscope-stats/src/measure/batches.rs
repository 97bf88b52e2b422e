//! Batches of the kept sample in hash order, as the papers that measure batch by batch do.

use std::ops::Range;

use super::fit::Spread;

/// States per batch (Razzhigaev et al. 2024).
pub(super) const BATCH: usize = 4096;

/// Rows of every batch; a partial one at the end is dropped unless it is the only one.
pub(super) fn of(rows: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let whole = rows / size;
    let only = (whole == 0 && rows > 0).then_some(0..rows);
    (0..whole).map(move |batch| batch * size..(batch + 1) * size).chain(only)
}

/// Mean over batches; None if it is undefined of one of them.
pub(super) fn mean(values: &[Option<f64>]) -> Option<f64> {
    spread(values).map(|spread| spread.mean)
}

/// Population standard deviation over batches; None with fewer than two.
pub(super) fn deviation(values: &[Option<f64>]) -> Option<f64> {
    spread(values).filter(|spread| spread.n >= 2.0).map(|spread| (spread.m2 / spread.n).sqrt())
}

fn spread(values: &[Option<f64>]) -> Option<Spread> {
    let known: Option<Vec<f64>> = values.iter().copied().collect();
    known.filter(|known| !known.is_empty()).map(|known| Spread::of(&known, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_batches_are_dropped_unless_alone() {
        assert_eq!(of(10, 4).collect::<Vec<_>>(), [0..4, 4..8]);
        assert_eq!(of(8, 4).collect::<Vec<_>>(), [0..4, 4..8]);
        assert!(of(3, 4).eq(std::iter::once(0..3)));
        assert_eq!(of(0, 4).count(), 0);
    }

    #[test]
    fn mean_and_deviation() {
        assert_eq!(mean(&[Some(1.0), Some(3.0)]), Some(2.0));
        assert_eq!(deviation(&[Some(1.0), Some(3.0)]), Some(1.0));
        assert_eq!((mean(&[]), mean(&[Some(1.0), None]), deviation(&[Some(1.0)])), (None, None, None));
    }
}
