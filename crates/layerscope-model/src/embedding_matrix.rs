//! The embedding matrices of a checkpoint as they are stored: what goes in, and what predicts tokens at the other end.

use crate::error::Result;
use crate::model::Model;
use crate::names::Slot;
use crate::requirements::Part;

/// One row of `width` numbers per token.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingMatrix {
    /// The tensor's name, or whose it shares.
    pub name: String,
    /// Numbers of a row.
    pub width: usize,
    /// All rows.
    pub values: Vec<f32>,
}

impl Model {
    /// The table of token vectors.
    pub fn input_embedding(&self) -> Result<EmbeddingMatrix> {
        let values = self.plan.load(&self.checkpoint, (Slot::TokenEmbedding, 0, Part::Weight))?;
        Ok(EmbeddingMatrix { name: "input embedding".to_owned(), width: self.spec.embedding.width, values })
    }

    /// The rows that states are multiplied with to predict tokens: an unread tensor with one row per token or, in decoders that tie
    /// both ends, the input embedding. None where the checkpoint predicts nothing.
    pub fn output_embedding(&self) -> Result<Option<EmbeddingMatrix>> {
        let widths = [self.spec.width, self.spec.embedding.width];
        let is_head = |name: &&String| {
            self.checkpoint
                .info(name)
                .is_some_and(|info| matches!(info.shape[..], [rows, width] if rows == self.spec.vocabulary && widths.contains(&width)))
        };
        if let Some((name, info)) = self.plan.ignored().iter().find(is_head).and_then(|name| Some((name, self.checkpoint.info(name)?))) {
            let values = self.checkpoint.read(name, &info.shape)?;
            return Ok(Some(EmbeddingMatrix { name: name.clone(), width: info.shape[1], values }));
        }
        let predicts = self.spec.blocks[0].attention.causal && self.ties_embeddings;
        predicts.then(|| Ok(EmbeddingMatrix { name: "tied to the input embedding".to_owned(), ..self.input_embedding()? })).transpose()
    }
}
