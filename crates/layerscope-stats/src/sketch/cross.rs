//! Means and sums of products of deviations of some states at one point and at the next.

use layerscope_compute::cpu::Isa;
use layerscope_compute::for_each_isa;

use super::{CentredRows, Mergeable, Tensors};
use crate::error::{Error, Result, must_match};
use crate::products::{self, AREA, PANEL, panels_of, product_place};

/// n, both means and sum (x - mean x)(y - mean y)^T, with x a state at this point and y the same one at the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossScatter {
    n: u64,
    this: Vec<f64>,
    next: Vec<f64>,
    /// Blocks, see [`products::product`].
    blocks: Vec<f64>,
}

impl CrossScatter {
    /// Of states with `this` components at this point and `next` at the next.
    pub fn new(this: usize, next: usize) -> CrossScatter {
        CrossScatter { n: 0, this: vec![0.0; this], next: vec![0.0; next], blocks: vec![0.0; blocks_of(this, next) * AREA] }
    }

    /// Number of states.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Components at this point and at the next.
    pub fn dims(&self) -> (usize, usize) {
        (self.this.len(), self.next.len())
    }

    /// Sum of (x_i - mean x_i)(y_j - mean y_j).
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.blocks[product_place(i, j, self.next.len())]
    }

    /// Memory of one.
    pub fn bytes(this: usize, next: usize) -> usize {
        (blocks_of(this, next) * AREA + this + next) * size_of::<f64>()
    }

    /// Replaces the contents by the same rows at both points. Memory is reused. This is nearly all of the work.
    pub fn fill(&mut self, isa: Isa, this: &CentredRows, next: &CentredRows) -> Result<()> {
        if this.n() != next.n() {
            return Err(Error::Rows(format!("{} states at one point cannot be paired with {} at the next", this.n(), next.n())));
        }
        self.n = this.n();
        self.this.clear();
        self.this.extend_from_slice(this.mean());
        self.next.clear();
        self.next.extend_from_slice(next.mean());
        products::product(isa, this.panels(), next.panels(), &mut self.blocks);
        Ok(())
    }

    /// Forgets all states but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.n = 0;
    }
}

fn blocks_of(this: usize, next: usize) -> usize {
    panels_of(this) * panels_of(next)
}

impl Mergeable for CrossScatter {
    /// As for a scatter: S = S_a + S_b + delta_x delta_y^T n_a n_b / (n_a + n_b).
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the number of components", self.this.len(), other.this.len())?;
        must_match("the number of components", self.next.len(), other.next.len())?;
        if other.n == 0 {
            return Ok(());
        }
        if self.n == 0 {
            self.clone_from(other);
            return Ok(());
        }
        let (a, b) = (self.n as f64, other.n as f64);
        let share = b / (a + b);
        let move_mean = |mean: &mut [f64], other: &[f64]| {
            let mut delta: Vec<f64> = other.iter().zip(&*mean).map(|(theirs, ours)| theirs - ours).collect();
            mean.iter_mut().zip(&delta).for_each(|(mean, delta)| *mean += delta * share);
            delta.resize(panels_of(mean.len()) * PANEL, 0.0);
            delta
        };
        let (left, right) = (move_mean(&mut self.this, &other.this), move_mean(&mut self.next, &other.next));
        absorb(Isa::detect(), &mut self.blocks, &other.blocks, &left, &right, a * share);
        self.n += other.n;
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("n", &[1], vec![self.n]);
        tensors.put_f64("this", &[self.this.len()], &self.this);
        tensors.put_f64("next", &[self.next.len()], &self.next);
        tensors.put_f64("products", &[self.blocks.len() / AREA, PANEL, PANEL], &self.blocks);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let ([this], [next]) = (tensors.shape("this")?, tensors.shape("next")?);
        Ok(CrossScatter {
            n: tensors.take_u64("n", &[1])?[0],
            this: tensors.take_f64("this", &[this])?,
            next: tensors.take_f64("next", &[next])?,
            blocks: tensors.take_f64("products", &[blocks_of(this, next), PANEL, PANEL])?,
        })
    }
}

for_each_isa! {
    /// Adds blocks and `cross left right^T`.
    fn absorb = absorb_body; (blocks: &mut [f64], others: &[f64], left: &[f64], right: &[f64], cross: f64)
}

#[inline(always)]
fn absorb_body(blocks: &mut [f64], others: &[f64], left: &[f64], right: &[f64], cross: f64) {
    let (blocks, others) = (blocks.as_chunks_mut::<PANEL>().0, others.as_chunks::<PANEL>().0);
    let (left, right) = (left.as_chunks::<PANEL>().0, right.as_chunks::<PANEL>().0);
    let mut rows = blocks.iter_mut().zip(others);
    for left in left {
        for right in right {
            for left in left {
                let Some((row, other)) = rows.next() else { return };
                let left = cross * left;
                for j in 0..PANEL {
                    row[j] += other[j] + left * right[j];
                }
            }
        }
    }
}
