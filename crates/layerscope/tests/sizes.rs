//! What a clone and a lone program weigh.

mod support;

use std::process::Command;

use support::{empty_folder, root};

/// A megabyte.
const MB: u64 = 1_000_000;

#[test]
fn the_stripped_program_is_below_24_mb() {
    let stripped = empty_folder("sizes").join("layerscope");
    let status = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(env!("CARGO_BIN_EXE_layerscope"))
        .status()
        .expect("strip, which comes with a linker");
    assert!(status.success());
    let size = std::fs::metadata(&stripped).expect("the program").len();
    println!("{size} bytes");
    assert!(size < 24 * MB, "{size} bytes");
    std::fs::remove_file(stripped).expect("removable");
}

#[test]
fn the_repository_is_below_40_mb() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("UTF-8");
    // Links weigh nothing; a file that is listed but gone weighs nothing either.
    let sizes = names.split_terminator('\0').filter_map(|name| root().join(name).symlink_metadata().ok()).map(|file| file.len());
    let size: u64 = sizes.sum();
    println!("{size} bytes");
    assert!((MB..40 * MB).contains(&size), "{size} bytes");
}
