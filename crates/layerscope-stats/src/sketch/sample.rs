//! A sample of states that depends on nothing but their ids.

use std::borrow::Cow;
use std::collections::BTreeMap;

use layerscope_compute::cpu::Isa;

use super::{Mergeable, Tensors};
use crate::error::{Error, Result, must_match};
use crate::kernels;

/// The hash that decides which states are kept: three rounds of splitmix64's finalizer (Steele, Lea & Flood 2014) over seed,
/// document and position.
pub fn sample_hash(seed: u64, document: u64, position: u32) -> u64 {
    let mut hash = 0;
    for word in [seed, document, u64::from(position)] {
        hash = finalize((hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15));
    }
    hash
}

fn finalize(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Which state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleKey {
    /// The document.
    pub document: u64,
    /// Its place in the document.
    pub position: u32,
    /// Its token.
    pub token: u32,
}

/// A kept state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept<'a> {
    /// Its hash.
    pub hash: u64,
    /// Which state it is.
    pub key: SampleKey,
    /// The state itself.
    pub state: &'a [f32],
}

/// The `k` states with the smallest hashes (ties by document, then position): the same ones whatever the order, batches or shards.
///
/// Hashes depend on ids alone, so a sample with `dim` 0 tells before the forward pass which states will be kept. The states may be those of
/// somebody else: they are copied once the sample changes.
#[derive(Clone, Debug)]
pub struct HashSample<'a> {
    capacity: usize,
    dim: usize,
    places: BTreeMap<(u64, SampleKey), usize>,
    states: Cow<'a, [f32]>,
}

impl<'a> HashSample<'a> {
    /// Keeps at most `k` states with `dim` components.
    pub fn new(k: usize, dim: usize) -> HashSample<'a> {
        HashSample { capacity: k, dim, places: BTreeMap::new(), states: Cow::Owned(Vec::new()) }
    }

    /// A full one, of some rows of states with `dim` components.
    pub fn of_rows(rows: impl IntoIterator<Item = (u64, SampleKey, usize)>, states: Cow<'a, [f32]>, dim: usize) -> HashSample<'a> {
        let places: BTreeMap<_, _> = rows.into_iter().map(|(hash, key, row)| ((hash, key), row)).collect();
        assert!(places.values().all(|row| (row + 1) * dim <= states.len()), "rows that are not there");
        HashSample { capacity: places.len(), dim, places, states }
    }

    /// Memory of a full one.
    pub fn bytes(k: usize, dim: usize) -> usize {
        let entry = 64; // hash, key, place and their share of the tree
        k * (dim * size_of::<f32>() + entry)
    }

    /// How many states it keeps at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of kept states.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The kept states in the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = Kept<'_>> {
        self.places.iter().map(|(&(hash, key), &place)| Kept { hash, key, state: &self.states[place * self.dim..][..self.dim] })
    }

    /// The kept states in the order of their hashes, row by row; copied only if they came in another order.
    pub(crate) fn states(&self) -> Cow<'_, [f32]> {
        match self.places.values().copied().eq(0..self.len()) {
            true => Cow::Borrowed(&self.states[..self.len() * self.dim]),
            false => Cow::Owned(self.iter().flat_map(|kept| kept.state.iter().copied()).collect()),
        }
    }

    /// Those of the kept states whose norm does not exceed a threshold.
    pub fn up_to_norm(&self, threshold: f64) -> HashSample<'_> {
        let rows: Vec<u32> = self.places.values().map(|place| *place as u32).collect();
        let mut squares = vec![0.0; rows.len()];
        kernels::square_norms(Isa::detect(), &self.states, self.dim.max(1), &rows, &mut squares);
        let typical = self.places.iter().zip(squares).filter(|(_, square)| square.sqrt() <= threshold);
        let places = typical.map(|((key, place), _)| (*key, *place)).collect();
        HashSample { capacity: self.capacity, dim: self.dim, places, states: Cow::Borrowed(&self.states) }
    }

    /// Whether a state would be kept if it came now.
    pub fn accepts(&self, hash: u64, key: SampleKey) -> bool {
        let new = (hash, key);
        match self.places.last_key_value() {
            Some((last, _)) if self.len() >= self.capacity => new < *last && !self.places.contains_key(&new),
            _ => self.capacity > 0 && !self.places.contains_key(&new),
        }
    }

    /// Keeps a state if it belongs to the sample so far; a state that is there already is left alone.
    pub fn offer(&mut self, hash: u64, key: SampleKey, state: &[f32]) -> Result<()> {
        if state.len() != self.dim {
            return Err(Error::Rows(format!("a state has {} components, but the sample keeps states of {}", state.len(), self.dim)));
        }
        if !self.accepts(hash, key) {
            return Ok(());
        }
        let states = self.states.to_mut();
        let place = match self.places.len() < self.capacity {
            true => {
                if states.len() + self.dim > states.capacity() {
                    // Twice as much, but never more than a full sample takes.
                    let grown = (2 * states.capacity()).min(self.capacity * self.dim).max(states.len() + self.dim);
                    states.reserve_exact(grown - states.len());
                }
                let place = states.len() / self.dim.max(1);
                states.extend_from_slice(state);
                place
            }
            false => {
                let place = self.places.pop_last().map_or(0, |(_, place)| place);
                states[place * self.dim..][..self.dim].copy_from_slice(state);
                place
            }
        };
        self.places.insert((hash, key), place);
        Ok(())
    }
}

impl PartialEq for HashSample<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.capacity == other.capacity && self.dim == other.dim && self.iter().eq(other.iter())
    }
}

impl Mergeable for HashSample<'_> {
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of components", self.dim, other.dim)?;
        must_match("the size of the sample", self.capacity, other.capacity)?;
        other.iter().try_for_each(|kept| self.offer(kept.hash, kept.key, kept.state))
    }

    fn encode(&self) -> Tensors<'_> {
        let column = |value: fn(Kept) -> u64| self.iter().map(value).collect::<Vec<u64>>();
        let states: Vec<f32> = self.iter().flat_map(|kept| kept.state.iter().copied()).collect();
        let rows = [self.len()];
        let mut tensors = Tensors::default();
        tensors.put_u64("capacity", &[1], vec![self.capacity as u64]);
        tensors.put_u64("hash", &rows, column(|kept| kept.hash));
        tensors.put_u64("document", &rows, column(|kept| kept.key.document));
        tensors.put_u64("position", &rows, column(|kept| u64::from(kept.key.position)));
        tensors.put_u64("token", &rows, column(|kept| u64::from(kept.key.token)));
        tensors.put_f32("states", &[self.len(), self.dim], states);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let [rows, dim] = tensors.shape("states")?;
        let capacity = tensors.take_u64("capacity", &[1])?[0] as usize;
        let hashes = tensors.take_u64("hash", &[rows])?;
        let documents = tensors.take_u64("document", &[rows])?;
        let positions = tensors.take_u32("position", &[rows])?;
        let tokens = tensors.take_u32("token", &[rows])?;
        let states = tensors.take_f32("states", &[rows, dim])?;
        let key = |row: usize| SampleKey { document: documents[row], position: positions[row], token: tokens[row] };
        let places: BTreeMap<_, _> = (0..rows).map(|row| ((hashes[row], key(row)), row)).collect();
        if places.len() != rows || rows > capacity {
            return Err(Error::tensor(
                "hash",
                format!("holds {rows} states, {} of them different, for a sample of {capacity}", places.len()),
            ));
        }
        Ok(HashSample { capacity, dim, places, states: Cow::Owned(states) })
    }
}

/// One hash sample per chosen token (or other group).
#[derive(Clone, Debug, PartialEq)]
pub struct TokenSamples<'a> {
    samples: BTreeMap<u32, HashSample<'a>>,
}

impl<'a> TokenSamples<'a> {
    /// Keeps at most `k` states of each of these groups.
    pub fn new(groups: impl IntoIterator<Item = u32>, k: usize, dim: usize) -> TokenSamples<'a> {
        TokenSamples { samples: groups.into_iter().map(|group| (group, HashSample::new(k, dim))).collect() }
    }

    /// Of groups with the sample of each.
    pub fn of_samples(samples: impl IntoIterator<Item = (u32, HashSample<'a>)>) -> TokenSamples<'a> {
        TokenSamples { samples: samples.into_iter().collect() }
    }

    /// The chosen groups with their samples, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &HashSample<'a>)> {
        self.samples.iter().map(|(&group, sample)| (group, sample))
    }

    /// The sample of a group, if it is a chosen one.
    pub fn get(&self, group: u32) -> Option<&HashSample<'a>> {
        self.samples.get(&group)
    }

    /// The same with [`HashSample::up_to_norm`] of each.
    pub fn up_to_norm(&self, threshold: f64) -> TokenSamples<'_> {
        TokenSamples { samples: self.samples.iter().map(|(&group, sample)| (group, sample.up_to_norm(threshold))).collect() }
    }

    /// Keeps a state of a chosen group if it belongs to its sample so far; other groups are ignored.
    pub fn offer(&mut self, group: u32, hash: u64, key: SampleKey, state: &[f32]) -> Result<()> {
        self.samples.get_mut(&group).map_or(Ok(()), |sample| sample.offer(hash, key, state))
    }
}

impl Mergeable for TokenSamples<'_> {
    fn merge(&mut self, other: &Self) -> Result<()> {
        for (&group, sample) in &other.samples {
            match self.samples.get_mut(&group) {
                Some(ours) => ours.merge(sample)?,
                None => return Err(Error::Mismatch(format!("group {group} was chosen for only one of two token samples"))),
            }
        }
        must_match("the number of chosen groups", self.samples.len(), other.samples.len())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        let groups: Vec<u64> = self.samples.keys().map(|&group| u64::from(group)).collect();
        tensors.put_u64("groups", &[groups.len()], groups);
        self.samples.iter().for_each(|(group, sample)| tensors.nest(&group.to_string(), sample.encode()));
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let shape: [usize; 1] = tensors.shape("groups")?;
        let groups = tensors.take_u32("groups", &shape)?;
        let decode = |group: u32| Ok((group, super::nested(&group.to_string(), tensors)?));
        Ok(TokenSamples { samples: groups.into_iter().map(decode).collect::<Result<_>>()? })
    }
}
