//! What a clone weighs. `make test-all` looks at the program.

mod support;

use std::process::Command;

use support::root;

/// A megabyte.
const MB: u64 = 1_000_000;

#[test]
fn the_repository_is_below_48_mb() {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("UTF-8");
    // Links weigh nothing; a file that is listed but gone weighs nothing either.
    let sizes = names.split_terminator('\0').filter_map(|name| root().join(name).symlink_metadata().ok()).map(|file| file.len());
    let size: u64 = sizes.sum();
    println!("{size} bytes");
    assert!((MB..48 * MB).contains(&size), "{size} bytes");
}
