//! The file: same bytes for any number of threads, complete or not there, and damage is seen.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Folder, contents, data, documents, sentences, spool, tokenizer};
use layerscope_corpus::{BatchSize, Context, Grouping, Progress, Settings, Spool, UNCOUNTED, Wrap, write_spool};
use layerscope_error::ErrorKind;

fn corpus(folder: &Folder, lines: usize) -> String {
    let sentences = sentences();
    let text: Vec<String> = (0..lines).map(|number| format!("{} {number}", sentences[number % sentences.len()])).collect();
    folder.file("corpus.txt", text.join("\n"))
}

#[test]
fn threads_do_not_change_a_byte() {
    let folder = Folder::new();
    let file = corpus(&folder, 3000);
    let tokenizer = tokenizer("byte-level", Wrap::BosEos);
    for grouping in [Grouping::Token, Grouping::Word] {
        let bytes = |threads| {
            let mut settings = Settings::new([&file], 32);
            settings.grouping = grouping.clone();
            settings.threads = threads;
            let path = folder.path("spool");
            write_spool(&settings, &tokenizer, &path, &mut |_| {}, &AtomicBool::new(false)).unwrap();
            std::fs::read(path).unwrap()
        };
        let one = bytes(1);
        assert!(one == bytes(2) && one == bytes(5));
    }
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = Folder::new();
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    let mut settings = Settings::new([data("sentences.txt").to_str().unwrap()], 500);
    settings.pilot = 3;
    let read = spool(&folder, &settings).unwrap();
    let sentences = sentences();
    let mut tokens = 0;
    for (document, ids) in contents(&read) {
        let body = tokenizer.encode(&sentences[document.record as usize]).unwrap();
        assert_eq!(ids, [tokenizer.prefix(), &body, tokenizer.suffix()].concat());
        tokens += ids.len() as u64;
    }
    assert_eq!(read.counters().tokens, tokens);
    assert_eq!(read.counters().counted, tokens - 2 * sentences.len() as u64);
    assert_eq!(read.around(), (1, 1));
    assert_eq!(read.sentence_lengths().values().sum::<u64>(), sentences.len() as u64);
    let single = sentences.iter().filter(|sentence| sentence.split(' ').count() == 1).count() as u64;
    assert_eq!(read.sentence_lengths()[&1], single);
    assert!(read.largest_id() <= tokenizer.largest_id());
    assert_eq!(read.longest(), contents(&read).iter().map(|(_, ids)| ids.len()).max().unwrap());
}

#[test]
fn batches_are_cut_by_order_and_size_alone() {
    let folder = Folder::new();
    let read = spool(&folder, &Settings::new([corpus(&folder, 500)], 40)).unwrap();
    let sequences = contents(&read);
    for size in [1, 40, 64, 1000, 1_000_000] {
        let batches: Vec<_> = read.batches(size).unwrap().map(Result::unwrap).collect();
        let plan = read.plan(size).unwrap();
        assert_eq!(batches.len(), plan.len());
        assert_eq!(batches.iter().map(|batch| batch.tokens()).max().unwrap(), plan.largest());
        let ids: Vec<Vec<u32>> = batches.iter().flat_map(|batch| batch.sequence_ids().map(<[u32]>::to_vec)).collect();
        assert!(ids.iter().eq(sequences.iter().map(|(_, ids)| ids)));
        for (index, batch) in batches.iter().enumerate() {
            assert_eq!(batch.index, index);
            assert!(batch.tokens() <= size || batch.sequences.len() == 1);
            if let Some(next) = batches.get(index + 1) {
                assert!(batch.tokens() + next.sequences[0].length as usize > size, "a batch could have held more");
            }
        }
        for first in [0, 1, batches.len() - 1, batches.len()] {
            let rest: Vec<_> = read.batches_from(size, first).unwrap().map(Result::unwrap).collect();
            assert_eq!(rest, batches[first..]);
        }
    }
    assert_eq!(read.slice(5..700_000, 0).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn batches_become_smaller_on_the_way() {
    let folder = Folder::new();
    let read = spool(&folder, &Settings::new([corpus(&folder, 500)], 40)).unwrap();
    let whole = read.plan(1000).unwrap();
    let sizes = |from: usize| [BatchSize::everywhere(1000), BatchSize { from: whole.sequences(from).start, tokens: 300 }];
    for from in [0, 1, whole.len() - 1] {
        let plan = read.plan_sizes(&sizes(from)).unwrap();
        assert!((0..from).all(|batch| plan.sequences(batch) == whole.sequences(batch)), "batches before {from} are the same");
        assert_eq!(plan.sequences(from).start, whole.sequences(from).start);
        assert!(plan.largest_from(from) <= 300 && plan.len() > whole.len());
        assert!((0..plan.len() - 1).all(|batch| plan.sequences(batch).end == plan.sequences(batch + 1).start));
        assert_eq!(plan.rows(0..plan.len()), whole.rows(0..whole.len()));
    }
    assert_eq!(read.plan_sizes(&sizes(0)).unwrap(), read.plan(300).unwrap());
}

#[test]
fn windows_number_every_state_once() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "the end of the thing ".repeat(30));
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    let body = tokenizer.encode(&"the end of the thing ".repeat(30)).unwrap();
    for (stride, context) in [(None, Context::Both), (Some(4), Context::Left), (Some(4), Context::Both)] {
        let mut settings = Settings::new([&file], 16);
        (settings.stride, settings.context) = (stride, context);
        let read = spool(&folder, &settings).unwrap();
        assert_eq!(read.counters().counted, body.len() as u64);
        let batch = read.slice(0..read.counters().sequences, 0).unwrap();
        let places: Vec<u32> = batch.places().collect();
        assert_eq!(places, (0..batch.tokens() as u32).collect::<Vec<_>>());
        let mut counted = vec![0; body.len()];
        for (sequence, rows) in batch.sequences.iter().zip(batch.ranges()) {
            assert!(rows.len() <= 16);
            assert_eq!((batch.ids[rows.start], batch.ids[rows.end - 1]), (tokenizer.prefix()[0], tokenizer.suffix()[0]));
            for row in rows.start + 1..rows.end - 1 {
                let at = sequence.first as usize + row - rows.start - 1;
                assert_eq!(batch.ids[row], body[at]);
                counted[at] += u32::from(batch.groups[row] != UNCOUNTED);
            }
        }
        assert!(counted.iter().all(|&times| times == 1));
    }
}

#[test]
fn damage_is_seen() {
    let folder = Folder::new();
    let mut settings = Settings::new([corpus(&folder, 20)], 40);
    settings.pilot = 2;
    let path = folder.path("spool");
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    write_spool(&settings, &tokenizer, &path, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let problem = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let line = Spool::open(&path).unwrap_err().to_string();
        line.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    for length in [0, 5, 127] {
        assert_eq!(problem(&whole[..length]), "not a spool, or a truncated one; start again with --overwrite");
    }
    let expected = format!("it has {} bytes instead of {}; start again with --overwrite", whole.len() - 1, whole.len());
    assert_eq!(problem(&whole[..whole.len() - 1]), expected);
    assert!(problem(&[whole.as_slice(), b"x"].concat()).starts_with(&format!("it has {} bytes ", whole.len() + 1)));
    let mut newer = whole.clone();
    newer[8] = 9;
    assert_eq!(problem(&newer), "a spool of version 9, but this program reads version 3; start again with --overwrite");
    for at in (0..whole.len()).step_by(7) {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        assert!(problem(&wrong).contains("--overwrite"));
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(Spool::open(&path).is_ok());
}

#[test]
fn cancelling_leaves_nothing_behind() {
    let folder = Folder::new();
    let settings = Settings::new([corpus(&folder, 20_000)], 40);
    let cancel = AtomicBool::new(false);
    let mut seen = Vec::new();
    let mut progress = |progress: &Progress| {
        seen.push(*progress);
        cancel.store(seen.len() >= 3, Ordering::Relaxed);
    };
    let path = folder.path("spool");
    let error = write_spool(&settings, &tokenizer("wordpiece", Wrap::Model), &path, &mut progress, &cancel).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(seen.len() < 10);
    assert!(seen[2].tokens > seen[0].tokens && seen[2].bytes > 0 && seen[2].total_bytes > Some(seen[2].bytes / 2));
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["corpus.txt"]);
}

/// This test runs itself again with the text on its standard input.
#[test]
fn standard_input() {
    if let Ok(column) = std::env::var("LAYERSCOPE_TEST_COLUMN") {
        let folder = Folder::new();
        let mut settings = Settings::new(["-"], 40);
        settings.text_column = (!column.is_empty()).then_some(column);
        let read = spool(&folder, &settings).unwrap();
        assert_eq!(read.inputs(), ["-"]);
        assert_eq!(documents(&read).len(), 2);
        assert_eq!(read.counters().records, 3);
        return;
    }
    for (column, text) in [("", "one\n\ntwo\n"), ("body", "{\"body\": \"one\"}\n\n{\"body\": \"two\"}")] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "standard_input"]).env("LAYERSCOPE_TEST_COLUMN", column);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
}
