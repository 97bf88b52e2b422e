//! What the tests of hidden states share: the fixtures, and an observer that keeps everything.
#![allow(dead_code)] // every test file uses a part of it

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use layerscope_compute::{Backend, States};
use layerscope_model::{Batch, Error, Observer, Point, Result, Transformer};

/// The folder of all fixtures: of this repository, or where the environment says for programs that were built elsewhere.
pub fn fixtures() -> PathBuf {
    if let Some(elsewhere) = std::env::var_os("LAYERSCOPE_FIXTURES") {
        return elsewhere.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The variants of one family, each a checkpoint with golden states.
pub fn variants(family: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(fixtures().join(family)) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Golden states of one variant, as the reference library computed them.
pub struct Golden {
    header: serde_json::Value,
    data: Vec<u8>,
    /// Token ids of each sequence.
    pub sequences: Vec<Vec<u32>>,
}

impl Golden {
    /// Reads `golden.safetensors`.
    pub fn open(variant: &Path) -> Golden {
        let mut bytes = std::fs::read(variant.join("golden.safetensors")).expect("a golden file");
        let header_end = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let data = bytes.split_off(header_end);
        let header = serde_json::from_slice(&bytes[8..]).expect("a header");
        let mut golden = Golden { header, data, sequences: Vec::new() };
        while let Some(ids) = golden.words(&format!("ids.{}", golden.sequences.len())) {
            golden.sequences.push(ids.into_iter().map(u32::from_le_bytes).collect());
        }
        assert!(!golden.sequences.is_empty(), "{}: no sequences", variant.display());
        golden
    }

    /// The states of one sequence at one point.
    pub fn states(&self, at: Point, sequence: usize) -> Option<Vec<f32>> {
        Some(self.words(&tensor_name(at, sequence))?.into_iter().map(f32::from_le_bytes).collect())
    }

    /// The four-byte numbers of a tensor.
    fn words(&self, name: &str) -> Option<Vec<[u8; 4]>> {
        let offsets = &self.header.get(name)?["data_offsets"];
        let at = |i: usize| offsets[i].as_u64().expect("an offset") as usize;
        Some(self.data[at(0)..at(1)].as_chunks().0.to_vec())
    }
}

/// What golden files call a point.
pub fn tensor_name(at: Point, sequence: usize) -> String {
    match at {
        Point::Embedding => format!("embedding.{sequence}"),
        Point::Block(block) => format!("block.{block}.{sequence}"),
        Point::FinalNorm => format!("final_norm.{sequence}"),
        Point::Projected => format!("projected.{sequence}"),
    }
}

/// Keeps all states, by point and sequence of the batch.
#[derive(Default)]
pub struct Keep(pub BTreeMap<(Point, usize), Vec<f32>>);

impl<B: Backend> Observer<B> for Keep {
    type Error = Error;

    fn observe(&mut self, batch: &Batch, at: Point, states: &mut States<B>) -> Result<()> {
        let values = states.to_vec()?;
        for (sequence, rows) in batch.ranges().enumerate() {
            let rows = values[rows.start * states.width..rows.end * states.width].to_vec();
            self.0.insert((at, sequence), rows);
        }
        Ok(())
    }
}

/// All states of some sequences, run as one batch.
pub fn states_of<B: Backend, S: AsRef<[u32]>>(transformer: &Transformer<B>, sequences: &[S]) -> BTreeMap<(Point, usize), Vec<f32>> {
    let batch = Batch::pack(sequences);
    let mut keep = Keep::default();
    let mut space = transformer.workspace(batch.tokens()).expect("enough memory");
    transformer.forward(&batch, &mut space, &mut keep).expect("a forward pass");
    keep.0
}
