//! Which states are kept whole: the hash sample, and samples of chosen tokens. Known before the model runs.

use std::collections::BinaryHeap;

use layerscope_stats::NOT_COUNTED;
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
    fn new(seed: u64, item: ItemId) -> KeptKey {
        KeptKey { hash: sample_hash(seed, document_number(item.document), item.position), item }
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

/// The kept states of a run: class 0 is the sample, class `c + 1` the chosen group `c`; each in the order of its hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The keys of each class, ascending.
    pub classes: Vec<Vec<KeptKey>>,
    seed: u64,
    /// Class of each group that has one.
    class_of: Vec<(u32, usize)>,
}

impl Kept {
    /// Looks at all items once, without their states, and finds which states will be kept.
    pub fn choose(settings: &KeepSettings, batches: impl IntoIterator<Item = Result<Items>>) -> Result<Kept> {
        let capacity = |class: usize| if class == 0 { settings.sample } else { settings.per_group };
        let mut class_of: Vec<(u32, usize)> = settings.chosen.iter().enumerate().map(|(c, &group)| (group, c + 1)).collect();
        class_of.sort_unstable();
        let mut kept = Kept { classes: Vec::new(), seed: settings.seed, class_of };
        let mut heaps: Vec<BinaryHeap<KeptKey>> = vec![BinaryHeap::new(); settings.chosen.len() + 1];
        for items in batches {
            let items = items?;
            for (key, classes) in kept.candidates(&items) {
                for class in classes {
                    let (heap, capacity) = (&mut heaps[class], capacity(class));
                    if heap.len() < capacity {
                        heap.push(key);
                    } else if heap.peek().is_some_and(|last| key < *last) {
                        heap.pop();
                        heap.push(key);
                    }
                }
            }
        }
        kept.classes = heaps.into_iter().map(BinaryHeap::into_sorted_vec).collect();
        Ok(kept)
    }

    /// From stored keys.
    pub fn from_classes(classes: Vec<Vec<KeptKey>>) -> Kept {
        Kept { classes, ..Kept::default() }
    }

    /// Counted items with the classes that might keep them.
    fn candidates<'a>(&'a self, items: &'a Items) -> impl Iterator<Item = (KeptKey, impl Iterator<Item = usize>)> + 'a {
        let counted = items.groups.iter().enumerate().filter(|(_, group)| **group != NOT_COUNTED);
        counted.map(|(item, group)| {
            let own = self.class_of.binary_search_by_key(group, |(known, _)| *known).ok().map(|at| self.class_of[at].1);
            (KeptKey::new(self.seed, items.id(item)), [0].into_iter().chain(own))
        })
    }

    /// Number of kept states.
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
        let counted = (0..items.groups.len()).filter(|&item| items.groups[item] != NOT_COUNTED);
        counted
            .zip(self.candidates(items))
            .flat_map(|(item, (key, classes))| {
                let place =
                    |class: usize| self.classes[class].binary_search(&key).ok().map(|at| (item as u32, (starts[class] + at) as u32));
                classes.filter_map(place).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The first row of each class.
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

    /// The sample as the statistics take it; states that are not finite stay out.
    pub fn sample(&self, states: &[f32], dim: usize) -> Result<HashSample> {
        self.class(0, states, dim)
    }

    /// The samples of the chosen groups; `groups` has the number of each, in the order in which they were chosen.
    pub fn tokens(&self, states: &[f32], dim: usize, per_group: usize, groups: &[u32]) -> Result<TokenSamples> {
        let mut samples = TokenSamples::new(groups.iter().copied(), per_group, dim);
        for (class, &group) in groups.iter().enumerate() {
            for kept in self.class(class + 1, states, dim)?.iter() {
                samples.offer(group, kept.hash, kept.key, kept.state)?;
            }
        }
        Ok(samples)
    }

    fn class(&self, class: usize, states: &[f32], dim: usize) -> Result<HashSample> {
        let Some(keys) = self.classes.get(class) else { return Ok(HashSample::new(0, dim)) };
        let start = self.starts()[class];
        let mut sample = HashSample::new(keys.len(), dim);
        for (i, key) in keys.iter().enumerate() {
            let state = &states[(start + i) * dim..][..dim];
            if state.iter().all(|value| value.is_finite()) {
                sample.offer(key.hash, key.sample_key(), state)?;
            }
        }
        Ok(sample)
    }
}
