//! How similar the states of one sequence are to their mean.

use super::{Mergeable, Tensors, mean_of_means};
use crate::error::Result;
use crate::kernels::{self, SumProducts};
use crate::rows::BatchRows;

/// Mean over sequences of the mean cosine between each state and the sequence's mean state (Ethayarajh 2019, intra-sentence
/// similarity).
///
/// With s the sum of a sequence's states, u the sum of their unit vectors and k the number of non-zero states, the mean cosine is
/// u . s / (k ||s||). Zero states are left out; a sequence with k < 2 or s = 0 is not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceSimilarity {
    sequences: u64,
    mean: f64,
}

impl SequenceSimilarity {
    /// Empty.
    pub fn new() -> SequenceSimilarity {
        SequenceSimilarity::default()
    }

    /// Sequences counted.
    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// The mean over them, if there are any.
    pub fn mean(&self) -> Option<f64> {
        (self.sequences > 0).then_some(self.mean)
    }

    /// The mean cosine of a sequence with these counted rows of a batch, if it has one.
    pub(super) fn of_sequence(batch: &BatchRows, rows: &[u32]) -> Option<f64> {
        let nonzero = rows.iter().filter(|&&row| batch.norms()[row as usize] > 0.0).count();
        if nonzero < 2 {
            return None;
        }
        let mut products = SumProducts::default();
        kernels::sum_products(batch.isa(), batch.chunk(rows, &[]), &mut products);
        (products.square > 0.0).then(|| products.across / (nonzero as f64 * products.square.sqrt()))
    }

    /// Adds a sequence.
    pub(super) fn add_sequence(&mut self, similarity: &Option<f64>) {
        similarity.iter().for_each(|similarity| self.add(*similarity, 1));
    }

    fn add(&mut self, mean: f64, sequences: u64) {
        self.mean = mean_of_means(self.mean, self.sequences, mean, sequences);
        self.sequences += sequences;
    }
}

impl Mergeable for SequenceSimilarity {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.add(other.mean, other.sequences);
        Ok(())
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        tensors.put_u64("sequences", &[1], vec![self.sequences]);
        tensors.put_numbers("similarity", &[self.mean]);
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        Ok(SequenceSimilarity { sequences: tensors.take_u64("sequences", &[1])?[0], mean: tensors.take_f64("similarity", &[1])?[0] })
    }
}
