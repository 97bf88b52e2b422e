//! The covariance of all states at one point.

use std::borrow::Cow;

use super::{CentredRows, Mergeable, Preparation, Scatter, Sketch, SketchShape, Tensors, nested};
use crate::error::{Error, Result, must_match};
use crate::rows::BatchRows;

/// The [`Scatter`] of the typical states and, apart from them, of the massive ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Covariance {
    threshold: f64,
    typical: Scatter,
    /// Only where there are massive states: most points have none.
    massive: Option<Scatter>,
}

impl Covariance {
    /// Of states with `dim` components; states whose norm exceeds `massive` are massive.
    pub fn new(dim: usize, massive: Option<f64>) -> Covariance {
        Covariance { threshold: massive.unwrap_or(f64::INFINITY), typical: Scatter::new(dim), massive: None }
    }

    /// Number of components.
    pub fn dim(&self) -> usize {
        self.typical.dim()
    }

    /// The norm beyond which a state is massive, if there is one.
    pub fn massive_threshold(&self) -> Option<f64> {
        (self.threshold < f64::INFINITY).then_some(self.threshold)
    }

    /// States that come later are massive beyond this norm.
    pub fn set_massive_threshold(&mut self, massive: Option<f64>) {
        self.threshold = massive.unwrap_or(f64::INFINITY);
    }

    /// All states.
    pub fn all(&self) -> Result<Cow<'_, Scatter>> {
        match &self.massive {
            None => Ok(Cow::Borrowed(&self.typical)),
            Some(massive) => {
                let mut all = self.typical.clone();
                all.merge(massive)?;
                Ok(Cow::Owned(all))
            }
        }
    }

    /// All states but the massive ones.
    pub fn typical(&self) -> &Scatter {
        &self.typical
    }

    /// Whether there are massive states.
    pub fn has_massive(&self) -> bool {
        self.massive.is_some()
    }

    fn absorb_massive(&mut self, massive: &Scatter) -> Result<()> {
        match &mut self.massive {
            Some(ours) => ours.merge(massive),
            None => {
                self.massive = Some(massive.clone());
                Ok(())
            }
        }
    }
}

impl Sketch for Covariance {
    type Prepared = BatchCovariance;

    fn empty(shape: &SketchShape) -> Option<Covariance> {
        Some(Covariance::new(shape.dim, shape.massive))
    }

    fn emptied(&self) -> Covariance {
        Covariance::new(self.dim(), self.massive_threshold())
    }

    fn prepare(prepared: &mut BatchCovariance, batch: &mut Preparation<'_>) -> Result<()> {
        let (massive, rows) = (batch.massive, batch.batch);
        prepared.fill(massive, rows, &batch.centred().0.rows);
        Ok(())
    }

    fn update(&mut self, prepared: &BatchCovariance, _: &BatchRows<'_>) -> Result<()> {
        if prepared.typical.dim() != self.dim() {
            return Err(Error::Rows(format!("states have {} components instead of {}", prepared.typical.dim(), self.dim())));
        }
        self.typical.merge(&prepared.typical)?;
        prepared.massive().map_or(Ok(()), |massive| self.absorb_massive(massive))
    }

    /// Twice that where there are massive states.
    fn bytes(shape: &SketchShape) -> usize {
        Scatter::bytes(shape.dim)
    }

    fn prepared_bytes(rows: usize, dim: usize) -> usize {
        BatchCovariance::bytes(rows, dim) + CentredRows::bytes(rows, dim)
    }
}

impl Mergeable for Covariance {
    fn merge(&mut self, other: &Self) -> Result<()> {
        must_match("the massive threshold", self.threshold, other.threshold)?;
        self.typical.merge(&other.typical)?;
        other.massive.as_ref().map_or(Ok(()), |massive| self.absorb_massive(massive))
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_numbers("massive_threshold", &[self.threshold]);
        tensors.nest("typical", self.typical.encode());
        if let Some(massive) = &self.massive {
            tensors.nest("massive", massive.encode());
        }
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let threshold = tensors.take_f64("massive_threshold", &[1])?[0];
        let typical: Scatter = nested("typical", tensors)?;
        let has_massive = tensors.has_nested("massive");
        let massive: Option<Scatter> = if has_massive { Some(nested("massive", tensors)?) } else { None };
        if massive.as_ref().is_some_and(|massive| massive.dim() != typical.dim()) {
            return Err(Error::tensor("massive.mean", format!("does not have the {} components of the typical states", typical.dim())));
        }
        Ok(Covariance { threshold, typical, massive })
    }
}

/// What a batch contributes to a [`Covariance`]: nearly all of the work, to be done before the turn. Reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct BatchCovariance {
    typical: Scatter,
    massive: Scatter,
    rows: CentredRows,
}

impl BatchCovariance {
    /// Memory of one beside the rows it is given.
    pub fn bytes(rows: usize, dim: usize) -> usize {
        2 * Scatter::bytes(dim) + CentredRows::bytes(rows, dim)
    }

    /// Replaces the contents by the covariance of the counted rows of a batch; `centred` holds the same rows.
    pub fn fill(&mut self, threshold: Option<f64>, batch: &BatchRows, centred: &CentredRows) {
        let threshold = threshold.unwrap_or(f64::INFINITY);
        let counted = batch.segments().counted();
        let (massive, typical): (Vec<u32>, Vec<u32>) = counted.iter().partition(|row| batch.norms()[**row as usize] > threshold);
        self.massive.clear();
        if massive.is_empty() {
            self.typical.fill(batch.isa(), centred);
        } else {
            self.rows.fill_rows(batch, &massive);
            self.massive.fill(batch.isa(), &self.rows);
            self.rows.fill_rows(batch, &typical);
            self.typical.fill(batch.isa(), &self.rows);
        }
    }

    fn massive(&self) -> Option<&Scatter> {
        (self.massive.n() > 0).then_some(&self.massive)
    }
}
