//! Writes the hidden states of token sequences at every point: `states FOLDER IDS.json OUT.safetensors`.
//!
//! IDS.json is a list of lists of token ids; tensors are named `embedding.{s}`, `block.{i}.{s}`, `final_norm.{s}` and `projected.{s}`
//! for sequence `s`. Made for comparisons with other implementations.

use std::error::Error;
use std::path::Path;

use layerscope_compute::{Cpu, States};
use layerscope_model::safetensors::{self, NamedTensor};
use layerscope_model::{Batch, Model, Observer, Point};

struct Keep(Vec<NamedTensor>);

impl Observer<Cpu> for Keep {
    type Error = layerscope_model::Error;

    fn observe(&mut self, batch: &Batch, at: Point, states: &mut States<Cpu>) -> layerscope_model::Result<()> {
        for (sequence, rows) in batch.ranges().enumerate() {
            let name = match at {
                Point::Embedding => format!("embedding.{sequence}"),
                Point::Block(block) => format!("block.{block}.{sequence}"),
                Point::FinalNorm => format!("final_norm.{sequence}"),
                Point::Projected => format!("projected.{sequence}"),
            };
            let shape = vec![rows.len(), states.width];
            let values = states.as_slice()[rows.start * states.width..rows.end * states.width].to_vec();
            self.0.push(NamedTensor { name, shape, values });
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ids, out] = arguments.as_slice() else {
        return Err("usage: states FOLDER IDS.json OUT.safetensors".into());
    };
    let sequences: Vec<Vec<u32>> = serde_json::from_slice(&std::fs::read(ids)?)?;
    let transformer = Model::open(Path::new(folder))?.load(Cpu::new())?;
    let batch = Batch::pack(&sequences);
    let mut kept = Keep(Vec::new());
    transformer.forward(&batch, &mut transformer.workspace(batch.tokens())?, &mut kept)?;
    safetensors::write(&mut std::io::BufWriter::new(std::fs::File::create(out)?), &kept.0)?;
    Ok(())
}
