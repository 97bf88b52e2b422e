//! Moments of all states at one point, whatever their group.

use super::{Mergeable, Tensors, mean_of_means};
use crate::error::{Error, Result, must_match};
use crate::kernels::{self, CorpusVectors, Weights};
use crate::rows::{BatchRows, Scalars};

/// n, zero rows and mean norm; per component the mean, the sum of squared deviations, the mean square, and mean and mean square
/// of the unit vectors.
///
/// Kept apart from [`GroupMoments`](super::GroupMoments) on purpose: V = V_W + V_B can only fail if its sides come from
/// different accumulators. Only the sums of a few rows may be shared.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusMoments {
    /// Whether unit vectors are kept: cosines need them.
    units: bool,
    n: u64,
    nonzero: u64,
    norm: f64,
    mean: Vec<f64>,
    m2: Vec<f64>,
    square: Vec<f64>,
    unit: Vec<f64>,
    unit_square: Vec<f64>,
}

impl CorpusMoments {
    /// Of states with `dim` components.
    pub fn new(dim: usize) -> CorpusMoments {
        CorpusMoments::of(dim, true)
    }

    /// The same, with or without unit vectors.
    pub(super) fn of(dim: usize, units: bool) -> CorpusMoments {
        let (zeros, wanted) = (|| vec![0.0; dim], || vec![0.0; if units { dim } else { 0 }]);
        let (mean, m2, square, unit, unit_square) = (zeros(), zeros(), zeros(), wanted(), wanted());
        CorpusMoments { units, n: 0, nonzero: 0, norm: 0.0, mean, m2, square, unit, unit_square }
    }

    /// Whether unit vectors are kept.
    pub(super) fn keeps_units(&self) -> bool {
        self.units
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Number of states.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Those that are not the zero vector.
    pub fn nonzero(&self) -> u64 {
        self.nonzero
    }

    /// Mean of ||x||.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// mu_i: mean of x_i.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Sum of (x_i - mu_i)^2.
    pub fn m2(&self) -> &[f64] {
        &self.m2
    }

    /// q_i: mean of x_i^2.
    pub fn square(&self) -> &[f64] {
        &self.square
    }

    /// Mean of u_i over non-zero states, u = x / ||x||; empty where unit vectors are not kept.
    pub fn unit(&self) -> &[f64] {
        &self.unit
    }

    /// Mean of u_i^2 over non-zero states.
    pub fn unit_square(&self) -> &[f64] {
        &self.unit_square
    }

    /// Adds the counted rows of a batch.
    pub fn update(&mut self, batch: &BatchRows) -> Result<()> {
        if batch.dim() != self.dim() {
            return Err(Error::Rows(format!("states have {} components instead of {}", batch.dim(), self.dim())));
        }
        self.update_rows(batch, batch.segments().counted());
        Ok(())
    }

    /// Adds these rows of a checked batch.
    pub(super) fn update_rows(&mut self, batch: &BatchRows, rows: &[u32]) {
        for chunk in batch.chunks(rows) {
            self.absorb(&batch.scalars(chunk.rows), |weights, into| kernels::absorb_corpus(batch.isa(), chunk, weights, into));
        }
    }

    /// Adds a chunk of rows with these scalars; `vectors` does so with their components.
    pub(super) fn absorb(&mut self, new: &Scalars, vectors: impl FnOnce(Weights, CorpusVectors)) {
        let into = CorpusVectors {
            mean: &mut self.mean,
            m2: &mut self.m2,
            square: &mut self.square,
            unit: &mut self.unit,
            unit_square: &mut self.unit_square,
        };
        let nonzero = if self.units { new.nonzero } else { 0 };
        vectors(Weights::new((self.n, self.nonzero), new.n, nonzero), into);
        self.add_scalars(new.n, nonzero, new.norm);
    }

    fn add_scalars(&mut self, n: u64, nonzero: u64, norm: f64) {
        self.norm = mean_of_means(self.norm, self.n, norm, n);
        self.n += n;
        self.nonzero += nonzero;
    }
}

impl Mergeable for CorpusMoments {
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of components", self.dim(), other.dim())?;
        must_match("the choice to keep unit vectors", self.units, other.units)?;
        if other.n == 0 {
            return Ok(());
        }
        let weights = Weights::new((self.n, self.nonzero), other.n, other.nonzero);
        for i in 0..self.dim() {
            let delta = other.mean[i] - self.mean[i];
            self.m2[i] += other.m2[i] + delta * delta * weights.cross;
            self.mean[i] += delta * weights.share;
            self.square[i] += (other.square[i] - self.square[i]) * weights.share;
        }
        for i in 0..self.unit.len() {
            self.unit[i] += (other.unit[i] - self.unit[i]) * weights.unit_share;
            self.unit_square[i] += (other.unit_square[i] - self.unit_square[i]) * weights.unit_share;
        }
        self.add_scalars(other.n, other.nonzero, other.norm);
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let dim = [self.dim()];
        let mut tensors = Tensors::default();
        tensors.put_u64("n", &[2], vec![self.n, self.nonzero]);
        tensors.put_numbers("norm", &[self.norm]);
        tensors.put_f64("mean", &dim, &self.mean);
        tensors.put_f64("m2", &dim, &self.m2);
        tensors.put_f64("square", &dim, &self.square);
        if self.units {
            tensors.put_f64("unit", &dim, &self.unit);
            tensors.put_f64("unit_square", &dim, &self.unit_square);
        }
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let dim: [usize; 1] = tensors.shape("mean")?;
        let counts = tensors.take_u64("n", &[2])?;
        let units = tensors.has("unit");
        if !units && counts[1] > 0 {
            return Err(Error::tensor("unit", "is missing"));
        }
        let mut wanted = |name: &str| if units { tensors.take_f64(name, &dim) } else { Ok(Vec::new()) };
        let (unit, unit_square) = (wanted("unit")?, wanted("unit_square")?);
        Ok(CorpusMoments {
            units,
            n: counts[0],
            nonzero: counts[1],
            norm: tensors.take_f64("norm", &[1])?[0],
            mean: tensors.take_f64("mean", &dim)?,
            m2: tensors.take_f64("m2", &dim)?,
            square: tensors.take_f64("square", &dim)?,
            unit,
            unit_square,
        })
    }
}
