//! Several sequences packed one after another, without padding.

use crate::error::{Error, Result};
use crate::spec::ModelSpec;

/// Token ids of several sequences, their positions, and where each sequence begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    ids: Vec<u32>,
    positions: Vec<u32>,
    offsets: Vec<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch { ids: Vec::new(), positions: Vec::new(), offsets: vec![0] }
    }
}

impl Batch {
    /// Packs sequences in order.
    pub fn pack<S: AsRef<[u32]>>(sequences: impl IntoIterator<Item = S>) -> Batch {
        let mut batch = Batch::default();
        sequences.into_iter().for_each(|ids| batch.push(ids.as_ref()));
        batch
    }

    /// Adds one sequence.
    pub fn push(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        self.positions.extend(0..ids.len() as u32);
        self.offsets.push(self.ids.len() as u32);
    }

    /// Cuts sequences into batches of at most `tokens` tokens, in order; a longer sequence is a batch of its own.
    pub fn cut<S: AsRef<[u32]>>(sequences: &[S], tokens: usize) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut batch = Batch::default();
        for ids in sequences {
            let ids = ids.as_ref();
            if batch.tokens() > 0 && batch.tokens() + ids.len() > tokens {
                batches.push(std::mem::take(&mut batch));
            }
            batch.push(ids);
        }
        if batch.sequences() > 0 {
            batches.push(batch);
        }
        batches
    }

    /// Token ids of all sequences.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Each token's place in its sequence.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Cumulative lengths, starting with 0.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Number of rows.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows of each sequence.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.offsets.windows(2).map(|bounds| bounds[0] as usize..bounds[1] as usize)
    }

    /// Refuses what the model cannot read.
    pub(crate) fn check(&self, spec: &ModelSpec) -> Result<()> {
        for (sequence, range) in self.ranges().enumerate() {
            if let Some(limit) = spec.max_positions
                && range.len() > limit
            {
                let problem =
                    format!("sequence {sequence} has {} tokens, the model's positions end at {limit}: use shorter windows", range.len());
                return Err(Error::Batch(problem));
            }
            if let Some(at) = self.ids[range.clone()].iter().position(|&id| id as usize >= spec.vocabulary) {
                let id = self.ids[range.start + at];
                let problem = format!(
                    "sequence {sequence}, token {at}: id {id} is outside the model's vocabulary of {}: is this the model's own tokenizer?",
                    spec.vocabulary
                );
                return Err(Error::Batch(problem));
            }
        }
        Ok(())
    }
}
