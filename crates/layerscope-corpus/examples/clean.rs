//! Shows what `--clean wiki` leaves of a dump, page by page: `cargo run --release -p layerscope-corpus --example clean -- FILE [CHARS]`

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use layerscope_corpus::source::{Columns, MAX_RECORD_BYTES, Watch, sources};
use layerscope_corpus::{Clean, StoreOptions};
use layerscope_remote::Remote;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("FILE")?;
    let (remote, cancel) = (Remote::new(StoreOptions::from_env()), AtomicBool::new(false));
    let watch = Watch { bytes: &Arc::default(), cancel: &cancel, remote: &remote, longest: MAX_RECORD_BYTES };
    let columns = Columns { text: "text".into(), group: None, split: None };
    let list = sources(&[file], None, &remote, &cancel)?;
    let mut records = list[0].open(&columns, Some(Clean::Wiki), &std::env::temp_dir(), watch)?;
    let (mut read, mut written, mut seconds) = (0, 0, 0.0);
    let mut out = std::io::BufWriter::new(std::io::stdout());
    while let Some(record) = records.next_record() {
        let text = record?.text;
        let start = Instant::now();
        let clean = Clean::Wiki.apply(&text);
        seconds += start.elapsed().as_secs_f64();
        read += text.len();
        written += clean.len();
        if !clean.is_empty() {
            writeln!(out, "{clean}\n")?;
        }
    }
    out.flush()?;
    eprintln!("{read} bytes of pages, {written} of text, cleaned at {:.0} MB/s", read as f64 / seconds / 1e6);
    Ok(())
}
