//! Every call that changes a file fails once, is done by halves, or is the last one of the process: what a command wrote is whole, or the same
//! command makes it whole, with the tables of an undisturbed run to the bit.
//!
//! `LAYERSCOPE_FAULTS=all` tries every call; otherwise every so many-th.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::measure::{command, corpus, model, npy, sentences};
use support::{empty_folder, root};

const KINDS: [&str; 5] = ["error", "full", "short", "kill", "lost"];

/// Calls from one trial to the next; a prime, so that all kinds meet all sorts of calls.
const STRIDE: usize = 7;

/// The library that stands before the system's.
fn storage() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let library = empty_folder("faults-library").join("storage.so");
        let source = root().join("crates/layerscope/tests/faults/storage.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl").status();
        assert!(built.expect("a C compiler").success());
        library
    };
    LIBRARY.get_or_init(build).clone()
}

/// A command whose files are watched.
struct Trial {
    library: PathBuf,
    words: Vec<String>,
    /// Where its files are.
    out: PathBuf,
    /// Whether this is a folder as it was before the command, or what it holds after it.
    before: PathBuf,
    after: PathBuf,
    /// What may be there instead after a failure: a whole run that was there before.
    old: Option<PathBuf>,
}

impl Trial {
    /// Prepares a command that writes to `folder/out`; what lies there before it lies in `folder/before`.
    fn new(name: &str, library: &Path, words: impl Fn(&Path) -> Vec<String>, prepare: impl Fn(&Path), has_old: bool) -> Trial {
        let folder = empty_folder(&format!("faults-{name}"));
        let (out, before, after) = (folder.join("out"), folder.join("before"), folder.join("after"));
        std::fs::create_dir_all(&before).expect("a folder");
        prepare(&before);
        let trial = Trial {
            library: library.to_owned(),
            words: words(&out),
            old: has_old.then(|| before.clone()),
            out,
            before,
            after: after.clone(),
        };
        trial.reset();
        let undisturbed = trial.run(None);
        assert!(undisturbed.status.success(), "{}", String::from_utf8_lossy(&undisturbed.stderr));
        copy(&trial.out, &after);
        trial
    }

    fn reset(&self) {
        let _ = std::fs::remove_dir_all(&self.out);
        copy(&self.before, &self.out);
    }

    fn run(&self, fault: Option<(usize, &str)>) -> Output {
        let mut process = Command::new(env!("CARGO_BIN_EXE_layerscope"));
        process.args(&self.words).current_dir(root()).env("HF_HUB_OFFLINE", "1");
        if let Some((at, kind)) = fault {
            process.env("LD_PRELOAD", &self.library).env("FAULT_UNDER", &self.out).env("FAULT_AT", at.to_string()).env("FAULT_KIND", kind);
            process.env("FAULT_FIRED", self.fired());
        }
        process.output().expect("the program starts")
    }

    fn fired(&self) -> PathBuf {
        self.out.with_file_name("fired")
    }

    /// Faults at one call after another until the command does not come so far; returns how many there were.
    fn every_call(&self, stride: usize) -> usize {
        let mut faults = 0;
        for at in (1..).step_by(stride) {
            let kind = KINDS[(at / stride + at) % KINDS.len()];
            let kinds: &[&str] = if stride == 1 { &KINDS } else { &[kind] };
            for kind in kinds {
                let _ = std::fs::remove_file(self.fired());
                self.reset();
                let disturbed = self.run(Some((at, kind)));
                if !self.fired().exists() {
                    return faults;
                }
                faults += 1;
                self.check(&disturbed, &format!("{kind} at call {at} of `{}`", self.words.join(" ")));
            }
        }
        faults
    }

    /// What is there after a fault, and after the command was repeated.
    fn check(&self, disturbed: &Output, what: &str) {
        let said = String::from_utf8_lossy(&disturbed.stderr);
        assert!(!said.contains("internal error") && !said.contains("panicked"), "{what}: {said}");
        let is_new = differing(&self.out, &self.after).is_none();
        if disturbed.status.success() {
            return assert_eq!(differing(&self.out, &self.after), None, "{what} went unnoticed");
        }
        if is_new && self.out.join("manifest.json").exists() {
            return; // it came too late
        }
        if let Some(old) = &self.old {
            // Finished or not, a run that was there is there, unless the new one has something to go on from.
            let has_states = self.out.join(".work").exists() || self.out.join("state.safetensors").exists();
            assert!(is_new || has_states || differing(&self.out, old).is_none(), "{what}: the old run is gone");
        }
        let repeated = self.run(None);
        let said = String::from_utf8_lossy(&repeated.stderr);
        assert!(repeated.status.success(), "{what}, then again: {said}");
        assert_eq!(differing(&self.out, &self.after), None, "{what}, then again");
    }
}

/// Copies a folder with all that is in it; nothing where there is none.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success());
}

/// The first table or sample that differs between two folders, in which other files may be.
fn differing(ours: &Path, theirs: &Path) -> Option<String> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(theirs.join(&folder)).expect("a folder") {
            let name = folder.join(entry.expect("an entry").file_name());
            let path = theirs.join(&name);
            let is_result = path.extension().is_some_and(|kind| kind == "parquet") || name.ends_with("sample.safetensors");
            if path.is_dir() {
                folders.push(name);
            } else if is_result && std::fs::read(&path).ok() != std::fs::read(ours.join(&name)).ok() {
                return Some(name.display().to_string());
            }
        }
    }
    None
}

fn stride() -> usize {
    if std::env::var("LAYERSCOPE_FAULTS").is_ok_and(|wanted| wanted == "all") { 1 } else { STRIDE }
}

const FLAGS: &str =
    "--quiet --frequency 4:60 --batch-tokens 60 --threads 1 --checkpoint-seconds 0 --measures norm,cosine --sample-states 50";

#[test]
fn measure_survives_every_fault() {
    let (library, text) = (storage(), corpus("faults-text", &sentences(30, 61)));
    let checkpoint = model("bert/base", "faults-model");
    let mut faults = 0;
    for (name, more) in [("batch", ""), ("block", "--order block --stretch-tokens 150")] {
        let words = |out: &Path| command(&checkpoint, &text, out, &format!("{FLAGS} {more}"));
        faults += Trial::new(name, &library, words, |_| {}, false).every_call(stride());
    }
    println!("{faults} faults");
    assert!(faults > 3);
}

#[test]
fn a_run_that_is_overwritten_survives_every_fault() {
    let (library, text) = (storage(), corpus("faults-over-text", &sentences(30, 62)));
    let (old_text, checkpoint) = (corpus("faults-over-old", &sentences(20, 63)), model("gpt2/published", "faults-over-model"));
    let words = |out: &Path| command(&checkpoint, &text, out, &format!("{FLAGS} --overwrite"));
    let old = |out: &Path| drop(support::measure::measured(&checkpoint, &old_text, out, FLAGS));
    let faults = Trial::new("overwrite", &library, words, old, true).every_call(stride());
    println!("{faults} faults");
    assert!(faults > 3);
}

#[test]
fn an_unfinished_run_that_is_overwritten_survives_every_fault() {
    let (library, text) = (storage(), corpus("faults-again-text", &sentences(20, 66)));
    let checkpoint = model("bert/base", "faults-again-model");
    let words = |out: &Path| command(&checkpoint, &text, out, &format!("{FLAGS} --overwrite"));
    // Killed where it has a plan and checkpoints.
    let unfinished = |out: &Path| {
        let mut killed = Command::new(env!("CARGO_BIN_EXE_layerscope"));
        killed.args(command(&checkpoint, &text, out, &format!("{FLAGS} --massive 3"))).env("LD_PRELOAD", &library);
        killed.env("FAULT_UNDER", out).env("FAULT_AT", "60").env("FAULT_KIND", "kill").output().expect("the program starts");
        assert!(out.join(".work/plan.json").exists() && !out.join("manifest.json").exists());
    };
    let faults = Trial::new("again", &library, words, unfinished, false).every_call(stride());
    println!("{faults} faults");
    assert!(faults > 5);
}

#[test]
fn import_survives_every_fault() {
    let (library, states) = (storage(), npy("faults-import-states", "(60, 8)", 480));
    let words = |out: &Path| {
        let words = format!("import {} --out {} --quiet --measures norm,cosine", states.display(), out.display());
        words.split(' ').map(str::to_owned).collect()
    };
    let faults = Trial::new("import", &library, words, |_| {}, false).every_call(stride());
    println!("{faults} faults");
    assert!(faults > 3);
}

#[test]
fn merge_survives_every_fault() {
    let (library, text) = (storage(), corpus("faults-merge-text", &sentences(30, 64)));
    let (checkpoint, folder) = (model("bert/base", "faults-merge-model"), empty_folder("faults-merge-parts"));
    let parts = [0, 1].map(|number| folder.join(number.to_string()));
    for (number, part) in parts.iter().enumerate() {
        support::measure::measured(&checkpoint, &text, part, &format!("{FLAGS} --shard {number}/2"));
    }
    let words = |out: &Path| {
        let paths = [&parts[0], &parts[1], &PathBuf::from("--out"), &out.to_owned(), &PathBuf::from("--quiet")];
        ["merge".to_owned()].into_iter().chain(paths.iter().map(|path| path.display().to_string())).collect()
    };
    let faults = Trial::new("merge", &library, words, |_| {}, false).every_call(stride());
    println!("{faults} faults");
    assert!(faults > 3);
}

#[test]
fn track_survives_every_fault() {
    let (library, text) = (storage(), corpus("faults-track-text", &sentences(20, 65)));
    let steps = empty_folder("faults-track-model");
    for step in ["step1", "step2"] {
        copy(&model("gpt2/published", "faults-track-step"), &steps.join(step));
    }
    let words = |out: &Path| {
        let words =
            format!("track --model {} --revisions step* --corpus {} --out {} {FLAGS}", steps.display(), text.display(), out.display());
        words.split(' ').map(str::to_owned).collect()
    };
    let faults = Trial::new("track", &library, words, |_| {}, false).every_call(stride());
    println!("{faults} faults");
    assert!(faults > 3);
}
