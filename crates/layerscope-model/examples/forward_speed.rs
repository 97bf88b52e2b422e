//! Measures the bare forward pass: `forward_speed FOLDER IDS.json [--dtype f32|bf16] [--threads N] [--batch-tokens N]
//! [--seconds S | --passes N]`.
//!
//! Runs for so many seconds, or over all sequences so many times. Prints one line of JSON: tokens, seconds, tokens_per_second, and what
//! computed them.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use layerscope_compute::{Backend, ComputeDtype, Cpu};
use layerscope_model::{Batch, Blind, Model, forward_all};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ids, options @ ..] = arguments.as_slice() else {
        let usage = "usage: forward_speed FOLDER IDS.json [--dtype f32|bf16] [--threads N] [--batch-tokens N] [--seconds S | --passes N]";
        return Err(usage.into());
    };
    let given = |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1));
    let option = |name: &str, default: f64| -> Result<f64, Box<dyn Error>> { Ok(given(name).map_or(Ok(default), |value| value.parse())?) };
    let dtype = given("--dtype").map_or(Some(ComputeDtype::F32), |name| ComputeDtype::named(name)).ok_or("--dtype is f32 or bf16")?;
    let threads = option("--threads", std::thread::available_parallelism()?.get() as f64)? as usize;
    let batch_tokens = option("--batch-tokens", 512.0)? as usize;
    let passes = option("--passes", 0.0)? as usize;
    let limit = if passes > 0 { 0.0 } else { option("--seconds", 5.0)? };

    let sequences: Vec<Vec<u32>> = serde_json::from_slice(&std::fs::read(ids)?)?;
    let transformer = Model::open(Path::new(folder))?.load(Cpu::with_dtype(dtype)?)?;
    let batches = Batch::cut(&sequences, batch_tokens);
    forward_all(&transformer, &batches[..threads.min(batches.len())], threads, |_| Blind)?;

    // Several passes over the sentences at a time: as in a long corpus, no worker waits for another at the end of each pass.
    let batches: Vec<Batch> = std::iter::repeat_n(batches, if passes > 0 { passes } else { 4 }).flatten().collect();
    let start = Instant::now();
    let mut tokens = 0;
    while tokens == 0 || start.elapsed().as_secs_f64() < limit {
        forward_all(&transformer, &batches, threads, |_| Blind)?;
        tokens += batches.iter().map(Batch::tokens).sum::<usize>();
    }
    let seconds = start.elapsed().as_secs_f64();
    let computed = transformer.backend().describe();
    let speed = tokens as f64 / seconds;
    println!("{}", serde_json::json!({ "tokens": tokens, "seconds": seconds, "tokens_per_second": speed, "computed": computed }));
    Ok(())
}
