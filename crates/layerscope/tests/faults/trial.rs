//! A command that can be disturbed, and what it must leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use layerscope_testing::store_server::StoreServer;

use crate::support::measure::{command, corpus, model, sentences};
use crate::support::{empty_folder, root};

pub const FLAGS: &str =
    "--quiet --frequency 4:60 --batch-tokens 60 --threads 1 --checkpoint-seconds 0 --measures norm,cosine --sample-states 50";

/// Parts of the names of files with states.
const STATES: [&str; 3] = ["/checkpoint-", "/leg-", "state.safetensors"];

/// Commands that write to one place, one after another: the last one is watched, those before it may be repeated.
pub struct Trial {
    pub name: String,
    pub commands: Vec<Vec<String>>,
    /// Where files are written: runs, or the copies of runs in a store.
    pub out: PathBuf,
    pub store: Option<StoreServer>,
    /// What lies there before the commands, and after them.
    before: PathBuf,
    after: PathBuf,
    /// Whether a whole run lies there before them.
    has_old: bool,
}

impl Trial {
    /// Commands that write to the folder they are given, in which `prepare` puts what lies there before.
    pub fn new(name: &str, commands: impl Fn(&Path) -> Vec<Vec<String>>, prepare: impl Fn(&Path), has_old: bool) -> Trial {
        let trial = Trial::empty(name, commands, None, has_old);
        prepare(&trial.before);
        trial.whole()
    }

    /// Commands that write to an object store, in which `before` was done before.
    pub fn in_store(name: &str, commands: Vec<Vec<String>>, before: &[Vec<String>]) -> Trial {
        let trial = Trial::empty(name, |_| commands.clone(), Some(StoreServer::start()), !before.is_empty());
        for words in before {
            succeeded(&trial.start(words, &[]).wait_with_output().expect("an end"), name);
        }
        trial.save(&trial.before);
        trial.whole()
    }

    fn empty(name: &str, commands: impl Fn(&Path) -> Vec<Vec<String>>, store: Option<StoreServer>, has_old: bool) -> Trial {
        let folder = empty_folder(&format!("faults-{name}"));
        let (out, before, after) = (folder.join("out"), folder.join("before"), folder.join("after"));
        std::fs::create_dir_all(&before).expect("a folder");
        Trial { name: name.to_owned(), commands: commands(&out), store, has_old, out, before, after }
    }

    /// Runs the commands undisturbed.
    fn whole(self) -> Trial {
        self.reset();
        for words in &self.commands {
            succeeded(&self.start(words, &[]).wait_with_output().expect("an end"), &self.name);
        }
        self.save(&self.after);
        self
    }

    /// Makes everything as it was before the commands.
    pub fn reset(&self) {
        match &self.store {
            None => copy(&self.before, &self.out),
            Some(store) => {
                let _ = std::fs::remove_dir_all(&self.out);
                store.replace(files(&self.before).into_iter().map(|name| (name.clone(), read(&self.before, &name))).collect());
            }
        }
    }

    /// Forgets what this machine knows of runs in a store: another one goes on.
    pub fn elsewhere(&self) {
        let _ = std::fs::remove_dir_all(&self.out);
    }

    /// Starts a command, with more variables.
    pub fn start(&self, words: &[String], variables: &[(&str, String)]) -> Child {
        let mut process = Command::new(env!("CARGO_BIN_EXE_layerscope"));
        process.args(words).current_dir(root()).env("HF_HUB_OFFLINE", "1").envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(store) = &self.store {
            process.envs(store.environment()).env("LAYERSCOPE_CACHE", &self.out);
        }
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Runs the last command, with more variables.
    pub fn run(&self, variables: &[(&str, String)]) -> Output {
        let last = self.commands.last().expect("a command");
        self.start(last, variables).wait_with_output().expect("an end")
    }

    /// Copies what is where people find it: in the folder, or in the store.
    fn save(&self, to: &Path) {
        let Some(store) = &self.store else { return copy(&self.out, to) };
        let _ = std::fs::remove_dir_all(to);
        for (name, content) in store.files() {
            let path = to.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, content).expect("written");
        }
        std::fs::create_dir_all(to).expect("a folder");
    }

    fn results(&self) -> PathBuf {
        if self.store.is_none() {
            return self.out.clone();
        }
        let now = self.out.with_file_name("now");
        self.save(&now);
        now
    }

    /// The first table or sample that is not as an undisturbed command leaves it.
    pub fn differing(&self) -> Option<String> {
        differing(&self.results(), &self.after)
    }

    /// Whether everything is there that an undisturbed command leaves.
    pub fn is_complete(&self) -> bool {
        self.differing().is_none() && manifests(&self.results()).len() == manifests(&self.after).len()
    }

    /// The first name of a file that an undisturbed command does not leave, or that only it leaves.
    pub fn stray(&self) -> Option<String> {
        files(&self.results()).symmetric_difference(&files(&self.after)).next().cloned()
    }

    /// The run that was there is there, unless the new one has states to go on from.
    pub fn keeps_old(&self) -> bool {
        let now = self.results();
        let is_whole = || differing(&now, &self.before).is_none() && manifests(&now) == manifests(&self.before);
        let has_states = |folder: &Path| files(folder).iter().any(|name| STATES.iter().any(|states| name.contains(states)));
        !self.has_old || is_whole() || has_states(&now)
    }

    /// What is there after a disturbed command, and after it was repeated by `repeat`.
    pub fn check(&self, disturbed: &Output, what: &str, repeat: impl Fn() -> Output) {
        let said = String::from_utf8_lossy(&disturbed.stderr);
        assert!(!said.contains("internal error") && !said.contains("panicked"), "{what}: {said}");
        if disturbed.status.success() {
            return assert_eq!(self.differing(), None, "{what} went unnoticed");
        }
        if self.is_complete() {
            return; // it came too late
        }
        assert!(self.keeps_old(), "{what}: the old run is gone");
        succeeded(&repeat(), &format!("{what}, then again"));
        assert_eq!(self.differing(), None, "{what}, then again");
    }
}

#[track_caller]
pub fn succeeded(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success());
}

/// A command line as words.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The checkpoints of a training.
pub fn tracked(name: &str) -> Trial {
    let (steps, text) = (empty_folder(&format!("faults-{name}-model")), corpus(&format!("faults-{name}-text"), &sentences(20, 65)));
    for step in ["step1", "step2"] {
        copy(&model("gpt2/published", &format!("faults-{name}-step")), &steps.join(step));
    }
    let (steps, text) = (steps.display().to_string(), text.display().to_string());
    let track = |out: &Path| words(&format!("track --model {steps} --revisions step* --corpus {text} --out {} {FLAGS}", out.display()));
    Trial::new(name, |out| vec![track(out)], |_| {}, false)
}

/// `measure` to an address; few checkpoints, each of which is uploaded.
fn to_store(name: &str, fixture: &str, seed: u64) -> impl Fn(&str, &str) -> Vec<String> {
    let text = corpus(&format!("faults-{name}-text-{seed}"), &sentences(20, seed));
    let checkpoint = model(fixture, &format!("faults-{name}-model-{seed}"));
    let flags = FLAGS.replace("--batch-tokens 60", "--batch-tokens 150");
    move |address: &str, more: &str| command(&checkpoint, &text, address.as_ref(), &format!("{flags} {more}"))
}

/// A run in an object store.
pub fn stored_run(name: &str) -> Trial {
    Trial::in_store(name, vec![to_store(name, "bert/base", 71)("s3://bucket/run", "")], &[])
}

/// One that replaces another.
pub fn stored_overwrite(name: &str) -> Trial {
    let old = to_store(name, "bert/base", 72)("s3://bucket/run", "");
    Trial::in_store(name, vec![to_store(name, "gpt2/published", 73)("s3://bucket/run", "--overwrite")], &[old])
}

/// Shards in an object store become a run there.
pub fn stored_merge(name: &str) -> Trial {
    let measure = to_store(name, "bert/base", 74);
    let parts = [0, 1].map(|number| measure(&format!("s3://bucket/part-{number}"), &format!("--shard {number}/2")));
    Trial::in_store(name, vec![words("merge s3://bucket/part-0 s3://bucket/part-1 --out s3://bucket/run --quiet")], &parts)
}

/// The names of all files in a folder, also deep in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(under) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&under)).into_iter().flatten() {
            let name = under.join(entry.expect("an entry").file_name());
            match folder.join(&name).is_dir() {
                true => folders.push(name),
                false => drop(found.insert(name.to_str().expect("UTF-8").to_owned())),
            }
        }
    }
    found
}

fn manifests(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = files(folder).into_iter().filter(|name| name.ends_with("manifest.json"));
    names.map(|name| (name.clone(), read(folder, &name))).collect()
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).expect("readable")
}

/// The first table or sample that differs between two folders; other files may be in ours.
fn differing(ours: &Path, theirs: &Path) -> Option<String> {
    let is_result = |name: &String| name.ends_with(".parquet") || name.ends_with("sample.safetensors");
    let differs = |name: &String| std::fs::read(ours.join(name)).ok() != Some(read(theirs, name));
    files(theirs).into_iter().filter(is_result).find(differs)
}
