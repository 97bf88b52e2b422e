//! Spools a corpus and says what came of it: `cargo run --release -p layerscope-corpus --example spool -- MODEL_FOLDER SPOOL THREADS GROUP CORPUS...`

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use layerscope_corpus::{Settings, Tokenizer, Wrap, write_spool};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, path, threads, group, corpus @ ..] = arguments.as_slice() else {
        return Err("MODEL_FOLDER SPOOL THREADS GROUP CORPUS...".into());
    };
    let tokenizer = Tokenizer::load(Path::new(model), Wrap::Model)?;
    let mut settings = Settings::new(corpus, 512);
    settings.threads = threads.parse()?;
    settings.grouping = group.parse()?;
    let start = Instant::now();
    let spool = write_spool(&settings, &tokenizer, Path::new(path), &mut |_| {}, &AtomicBool::new(false))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{:#?}", spool.counters());
    println!("{} groups, fingerprint {}", spool.groups().len(), spool.fingerprint());
    println!("{seconds:.1} s, {:.2} M tokens/s", spool.counters().tokens as f64 / seconds / 1e6);
    let start = Instant::now();
    let rows: usize = spool.batches(4096)?.map(|batch| batch.map(|batch| batch.tokens())).sum::<Result<_, _>>()?;
    println!("{rows} rows read again in {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}
