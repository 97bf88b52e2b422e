//! Compresses what the program carries and reads whole: the page and the fonts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

const ASSETS: [&str; 4] = ["page.html", "fonts/regular.ttf", "fonts/semibold.ttf", "fonts/italic.ttf"];

fn main() -> std::io::Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for asset in ASSETS {
        let source = Path::new("assets").join(asset);
        println!("cargo::rerun-if-changed={}", source.display());
        let name = Path::new(asset).file_name().and_then(|name| name.to_str()).unwrap_or(asset);
        let mut encoder = GzEncoder::new(File::create(out.join(format!("{name}.gz")))?, Compression::best());
        std::io::Write::write_all(&mut encoder, &fs::read(source)?)?;
        encoder.finish()?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
