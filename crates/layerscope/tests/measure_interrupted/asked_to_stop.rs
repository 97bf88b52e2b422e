//! Asked to stop by a signal.

use std::path::Path;
use std::time::{Duration, Instant};

use layerscope::internals::StateFile;

use super::case::{Case, checkpoints, signal, wait_for};
use crate::support::measure::{command, differing, end, manifest, measured, start};

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
        assert!(last.contains("interrupted after batch ") && last.ends_with("the same command resumes"), "{last}");
        assert_eq!(checkpoints(&out).len(), 1, "it was saved");
        assert!(outcome.stdout.is_empty() && !out.join("manifest.json").exists());
        let saved = StateFile::open(&checkpoints(&out)[0].1).expect("whole").about().details["timings"].clone();
        case.resumed(&out);
        let found = manifest(&out);
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let (states, points) = (number(&found["corpus"]["states"]), found["points"].as_array().expect("points").len() as f64);
        assert!(number(&found["wall_seconds"]) >= leg, "the time before the interruption counts");
        assert_eq!(found["timings"]["pilot"], saved["pilot"], "the pilot is not run again, and its time still counts");
        assert!(
            number(&saved["pilot"]) > 0.0 && number(&found["timings"]["load"]) > number(&saved["load"]),
            "the weights are loaded again"
        );
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
    // Asked before the batch was under way, there is nothing to finish; asked later, it is the last one and is finished.
    match outcome.status {
        6 => assert!(
            outcome.stderr.contains("after batch 0 of 1") || outcome.stderr.contains("while the tables were made"),
            "{}",
            outcome.stderr
        ),
        status => assert_eq!(status, 0, "the batch under way was the last one: {}", outcome.stderr),
    }
    case.resumed(&out);
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
    assert!(outcome.stderr.contains("interrupted while reading the corpus"), "{}", outcome.stderr);
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

/// Nobody writes into a named pipe, or somebody does and then waits: the first request is heard all the same.
#[test]
fn asked_to_stop_while_reading_a_named_pipe() {
    let case = Case::new("fifo", 40, 100);
    for is_opened in [false, true] {
        let (out, pipe) = (case.folder.join(format!("out-{is_opened}")), case.folder.join(format!("pipe-{is_opened}.txt")));
        let name = std::ffi::CString::new(pipe.to_str().expect("UTF-8")).expect("a name");
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut child = start(&command(&case.model, &pipe, &out, &case.flags));
        let held = is_opened.then(|| {
            let mut writer = std::fs::File::options().write(true).open(&pipe).expect("a reader");
            std::io::Write::write_all(&mut writer, b"the house\n").expect("written");
            writer
        });
        wait_for(&mut child, || out.join(".work").read_dir().is_ok_and(|entries| entries.count() > 1));
        stopped_within(&mut child, Duration::from_secs(5));
        drop(held);
        let outcome = end(child);
        assert_eq!((outcome.status, outcome.stderr.lines().count()), (6, 1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("interrupted while reading the corpus"), "{}", outcome.stderr);
    }
}

#[test]
fn asked_to_stop_while_tables_are_made() {
    let mut case = Case::new("tables", 300, 8000);
    case.flags = case.flags.replace("--measures norm,cosine", "--measures all --group cluster:40,80");
    case.whole = case.folder.join("whole-tables");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    let out = case.folder.join("out");
    let mut child = case.start(&out);
    wait_for(&mut child, || out.join("state.safetensors").exists());
    signal(&child, libc::SIGTERM);
    let outcome = end(child);
    assert_eq!((outcome.status, outcome.stderr.lines().count()), (6, 1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("while the tables were made: the states are saved"), "{}", outcome.stderr);
    assert!(!out.join("manifest.json").exists());
    case.resumed(&out);
}

fn stopped_within(child: &mut std::process::Child, time: Duration) {
    signal(child, libc::SIGTERM);
    let begin = Instant::now();
    while child.try_wait().expect("a process").is_none() {
        assert!(begin.elapsed() < time, "the request is not heard");
        std::thread::sleep(Duration::from_millis(5));
    }
}
