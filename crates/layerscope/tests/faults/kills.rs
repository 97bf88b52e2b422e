//! Killed at random moments, again and again, until the command is done.
//!
//! `LAYERSCOPE_KILLS` says how many kills there are, over all commands; `LAYERSCOPE_SEED` which case is the first: what fails names its own.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::trial::{FLAGS, Trial, stored_merge, stored_overwrite, stored_run, succeeded, tracked, words};
use crate::support::measure::{command, corpus, measured, model, npy, random, sentences};

/// Kills of every test run; `make test-all` asks for a thousand.
const KILLS: usize = 60;

/// The tests below share them.
const COMMANDS: usize = 10;

/// Kills of one case at most: then it may end.
const MOST: usize = 8;

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Case after case until there were enough kills.
fn killed_at_random(trial: &Trial) {
    // How long each command takes when nobody disturbs it.
    trial.reset();
    let seconds: Vec<f64> = trial
        .commands
        .iter()
        .map(|words| {
            let begin = Instant::now();
            succeeded(&trial.start(words, &[]).wait_with_output().expect("an end"), &trial.name);
            begin.elapsed().as_secs_f64()
        })
        .collect();
    let wanted = number("LAYERSCOPE_KILLS").unwrap_or(KILLS).div_ceil(COMMANDS);
    let (mut kills, mut cases) = (0, 0);
    for seed in number("LAYERSCOPE_SEED").unwrap_or(1).. {
        if kills >= wanted {
            break;
        }
        let case = format!("LAYERSCOPE_SEED={seed} LAYERSCOPE_KILLS=1 ({})", trial.name);
        kills += killed_case(trial, &seconds, seed as u64, &case);
        cases += 1;
    }
    println!("{}: {kills} kills in {cases} cases", trial.name);
}

/// One case to its end; returns how often it was killed.
fn killed_case(trial: &Trial, seconds: &[f64], seed: u64, case: &str) -> usize {
    trial.reset();
    let mut kills = 0;
    for (words, seconds) in trial.commands.iter().zip(seconds) {
        loop {
            let mut child = trial.start(words, &[]);
            if kills < MOST {
                let moment = random(seed, kills as u64) as f64 / u64::MAX as f64;
                std::thread::sleep(Duration::from_secs_f64(moment * seconds));
                child.kill().expect("killed");
            }
            let outcome = child.wait_with_output().expect("an end");
            if outcome.status.success() {
                break;
            }
            // Some commands refuse a complete run: the kill came too late.
            if outcome.status.code() == Some(5) && trial.is_complete() {
                return kills;
            }
            assert_eq!(outcome.status.signal(), Some(libc::SIGKILL), "{case}: {}", String::from_utf8_lossy(&outcome.stderr));
            kills += 1;
            assert!(trial.keeps_old(), "{case}: the old run is gone");
            // Sometimes another machine goes on, which knows nothing but the store.
            if trial.store.is_some() && random(seed, 1000 + kills as u64).is_multiple_of(3) {
                trial.elsewhere();
            }
        }
    }
    assert_eq!(trial.differing(), None, "{case}");
    assert_eq!(trial.stray(), None, "{case}: left behind or missing");
    kills
}

fn in_folder(name: &str, more: &str, has_old: bool) -> Trial {
    let (text, old_text) = (corpus(&format!("{name}-text"), &sentences(30, 61)), corpus(&format!("{name}-old"), &sentences(20, 63)));
    let checkpoint = model("bert/base", &format!("{name}-model"));
    let words = |out: &Path| vec![command(&checkpoint, &text, out, &format!("{FLAGS} {more}"))];
    let old = |out: &Path| {
        if has_old {
            drop(measured(&checkpoint, &old_text, out, FLAGS))
        }
    };
    Trial::new(name, words, old, has_old)
}

#[test]
fn killed_batch_by_batch() {
    killed_at_random(&in_folder("killed-batch", "--group surface", false));
}

#[test]
fn killed_block_by_block() {
    killed_at_random(&in_folder("killed-block", "--order block --stretch-tokens 150", false));
}

#[test]
fn killed_on_several_devices() {
    killed_at_random(&in_folder("killed-devices", "--device cpu,cpu", false));
}

#[test]
fn killed_while_a_run_is_overwritten() {
    killed_at_random(&in_folder("killed-overwrite", "--overwrite", true));
}

#[test]
fn killed_shards_and_merge() {
    let (text, checkpoint) = (corpus("killed-merge-text", &sentences(30, 64)), model("bert/base", "killed-merge-model"));
    let commands = |out: &Path| {
        let part = |number: usize| out.join(format!("part-{number}"));
        let shard = |number: usize| command(&checkpoint, &text, &part(number), &format!("{FLAGS} --shard {number}/2"));
        let merge = format!("merge {} {} --out {} --quiet", part(1).display(), part(0).display(), out.join("whole").display());
        vec![shard(0), shard(1), words(&merge)]
    };
    killed_at_random(&Trial::new("killed-merge", commands, |_| {}, false));
}

#[test]
fn killed_track() {
    killed_at_random(&tracked("killed-track"));
}

#[test]
fn killed_import() {
    let states = npy("killed-import-states", "(3000, 16)", 48000);
    let import = |out: &Path| words(&format!("import {} --out {} --quiet", states.display(), out.display()));
    killed_at_random(&Trial::new("killed-import", |out| vec![import(out)], |_| {}, false));
}

#[test]
fn killed_in_a_store() {
    killed_at_random(&stored_run("killed-stored"));
}

#[test]
fn killed_while_a_run_in_a_store_is_overwritten() {
    killed_at_random(&stored_overwrite("killed-stored-overwrite"));
}

#[test]
fn killed_merge_in_a_store() {
    killed_at_random(&stored_merge("killed-stored-merge"));
}
