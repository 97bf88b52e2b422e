//! Which states are kept whole: the hash sample, and samples of chosen tokens. Known before the model runs.

use std::borrow::Cow;
use std::collections::BinaryHeap;

use layerscope_compute::parallel::in_order;
use layerscope_stats::sketch::{HashSample, SampleKey, TokenSamples, sample_hash};

use super::items::{ItemId, Items, document_number};
use crate::error::Result;

/// A kept state: its place in the order of the sample, and who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptKey {
    /// The hash that chose it.
    pub hash: u64,
    /// Who it is.
    pub item: ItemId,
}

impl KeptKey {
    fn new(seed: u64, item: ItemId, document: u64) -> KeptKey {
        KeptKey { hash: sample_hash(seed, document, item.position), item }
    }

    /// The same for the statistics, which number documents.
    fn sample_key(&self) -> SampleKey {
        SampleKey { document: document_number(self.item.document), position: self.item.position, token: self.item.token }
    }
}

/// How much is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepSettings {
    /// Seed of the hash.
    pub seed: u64,
    /// Size of the sample.
    pub sample: usize,
    /// The chosen groups.
    pub chosen: Vec<u32>,
    /// States kept of each of them.
    pub per_group: usize,
}

/// Adds a key to the least ones, as many as there is room for.
fn keep_least(heap: &mut BinaryHeap<KeptKey>, capacity: usize, key: KeptKey) {
    if heap.len() < capacity {
        heap.push(key);
    } else if heap.peek().is_some_and(|last| key < *last) {
        heap.pop();
        heap.push(key);
    }
}

/// The kept states of a run: class 0 is the sample, class `c + 1` the chosen group `c`; each in the order of its hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The keys of each class, ascending.
    pub classes: Vec<Vec<KeptKey>>,
    /// For every key, class after class, the row of its state.
    rows: Vec<u32>,
    seed: u64,
    /// Class of each group that has one.
    class_of: Vec<(u32, usize)>,
}

impl Kept {
    /// Looks at the items of all batches once, without their states, and finds which states will be kept; on some threads.
    pub fn choose(settings: &KeepSettings, threads: usize, batches: usize, batch: impl Fn(usize) -> Result<Items> + Sync) -> Result<Kept> {
        let capacity = |class: usize| if class == 0 { settings.sample } else { settings.per_group };
        let mut class_of: Vec<(u32, usize)> = settings.chosen.iter().enumerate().map(|(c, &group)| (group, c + 1)).collect();
        class_of.sort_unstable();
        let mut kept = Kept { classes: Vec::new(), rows: Vec::new(), seed: settings.seed, class_of };
        let parts = threads.clamp(1, batches.max(1));
        let least: Vec<Result<Vec<BinaryHeap<KeptKey>>>> = in_order(threads, parts, |part| {
            let mut heaps: Vec<BinaryHeap<KeptKey>> = vec![BinaryHeap::new(); settings.chosen.len() + 1];
            for number in part * batches / parts..(part + 1) * batches / parts {
                for (_, key, classes) in kept.candidates(&batch(number)?) {
                    classes.for_each(|class| keep_least(&mut heaps[class], capacity(class), key));
                }
            }
            Ok(heaps)
        });
        let mut heaps = vec![BinaryHeap::new(); settings.chosen.len() + 1];
        for part in least {
            for (class, (heap, found)) in heaps.iter_mut().zip(part?).enumerate() {
                found.into_iter().for_each(|key| keep_least(heap, capacity(class), key));
            }
        }
        kept.classes = heaps.into_iter().map(BinaryHeap::into_sorted_vec).collect();
        Ok(kept.sharing())
    }

    /// From stored keys, each with a row of its own.
    pub fn from_classes(classes: Vec<Vec<KeptKey>>) -> Kept {
        let count = classes.iter().map(Vec::len).sum::<usize>();
        Kept { classes, rows: (0..count as u32).collect(), ..Kept::default() }
    }

    /// The same where a state that is in the sample and of a chosen token has one row.
    pub fn sharing(mut self) -> Kept {
        self.rows.clear();
        let (mut next, sample) = (0, self.classes.first().map_or(&[][..], Vec::as_slice));
        for (class, keys) in self.classes.iter().enumerate() {
            for key in keys {
                let shared = if class > 0 { sample.binary_search(key).ok() } else { None };
                self.rows.push(shared.map_or(next, |row| row as u32));
                next += u32::from(shared.is_none());
            }
        }
        self
    }

    /// For every key, class after class, the row of its state.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// How many states are stored: fewer than keys, where keys share them.
    pub fn states(&self) -> usize {
        self.rows.iter().max().map_or(0, |last| *last as usize + 1)
    }

    /// States as they are stored, from those with a row for every key, which older programs have.
    pub fn stored(&self, states: Vec<f32>, dim: usize) -> Vec<f32> {
        if states.len() != self.len() * dim || self.states() == self.len() {
            return states;
        }
        let mut stored = vec![0.0; self.states() * dim];
        let each = self.rows.iter().zip(states.chunks_exact(dim));
        each.for_each(|(row, state)| stored[*row as usize * dim..][..dim].copy_from_slice(state));
        stored
    }

    /// Counted items with the classes that might keep them.
    fn candidates<'a>(&'a self, items: &'a Items) -> impl Iterator<Item = (usize, KeptKey, impl Iterator<Item = usize>)> + 'a {
        items.counted().map(|(item, id, document)| {
            let group = items.groups[item];
            let own = self.class_of.binary_search_by_key(&group, |(known, _)| *known).ok().map(|at| self.class_of[at].1);
            (item, KeptKey::new(self.seed, id, document), [0].into_iter().chain(own))
        })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.classes.iter().map(Vec::len).sum()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items of a batch that are kept, and the row of the kept states that each fills.
    pub fn slots(&self, items: &Items) -> Vec<(u32, u32)> {
        if self.is_empty() {
            return Vec::new();
        }
        let starts: Vec<usize> = self.starts();
        let mut slots = Vec::new();
        for (item, key, classes) in self.candidates(items) {
            for class in classes {
                let keys = &self.classes[class];
                // Most are not kept: their hashes lie behind all that are.
                let may_be_kept = keys.last().is_some_and(|last| key <= *last);
                if let Some(at) = may_be_kept.then(|| keys.binary_search(&key).ok()).flatten() {
                    slots.push((item as u32, self.rows[starts[class] + at]));
                }
            }
        }
        // A state that is in two classes fills one row.
        slots.dedup();
        slots
    }

    /// The first key of each class.
    pub fn starts(&self) -> Vec<usize> {
        let lengths = self.classes.iter().map(Vec::len);
        lengths
            .scan(0, |end, length| {
                let start = *end;
                *end += length;
                Some(start)
            })
            .collect()
    }

    /// The sample as the statistics take it, from states as they are stored; those that are not finite stay out.
    pub fn sample<'s>(&self, states: &'s [f32], dim: usize) -> HashSample<'s> {
        self.class(0, states, dim)
    }

    /// The samples of the chosen groups; `groups` has the number of each, in the order in which they were chosen.
    pub fn tokens<'s>(&self, states: &'s [f32], dim: usize, groups: &[u32]) -> TokenSamples<'s> {
        TokenSamples::of_samples((1..).zip(groups).map(|(class, &group)| (group, self.class(class, states, dim))))
    }

    fn class<'s>(&self, class: usize, states: &'s [f32], dim: usize) -> HashSample<'s> {
        let Some(keys) = self.classes.get(class) else { return HashSample::new(0, dim) };
        let rows = self.rows[self.starts()[class]..].iter().map(|row| *row as usize);
        let is_finite = |row: usize| states[row * dim..][..dim].iter().all(|value| value.is_finite());
        let kept = keys.iter().zip(rows).filter(|(_, row)| is_finite(*row)).map(|(key, row)| (key.hash, key.sample_key(), row));
        HashSample::of_rows(kept, Cow::Borrowed(states), dim)
    }
}

#[cfg(test)]
mod tests {
    use layerscope_corpus::DocumentId;

    use super::*;

    fn key(hash: u64) -> KeptKey {
        let document = DocumentId { file: 0, record: hash, chunk: 0 };
        KeptKey { hash, item: ItemId { document, position: 0, token: 0 } }
    }

    #[test]
    fn a_state_of_two_classes_has_one_row() {
        let keys = |hashes: &[u64]| hashes.iter().copied().map(key).collect::<Vec<_>>();
        let classes = vec![keys(&[1, 3, 5]), keys(&[2, 3]), keys(&[5, 7, 9])];
        let plain = Kept::from_classes(classes.clone());
        assert_eq!((plain.rows(), plain.states()), (&[0, 1, 2, 3, 4, 5, 6, 7][..], 8));
        let shared = plain.sharing();
        assert_eq!((shared.rows(), shared.states(), shared.len()), (&[0, 1, 2, 3, 1, 2, 4, 5][..], 6, 8));
        let state = |hash: u64| [hash as f32, -(hash as f32)];
        let all: Vec<f32> = classes.iter().flatten().flat_map(|key| state(key.hash)).collect();
        let stored: Vec<f32> = [1, 3, 5, 2, 7, 9].into_iter().flat_map(state).collect();
        assert_eq!(shared.stored(all.clone(), 2), stored);
        let firsts = |sample: &HashSample<'_>| sample.iter().map(|kept| kept.state[0]).collect::<Vec<f32>>();
        let of = |kept: &Kept, states: &[f32]| {
            let tokens = kept.tokens(states, 2, &[8, 9]);
            [firsts(&kept.sample(states, 2)), firsts(tokens.get(8).expect("chosen")), firsts(tokens.get(9).expect("chosen"))]
        };
        assert_eq!(of(&shared, &stored), [vec![1.0, 3.0, 5.0], vec![2.0, 3.0], vec![5.0, 7.0, 9.0]]);
        assert_eq!(of(&Kept::from_classes(classes), &all), of(&shared, &stored));
    }
}
