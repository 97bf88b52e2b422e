//! The moments of all states of a point, or of the typical ones.

use std::borrow::Cow;

use super::{CorpusMoments, Group, GroupMoments, SparseGroupMoments};

/// The moments of one selection of states: those of the typical ones, with other numbers for groups that also have massive ones.
pub struct StatesView<'a> {
    pub(super) groups: &'a GroupMoments,
    pub(super) overlay: SparseGroupMoments,
    pub(super) within: Cow<'a, [f64]>,
    pub(super) corpus: Cow<'a, CorpusMoments>,
}

impl StatesView<'_> {
    /// Every group that has states, ascending.
    pub fn groups(&self) -> impl Iterator<Item = (u32, Group<'_>)> {
        let group = |id| self.overlay.group(id).unwrap_or_else(|| self.groups.group(id));
        (0..self.groups.groups() as u32).map(move |id| (id, group(id))).filter(|(_, group)| group.n > 0)
    }

    /// Per component, sum over groups of the squared deviations from the group's mean.
    pub fn within(&self) -> &[f64] {
        &self.within
    }

    /// Moments of all these states.
    pub fn corpus(&self) -> &CorpusMoments {
        &self.corpus
    }
}
