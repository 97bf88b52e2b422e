//! Moments per component of a few chosen groups.

use std::collections::BTreeMap;

use super::{CorpusMoments, Mergeable, Tensors, nested};
use crate::error::{Error, Result, must_match};
use crate::rows::BatchRows;
use crate::segments::Segments;

/// q_i, mu_i and v_i of the chosen groups, typical and massive states apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChosenComponents {
    groups: BTreeMap<u32, Own>,
}

#[derive(Clone, Debug, PartialEq)]
struct Own {
    typical: CorpusMoments,
    massive: Option<CorpusMoments>,
}

impl Own {
    fn new(dim: usize) -> Own {
        Own { typical: CorpusMoments::of(dim, false), massive: None }
    }

    fn merge(&mut self, other: &Own) -> Result<()> {
        self.typical.merge(&other.typical)?;
        match (&mut self.massive, &other.massive) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours, theirs) => {
                *ours = ours.take().or_else(|| theirs.clone());
                Ok(())
            }
        }
    }
}

impl ChosenComponents {
    /// Memory of one group's.
    pub fn bytes(dim: usize) -> usize {
        3 * dim * size_of::<f64>()
    }

    /// Chooses a group.
    pub fn choose(&mut self, group: u32, dim: usize) {
        self.groups.entry(group).or_insert_with(|| Own::new(dim));
    }

    /// Adds rows of the chosen groups.
    pub fn update(&mut self, batch: &BatchRows, typical: &Segments, massive: Option<&Segments>) {
        if self.groups.is_empty() {
            return;
        }
        for (group, rows) in typical.iter() {
            if let Some(own) = self.groups.get_mut(&group) {
                own.typical.update_rows(batch, rows);
            }
        }
        for (group, rows) in massive.into_iter().flat_map(Segments::iter) {
            if let Some(own) = self.groups.get_mut(&group) {
                own.massive.get_or_insert_with(|| CorpusMoments::of(batch.dim(), false)).update_rows(batch, rows);
            }
        }
    }

    /// Adds what another one has, whose group `g` is our `name(g)`.
    pub fn merge_renamed(&mut self, other: &Self, name: impl Fn(u32) -> u32) -> Result<()> {
        for (&group, theirs) in &other.groups {
            let ours = self.groups.entry(name(group)).or_insert_with(|| Own::new(theirs.typical.dim()));
            must_match("the number of components", ours.typical.dim(), theirs.typical.dim())?;
            ours.merge(theirs)?;
        }
        Ok(())
    }

    /// The typical states of every chosen group.
    pub fn typical(&self) -> impl Iterator<Item = (u32, &CorpusMoments)> {
        self.groups.iter().map(|(&group, own)| (group, &own.typical))
    }

    /// All states of every chosen group.
    pub fn all(&self) -> Result<Vec<(u32, CorpusMoments)>> {
        let merged = |(&group, own): (&u32, &Own)| {
            let mut all = own.typical.clone();
            own.massive.as_ref().map_or(Ok(()), |massive| all.merge(massive))?;
            Ok((group, all))
        };
        self.groups.iter().map(merged).collect()
    }

    /// The chosen groups, ascending.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        self.groups.keys().copied()
    }
}

impl Mergeable for ChosenComponents {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.merge_renamed(other, |group| group)
    }

    /// Empty where no group is chosen.
    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        for (group, own) in &self.groups {
            tensors.nest(&format!("{group}.typical"), own.typical.encode());
            if let Some(massive) = &own.massive {
                tensors.nest(&format!("{group}.massive"), massive.encode());
            }
        }
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let mut chosen = ChosenComponents::default();
        while let Some(name) = tensors.0.keys().next().cloned() {
            let group: u32 =
                name.split('.').next().and_then(|group| group.parse().ok()).ok_or_else(|| Error::tensor(&name, "names no group"))?;
            let prefix = group.to_string();
            let mut own = tensors.take_nested(&prefix);
            let typical: CorpusMoments = nested("typical", &mut own).map_err(|error| error.under(&prefix))?;
            let massive = match own.has_nested("massive") {
                true => Some(nested("massive", &mut own).map_err(|error| error.under(&prefix))?),
                false => None,
            };
            if let Some(left) = own.0.keys().next() {
                return Err(Error::tensor(&format!("{prefix}.{left}"), "is unknown"));
            }
            chosen.groups.insert(group, Own { typical, massive });
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchInfo;

    #[test]
    fn typical_and_massive_states_make_all() {
        let info = BatchInfo::new(vec![4, 1, 4, 4], vec![]);
        let batch = BatchRows::of(&[1.0, 2.0, 9.0, 9.0, 3.0, 2.0, 20.0, 2.0], 2, &info).unwrap();
        let (massive, typical) = batch.segments().partition(|row| row == 3);
        let mut chosen = ChosenComponents::default();
        chosen.choose(4, 2);
        chosen.choose(6, 2);
        chosen.update(&batch, &typical, Some(&massive));
        let (group, own) = chosen.typical().next().unwrap();
        assert_eq!((group, own.n(), own.mean(), own.m2(), own.square()), (4, 2, &[2.0, 2.0][..], &[2.0, 0.0][..], &[5.0, 4.0][..]));
        let all = chosen.all().unwrap();
        assert_eq!((all[0].1.n(), all[0].1.mean(), all[1].1.n()), (3, &[8.0, 2.0][..], 0));
        assert_eq!(ChosenComponents::decode(&mut chosen.encode()).unwrap(), chosen);
        let mut renamed = ChosenComponents::default();
        renamed.merge_renamed(&chosen, |group| group + 1).unwrap();
        assert_eq!(renamed.groups().collect::<Vec<_>>(), [5, 7]);
    }
}
