//! The kept states of a run as tables take them, wherever the states are.

use std::collections::HashMap;

use layerscope_corpus::DocumentId;
use layerscope_stats::sketch::{HashSample, TokenSamples};

use super::facts::Facts;
use crate::measure::items::document_number;
use crate::measure::kept::Kept;

/// Who the kept states are.
pub struct KeptSamples {
    kept: Kept,
    /// Numbers of the chosen groups.
    chosen: Vec<u32>,
    /// The documents of kept states, by number.
    documents: HashMap<u64, DocumentId>,
}

impl KeptSamples {
    /// Of the run with these facts.
    pub fn new(kept: Kept, facts: &Facts) -> KeptSamples {
        let number = |raw: &String| facts.groups.iter().position(|group| group.raw == *raw).map_or(u32::MAX, |at| at as u32);
        let documents = kept.classes.iter().flatten().map(|key| (document_number(key.item.document), key.item.document)).collect();
        KeptSamples { chosen: facts.chosen.iter().map(number).collect(), kept, documents }
    }

    /// The keys.
    pub fn keys(&self) -> &Kept {
        &self.kept
    }

    /// The sample, and those of chosen groups, from the states of a point as they are stored.
    pub fn of_point<'s>(&self, states: &'s [f32], dim: usize) -> (HashSample<'s>, TokenSamples<'s>) {
        (self.kept.sample(states, dim), self.kept.tokens(states, dim, &self.chosen))
    }

    /// States in the sample.
    pub fn sample_len(&self) -> usize {
        self.kept.classes.first().map_or(0, Vec::len)
    }

    /// Bytes of the states of a point.
    pub fn bytes(&self, dim: usize) -> usize {
        self.kept.states() * dim * size_of::<f32>()
    }

    /// Kept states of chosen tokens, and how many tokens these are.
    pub fn tokens(&self) -> (usize, usize) {
        (self.kept.len() - self.sample_len(), self.chosen.len())
    }

    /// The name of a document of a kept state, by its number.
    pub fn document(&self, number: u64) -> Option<String> {
        self.documents.get(&number).map(DocumentId::to_string)
    }
}
