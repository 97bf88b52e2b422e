//! The page of finished runs: `page OUT.html RUN...`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use layerscope_report::{Run, page};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (out, folders) = arguments.split_first().ok_or("usage: page OUT.html RUN...")?;
    let runs: Vec<Run> = folders.iter().map(|folder| Run::open(Path::new(folder))).collect::<Result<_, _>>()?;
    page::write(&runs, &page::Settings::default(), &mut BufWriter::new(File::create(out)?))?;
    Ok(())
}
