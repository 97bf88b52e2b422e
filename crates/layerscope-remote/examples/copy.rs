//! Copies a file from or to an address: `cargo run --release -p layerscope-remote --example copy -- FROM TO`

use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicBool;

use layerscope_remote::{Options, Remote, is_address};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else { return Err("FROM TO".into()) };
    let (remote, cancel) = (Remote::new(Options::from_env()), AtomicBool::new(false));
    let mut content: Box<dyn Read> = if is_address(from) { Box::new(remote.open(from, &cancel)?) } else { Box::new(File::open(from)?) };
    match is_address(to) {
        true => remote.put(to, &mut content)?,
        false => drop(std::io::copy(&mut content, &mut File::create(to)?)?),
    }
    Ok(())
}
