//! Mean and sums of products of deviations of some states.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use super::{Mergeable, Tensors};
use crate::error::{Error, Result, must_match};
use crate::products::{self, AREA, PANEL, Panels, gram_len, gram_place, panels_of};
use crate::rows::BatchRows;

/// Rows of a batch minus their mean, in f64, packed for products. Reuses its memory from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct CentredRows {
    mean: Vec<f64>,
    panels: Panels,
    n: u64,
}

impl CentredRows {
    /// Empty.
    pub fn new() -> CentredRows {
        CentredRows::default()
    }

    /// Memory for `rows` rows, in bytes.
    pub fn bytes(rows: usize, dim: usize) -> usize {
        products::panel_bytes(rows, dim)
    }

    /// Takes the counted rows of a batch.
    pub fn fill(&mut self, batch: &BatchRows) {
        self.fill_rows(batch, batch.segments().counted());
    }

    /// Takes these rows of a batch.
    pub(super) fn fill_rows(&mut self, batch: &BatchRows, rows: &[u32]) {
        self.fill_states(batch.isa(), batch.states(), batch.dim(), rows);
    }

    pub(crate) fn fill_states(&mut self, isa: Isa, states: &[f32], dim: usize, rows: &[u32]) {
        self.n = rows.len() as u64;
        self.mean.resize(dim, 0.0);
        mean_of(isa, states, rows, &mut self.mean);
        self.panels.fill(isa, states, rows, &self.mean);
    }

    /// Takes some of other rows, by their places there, and centres them anew.
    ///
    /// What the other mean is off by is lost in rounding only: deviations are f64, and no larger than the largest of f32 numbers.
    pub(super) fn fill_some(&mut self, of: &CentredRows, places: &[u32]) {
        let shift = of.panels.mean_of_rows(places);
        self.n = places.len() as u64;
        self.mean.clear();
        self.mean.extend(of.mean.iter().zip(&shift).map(|(mean, shift)| mean + shift));
        self.panels.fill_rows(&of.panels, places, &shift);
    }

    /// Number of rows.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    pub(crate) fn panels(&self) -> &Panels {
        &self.panels
    }
}

for_each_isa! {
    /// The mean of rows, 0 if there are none.
    ///
    /// A sum of f32 numbers in f64 has 29 bits to spare: what it is off by is nothing beside deviations from it, and the mean of equal
    /// numbers is that number.
    pub(crate) fn mean_of = mean_of_body; (states: &[f32], rows: &[u32], mean: &mut [f64])
}

#[inline(always)]
fn mean_of_body(states: &[f32], rows: &[u32], mean: &mut [f64]) {
    let dim = mean.len();
    let row = |row: u32| &states[row as usize * dim..][..dim];
    mean.fill(0.0);
    let (fours, rest) = rows.as_chunks::<4>();
    for fours in fours {
        let [a, b, c, d] = fours.map(row);
        for l in 0..dim {
            mean[l] += (f64::from(a[l]) + f64::from(b[l])) + (f64::from(c[l]) + f64::from(d[l]));
        }
    }
    for &at in rest {
        mean.iter_mut().zip(row(at)).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let n = rows.len().max(1) as f64;
    mean.iter_mut().for_each(|sum| *sum /= n);
}

/// n, mean and the scatter matrix sum (x - mean)(x - mean)^T.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter {
    n: u64,
    mean: Vec<f64>,
    /// Blocks on and above the diagonal, see [`products::gram`].
    blocks: Vec<f64>,
}

impl Scatter {
    /// Empty, for states with `dim` components.
    pub fn new(dim: usize) -> Scatter {
        Scatter { n: 0, mean: vec![0.0; dim], blocks: vec![0.0; gram_len(dim)] }
    }

    /// Memory of one.
    pub fn bytes(dim: usize) -> usize {
        (gram_len(dim) + dim) * size_of::<f64>()
    }

    /// Replaces the contents by the scatter of these rows. Memory is reused.
    pub fn fill(&mut self, isa: Isa, rows: &CentredRows) {
        self.n = rows.n;
        self.mean.clone_from(&rows.mean);
        products::gram(isa, &rows.panels, &mut self.blocks);
    }

    /// Forgets all states but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.n = 0;
    }

    /// The scatter without some of its states: the inverse of a merge.
    ///
    /// Only for few states that are like the others: what is left is a difference, good as long as it is not small.
    pub(crate) fn without(&self, part: &Scatter) -> Scatter {
        if part.n == 0 || part.n >= self.n {
            return if part.n == 0 { self.clone() } else { Scatter::new(self.dim()) };
        }
        let (whole, gone) = (self.n as f64, part.n as f64);
        let left = whole - gone;
        // mean = mean_left + (mean_part - mean_left) gone / whole
        let mean: Vec<f64> = self.mean.iter().zip(&part.mean).map(|(mean, part)| mean + (mean - part) * gone / left).collect();
        let delta: Vec<f64> = part.mean.iter().zip(&mean).map(|(part, mean)| part - mean).collect();
        let mut rest = Scatter { n: self.n - part.n, mean, blocks: vec![0.0; self.blocks.len()] };
        for i in 0..self.dim() {
            for j in i..self.dim() {
                let place = gram_place(i, j);
                rest.blocks[place] = self.blocks[place] - part.blocks[place] - delta[i] * delta[j] * gone * left / whole;
            }
        }
        rest
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Number of states.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Their mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Sum of (x_i - mean_i)(x_j - mean_j).
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.blocks[gram_place(i.min(j), i.max(j))]
    }

    /// The covariance matrix, divisor n - 1, row by row; None with fewer than 2 states.
    pub fn covariance(&self) -> Option<Vec<f64>> {
        (self.n >= 2).then(|| self.matrix(|i, j| self.get(i, j) / (self.n - 1) as f64))
    }

    /// The mean of x x^T, row by row; None without states.
    pub fn second_moment(&self) -> Option<Vec<f64>> {
        (self.n >= 1).then(|| self.matrix(|i, j| self.get(i, j) / self.n as f64 + self.mean[i] * self.mean[j]))
    }

    fn matrix(&self, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let dim = self.dim();
        let mut matrix = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in i..dim {
                let value = entry(i, j);
                matrix[i * dim + j] = value;
                matrix[j * dim + i] = value;
            }
        }
        matrix
    }
}

impl Mergeable for Scatter {
    /// Chan, Golub & LeVeque: S = S_a + S_b + delta delta^T n_a n_b / (n_a + n_b).
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of components", self.dim(), other.dim())?;
        if other.n == 0 {
            return Ok(());
        }
        if self.n == 0 {
            self.clone_from(other);
            return Ok(());
        }
        let (a, b) = (self.n as f64, other.n as f64);
        let mut delta: Vec<f64> = other.mean.iter().zip(&self.mean).map(|(theirs, ours)| theirs - ours).collect();
        let share = b / (a + b);
        self.mean.iter_mut().zip(&delta).for_each(|(mean, delta)| *mean += delta * share);
        delta.resize(panels_of(self.dim()) * PANEL, 0.0);
        absorb(Isa::detect(), &mut self.blocks, &other.blocks, &delta, a * share);
        self.n += other.n;
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("n", &[1], vec![self.n]);
        tensors.put_f64("mean", &[self.dim()], &self.mean);
        tensors.put_f64("scatter", &[self.blocks.len() / AREA, PANEL, PANEL], &self.blocks);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let [dim] = tensors.shape("mean")?;
        if dim == 0 {
            return Err(Error::tensor("mean", "has no components"));
        }
        Ok(Scatter {
            n: tensors.take_u64("n", &[1])?[0],
            mean: tensors.take_f64("mean", &[dim])?,
            blocks: tensors.take_f64("scatter", &[gram_len(dim) / AREA, PANEL, PANEL])?,
        })
    }
}

for_each_isa! {
    /// Adds blocks and `cross delta delta^T`.
    fn absorb = absorb_body; (blocks: &mut [f64], others: &[f64], delta: &[f64], cross: f64)
}

#[inline(always)]
fn absorb_body(blocks: &mut [f64], others: &[f64], delta: &[f64], cross: f64) {
    let (blocks, others) = (blocks.as_chunks_mut::<PANEL>().0, others.as_chunks::<PANEL>().0);
    let (delta, _) = delta.as_chunks::<PANEL>();
    let mut rows = blocks.iter_mut().zip(others);
    for q in 0..delta.len() {
        for left in delta[..=q].iter().flatten() {
            let Some((row, other)) = rows.next() else { return };
            let left = cross * left;
            for j in 0..PANEL {
                row[j] += other[j] + left * delta[q][j];
            }
        }
    }
}
