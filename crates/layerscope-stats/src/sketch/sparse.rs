//! Moments of the few groups that occur among massive states.

use std::collections::BTreeMap;

use super::{Group, GroupMoments, Mergeable, Tensors};
use crate::error::{Error, Result, must_match};
use crate::rows::BatchRows;
use crate::segments::Segments;

/// [`GroupMoments`] with room only for the groups that have states.
#[derive(Clone, Debug)]
pub struct SparseGroupMoments {
    places: BTreeMap<u32, u32>,
    moments: GroupMoments,
}

impl SparseGroupMoments {
    /// Of states with `dim` components, with or without unit vectors.
    pub(super) fn of(dim: usize, units: bool) -> SparseGroupMoments {
        SparseGroupMoments { places: BTreeMap::new(), moments: GroupMoments::of(0, dim, units) }
    }

    /// Whether unit vectors are kept.
    pub(super) fn keeps_units(&self) -> bool {
        self.moments.keeps_units()
    }

    /// The groups that have states, ascending.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    /// One group, if it has states.
    pub fn group(&self, group: u32) -> Option<Group<'_>> {
        self.places.get(&group).map(|&place| self.moments.group(place))
    }

    /// Per component, sum over groups of the squared deviations from the group's mean.
    pub fn within(&self) -> &[f64] {
        self.moments.within()
    }

    /// Adds these rows of a batch.
    pub(super) fn update_segments(&mut self, batch: &BatchRows, segments: &Segments) {
        for (group, rows) in segments.iter() {
            let place = self.place(group);
            self.moments.absorb_rows(place, batch, rows, place);
        }
    }

    /// Merges one group's moments, see [`GroupMoments::absorb_group`].
    pub(super) fn absorb_group(&mut self, group: u32, other: Group) {
        let place = self.place(group);
        self.moments.absorb_group(place, other);
    }

    /// Merges a sketch whose group `g` is our `name(g)`.
    pub(super) fn merge_renamed(&mut self, other: &Self, name: impl Fn(u32) -> u32) -> Result<()> {
        must_match("the number of components", self.moments.dim(), other.moments.dim())?;
        must_match("the choice to keep unit vectors", self.keeps_units(), other.keeps_units())?;
        for (&group, &place) in &other.places {
            self.absorb_group(name(group), other.moments.group(place));
        }
        self.moments.absorb_within(other.within());
        Ok(())
    }

    /// Where a group lies, making room if it is new.
    fn place(&mut self, group: u32) -> usize {
        let next = self.places.len() as u32;
        let place = *self.places.entry(group).or_insert(next) as usize;
        self.moments.grow(self.places.len());
        place
    }

    /// The same with groups lying in the order of their ids: what is stored must not depend on who came first.
    fn sorted(&self) -> GroupMoments {
        let mut sorted = GroupMoments::of(self.places.len(), self.moments.dim(), self.keeps_units());
        for (place, &old) in self.places.values().enumerate() {
            sorted.copy_group(place, self.moments.group(old));
        }
        sorted.absorb_within(self.within());
        sorted
    }
}

impl PartialEq for SparseGroupMoments {
    fn eq(&self, other: &Self) -> bool {
        self.places.keys().eq(other.places.keys()) && self.sorted() == other.sorted()
    }
}

impl Mergeable for SparseGroupMoments {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.merge_renamed(other, |group| group)
    }

    fn encode(&self) -> Tensors<'_> {
        let sorted = self.sorted();
        let mut tensors = Tensors(sorted.encode().0.into_iter().map(|(name, tensor)| (name, tensor.into_owned())).collect());
        let ids: Vec<u64> = self.groups().map(u64::from).collect();
        tensors.put_u64("group", &[ids.len()], ids);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let [groups] = tensors.shape("group")?;
        let ids = tensors.take_u32("group", &[groups])?;
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(Error::tensor("group", "ids do not ascend"));
        }
        let moments = GroupMoments::decode(tensors)?;
        if moments.groups() != groups {
            return Err(Error::tensor("group", format!("names {groups} groups, but {} are stored", moments.groups())));
        }
        Ok(SparseGroupMoments { places: ids.into_iter().zip(0..).collect(), moments })
    }
}
