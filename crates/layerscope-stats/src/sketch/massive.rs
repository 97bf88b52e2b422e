//! Who the massive states are.

use std::collections::BTreeMap;

use super::{Mergeable, Tensors, mean_of_means};
use crate::error::{Error, Result};
use crate::rows::BatchRows;
use crate::segments::Segments;

/// Positions that are told apart: sinks stand at the beginning.
pub const POSITIONS: u32 = 16;

/// Components that are named.
pub const LARGEST: usize = 3;

/// Stands for a position that is later or unknown, and for a component that is not there.
const NONE: u32 = u32::MAX;

/// The massive states of one group at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct MassiveGroup {
    /// The group.
    pub group: u32,
    /// The position; None from [`POSITIONS`] on, or where it is not known.
    pub position: Option<u32>,
    /// How many there are.
    pub count: u64,
    /// Their mean norm.
    pub mean_norm: f64,
    /// (component, value) of the components that are largest in size in one of these states, the largest first.
    pub largest: Vec<(u32, f64)>,
}

/// Massive states, counted by group and position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MassiveStates {
    places: BTreeMap<(u32, u32), Entry>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    count: u64,
    norm: f64,
    largest: Vec<(u32, f64)>,
}

impl Entry {
    fn add(&mut self, count: u64, norm: f64, largest: impl IntoIterator<Item = (u32, f64)>) {
        self.norm = mean_of_means(self.norm, self.count, norm, count);
        self.count += count;
        largest.into_iter().for_each(|(component, value)| self.offer(component, value));
    }

    /// Keeps a component if it is among the largest. Whoever is among the largest of all states is so in the part that it comes from, so
    /// that parts can be merged.
    fn offer(&mut self, component: u32, value: f64) {
        let precedes = |known: &(u32, f64)| (known.1.abs(), component) >= (value.abs(), known.0);
        if let Some(at) = self.largest.iter().position(|known| known.0 == component) {
            if precedes(&self.largest[at]) {
                return;
            }
            self.largest.remove(at);
        }
        let at = self.largest.partition_point(precedes);
        self.largest.insert(at, (component, value));
        self.largest.truncate(LARGEST);
    }
}

impl MassiveStates {
    /// Adds these rows of a batch.
    pub fn update(&mut self, batch: &BatchRows, massive: &Segments) {
        for (group, rows) in massive.iter() {
            for &row in rows {
                let position = batch.position(row).filter(|position| *position < POSITIONS).unwrap_or(NONE);
                let state = batch.state(row).iter().zip(0..).map(|(&value, component)| (component, f64::from(value)));
                self.places.entry((group, position)).or_default().add(1, batch.norms()[row as usize], state);
            }
        }
    }

    /// Adds what another one has, whose group `g` is our `name(g)`.
    pub fn merge_renamed(&mut self, other: &Self, name: impl Fn(u32) -> u32) {
        for (&(group, position), entry) in &other.places {
            self.places.entry((name(group), position)).or_default().add(entry.count, entry.norm, entry.largest.iter().copied());
        }
    }

    /// By group, then by position.
    pub fn iter(&self) -> impl Iterator<Item = MassiveGroup> {
        self.places.iter().map(|(&(group, position), entry)| MassiveGroup {
            group,
            position: (position != NONE).then_some(position),
            count: entry.count,
            mean_norm: entry.norm,
            largest: entry.largest.clone(),
        })
    }

    /// The largest number of a group.
    pub fn last_group(&self) -> Option<u32> {
        self.places.keys().next_back().map(|(group, _)| *group)
    }
}

impl Mergeable for MassiveStates {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.merge_renamed(other, |group| group);
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let n = self.places.len();
        let column = |of: &dyn Fn(&(u32, u32), &Entry) -> u64| self.places.iter().map(|(key, entry)| of(key, entry)).collect::<Vec<u64>>();
        let largest = |entry: &Entry, at: usize| entry.largest.get(at).copied().unwrap_or((NONE, 0.0));
        let all = || self.places.values().flat_map(|entry| (0..LARGEST).map(|at| largest(entry, at)));
        let mut tensors = Tensors::default();
        tensors.put_u64("group", &[n], column(&|key, _| u64::from(key.0)));
        tensors.put_u64("position", &[n], column(&|key, _| u64::from(key.1)));
        tensors.put_u64("count", &[n], column(&|_, entry| entry.count));
        tensors.put_numbers("norm", &self.places.values().map(|entry| entry.norm).collect::<Vec<f64>>());
        tensors.put_u64("component", &[n * LARGEST], all().map(|(component, _)| u64::from(component)).collect::<Vec<u64>>());
        tensors.put_numbers("value", &all().map(|(_, value)| value).collect::<Vec<f64>>());
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let [n] = tensors.shape("group")?;
        let (groups, positions) = (tensors.take_u32("group", &[n])?, tensors.take_u32("position", &[n])?);
        let (counts, norms) = (tensors.take_u64("count", &[n])?, tensors.take_f64("norm", &[n])?);
        let (components, values) = (tensors.take_u32("component", &[n * LARGEST])?, tensors.take_f64("value", &[n * LARGEST])?);
        let mut largest = components.chunks_exact(LARGEST).zip(values.chunks_exact(LARGEST)).map(|(components, values)| {
            let pairs = components.iter().copied().zip(values.iter().copied());
            pairs.filter(|(component, _)| *component != NONE).collect::<Vec<(u32, f64)>>()
        });
        let mut places = BTreeMap::new();
        for (((group, position), count), norm) in groups.into_iter().zip(positions).zip(counts).zip(norms) {
            let entry = Entry { count, norm, largest: largest.next().unwrap_or_default() };
            if places.insert((group, position), entry).is_some() {
                return Err(Error::tensor("group", format!("names group {group} at position {position} twice")));
            }
        }
        Ok(MassiveStates { places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchInfo;

    fn of(states: &[f32], groups: Vec<u32>, sequences: Vec<u32>) -> MassiveStates {
        let info = BatchInfo::new(groups, sequences);
        let batch = BatchRows::of(states, 4, &info).unwrap();
        let mut massive = MassiveStates::default();
        massive.update(&batch, batch.segments());
        massive
    }

    #[test]
    fn states_are_counted_by_group_and_position() {
        let states = [[0.0, 3.0, 0.0, 4.0], [0.0, -6.0, 8.0, 0.0], [5.0, 0.0, 0.0, 0.0]].concat();
        let massive = of(&states, vec![7, 7, 2], vec![0, 1, 2]);
        let found: Vec<MassiveGroup> = massive.iter().collect();
        let own = |group, position, count, mean_norm, largest: &[(u32, f64)]| MassiveGroup {
            group,
            position,
            count,
            mean_norm,
            largest: largest.to_vec(),
        };
        // The third row belongs to no sequence; rows 0 and 1 both begin one. Component 1 is largest in row 1.
        assert_eq!(
            found,
            [own(2, None, 1, 5.0, &[(0, 5.0), (1, 0.0), (2, 0.0)]), own(7, Some(0), 2, 7.5, &[(2, 8.0), (1, -6.0), (3, 4.0)])]
        );
        assert_eq!(MassiveStates::decode(&mut massive.encode()).unwrap(), massive);
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let states: Vec<f32> = (0..80).map(|at| ((at * 7919) % 201) as f32 - 100.0).collect();
        let groups: Vec<u32> = (0..20).map(|row| row % 3).collect();
        let whole = of(&states, groups.clone(), vec![0, 10, 20]);
        let mut merged = of(&states[..40], groups[..10].to_vec(), vec![0, 10]);
        merged.merge(&of(&states[40..], groups[10..].to_vec(), vec![0, 10])).unwrap();
        for (whole, merged) in whole.iter().zip(merged.iter()) {
            assert_eq!(
                (whole.group, whole.position, whole.count, &whole.largest),
                (merged.group, merged.position, merged.count, &merged.largest)
            );
            assert!((whole.mean_norm - merged.mean_norm).abs() < 1e-12 * whole.mean_norm);
        }
        assert_eq!(whole.iter().count(), merged.iter().count());
    }
}
