//! Moments of every group at one point.

use layerscope_compute::cpu::Isa;

use super::{Mergeable, Tensors, mean_of_means};
use crate::error::{Error, Result, must_match};
use crate::kernels::{self, GroupVectors, Weights};
use crate::rows::{BatchRows, Scalars};
use crate::segments::Segments;

/// Per group n, mean, sum ||x - mean||^2, mean ||x||^2, mean ||x||, non-zero rows and their mean unit vector; and per component
/// the sum over groups of squared deviations.
///
/// 16 d + 40 bytes a group, 8 d + 40 without unit vectors. Batches enter by moments about one of their own rows and merge by Chan's
/// formula, so V is never a difference of two large numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMoments {
    dim: usize,
    /// Whether unit vectors are kept: cosines need them.
    units: bool,
    n: Vec<u64>,
    nonzero: Vec<u64>,
    m2: Vec<f64>,
    square: Vec<f64>,
    norm: Vec<f64>,
    mean: Vec<f64>,
    unit: Vec<f64>,
    within: Vec<f64>,
}

/// What is known of one group.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// Its states.
    pub n: u64,
    /// Those that are not the zero vector.
    pub nonzero: u64,
    /// Sum of ||x - mean||^2.
    pub m2: f64,
    /// Mean of ||x||^2.
    pub square: f64,
    /// Mean of ||x||.
    pub norm: f64,
    /// Mean of x.
    pub mean: &'a [f64],
    /// Mean of x / ||x|| over non-zero states.
    pub unit: &'a [f64],
}

impl GroupMoments {
    /// For groups `0..groups` of states with `dim` components.
    pub fn new(groups: usize, dim: usize) -> GroupMoments {
        GroupMoments::of(groups, dim, true)
    }

    /// The same, with or without unit vectors.
    pub(super) fn of(groups: usize, dim: usize, units: bool) -> GroupMoments {
        let scalars = || vec![0.0; groups];
        GroupMoments {
            dim,
            units,
            n: vec![0; groups],
            nonzero: vec![0; groups],
            m2: scalars(),
            square: scalars(),
            norm: scalars(),
            mean: vec![0.0; groups * dim],
            unit: vec![0.0; if units { groups * dim } else { 0 }],
            within: vec![0.0; dim],
        }
    }

    /// Whether unit vectors are kept.
    pub(super) fn keeps_units(&self) -> bool {
        self.units
    }

    /// Number of groups, those without states included.
    pub fn groups(&self) -> usize {
        self.n.len()
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// One group.
    pub fn group(&self, group: u32) -> Group<'_> {
        let at = group as usize;
        let vector = at * self.dim..(at + 1) * self.dim;
        Group {
            n: self.n[at],
            nonzero: self.nonzero[at],
            m2: self.m2[at],
            square: self.square[at],
            norm: self.norm[at],
            mean: &self.mean[vector.clone()],
            unit: self.unit.get(vector).unwrap_or_default(),
        }
    }

    /// Per component, sum over groups of the squared deviations from the group's mean.
    pub fn within(&self) -> &[f64] {
        &self.within
    }

    /// Adds the counted rows of a batch.
    pub fn update(&mut self, batch: &BatchRows) -> Result<()> {
        self.check(batch)?;
        self.update_segments(batch, batch.segments());
        Ok(())
    }

    /// Refuses rows that do not fit.
    pub(super) fn check(&self, batch: &BatchRows) -> Result<()> {
        if batch.dim() != self.dim {
            return Err(Error::Rows(format!("states have {} components instead of {}", batch.dim(), self.dim)));
        }
        let largest = batch.segments().segments().iter().map(|segment| segment.group).max();
        if let Some(group) = largest.filter(|group| *group as usize >= self.groups()) {
            return Err(Error::Rows(format!("a row belongs to group {group}, but only {} groups are known", self.groups())));
        }
        Ok(())
    }

    /// Adds these rows of a checked batch.
    pub(super) fn update_segments(&mut self, batch: &BatchRows, segments: &Segments) {
        for (group, rows, next) in with_next(segments, self.groups()) {
            self.absorb_rows(group, batch, rows, next);
        }
    }

    /// Adds rows to one group; `next` is the group that comes after it.
    pub(super) fn absorb_rows(&mut self, at: usize, batch: &BatchRows, rows: &[u32], next: usize) {
        for chunk in batch.chunks(rows) {
            let new = batch.scalars(chunk.rows);
            self.absorb(at, &new, next, |weights, into, m2| kernels::absorb_group(batch.isa(), chunk, weights, into, m2));
        }
    }

    /// Adds a chunk of rows with these scalars to one group; `vectors` does so with their components.
    pub(super) fn absorb(&mut self, at: usize, new: &Scalars, next: usize, vectors: impl FnOnce(Weights, GroupVectors, &mut f64)) {
        let vector = at * self.dim..(at + 1) * self.dim;
        let next = [&self.mean, &self.unit].map(|vectors| vectors.as_ptr().wrapping_add(next * self.dim));
        let (mean, unit) = (&mut self.mean[vector.clone()], self.unit.get_mut(vector).unwrap_or_default());
        if self.n[at] == 0 {
            // Memory that is read before it is written costs the system two page faults instead of one.
            mean.fill(0.0);
            unit.fill(0.0);
        }
        let nonzero = if self.units { new.nonzero } else { 0 };
        let weights = Weights::new((self.n[at], self.nonzero[at]), new.n, nonzero);
        vectors(weights, GroupVectors { mean, unit, within: &mut self.within, next }, &mut self.m2[at]);
        self.add_scalars(at, new.n, nonzero, new.square, new.norm);
    }

    /// Merges one group's moments into a group, M2_b excepted in `within`, which only knows sums over groups.
    pub(super) fn absorb_group(&mut self, at: usize, other: Group) {
        if other.n == 0 {
            return;
        }
        let vector = at * self.dim..(at + 1) * self.dim;
        let weights = Weights::new((self.n[at], self.nonzero[at]), other.n, other.nonzero);
        let (mean, unit) = (&mut self.mean[vector.clone()], self.unit.get_mut(vector).unwrap_or_default());
        let next = [mean.as_ptr(), unit.as_ptr()];
        let into = GroupVectors { mean, unit, within: &mut self.within, next };
        self.m2[at] += other.m2;
        kernels::merge_group(Isa::detect(), other.mean, other.unit, weights, into, &mut self.m2[at]);
        self.add_scalars(at, other.n, other.nonzero, other.square, other.norm);
    }

    fn add_scalars(&mut self, at: usize, n: u64, nonzero: u64, square: f64, norm: f64) {
        self.square[at] = mean_of_means(self.square[at], self.n[at], square, n);
        self.norm[at] = mean_of_means(self.norm[at], self.n[at], norm, n);
        self.n[at] += n;
        self.nonzero[at] += nonzero;
    }

    /// Writes one group's moments over another's.
    pub(super) fn copy_group(&mut self, at: usize, other: Group) {
        let vector = at * self.dim..(at + 1) * self.dim;
        self.n[at] = other.n;
        self.nonzero[at] = other.nonzero;
        self.m2[at] = other.m2;
        self.square[at] = other.square;
        self.norm[at] = other.norm;
        self.mean[vector.clone()].copy_from_slice(other.mean);
        self.unit.get_mut(vector).unwrap_or_default().copy_from_slice(other.unit);
    }

    /// Merges sums over groups, the other half of [`GroupMoments::absorb_group`].
    pub(super) fn absorb_within(&mut self, within: &[f64]) {
        self.within.iter_mut().zip(within).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// Makes room for more groups.
    pub fn grow(&mut self, groups: usize) {
        if groups > self.groups() {
            self.n.resize(groups, 0);
            self.nonzero.resize(groups, 0);
            self.m2.resize(groups, 0.0);
            self.square.resize(groups, 0.0);
            self.norm.resize(groups, 0.0);
            self.mean.resize(groups * self.dim, 0.0);
            self.unit.resize(if self.units { groups * self.dim } else { 0 }, 0.0);
        }
    }

    /// Forgets all states and makes room for groups `0..groups` in the same memory.
    pub(super) fn restart(&mut self, groups: usize) {
        let GroupMoments { dim, units, n, nonzero, m2, square, norm, mean, unit, within } = self;
        [n, nonzero].into_iter().for_each(|counts| *counts = vec![0; groups]);
        [m2, square, norm].into_iter().for_each(|scalars| *scalars = vec![0.0; groups]);
        // What vectors of empty groups hold does not matter: the first rows that enter overwrite it.
        mean.resize(groups * *dim, 0.0);
        unit.resize(if *units { groups * *dim } else { 0 }, 0.0);
        within.fill(0.0);
    }

    /// Writes the groups in `names` into `into`, one after another, and the sums over all groups.
    pub(super) fn excerpt(&self, names: &[u32], into: &mut GroupMoments) {
        into.restart(names.len());
        names.iter().enumerate().for_each(|(place, &name)| into.copy_group(place, self.group(name)));
        into.within.copy_from_slice(&self.within);
    }

    /// Restores the groups of an excerpt.
    pub(super) fn restore(&mut self, excerpt: &GroupMoments, names: &[u32]) {
        names.iter().enumerate().for_each(|(place, &name)| self.copy_group(name as usize, excerpt.group(place as u32)));
        self.within.copy_from_slice(&excerpt.within);
    }

    /// Merges a sketch whose group `g` is our `names[g]` (shards number their groups by themselves).
    pub fn merge_renamed(&mut self, other: &GroupMoments, names: &[u32]) -> Result<()> {
        must_match("the number of components", self.dim, other.dim)?;
        must_match("the choice to keep unit vectors", self.units, other.units)?;
        must_match("the number of groups and of new names for them", other.groups(), names.len())?;
        let groups = names.iter().max().map_or(0, |last| *last as usize + 1);
        self.grow(groups);
        for (group, &name) in names.iter().enumerate() {
            self.absorb_group(name as usize, other.group(group as u32));
        }
        self.absorb_within(&other.within);
        Ok(())
    }
}

/// Every group with its rows and the group that comes after it, the last of `groups` at the end.
pub(super) fn with_next(segments: &Segments, groups: usize) -> impl Iterator<Item = (usize, &[u32], usize)> {
    let later = segments.iter().skip(1).map(|(group, _)| group as usize).chain([groups.saturating_sub(1)]);
    segments.iter().zip(later).map(|((group, rows), next)| (group as usize, rows, next))
}

impl Mergeable for GroupMoments {
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of groups", self.groups(), other.groups())?;
        let names: Vec<u32> = (0..other.groups() as u32).collect();
        self.merge_renamed(other, &names)
    }

    fn encode(&self) -> Tensors<'_> {
        let (groups, dim) = (self.groups(), self.dim);
        let mut tensors = Tensors::default();
        tensors.put_u64("n", &[groups], &self.n);
        tensors.put_u64("nonzero", &[groups], &self.nonzero);
        tensors.put_f64("m2", &[groups], &self.m2);
        tensors.put_f64("square", &[groups], &self.square);
        tensors.put_f64("norm", &[groups], &self.norm);
        tensors.put_f64("mean", &[groups, dim], &self.mean);
        if self.units {
            tensors.put_f64("unit", &[groups, dim], &self.unit);
        }
        tensors.put_f64("within", &[dim], &self.within);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let [groups, dim] = tensors.shape("mean")?;
        let units = tensors.has("unit");
        let nonzero = tensors.take_u64("nonzero", &[groups])?;
        if !units && nonzero.iter().any(|count| *count > 0) {
            return Err(Error::tensor("unit", "is missing"));
        }
        Ok(GroupMoments {
            dim,
            units,
            n: tensors.take_u64("n", &[groups])?,
            nonzero,
            m2: tensors.take_f64("m2", &[groups])?,
            square: tensors.take_f64("square", &[groups])?,
            norm: tensors.take_f64("norm", &[groups])?,
            mean: tensors.take_f64("mean", &[groups, dim])?,
            unit: if units { tensors.take_f64("unit", &[groups, dim])? } else { Vec::new() },
            within: tensors.take_f64("within", &[dim])?,
        })
    }
}
