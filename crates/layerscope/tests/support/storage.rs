//! A library that stands between the program and its files (`storage.c`), so that things happen at a chosen call instead of at a chosen time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::{empty_folder, root};

/// The library, compiled once.
pub fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let library = empty_folder("storage-library").join("storage.so");
        let source = root().join("crates/layerscope/tests/support/storage.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl").status();
        assert!(built.expect("a C compiler").success());
        library
    };
    LIBRARY.get_or_init(build).clone()
}

/// Starts the program and waits until a file or folder under `out` has got a name that ends like this pattern. There it stands still, however fast it is.
#[track_caller]
pub fn held_at(name: &str, out: &Path, words: &[impl AsRef<OsStr>], input: impl Into<Stdio>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_layerscope"));
    command.args(words).current_dir(root()).env("HF_HUB_OFFLINE", "1").stdin(input);
    command.env("LD_PRELOAD", library()).env("FAULT_UNDER", out).env("FAULT_HOLD", format!("*/{name}"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    if !stops(&child) {
        let said = child.wait_with_output().expect("an end").stderr;
        panic!("it ended before {name} was there: {}", String::from_utf8_lossy(&said));
    }
    child
}

/// Whether a process stops before it ends.
fn stops(child: &Child) -> bool {
    // SAFETY: the structure is plain data that the call fills in; the process is a child that was not yet waited for, and stays so.
    let (waited, happened) = unsafe {
        let mut happened: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_PID, child.id(), &mut happened, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT), happened)
    };
    assert_eq!(waited, 0);
    happened.si_code == libc::CLD_STOPPED
}

/// Sends a process that stands still a signal, and lets it go on.
pub fn release_with(child: &Child, signal: i32) {
    for signal in [signal, libc::SIGCONT] {
        // SAFETY: the process is a child that was not yet waited for, so its id is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    }
}
