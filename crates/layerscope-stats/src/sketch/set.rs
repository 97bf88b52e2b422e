//! Which sketches are wanted.

use super::SketchKind;

/// A set of [`SketchKind`]s: what is kept beside the moments of groups and corpus.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SketchSet(u32);

impl SketchSet {
    /// Of these kinds.
    pub const fn of(kinds: &[SketchKind]) -> SketchSet {
        let (mut set, mut at) = (SketchSet(0), 0);
        while at < kinds.len() {
            set = set.with(kinds[at]);
            at += 1;
        }
        set
    }

    /// Whether a kind is wanted.
    pub const fn contains(self, kind: SketchKind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }

    /// Whether none is.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The same with one kind more.
    pub const fn with(self, kind: SketchKind) -> SketchSet {
        SketchSet(self.0 | 1 << kind as u32)
    }

    /// The same without one kind.
    pub const fn without(self, kind: SketchKind) -> SketchSet {
        SketchSet(self.0 & !(1 << kind as u32))
    }

    /// Adds a kind or takes it away.
    pub fn set(&mut self, kind: SketchKind, wanted: bool) {
        *self = if wanted { self.with(kind) } else { self.without(kind) };
    }

    /// The kinds in it.
    pub fn kinds(self) -> impl Iterator<Item = SketchKind> {
        SketchKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl std::fmt::Debug for SketchSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.kinds()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_and_go() {
        let mut set = SketchSet::of(&[SketchKind::Pairs, SketchKind::Units]);
        assert!(set.contains(SketchKind::Pairs) && !set.contains(SketchKind::Covariance) && !set.is_empty());
        set.set(SketchKind::Blocks, true);
        set.set(SketchKind::Units, false);
        assert_eq!(set.kinds().collect::<Vec<_>>(), [SketchKind::Pairs, SketchKind::Blocks]);
        assert_eq!(format!("{set:?}"), "{Pairs, Blocks}");
        assert_eq!(set.without(SketchKind::Pairs).without(SketchKind::Blocks), SketchSet::default());
        let all = SketchSet::of(&SketchKind::ALL);
        assert_eq!(all.kinds().count(), SketchKind::ALL.len(), "ALL names every kind once");
    }
}
