//! Moments of twenty blocks of documents, for standard errors.

use super::{CorpusMoments, Mergeable, Preparation, Sketch, SketchShape, Tensors, nested, sample_hash};
use crate::error::{Error, Result};
use crate::rows::BatchRows;

/// How many blocks there are.
pub const BLOCKS: usize = 20;

/// Seed of the hash that puts documents into blocks: another one than any that samples documents or states.
const SEED: u64 = 0x626c_6f63_6b73_2121;

/// [`CorpusMoments`] of every block; a document's block depends on its id alone.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentBlocks {
    blocks: Vec<CorpusMoments>,
}

impl DocumentBlocks {
    /// Of states with `dim` components.
    pub fn new(dim: usize) -> DocumentBlocks {
        DocumentBlocks { blocks: (0..BLOCKS).map(|_| CorpusMoments::new(dim)).collect() }
    }

    /// The block of a document.
    pub fn block_of(document: u64) -> usize {
        (sample_hash(SEED, document, 0) % BLOCKS as u64) as usize
    }

    /// The moments of every block.
    pub fn blocks(&self) -> &[CorpusMoments] {
        &self.blocks
    }

    /// Number of components.
    fn dim(&self) -> usize {
        self.blocks[0].dim()
    }
}

impl Sketch for DocumentBlocks {
    /// All of the work is done in turn: moments of a few rows are quick.
    type Prepared = ();

    fn empty(shape: &SketchShape) -> Option<DocumentBlocks> {
        Some(DocumentBlocks::new(shape.dim))
    }

    fn emptied(&self) -> DocumentBlocks {
        DocumentBlocks::new(self.dim())
    }

    fn prepare((): &mut (), _: &mut Preparation<'_>) -> Result<()> {
        Ok(())
    }

    fn update(&mut self, (): &(), batch: &BatchRows<'_>) -> Result<()> {
        let documents = batch.documents().ok_or_else(|| Error::Rows("blocks of documents need the document of every row".to_owned()))?;
        if batch.dim() != self.dim() {
            return Err(Error::Rows(format!("states have {} components instead of {}", batch.dim(), self.dim())));
        }
        let mut rows = vec![Vec::new(); BLOCKS];
        batch.segments().counted().iter().for_each(|&row| rows[DocumentBlocks::block_of(documents[row as usize])].push(row));
        self.blocks.iter_mut().zip(&rows).for_each(|(block, rows)| block.update_rows(batch, rows));
        Ok(())
    }

    fn bytes(shape: &SketchShape) -> usize {
        BLOCKS * 5 * shape.dim * size_of::<f64>()
    }
}

impl Mergeable for DocumentBlocks {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.blocks.iter_mut().zip(&other.blocks).try_for_each(|(ours, theirs)| ours.merge(theirs))
    }

    fn encode(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        self.blocks.iter().enumerate().for_each(|(at, block)| tensors.nest(&at.to_string(), block.encode()));
        tensors
    }

    fn decode(tensors: &mut Tensors<'_>) -> Result<Self> {
        let blocks = (0..BLOCKS).map(|at| nested(&at.to_string(), tensors)).collect::<Result<Vec<CorpusMoments>>>()?;
        if blocks.iter().any(|block| block.dim() != blocks[0].dim()) {
            return Err(Error::tensor("0.mean", "blocks have different numbers of components"));
        }
        Ok(DocumentBlocks { blocks })
    }
}
