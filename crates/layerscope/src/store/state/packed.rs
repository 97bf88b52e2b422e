//! Tensors as they lie in a file: vectors that follow from others are left out.
//!
//! Most groups of a text occur once. The mean of such a group is a state, which f32 holds, and its mean unit vector is mean / ||x||. So a
//! group of one state is stored as that state, and a group without states not at all. What is left out is compared bit by bit before, so
//! that nothing is lost; whatever differs is stored as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use layerscope_compute::parallel::in_order;
use layerscope_stats::sketch::{Tensor, Tensors, Values};

use super::numbers;

/// Numbers of groups that are stored as one state, and those states.
const SINGLE: &str = "single";
const SINGLE_STATE: &str = "single_state";

/// A tensor on its way into a file.
pub struct Packed<'a> {
    pub shape: Vec<usize>,
    values: Source<'a>,
}

enum Source<'a> {
    Whole(&'a Values<'a>),
    Ids(Values<'static>),
    Rows(Rows<'a>),
}

/// Some rows of a matrix.
struct Rows<'a> {
    of: &'a [f64],
    width: usize,
    rows: Vec<u32>,
    /// Whether f32 holds them.
    is_narrow: bool,
}

/// All tensors of a state, packed, on so many threads.
pub fn packed<'a>(tensors: &'a Tensors<'a>, threads: usize) -> BTreeMap<String, Packed<'a>> {
    let whole = |tensor: &'a Tensor<'a>| Packed { shape: tensor.shape.clone(), values: Source::Whole(&tensor.values) };
    let mut packed: BTreeMap<String, Packed<'a>> = tensors.0.iter().map(|(name, tensor)| (name.clone(), whole(tensor))).collect();
    let prefixes = tensors.0.keys().filter_map(|name| name.strip_suffix("mean").filter(|prefix| is_groups(prefix)));
    let groups: Vec<(&str, Groups<'a>)> = prefixes.filter_map(|prefix| Some((prefix, Groups::of(tensors, prefix)?))).collect();
    let split = in_order(threads, groups.len(), |at| groups[at].1.split());
    groups.iter().zip(split).for_each(|((prefix, groups), split)| groups.pack(prefix, split, &mut packed));
    packed
}

/// Whether a prefix is that of the moments of all groups.
fn is_groups(prefix: &str) -> bool {
    prefix == "groups." || prefix.ends_with(".groups.")
}

/// The moments of groups that vectors are left out of.
struct Groups<'a> {
    n: &'a [u64],
    norm: &'a [f64],
    mean: &'a [f64],
    unit: Option<&'a [f64]>,
    dim: usize,
}

impl<'a> Groups<'a> {
    fn of(tensors: &'a Tensors<'a>, prefix: &str) -> Option<Groups<'a>> {
        let get = |name: &str| tensors.0.get(&format!("{prefix}{name}"));
        let floats = |name: &str| match &get(name)?.values {
            Values::F64(values) => Some(&**values),
            _ => None,
        };
        let Values::U64(n) = &get("n")?.values else { return None };
        let &[groups, dim] = get("mean")?.shape.as_slice() else { return None };
        let (mean, norm, unit) = (floats("mean")?, floats("norm")?, floats("unit"));
        let fits = n.len() == groups && norm.len() == groups && mean.len() == groups * dim;
        let unit_fits = unit.is_none_or(|unit| unit.len() == mean.len());
        (fits && unit_fits && dim > 0 && get(SINGLE).is_none()).then_some(Groups { n, norm, mean, unit, dim })
    }

    /// The groups that are stored as one state, and those whose vectors are.
    fn split(&self) -> (Vec<u32>, Vec<u32>) {
        (0..self.n.len() as u32).filter(|&group| self.n[group as usize] > 0).partition(|&group| self.is_single(group as usize))
    }

    fn pack(&self, prefix: &str, (single, whole): (Vec<u32>, Vec<u32>), packed: &mut BTreeMap<String, Packed<'a>>) {
        let mut put =
            |name: &str, shape: Vec<usize>, values: Source<'a>| packed.insert(format!("{prefix}{name}"), Packed { shape, values });
        let rows = |of: &'a [f64], rows: &[u32], is_narrow| {
            (vec![rows.len(), self.dim], Source::Rows(Rows { of, width: self.dim, rows: rows.to_vec(), is_narrow }))
        };
        let ids = single.iter().map(|&group| u64::from(group)).collect();
        put(SINGLE, vec![single.len()], Source::Ids(Values::U64(Cow::Owned(ids))));
        let (shape, states) = rows(self.mean, &single, true);
        put(SINGLE_STATE, shape, states);
        let (shape, means) = rows(self.mean, &whole, false);
        put("mean", shape, means);
        if let Some(unit) = self.unit {
            let (shape, units) = rows(unit, &whole, false);
            put("unit", shape, units);
        }
    }

    /// Whether the vectors of a group follow from one f32 state, to the bit.
    fn is_single(&self, group: usize) -> bool {
        if self.n[group] != 1 {
            return false;
        }
        let (vector, inverse) = (group * self.dim..(group + 1) * self.dim, 1.0 / self.norm[group]);
        let mean = &self.mean[vector.clone()];
        let off = mean.iter().fold(0, |off, value| off | (f64::from(*value as f32).to_bits() ^ value.to_bits()));
        let differs = |off: u64, (value, unit): (&f64, &f64)| off | ((value * inverse).to_bits() ^ unit.to_bits());
        off == 0 && self.unit.is_none_or(|unit| mean.iter().zip(&unit[vector]).fold(0, differs) == 0)
    }
}

impl Packed<'_> {
    /// The name of the kind of its numbers in a header.
    pub fn dtype(&self) -> &'static str {
        match &self.values {
            Source::Whole(values) => numbers::dtype(values),
            Source::Ids(values) => numbers::dtype(values),
            Source::Rows(rows) => {
                if rows.is_narrow {
                    "F32"
                } else {
                    "F64"
                }
            }
        }
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Source::Whole(values) => values.len() * numbers::width(values),
            Source::Ids(values) => values.len() * numbers::width(values),
            Source::Rows(rows) => rows.rows.len() * rows.width * if rows.is_narrow { size_of::<f32>() } else { size_of::<f64>() },
        }
    }

    /// CRC-32 of it.
    pub fn checksum(&self) -> io::Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        self.for_each_chunk(&mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(hasher.finalize())
    }

    /// Its bytes in pieces, little-endian.
    pub fn for_each_chunk(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match &self.values {
            Source::Whole(values) => numbers::for_each_chunk(values, take),
            Source::Ids(values) => numbers::for_each_chunk(values, take),
            Source::Rows(rows) => rows.for_each_chunk(take),
        }
    }
}

impl Rows<'_> {
    fn for_each_chunk(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let row = |row: &u32| &self.of[*row as usize * self.width..][..self.width];
        if self.is_narrow {
            let mut buffer = vec![[0; size_of::<f32>()]; self.width];
            return self.rows.iter().try_for_each(|at| {
                buffer.iter_mut().zip(row(at)).for_each(|(place, value)| *place = (*value as f32).to_le_bytes());
                take(buffer.as_flattened())
            });
        }
        let mut buffer = vec![[0; size_of::<f64>()]; self.width];
        self.rows.iter().try_for_each(|at| {
            buffer.iter_mut().zip(row(at)).for_each(|(place, value)| *place = value.to_le_bytes());
            take(buffer.as_flattened())
        })
    }
}

/// Puts back what was left out, or says what does not fit. Tensors of older programs have everything.
pub fn unpack(tensors: &mut Tensors<'static>) -> Result<(), String> {
    let prefixes: Vec<String> =
        tensors.0.keys().filter_map(|name| name.strip_suffix(SINGLE)).filter(|prefix| is_groups(prefix)).map(str::to_owned).collect();
    prefixes.iter().try_for_each(|prefix| {
        unpack_groups(tensors, prefix).ok_or_else(|| format!("`{prefix}{SINGLE}` does not fit the groups beside it"))
    })
}

fn unpack_groups(tensors: &mut Tensors<'static>, prefix: &str) -> Option<()> {
    let mut take = |name: &str| tensors.0.remove(&format!("{prefix}{name}"));
    let (Values::U64(single), Values::F32(states)) = (take(SINGLE)?.values, take(SINGLE_STATE)?.values) else { return None };
    let (mean, unit) = (take("mean")?, take("unit"));
    let get = |name: &str| tensors.0.get(&format!("{prefix}{name}")).map(|tensor| &tensor.values);
    let (Values::U64(n), Values::F64(norm)) = (get("n")?, get("norm")?) else { return None };
    let &[stored, dim] = mean.shape.as_slice() else { return None };
    let groups = n.len();
    let fits = single.is_sorted_by(|a, b| a < b) && single.last().is_none_or(|last| (*last as usize) < groups);
    if !fits
        || single.iter().any(|group| n[*group as usize] != 1)
        || Some(states.len()) != single.len().checked_mul(dim)
        || norm.len() != groups
    {
        return None;
    }
    let mut is_single = vec![false; groups];
    single.iter().for_each(|group| is_single[*group as usize] = true);
    let whole: Vec<usize> = (0..groups).filter(|&group| n[group] > 0 && !is_single[group]).collect();
    if whole.len() != stored {
        return None;
    }
    let mut mean = spread(mean, &whole, groups, dim)?;
    let mut unit = match unit {
        Some(unit) => Some(spread(unit, &whole, groups, dim)?),
        None => None,
    };
    for (&group, state) in single.iter().zip(states.chunks_exact(dim.max(1))) {
        let (at, inverse) = (group as usize * dim, 1.0 / norm[group as usize]);
        mean[at..at + dim].iter_mut().zip(state).for_each(|(place, value)| *place = f64::from(*value));
        if let Some(unit) = &mut unit {
            unit[at..at + dim].iter_mut().zip(state).for_each(|(place, value)| *place = f64::from(*value) * inverse);
        }
    }
    let mut put = |name: &str, values: Vec<f64>| {
        let tensor = Tensor { shape: vec![groups, dim], values: Values::F64(Cow::Owned(values)) };
        tensors.0.insert(format!("{prefix}{name}"), tensor);
    };
    put("mean", mean);
    if let Some(unit) = unit {
        put("unit", unit);
    }
    Some(())
}

/// Rows at the places of their groups, in the same memory; the others are zero.
fn spread(tensor: Tensor<'static>, whole: &[usize], groups: usize, dim: usize) -> Option<Vec<f64>> {
    let Values::F64(values) = tensor.values else { return None };
    let mut values = values.into_owned();
    if values.len() != whole.len().checked_mul(dim)? {
        return None;
    }
    values.resize(groups.checked_mul(dim)?, 0.0);
    // From the last one on: no row lies behind its place.
    for (row, &group) in whole.iter().enumerate().rev().take_while(|(row, group)| row != *group) {
        values.copy_within(row * dim..(row + 1) * dim, group * dim);
    }
    let mut is_whole = vec![false; groups];
    whole.iter().for_each(|&group| is_whole[group] = true);
    (0..groups).filter(|&group| !is_whole[group]).for_each(|group| values[group * dim..(group + 1) * dim].fill(0.0));
    Some(values)
}
