//! Memory of a forward pass over a long corpus: flat, and no more than weights and the workers' buffers.
//!
//! A test program of its own: nothing else may allocate beside it.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use layerscope_compute::{Cpu, States};
use layerscope_model::safetensors::{self, NamedTensor};
use layerscope_model::{Batch, Error, Model, Observer, Point, activation_memory, forward_all, weight_memory};

const WIDTH: usize = 256;
const HIDDEN: usize = 1024;
const LAYERS: usize = 4;
const VOCABULARY: usize = 20_000;
const POSITIONS: usize = 128;
const THREADS: usize = 2;
const BATCH_TOKENS: usize = 1024;
const MIB: usize = 1 << 20;

/// Anonymous resident memory of this process.
fn anonymous_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux process");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") * 1024
}

/// Writes a checkpoint of a few dozen megabytes.
fn write_checkpoint(folder: &std::path::Path) {
    let config = serde_json::json!({
        "model_type": "gpt2", "n_embd": WIDTH, "n_head": 4, "n_layer": LAYERS, "n_positions": POSITIONS, "vocab_size": VOCABULARY,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).expect("writable");
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|i: usize| ((i * 7919) % 1009) as f32 / 10_090.0 - 0.05).collect();
        tensors.push(NamedTensor { name, shape: shape.to_vec(), values });
    };
    add("wte.weight".into(), &[VOCABULARY, WIDTH]);
    add("wpe.weight".into(), &[POSITIONS, WIDTH]);
    let mut add_layer = |name: String, shape: &[usize]| {
        add(format!("{name}.weight"), shape);
        add(format!("{name}.bias"), &shape[shape.len() - 1..]);
    };
    for layer in 0..LAYERS {
        add_layer(format!("h.{layer}.ln_1"), &[WIDTH]);
        add_layer(format!("h.{layer}.attn.c_attn"), &[WIDTH, 3 * WIDTH]);
        add_layer(format!("h.{layer}.attn.c_proj"), &[WIDTH, WIDTH]);
        add_layer(format!("h.{layer}.ln_2"), &[WIDTH]);
        add_layer(format!("h.{layer}.mlp.c_fc"), &[WIDTH, HIDDEN]);
        add_layer(format!("h.{layer}.mlp.c_proj"), &[HIDDEN, WIDTH]);
    }
    add_layer("ln_f".into(), &[WIDTH]);
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join("model.safetensors")).expect("creatable"));
    safetensors::write(&mut file, &tensors).expect("writable");
}

/// Records the largest memory seen in each quarter of the batches.
struct Peaks<'a> {
    /// Batches that any worker has seen.
    seen: &'a AtomicUsize,
    batches: usize,
    quarters: [usize; 4],
}

impl Observer<Cpu> for Peaks<'_> {
    type Error = Error;

    fn observe(&mut self, _: &Batch, at: Point, _: &mut States<Cpu>) -> Result<(), Error> {
        if at == Point::Block(LAYERS) {
            let quarter = (self.seen.fetch_add(1, Ordering::Relaxed) * 4 / self.batches).min(3);
            self.quarters[quarter] = self.quarters[quarter].max(anonymous_bytes());
        }
        Ok(())
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells what is in memory")]
fn a_long_corpus_needs_no_more_than_weights_and_buffers() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    write_checkpoint(&folder);

    // Sequences of all lengths, 400 k tokens; the batches themselves are part of the baseline.
    let lengths = (0..8_000).map(|i| 1 + (i * 37) % 100);
    let sequences: Vec<Vec<u32>> = lengths.map(|length| (0..length).map(|i| (i * 7919 % VOCABULARY) as u32).collect()).collect();
    let batches = Batch::cut(&sequences, BATCH_TOKENS);
    drop(sequences);
    let baseline = anonymous_bytes();

    let model = Model::open(&folder).expect("a checkpoint");
    let transformer = model.load(Cpu::new()).expect("weights");
    let seen = AtomicUsize::new(0);
    let peaks = |_| Peaks { seen: &seen, batches: batches.len(), quarters: [0; 4] };
    let workers = forward_all(&transformer, &batches, THREADS, peaks).expect("a forward pass");

    let quarters: [usize; 4] =
        std::array::from_fn(|quarter| workers.iter().map(|peaks| peaks.quarters[quarter]).max().unwrap_or(0) - baseline);
    let weights = weight_memory(transformer.backend(), &model.plan).host;
    let limit = weights + THREADS * activation_memory(transformer.backend(), &model.spec, BATCH_TOKENS).host + 64 * MIB;
    eprintln!("quarters {quarters:?}, weights {weights}, limit {limit}");
    assert!(quarters[0] >= weights, "the weights are in memory");
    assert!(quarters.iter().all(|&peak| peak <= limit), "{quarters:?} over {limit}");
    assert!(quarters[3] <= quarters[0] + MIB, "not flat: {quarters:?}");
}
