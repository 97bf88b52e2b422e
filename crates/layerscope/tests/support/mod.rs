//! Running the program on folders made for the occasion.
#![allow(dead_code)] // every test file uses a part of it

pub mod http;
pub mod measure;
pub mod storage;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An empty folder of the given name.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// A copy of a fixture's checkpoint, to be spoilt.
pub fn copy_of(fixture: &str, name: &str) -> PathBuf {
    let folder = empty_folder(name);
    for entry in std::fs::read_dir(root().join("fixtures").join(fixture)).expect("a fixture") {
        let file = entry.expect("a file");
        if file.file_name() != "golden.safetensors" {
            std::fs::copy(file.path(), folder.join(file.file_name())).expect("a copy");
        }
    }
    folder
}

/// What a run of the program left behind.
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program, with no network and a hub cache of its own.
pub fn layerscope(arguments: &[&str]) -> Outcome {
    layerscope_with(arguments, &[("HF_HUB_OFFLINE", "1")])
}

/// The same with other variables set.
pub fn layerscope_with(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command.args(arguments).current_dir(root()).env("HF_HOME", empty_cache()).envs(variables.iter().copied());
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome { status: output.status.code().expect("an exit status"), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn empty_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-hub-cache")
}
