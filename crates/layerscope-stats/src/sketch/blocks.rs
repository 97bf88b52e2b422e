//! Moments of twenty blocks of documents, for standard errors.

use super::{CorpusMoments, Sketch, Tensors, nested, sample_hash};
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

    /// Memory that one takes.
    pub fn bytes(dim: usize) -> usize {
        BLOCKS * 5 * dim * size_of::<f64>()
    }

    /// The block of a document.
    pub fn block_of(document: u64) -> usize {
        (sample_hash(SEED, document, 0) % BLOCKS as u64) as usize
    }

    /// The moments of every block.
    pub fn blocks(&self) -> &[CorpusMoments] {
        &self.blocks
    }

    /// Adds the counted rows of a batch; `documents` has the document of every row, counted or not.
    pub fn update(&mut self, batch: &BatchRows, documents: &[u64]) -> Result<()> {
        let counted = batch.segments().counted();
        if counted.last().is_some_and(|last| *last as usize >= documents.len()) {
            return Err(Error::Rows(format!("{} documents are not one for each row", documents.len())));
        }
        if batch.dim() != self.blocks[0].dim() {
            return Err(Error::Rows(format!("states have {} components where {} belong", batch.dim(), self.blocks[0].dim())));
        }
        let mut rows = vec![Vec::new(); BLOCKS];
        counted.iter().for_each(|&row| rows[DocumentBlocks::block_of(documents[row as usize])].push(row));
        self.blocks.iter_mut().zip(&rows).for_each(|(block, rows)| block.update_rows(batch, rows));
        Ok(())
    }
}

impl Sketch for DocumentBlocks {
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.blocks.iter_mut().zip(&other.blocks).try_for_each(|(ours, theirs)| ours.merge(theirs))
    }

    fn tensors(&self) -> Tensors<'_> {
        let mut tensors = Tensors::default();
        self.blocks.iter().enumerate().for_each(|(at, block)| tensors.nest(&at.to_string(), block.tensors()));
        tensors
    }

    fn from_tensors(tensors: &mut Tensors<'_>) -> Result<Self> {
        let blocks = (0..BLOCKS).map(|at| nested(&at.to_string(), tensors)).collect::<Result<Vec<CorpusMoments>>>()?;
        if blocks.iter().any(|block| block.dim() != blocks[0].dim()) {
            return Err(Error::tensor("0.mean", "blocks have different numbers of components"));
        }
        Ok(DocumentBlocks { blocks })
    }
}
