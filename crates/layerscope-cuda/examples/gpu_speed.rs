//! Measures the bare forward pass on a card, and where its time goes:
//! `gpu_speed FOLDER [--dtype LIST] [--batch-tokens LIST] [--workers LIST] [--ids IDS.json] [--seconds S] [--products]`.
//!
//! Without ids, random ones with the lengths of sentences: 39 tokens on average. Prints tokens a second for every combination, then
//! milliseconds of every kind of operation for one batch, which a worker alone waits for. With `--products` also microseconds of the
//! first block's products by every algorithm that could be chosen, the chosen one first.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use layerscope_compute::{Backend, ComputeDtype};
use layerscope_cuda::{Cuda, Work};
use layerscope_model::{Batch, Blind, Model, Transformer, forward_all};
use layerscope_testing::made_up_states::Random;

/// Batches whose operations are timed one by one.
const TIMED: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, options @ ..] = arguments.as_slice() else {
        let usage =
            "usage: gpu_speed FOLDER [--dtype LIST] [--batch-tokens LIST] [--workers LIST] [--ids IDS.json] [--seconds S] [--products]";
        return Err(usage.into());
    };
    let given = |name: &str| options.iter().position(|option| option == name).and_then(|at| options.get(at + 1)).map(String::as_str);
    let list = |name: &str, default: &'static str| given(name).unwrap_or(default).split(',').map(str::to_owned).collect::<Vec<_>>();
    let seconds: f64 = given("--seconds").unwrap_or("2").parse()?;
    let model = Model::open(Path::new(folder))?;
    let sequences: Vec<Vec<u32>> = match given("--ids") {
        Some(path) => serde_json::from_slice(&std::fs::read(path)?)?,
        None => sentences(model.spec.vocabulary, model.spec.max_positions.unwrap_or(512).min(512)),
    };
    let tokens: usize = sequences.iter().map(Vec::len).sum();
    let keys = sequences.iter().map(|ids| (ids.len() * ids.len()) as f64).sum::<f64>() / tokens as f64;
    println!("{} sequences, {tokens} tokens, {keys:.0} keys a query", sequences.len());
    for name in list("--dtype", "f32,f32x3,tf32,bf16,f16") {
        let dtype = ComputeDtype::named(&name).ok_or("no such dtype")?;
        let start = Instant::now();
        let cuda = Cuda::new(0, dtype)?;
        let ready = start.elapsed().as_secs_f64();
        let transformer = model.load(cuda)?;
        println!("\n{}: device {ready:.2} s, model {:.2} s", transformer.backend().describe(), start.elapsed().as_secs_f64() - ready);
        if options.iter().any(|option| option == "--products") {
            product_times(&transformer)?;
        }
        for batch_tokens in list("--batch-tokens", "4096,8192,16384,32768,65536") {
            let batches = Batch::cut(&sequences, batch_tokens.parse()?);
            for workers in list("--workers", "1,2") {
                let speed = speed(&transformer, &batches, workers.parse()?, seconds)?;
                let tflops = speed * model.spec.flops_per_token(keys) / 1e12;
                println!("{name:6} {batch_tokens:>6} tokens, {workers} workers: {:.4} M tokens/s, {tflops:.0} TFLOP/s", speed / 1e6);
            }
            if let Some(batch) = batches.iter().max_by_key(|batch| batch.tokens()) {
                breakdown(&transformer, batch)?;
            }
        }
    }
    Ok(())
}

/// What each algorithm takes for the products of a block.
fn product_times(transformer: &Transformer<Cuda>) -> Result<(), Box<dyn Error>> {
    let (spec, rows) = (transformer.spec(), 16_384);
    let Some(block) = spec.blocks.first() else { return Ok(()) };
    let (width, attention, hidden) = (spec.width, &block.attention, block.feed_forward.width);
    let context = attention.heads * attention.head_dim;
    let qkv = context + 2 * attention.kv_heads * attention.head_dim;
    for (inputs, outputs, inner) in [(width, qkv, true), (context, width, false), (width, hidden, true), (hidden, width, false)] {
        let times = transformer.backend().product_times(rows, inputs, outputs, inner)?;
        let tflops = 2e-6 * (rows * inputs * outputs) as f64 / f64::from(times[0]);
        println!(
            "       {inputs} to {outputs}: {tflops:.0} TFLOP/s, us {}",
            times.iter().map(|t| format!("{t:.1}")).collect::<Vec<_>>().join(" ")
        );
    }
    Ok(())
}

/// Tokens a second.
fn speed(transformer: &Transformer<Cuda>, batches: &[Batch], workers: usize, seconds: f64) -> Result<f64, Box<dyn Error>> {
    forward_all(transformer, &batches[..workers.min(batches.len())], workers, |_| Blind)?;
    let (start, mut tokens) = (Instant::now(), 0);
    while tokens == 0 || start.elapsed().as_secs_f64() < seconds {
        forward_all(transformer, batches, workers, |_| Blind)?;
        tokens += batches.iter().map(Batch::tokens).sum::<usize>();
    }
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Milliseconds of a batch by kind of operation, and how long its launches take.
fn breakdown(transformer: &Transformer<Cuda>, batch: &Batch) -> Result<(), Box<dyn Error>> {
    let mut space = transformer.workspace(batch.tokens())?;
    transformer.forward(batch, &mut space, &mut Blind)?;
    let start = Instant::now();
    for _ in 0..TIMED {
        transformer.forward(batch, &mut space, &mut Blind)?;
    }
    let whole = start.elapsed().as_secs_f64() * 1e3 / TIMED as f64;
    let mut kinds: BTreeMap<Work, (f64, usize)> = BTreeMap::new();
    for _ in 0..TIMED {
        space.stream().start_clock();
        transformer.forward(batch, &mut space, &mut Blind)?;
        for (kind, milliseconds) in space.stream().times()? {
            let (sum, count) = kinds.entry(kind).or_default();
            *sum += f64::from(milliseconds) / TIMED as f64;
            *count += 1;
        }
    }
    let linear = batch.tokens() as f64 * transformer.spec().flops_per_token(0.0);
    print!("       {} tokens in {whole:.2} ms:", batch.tokens());
    for (kind, (milliseconds, count)) in &kinds {
        print!(" {kind:?} {milliseconds:.2} ({})", count / TIMED);
    }
    let products = kinds.get(&Work::Product).map_or(f64::INFINITY, |(milliseconds, _)| *milliseconds);
    println!("; products at {:.0} TFLOP/s", linear / products / 1e9);
    Ok(())
}

/// Random ids with the lengths of sentences.
fn sentences(vocabulary: usize, longest: usize) -> Vec<Vec<u32>> {
    let mut random = Random::new(0);
    let lengths = (0..20_000).map(|_| (3.48 + 0.6 * random.normal()).exp().clamp(3.0, longest as f64) as usize).collect::<Vec<_>>();
    lengths.into_iter().map(|length| (0..length).map(|_| random.below(vocabulary) as u32).collect()).collect()
}
