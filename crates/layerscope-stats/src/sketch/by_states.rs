//! Two sketches of the same kind, of all states and of the typical ones alone.

use super::{Mergeable, Tensors, nested};
use crate::error::Result;
use crate::rows::BatchRows;

/// The same of all states and of the typical ones: for what cannot be split into typical and massive states, since it looks at a whole
/// sequence at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WithTypical<S> {
    /// Of all states.
    pub all: S,
    /// Of the typical ones; None where an older program did not keep it.
    pub typical: Option<S>,
}

impl<S: Default> WithTypical<S> {
    /// Empty.
    pub fn new() -> WithTypical<S> {
        WithTypical { all: S::default(), typical: Some(S::default()) }
    }

    /// Measures the counted rows of every sequence of a batch and adds what it finds. Massive rows are dropped before a sequence is looked at
    /// for the typical ones; most sequences have none and are measured once.
    pub fn update<V>(&mut self, batch: &BatchRows, threshold: f64, mut measure: impl FnMut(&[u32]) -> V, add: impl Fn(&mut S, &V)) {
        for rows in batch.counted_by_sequence() {
            let whole = measure(rows);
            add(&mut self.all, &whole);
            let Some(typical) = &mut self.typical else { continue };
            if rows.iter().any(|&row| batch.exceeds(row, threshold)) {
                let kept: Vec<u32> = rows.iter().copied().filter(|&row| !batch.exceeds(row, threshold)).collect();
                add(typical, &measure(&kept));
            } else {
                add(typical, &whole);
            }
        }
    }
}

impl<S: Mergeable + Default> Mergeable for WithTypical<S> {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.all.merge(&other.all)?;
        match (&mut self.typical, &other.typical) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            _ => {
                self.typical = None;
                Ok(())
            }
        }
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = self.all.encode();
        if let Some(typical) = &self.typical {
            tensors.nest("typical", typical.encode());
        }
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let typical = if tensors.has_nested("typical") { Some(nested("typical", tensors)?) } else { None };
        Ok(WithTypical { all: S::decode(tensors)?, typical })
    }
}
