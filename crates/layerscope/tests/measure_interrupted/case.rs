//! A measurement to interrupt, and what its work folder holds.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::support::measure::{command, corpus, differing, end, measure, measured, run, sentences, start, wide_model};
use crate::support::storage::held_at;
use crate::support::{Outcome, empty_folder};

const FLAGS: &str = "--quiet --threads 1 --batch-tokens 128 --checkpoint-seconds 0.2 --tokens none --measures norm,cosine";

/// A measurement that takes a second or more, and the same one without interruption.
#[derive(Clone)]
pub struct Case {
    pub model: PathBuf,
    pub corpus: PathBuf,
    pub folder: PathBuf,
    pub whole: PathBuf,
    pub flags: String,
}

impl Case {
    pub fn new(name: &str, sentence_count: usize, sample: usize) -> Case {
        let folder = empty_folder(name);
        let model = wide_model(&format!("{name}-model"), 4, 192, 0.05);
        let corpus = corpus(&format!("{name}-text"), &sentences(sentence_count, 31));
        let (whole, flags) = (folder.join("whole"), format!("{FLAGS} --sample-states {sample}"));
        measured(&model, &corpus, &whole, &flags);
        Case { model, corpus, folder, whole, flags }
    }

    /// A run of a second or more, the same for all tests, with a folder for each.
    pub fn shared(name: &str) -> Case {
        static SHARED: OnceLock<Case> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Case::new("interrupted", 1500, 100));
        Case { folder: empty_folder(&format!("interrupted-{name}")), ..shared.clone() }
    }

    fn words(&self, out: &Path) -> Vec<String> {
        command(&self.model, &self.corpus, out, &self.flags)
    }

    pub fn start(&self, out: &Path) -> Child {
        start(&self.words(out))
    }

    /// Starts a run with checkpoints after every batch and kills it once a file of this name is there.
    #[track_caller]
    pub fn killed(&self, out: &Path, name: &str) {
        let mut child = held_at(name, out, &command(&self.model, &self.corpus, out, &self.with_checkpoints()), Stdio::null());
        child.kill().expect("killed");
        assert_eq!(end(child).status, -9);
    }

    /// The flags, with a checkpoint after every batch.
    pub fn with_checkpoints(&self) -> String {
        self.flags.replace("--checkpoint-seconds 0.2", "--checkpoint-seconds 0")
    }

    /// Goes on to the end, which must be that of the whole run.
    #[track_caller]
    pub fn resumed(&self, out: &Path) -> Outcome {
        let outcome = run(&self.words(out));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        self.same(out);
        outcome
    }

    #[track_caller]
    pub fn same(&self, out: &Path) {
        assert_eq!(differing(out, &self.whole), None);
        assert!(!out.join(".work").exists(), "the work folder is left behind");
    }

    /// Fails with one line that contains all of `said`.
    #[track_caller]
    pub fn fails(&self, out: &Path, more: &str, status: i32, said: &[&str]) {
        let outcome = measure(&self.model, &self.corpus, out, &format!("{} {more}", self.flags));
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{}", outcome.stderr);
        said.iter().for_each(|part| assert!(outcome.stderr.contains(part), "`{part}` is not in {}", outcome.stderr));
        assert!(!out.join("manifest.json").exists());
    }
}

/// Waits until something is there, or the process ended.
pub fn wait_for(child: &mut Child, ready: impl Fn() -> bool) {
    let begin = Instant::now();
    while !ready() && child.try_wait().expect("a process").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks a run to stop while the model runs: where the request came too early or too late, another run is asked. Also how long it ran.
pub fn stopped_while_measuring(words: &[String], out: &Path, number: i32) -> (Outcome, f64) {
    let mut wait = Duration::from_millis(50);
    for _ in 0..20 {
        let _ = std::fs::remove_dir_all(out);
        let mut child = start(words);
        wait_for(&mut child, || out.join(".work/plan.json").exists());
        let begin = Instant::now();
        std::thread::sleep(wait);
        signal(&child, number);
        // Batches are short: what passes between the request and the end is mostly work that is saved.
        let leg = begin.elapsed().as_secs_f64();
        let outcome = end(child);
        match outcome.status {
            0 => wait = wait * 2 / 3,
            6 if !outcome.stderr.contains("interrupted after batch ") => wait *= 2,
            _ => return (outcome, leg),
        }
    }
    panic!("no request came while the model ran");
}

pub fn signal(child: &Child, signal: i32) {
    // SAFETY: sends a signal to a process that was started here and not yet waited for.
    let sent = unsafe { libc::kill(child.id() as i32, signal) };
    assert_eq!(sent, 0);
}

/// When each checkpoint was written, the latest last.
pub fn checkpoints(out: &Path) -> Vec<(std::time::SystemTime, PathBuf)> {
    written(out, "checkpoint-")
}

/// The same for all states: those of finished legs too.
pub fn saved_states(out: &Path) -> Vec<(std::time::SystemTime, PathBuf)> {
    [written(out, "checkpoint-"), written(out, "leg-")].concat()
}

fn written(out: &Path, prefix: &str) -> Vec<(std::time::SystemTime, PathBuf)> {
    let names = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix) && name.ends_with(".safetensors"))
    };
    let paths = std::fs::read_dir(out.join(".work")).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).filter(names);
    let mut found: Vec<_> = paths.filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path))).collect();
    found.sort();
    found
}

pub fn flip_byte(path: &Path, from_end: usize) {
    let mut bytes = std::fs::read(path).expect("readable");
    let at = bytes.len() - from_end;
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).expect("writable");
}
