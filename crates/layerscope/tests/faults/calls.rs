//! Every call that changes a file fails once, is done by halves, or is the last one of the process.
//!
//! `LAYERSCOPE_FAULTS=all` tries every call in every way; otherwise one way at every so many-th.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::trial::{FLAGS, Trial, stored_merge, stored_overwrite, stored_run, tracked, words};
use crate::support::measure::{command, corpus, measured, model, npy, sentences};
use crate::support::{empty_folder, storage};

const KINDS: [&str; 5] = ["error", "full", "short", "kill", "lost"];

/// Calls from one trial to the next; a prime, so that all kinds meet all sorts of calls.
const STRIDE: usize = 7;

/// The variables that make a call under a folder fail.
fn fault(under: &Path, at: usize, kind: &str) -> Vec<(&'static str, String)> {
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    vec![
        ("LD_PRELOAD", path(&storage::library())),
        ("FAULT_UNDER", path(under)),
        ("FAULT_AT", at.to_string()),
        ("FAULT_KIND", kind.to_owned()),
        ("FAULT_FIRED", path(&fired(under))),
    ]
}

fn fired(under: &Path) -> PathBuf {
    under.with_file_name("fired")
}

/// Faults at one call after another until the command does not come so far.
fn every_call(trial: &Trial) {
    let stride = if is_thorough() { 1 } else { STRIDE };
    let mut faults = 0;
    'calls: for at in (1..).step_by(stride) {
        let kind = KINDS[(at / stride + at) % KINDS.len()];
        let kinds: &[&str] = if stride == 1 { &KINDS } else { &[kind] };
        for kind in kinds {
            let _ = std::fs::remove_file(fired(&trial.out));
            trial.reset();
            let disturbed = trial.run(&fault(&trial.out, at, kind));
            if !fired(&trial.out).exists() {
                break 'calls;
            }
            faults += 1;
            trial.check(&disturbed, &format!("{kind} at call {at} of {}", trial.name), || trial.run(&[]));
        }
    }
    println!("{}: {faults} faults", trial.name);
    assert!(faults > 3);
}

/// Whether every fault is tried.
pub fn is_thorough() -> bool {
    std::env::var("LAYERSCOPE_FAULTS").is_ok_and(|wanted| wanted == "all")
}

#[test]
fn measure_survives_every_fault() {
    let (text, checkpoint) = (corpus("faults-text", &sentences(30, 61)), model("bert/base", "faults-model"));
    for (name, more) in [("batch", ""), ("block", "--order block --stretch-tokens 150")] {
        let words = |out: &Path| vec![command(&checkpoint, &text, out, &format!("{FLAGS} {more}"))];
        every_call(&Trial::new(name, words, |_| {}, false));
    }
}

#[test]
fn a_run_that_is_overwritten_survives_every_fault() {
    let (text, old_text) = (corpus("faults-over-text", &sentences(30, 62)), corpus("faults-over-old", &sentences(20, 63)));
    let checkpoint = model("gpt2/published", "faults-over-model");
    let words = |out: &Path| vec![command(&checkpoint, &text, out, &format!("{FLAGS} --overwrite"))];
    every_call(&Trial::new("overwrite", words, |out| drop(measured(&checkpoint, &old_text, out, FLAGS)), true));
}

#[test]
fn an_unfinished_run_that_is_overwritten_survives_every_fault() {
    let (text, checkpoint) = (corpus("faults-again-text", &sentences(20, 66)), model("bert/base", "faults-again-model"));
    let words = |out: &Path| vec![command(&checkpoint, &text, out, &format!("{FLAGS} --overwrite"))];
    // Killed where it has a plan and checkpoints.
    let unfinished = |out: &Path| {
        let mut killed = Command::new(env!("CARGO_BIN_EXE_layerscope"));
        killed.args(command(&checkpoint, &text, out, &format!("{FLAGS} --massive 3"))).envs(fault(out, 60, "kill"));
        killed.output().expect("the program starts");
        assert!(out.join(".work/plan.json").exists() && !out.join("manifest.json").exists());
    };
    every_call(&Trial::new("again", words, unfinished, false));
}

#[test]
fn import_survives_every_fault() {
    let states = npy("faults-import-states", "(60, 8)", 480);
    let words = |out: &Path| vec![words(&format!("import {} --out {} --quiet --measures norm,cosine", states.display(), out.display()))];
    every_call(&Trial::new("import", words, |_| {}, false));
}

#[test]
fn merge_survives_every_fault() {
    let (text, checkpoint) = (corpus("faults-merge-text", &sentences(30, 64)), model("bert/base", "faults-merge-model"));
    let folder = empty_folder("faults-merge-parts");
    let parts = [0, 1].map(|number| folder.join(number.to_string()));
    for (number, part) in parts.iter().enumerate() {
        measured(&checkpoint, &text, part, &format!("{FLAGS} --shard {number}/2"));
    }
    let [one, other] = &parts;
    let words = |out: &Path| vec![words(&format!("merge {} {} --out {} --quiet", one.display(), other.display(), out.display()))];
    every_call(&Trial::new("merge", words, |_| {}, false));
}

#[test]
fn track_survives_every_fault() {
    every_call(&tracked("track"));
}

#[test]
fn a_run_in_a_store_survives_every_fault_of_the_disk() {
    every_call(&stored_run("stored"));
}

#[test]
fn a_run_in_a_store_that_is_overwritten_survives_every_fault_of_the_disk() {
    every_call(&stored_overwrite("stored-overwrite"));
}

#[test]
fn a_merge_in_a_store_survives_every_fault_of_the_disk() {
    every_call(&stored_merge("stored-merge"));
}
