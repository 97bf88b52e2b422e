//! Whatever interrupts a measurement, nothing is lost: it goes on where it was, and its tables have the same bits.

mod support;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use support::measure::{command, corpus, differing, end, manifest, measure, measured, model, random, run, sentences, start, wide_model};
use support::{Outcome, empty_folder};

const FLAGS: &str = "--quiet --threads 1 --batch-tokens 128 --checkpoint-seconds 0.2 --tokens none --measures norm,cosine";

/// A measurement that takes a second or more, and the same one without interruption.
#[derive(Clone)]
struct Case {
    model: PathBuf,
    corpus: PathBuf,
    folder: PathBuf,
    whole: PathBuf,
    flags: String,
}

impl Case {
    fn new(name: &str, sentence_count: usize, sample: usize) -> Case {
        let folder = empty_folder(name);
        let model = wide_model(&format!("{name}-model"), 4, 192, 0.05);
        let corpus = corpus(&format!("{name}-text"), &sentences(sentence_count, 31));
        let (whole, flags) = (folder.join("whole"), format!("{FLAGS} --sample-states {sample}"));
        measured(&model, &corpus, &whole, &flags);
        Case { model, corpus, folder, whole, flags }
    }

    /// A run of a second or more, the same for all tests, with a folder for each.
    fn shared(name: &str) -> Case {
        static SHARED: OnceLock<Case> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Case::new("interrupted", 1500, 100));
        Case { folder: empty_folder(&format!("interrupted-{name}")), ..shared.clone() }
    }

    fn words(&self, out: &Path) -> Vec<String> {
        command(&self.model, &self.corpus, out, &self.flags)
    }

    fn start(&self, out: &Path) -> Child {
        start(&self.words(out))
    }

    /// Starts a run and kills it once `ready`.
    fn killed(&self, out: &Path, ready: impl Fn() -> bool) {
        let mut child = self.start(out);
        wait_for(&mut child, ready);
        child.kill().expect("killed");
        let outcome = end(child);
        assert_eq!(outcome.status, -9, "it ended before it was killed: {}", outcome.stderr);
    }

    /// Goes on to the end, which must be that of the whole run.
    #[track_caller]
    fn resumed(&self, out: &Path) -> Outcome {
        let outcome = run(&self.words(out));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        self.same(out);
        outcome
    }

    #[track_caller]
    fn same(&self, out: &Path) {
        assert_eq!(differing(out, &self.whole), None);
        assert!(!out.join(".work").exists(), "the work folder is left behind");
    }

    /// Fails with one line that contains all of `said`.
    #[track_caller]
    fn fails(&self, out: &Path, more: &str, status: i32, said: &[&str]) {
        let outcome = measure(&self.model, &self.corpus, out, &format!("{} {more}", self.flags));
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (status, 1), "{}", outcome.stderr);
        said.iter().for_each(|part| assert!(outcome.stderr.contains(part), "`{part}` is not in {}", outcome.stderr));
        assert!(!out.join("manifest.json").exists());
    }
}

/// Waits until something is there, or the process ended.
fn wait_for(child: &mut Child, ready: impl Fn() -> bool) {
    let begin = Instant::now();
    while !ready() && child.try_wait().expect("a process").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: sends a signal to a process that was started here and not yet waited for.
    let sent = unsafe { libc::kill(child.id() as i32, signal) };
    assert_eq!(sent, 0);
}

fn checkpoint(out: &Path, turn: usize) -> PathBuf {
    out.join(".work").join(format!("checkpoint-{turn}.safetensors"))
}

/// When each checkpoint was written, the latest last.
fn checkpoints(out: &Path) -> Vec<(std::time::SystemTime, PathBuf)> {
    let written = |path: PathBuf| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path));
    let mut found: Vec<_> = (0..2).filter_map(|turn| written(checkpoint(out, turn))).collect();
    found.sort();
    found
}

fn flip_byte(path: &Path, from_end: usize) {
    let mut bytes = std::fs::read(path).expect("readable");
    let at = bytes.len() - from_end;
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn killed_at_twenty_random_moments() {
    let mut case = Case::shared("killed");
    // Every sketch there is.
    case.flags = case.flags.replace("--measures norm,cosine", "--measures all").replace("--tokens none", "--token-states 20");
    case.whole = case.folder.join("whole");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    let (mut kills, mut after_checkpoint, mut finished) = (0, 0, 0);
    for round in 0.. {
        let out = case.folder.join(format!("run-{round}"));
        // Every run is killed up to five times, then it may end.
        for leg in 0..6 {
            let draw = random(99, kills + 100 * round);
            let before = checkpoints(&out);
            let mut child = case.start(&out);
            if leg < 5 && kills < 20 {
                if !draw.is_multiple_of(4) {
                    wait_for(&mut child, || checkpoints(&out) != before);
                }
                std::thread::sleep(Duration::from_millis(draw / 4 % 200));
                let _ = child.kill();
            }
            let outcome = end(child);
            if outcome.status == 0 {
                finished += 1;
                case.same(&out);
                break;
            }
            assert_eq!(outcome.status, -9, "{}", outcome.stderr);
            kills += 1;
            after_checkpoint += usize::from(!checkpoints(&out).is_empty() || out.join(".work/pass-0.safetensors").exists());
        }
        if kills == 20 {
            break;
        }
    }
    println!("{kills} kills, {after_checkpoint} after a checkpoint, {finished} runs");
    assert!(after_checkpoint >= 10, "only {after_checkpoint} of {kills} kills came after a checkpoint");
}

#[test]
fn asked_to_stop() {
    let case = Case::shared("stopped");
    for (name, number) in [("SIGTERM", libc::SIGTERM), ("SIGINT", libc::SIGINT)] {
        let out = case.folder.join(name);
        let flags = case.flags.replace("--quiet", "").replace("--checkpoint-seconds 0.2", "--checkpoint-seconds 1000");
        let mut child = start(&command(&case.model, &case.corpus, &out, &flags));
        wait_for(&mut child, || out.join(".work/plan.json").exists());
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, number);
        // Batches are short: what passes between the request and the end is mostly work that is saved.
        let leg = begin.elapsed().as_secs_f64();
        let outcome = end(child);
        assert_eq!(outcome.status, 6, "{name}: {}", outcome.stderr);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines.iter().any(|line| line.contains("stopping")), "{name} is acknowledged: {lines:?}");
        let last = lines.last().expect("a line");
        assert!(last.contains("interrupted after batch ") && last.ends_with("the same command goes on"), "{last}");
        assert_eq!(checkpoints(&out).len(), 1, "it was saved");
        assert!(outcome.stdout.is_empty() && !out.join("manifest.json").exists());
        case.resumed(&out);
        let found = manifest(&out);
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let (states, points) = (number(&found["corpus"]["states"]), found["points"].as_array().expect("points").len() as f64);
        assert!(number(&found["wall_seconds"]) >= leg, "the time before the interruption counts");
        assert!((number(&found["states_per_second"]) * number(&found["wall_seconds"]) / (states * points) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn asked_to_stop_in_the_last_batch() {
    let mut case = Case::shared("last-batch");
    case.flags = case.flags.replace("--batch-tokens 128", "--batch-tokens 1000000");
    case.whole = case.folder.join("whole");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    let out = case.folder.join("out");
    let mut child = case.start(&out);
    wait_for(&mut child, || out.join(".work/plan.json").exists());
    signal(&child, libc::SIGTERM);
    let outcome = end(child);
    assert_eq!(outcome.status, 0, "the batch under way was the last one: {}", outcome.stderr);
    case.same(&out);
}

#[test]
fn asked_to_stop_while_reading_standard_input() {
    let case = Case::new("reading", 40, 100);
    let out = case.folder.join("out");
    let words = command(&case.model, Path::new("-"), &out, &case.flags);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_layerscope"))
        .args(&words)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The pipe stays open: nothing more comes, and no end either.
    let mut pipe = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut pipe, b"the house\n").expect("written");
    wait_for(&mut child, || out.join(".work").read_dir().is_ok_and(|entries| entries.count() > 1));
    signal(&child, libc::SIGTERM);
    let begin = Instant::now();
    while child.try_wait().expect("a process").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it waits for input for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(pipe);
    let outcome = end(child);
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (6, 1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("interrupted while the corpus was read"), "{}", outcome.stderr);
}

#[test]
fn standard_input_is_not_needed_again() {
    let case = Case::shared("piped");
    let out = case.folder.join("out");
    let words = command(&case.model, Path::new("-"), &out, &case.flags);
    let with_input = |input: Option<&Path>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_layerscope"));
        let stdin = input.map_or(std::process::Stdio::null(), |path| std::fs::File::open(path).expect("a file").into());
        command.args(&words).stdin(stdin).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("the program starts")
    };
    let mut child = with_input(Some(&case.corpus));
    wait_for(&mut child, || !checkpoints(&out).is_empty());
    signal(&child, libc::SIGTERM);
    assert_eq!(end(child).status, 6);
    let outcome = end(with_input(None));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert_eq!(differing(&out, &case.whole), None);
}

#[test]
fn a_damaged_checkpoint_is_noticed_and_the_one_before_it_used() {
    let case = Case::shared("damaged");
    // Asked to stop twice, a run leaves two checkpoints.
    let both = |out: &Path| {
        for count in 1..=2 {
            let lock = || std::fs::metadata(out.join(".work/lock")).and_then(|file| file.modified()).ok();
            let before = lock();
            let mut child = case.start(out);
            // Before the plan is made there is nothing to save.
            wait_for(&mut child, || lock() != before && out.join(".work/plan.json").exists());
            signal(&child, libc::SIGTERM);
            assert_eq!(end(child).status, 6);
            assert_eq!(checkpoints(out).len(), count);
        }
        checkpoints(out)
    };
    // In a tensor, and in the header.
    for (name, from_end) in [("tensor", 5), ("header", usize::MAX)] {
        let out = case.folder.join(name);
        let found = both(&out);
        let (latest, size) = (&found[1].1, std::fs::metadata(&found[1].1).expect("a file").len() as usize);
        flip_byte(latest, from_end.min(size - 100));
        let outcome = case.resumed(&out);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        let file = latest.file_name().expect("a name").to_str().expect("UTF-8");
        for part in ["warning", file, "using the one before it"] {
            assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
        }
        let warnings = manifest(&out)["warnings"].to_string();
        assert!(warnings.contains(file), "{warnings}");
    }
    let out = case.folder.join("both");
    for (_, path) in both(&out) {
        flip_byte(&path, 5);
    }
    let outcome = case.resumed(&out);
    assert_eq!(outcome.stderr.lines().count(), 2, "{}", outcome.stderr);
    // A checkpoint that was cut short.
    let out = case.folder.join("cut");
    let latest = both(&out).remove(1).1;
    let whole = std::fs::read(&latest).expect("readable");
    std::fs::write(&latest, &whole[..whole.len() / 2]).expect("writable");
    assert!(case.resumed(&out).stderr.contains("warning"));
}

#[test]
fn damaged_work_files_say_so() {
    let case = Case::shared("work-files");
    let out = case.folder.join("out");
    case.killed(&out, || !checkpoints(&out).is_empty());
    let damage = |file: &str, from_end: usize, said: &[&str]| {
        let path = out.join(".work").join(file);
        let whole = std::fs::read(&path).expect("readable");
        flip_byte(&path, from_end.min(whole.len()));
        case.fails(&out, "", 1, said);
        std::fs::write(&path, whole).expect("writable");
    };
    damage("spool", 3000, &[".work/spool", "--overwrite"]);
    damage("spool", usize::MAX, &[".work/spool", "--overwrite"]);
    damage("plan.json", 4, &[".work/plan.json", "--overwrite"]);
    // A digit of a threshold: still JSON, but not what was planned.
    let path = out.join(".work/plan.json");
    let plan = std::fs::read_to_string(&path).expect("readable");
    let at = plan.find("\"massive\": [").and_then(|at| Some(at + plan[at..].find(|c: char| c.is_ascii_digit())?)).expect("a number");
    let digit = if &plan[at..=at] == "9" { "8" } else { "9" };
    std::fs::write(&path, format!("{}{digit}{}", &plan[..at], &plan[at + 1..])).expect("writable");
    case.fails(&out, "", 1, &[".work/plan.json", "--overwrite"]);
    std::fs::write(&path, plan).expect("writable");
    case.resumed(&out);
    std::fs::create_dir_all(out.join(".work")).expect("a folder");
    measured(&case.model, &case.corpus, &out, &format!("{} --overwrite", case.flags));
    case.same(&out);
}

#[test]
fn a_damaged_finished_pass_is_made_again() {
    let case = Case::new("pass-files", 700, 8000);
    let outcome = measure(&case.model, &case.corpus, &case.folder.join("estimate"), &case.flags.replace("--quiet", ""));
    let line = outcome.stderr.lines().find(|line| line.contains("memory estimate")).expect("an estimate").to_owned();
    let megabytes: f64 =
        line.split("memory estimate ").nth(1).expect("a number").split(' ').next().expect("a number").parse().expect("a number");
    let case = Case { flags: format!("{} --max-memory {}M", case.flags, megabytes * 0.8), ..case };
    let out = case.folder.join("out");
    case.killed(&out, || out.join(".work/pass-0.safetensors").exists());
    flip_byte(&out.join(".work/pass-0.safetensors"), 5);
    let outcome = case.resumed(&out);
    assert!(outcome.stderr.contains("warning") && outcome.stderr.contains("pass-0.safetensors"), "{}", outcome.stderr);
}

#[test]
fn other_settings_are_refused_and_said() {
    let case = Case::shared("settings");
    let out = case.folder.join("out");
    case.killed(&out, || !checkpoints(&out).is_empty());
    for (more, said) in [
        ("--massive 5", "--massive is \"10\" there and \"5\" here"),
        ("--group surface", "--group is \"token\" there and \"surface\" here"),
        ("--shard 0/2", "--shard is \"0/1\" there and \"0/2\" here"),
        ("--lowercase", "--lowercase is \"false\" there and \"true\" here"),
        ("--limit 7", "--limit is null there and \"7\" here"),
        ("--frequency 1:1000", "--frequency is \"10:100000\" there and \"1:1000\" here"),
        ("--window 20", "--window is 48 there and 20 here"),
    ] {
        case.fails(&out, more, 5, &["holds another run", said, "--overwrite"]);
    }
    let batches = case.flags.replace("--batch-tokens 128", "--batch-tokens 64");
    let outcome = measure(&case.model, &case.corpus, &out, &batches);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("--batch-tokens is 128 there and 64 here"), "{}", outcome.stderr);
    let tokenizer = std::fs::read(case.model.join("tokenizer.json")).expect("a tokenizer");
    let changed = empty_folder("settings-other-tokenizer");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(case.model.join(name), changed.join(name)).expect("copied");
    }
    std::fs::write(changed.join("tokenizer.json"), [&tokenizer[..], b" "].concat()).expect("written");
    let outcome = measure(&changed, &case.corpus, &out, &case.flags);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("tokenizer is "), "{}", outcome.stderr);
    let other = model("bert/base", "settings-other-model");
    let outcome = measure(&other, &case.corpus, &out, &case.flags);
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("model is "), "{}", outcome.stderr);
    case.fails(&out, "--max-memory 1M", 5, &["--max-memory"]);

    // Threads, time between checkpoints and a generous limit may differ.
    let outcome = measure(&case.model, &case.corpus, &out, &case.flags.replace("--threads 1", "--threads 2 --max-memory 8G --resume"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    case.same(&out);

    // A finished run says so, and is not touched.
    let before = std::fs::metadata(out.join("manifest.json")).expect("a manifest").modified().expect("a time");
    let outcome = measure(&case.model, &case.corpus, &out, &case.flags.replace("--quiet", ""));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is complete already") && outcome.stdout.contains("R^2"), "{}", outcome.stderr);
    assert_eq!(before, std::fs::metadata(out.join("manifest.json")).expect("a manifest").modified().expect("a time"));
    let outcome = measure(&case.model, &case.corpus, &out, &format!("{} --massive 5", case.flags));
    assert_eq!(outcome.status, 5);
    assert!(outcome.stderr.contains("--massive is"), "{}", outcome.stderr);

    // Starting again.
    let outcome = measured(&case.model, &case.corpus, &out, &format!("{} --massive 5 --overwrite", case.flags));
    assert!(outcome.stdout.contains("R^2"));
    assert_eq!(manifest(&out)["settings"]["massive"]["value"], "5");
    let both = measure(&case.model, &case.corpus, &out, "--resume --overwrite");
    assert_eq!(both.status, 2, "{}", both.stderr);
}

#[test]
fn a_corpus_that_changed_is_refused_and_a_touched_one_is_not() {
    let mut case = Case::shared("changed");
    let text = std::fs::read_to_string(&case.corpus).expect("a corpus");
    let own = case.folder.join("own.txt");
    std::fs::write(&own, &text).expect("written");
    case.corpus = own.clone();
    let out = case.folder.join("out");
    case.killed(&out, || !checkpoints(&out).is_empty());
    std::fs::write(&own, text.replacen("the", "The", 1)).expect("written");
    case.fails(&out, "", 4, &["own.txt changed since the run", "--overwrite"]);
    std::fs::write(&own, format!("{text}\nmore")).expect("written");
    case.fails(&out, "", 4, &["own.txt changed since the run"]);
    std::fs::remove_file(&own).expect("removed");
    case.fails(&out, "", 4, &["own.txt", "no such file"]);
    std::fs::write(&own, &text).expect("written");
    let outcome = measured(&case.model, &own, &out, &case.flags.replace("--quiet", ""));
    assert!(outcome.stderr.contains("touched but says the same"), "{}", outcome.stderr);
    assert_eq!(differing(&out, &case.whole), None);
}

#[test]
fn a_file_that_joins_the_corpus_is_refused() {
    let mut case = Case::shared("joined");
    let text = std::fs::read(&case.corpus).expect("a corpus");
    let files = empty_folder("interrupted-joined-files");
    std::fs::write(files.join("one.txt"), text).expect("written");
    case.corpus = files.join("*.txt");
    let out = case.folder.join("out");
    case.killed(&out, || !checkpoints(&out).is_empty());
    std::fs::write(files.join("two.txt"), "more").expect("written");
    case.fails(&out, "", 4, &["two.txt", "not part of the corpus when this run began", "--overwrite"]);
    std::fs::remove_file(files.join("two.txt")).expect("removed");
    case.resumed(&out);
}

#[test]
fn two_processes_do_not_share_a_folder() {
    let case = Case::shared("shared");
    let out = case.folder.join("out");
    let mut child = case.start(&out);
    wait_for(&mut child, || out.join(".work/plan.json").exists());
    case.fails(&out, "", 5, &["another process measures into this folder"]);
    let outcome = end(child);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    case.same(&out);
}

#[test]
fn killed_between_state_and_manifest() {
    let case = Case::new("finishing", 60, 100);
    let out = case.folder.join("out");
    let keeping = format!("{} --keep-work", case.flags);
    measured(&case.model, &case.corpus, &out, &keeping);
    // Nothing but the state is there.
    for name in ["manifest.json", "layers.parquet", "groups.parquet", "components.parquet"] {
        std::fs::remove_file(out.join(name)).expect("removed");
    }
    case.resumed(&out);
    // The sample is there, the state is not.
    let out = case.folder.join("earlier");
    measured(&case.model, &case.corpus, &out, &keeping);
    for name in ["manifest.json", "layers.parquet", "groups.parquet", "components.parquet", "state.safetensors"] {
        std::fs::remove_file(out.join(name)).expect("removed");
    }
    case.resumed(&out);
}
