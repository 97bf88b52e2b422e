//! Asked to stop by a signal.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use layerscope::internals::StateFile;

use super::case::{Case, checkpoints, signal, stopped_while_measuring, wait_for};
use crate::support::Outcome;
use crate::support::measure::{command, differing, end, manifest, measured, start, tokenizer_json};
use crate::support::storage::{held_at, release_with};

#[test]
fn asked_to_stop() {
    let case = Case::shared("stopped");
    for (name, number) in [("SIGTERM", libc::SIGTERM), ("SIGINT", libc::SIGINT)] {
        let out = case.folder.join(name);
        let flags = case.flags.replace("--quiet", "").replace("--checkpoint-seconds 0.2", "--checkpoint-seconds 1000");
        let (outcome, leg) = stopped_while_measuring(&command(&case.model, &case.corpus, &out, &flags), &out, number);
        assert_eq!(outcome.status, 6, "{name}: {}", outcome.stderr);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
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
            ["before the first batch", "after batch 0 of 1", "while the tables were made"].iter().any(|said| outcome.stderr.contains(said)),
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
    stopped_with(&outcome, "interrupted while reading the corpus");
}

#[test]
fn standard_input_is_not_needed_again() {
    let case = Case::shared("piped");
    let out = case.folder.join("out");
    let words = command(&case.model, Path::new("-"), &out, &case.with_checkpoints());
    let child = held_at("checkpoint-*", &out, &words, std::fs::File::open(&case.corpus).expect("a corpus"));
    release_with(&child, libc::SIGTERM);
    assert_eq!(end(child).status, 6);
    let outcome = end(start(&words));
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
        stopped_with(&outcome, "interrupted while reading the corpus");
    }
}

/// A document is one call of the tokenizer, however long it takes: here minutes, because a thousand steps look at every letter.
#[test]
fn asked_to_stop_inside_the_tokenizer() {
    let case = Case::new("tokenizing", 40, 100);
    let steps = vec![serde_json::json!({ "type": "Lowercase" }); 1000];
    let mut tokenizer = tokenizer_json();
    tokenizer["normalizer"] = serde_json::json!({ "type": "Sequence", "normalizers": steps });
    std::fs::write(case.model.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    let (out, text) = (case.folder.join("out"), case.folder.join("long.txt"));
    std::fs::write(&text, "the house ".repeat(200_000)).expect("written");
    let mut child = start(&command(&case.model, &text, &out, &case.flags));
    wait_for(&mut child, || out.join(".work").read_dir().is_ok_and(|entries| entries.count() > 1));
    std::thread::sleep(Duration::from_millis(500));
    stopped_within(&mut child, Duration::from_secs(5));
    stopped_with(&end(child), "interrupted while reading the corpus");
}

#[test]
fn asked_to_stop_while_tables_are_made() {
    let mut case = Case::new("tables", 300, 8000);
    case.flags = case.flags.replace("--measures norm,cosine", "--measures all --group cluster:40,80");
    case.whole = case.folder.join("whole-tables");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    let out = case.folder.join("out");
    let child = held_at("out/state.safetensors", &out, &command(&case.model, &case.corpus, &out, &case.flags), Stdio::null());
    release_with(&child, libc::SIGTERM);
    let outcome = end(child);
    stopped_with(&outcome, "interrupted while the tables were made: the states are saved");
    assert!(!out.join("manifest.json").exists());
    case.resumed(&out);
}

/// One line says what was interrupted; what does not end at once is acknowledged before.
#[track_caller]
fn stopped_with(outcome: &Outcome, said: &str) {
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("layerscope: stopping")).collect();
    assert_eq!((outcome.status, lines.len()), (6, 1), "{}", outcome.stderr);
    assert!(lines[0].contains(said), "{}", outcome.stderr);
}

fn stopped_within(child: &mut std::process::Child, time: Duration) {
    signal(child, libc::SIGTERM);
    let begin = Instant::now();
    while child.try_wait().expect("a process").is_none() {
        assert!(begin.elapsed() < time, "the request is not heard");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every command that works for a while ends with status 6 and says what a repetition does, wherever it is.
#[test]
fn every_command_is_stopped() {
    let case = Case::shared("commands");
    let path = |name: &str| case.folder.join(name).to_str().expect("UTF-8").to_owned();
    let shards: Vec<String> = (0..2)
        .map(|index| {
            let out = case.folder.join(format!("shard-{index}"));
            measured(&case.model, &case.corpus, &out, &format!("{} --shard {index}/2", case.flags));
            out.to_str().expect("UTF-8").to_owned()
        })
        .collect();
    let (whole, model) = (case.whole.to_str().expect("UTF-8").to_owned(), case.model.to_str().expect("UTF-8").to_owned());
    let text = case.corpus.to_str().expect("UTF-8").to_owned();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let commands = [
        words(&format!("merge --quiet {} {} --out {}", shards[0], shards[1], path("merged"))),
        words(&format!("figures {whole} --out {}", path("figures"))),
        words(&format!("report {whole} --out {}", path("page.html"))),
        words(&format!("compare {whole} {whole} --out {}", path("compared"))),
        words(&format!("prune {} --keep tables", shards[0])),
        words(&format!("bench --seconds 60 --model {model} --corpus {text}")),
        words(&format!("demo --quiet --out {}", path("demo"))),
        words(&format!("measure --quiet --model {model} --corpus {text} --out {}", path("measured"))),
        words(&format!("weights --model {model}")),
    ];
    for words in commands {
        let mut child = start(&words);
        let begin = Instant::now();
        // As soon as somebody listens; what ends before is not slow.
        while !listens(&child) && child.try_wait().expect("a process").is_none() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().expect("a process").is_none() {
            signal(&child, libc::SIGTERM);
        }
        let outcome = end(child);
        match outcome.status {
            6 => stopped_with(&outcome, "the same command"),
            status => assert_eq!(status, 0, "{words:?}: {}", outcome.stderr),
        }
    }
    let page = std::fs::read_to_string(path("page.html"));
    assert!(page.is_err() || page.is_ok_and(|page| page.ends_with("</html>\n")), "a page is whole or absent");
}

/// Whether a process has taken SIGTERM for itself.
fn listens(child: &std::process::Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & (1 << (libc::SIGTERM - 1)) != 0)
}

#[test]
fn asked_to_stop_while_figures_are_drawn() {
    let case = Case::shared("figures-stopped");
    for file in ["fig2.svg", "fig4.pdf", "fig7.csv", "fig10.png", "fig18.svg"] {
        let out = case.folder.join(file);
        let words = ["figures", case.whole.to_str().expect("UTF-8"), "--out", out.to_str().expect("UTF-8")].map(str::to_owned);
        let child = held_at(file, &out, &words, Stdio::null());
        release_with(&child, libc::SIGINT);
        let outcome = end(child);
        assert!(outcome.status == 6 && outcome.stderr.contains("those that are there are whole"), "{}", outcome.stderr);
        let entries = std::fs::read_dir(&out).expect("a folder").flatten();
        let names: Vec<String> = entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        for figure in names.iter().filter_map(|name| name.strip_suffix(".svg")) {
            let endings: &[&str] = if figure == "fig3" { &["pdf", "png"] } else { &["pdf", "png", "csv"] };
            assert!(endings.iter().all(|ending| names.contains(&format!("{figure}.{ending}"))), "{figure} of {names:?}");
        }
        assert!(!names.iter().any(|name| name.ends_with(".part")), "{names:?}");
    }
}
