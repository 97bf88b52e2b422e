//! The parameters of a model's norms, read apart from the forward pass: theory predicts states from them.

use layerscope_compute::NormKind;

use crate::error::Result;
use crate::model::Model;
use crate::names::Slot;
use crate::point::Point;
use crate::requirements::Part;
use crate::spec::{NormSpec, Residual};

/// One norm of a model, as it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct NormParameters {
    /// Which norm of its block it is.
    pub slot: Slot,
    /// Its block, counted from 1; None for the embedding's and the final one.
    pub block: Option<usize>,
    /// Layer or RMS.
    pub kind: NormKind,
    /// The factor each component is multiplied with, offsets included; None where it is 1.
    pub gamma: Option<Vec<f32>>,
    /// What is added to each component.
    pub beta: Option<Vec<f32>>,
}

impl Model {
    /// Every norm over the residual stream or the embedding, in the order of the forward pass.
    pub fn norms(&self) -> Result<Vec<NormParameters>> {
        let mut norms = Vec::new();
        norms.extend(self.norm(Slot::EmbeddingNorm, None, self.spec.embedding.norm)?);
        for (i, block) in self.spec.blocks.iter().enumerate() {
            for (slot, norm) in [
                (Slot::AttentionInNorm, block.norms.attention_in),
                (Slot::AttentionOutNorm, block.norms.attention_out),
                (Slot::AfterAttentionNorm, block.norms.after_attention),
                (Slot::FeedForwardInNorm, block.norms.feed_forward_in),
                (Slot::FeedForwardOutNorm, block.norms.feed_forward_out),
                (Slot::AfterFeedForwardNorm, block.norms.after_feed_forward),
            ] {
                norms.extend(self.norm(slot, Some(i + 1), norm)?);
            }
        }
        norms.extend(self.norm(Slot::FinalNorm, None, self.spec.final_norm)?);
        Ok(norms)
    }

    /// The norm whose direct output the states of a point are, if they are one.
    pub fn output_norm(&self, at: Point) -> Result<Option<NormParameters>> {
        match at {
            Point::Embedding => {
                let projected_after = self.spec.embedding.projection.is_some_and(|projection| !projection.before_positions);
                self.norm(Slot::EmbeddingNorm, None, self.spec.embedding.norm.filter(|_| !projected_after))
            }
            Point::Block(number) => {
                let block = &self.spec.blocks[number - 1];
                let last = block.norms.after_feed_forward.filter(|_| block.residual == Residual::Sequential);
                self.norm(Slot::AfterFeedForwardNorm, Some(number), last)
            }
            Point::FinalNorm => self.norm(Slot::FinalNorm, None, self.spec.final_norm),
            Point::Projected => Ok(None),
        }
    }

    fn norm(&self, slot: Slot, block: Option<usize>, spec: Option<NormSpec>) -> Result<Option<NormParameters>> {
        let Some(spec) = spec else { return Ok(None) };
        let stored = block.map_or(0, |number| self.spec.blocks[number - 1].weights);
        let read = |part: Part| {
            let place = (slot, stored, part);
            self.plan.has(place).then(|| self.plan.load(&self.checkpoint, place)).transpose()
        };
        let width = if slot == Slot::EmbeddingNorm { self.spec.embedding.norm_width(self.spec.width) } else { self.spec.width };
        let (gamma, beta) = spec.parameters(width, read)?;
        Ok(Some(NormParameters { slot, block, kind: spec.kind, gamma, beta }))
    }
}
