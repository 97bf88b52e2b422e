//! The same documents whatever the sharding.

mod common;

use std::sync::atomic::AtomicBool;

use common::{Folder, contents, documents, parquet, sentences, spool};
use layerscope_corpus::{Grouping, Settings, Shard, UNCOUNTED, split_values};
use parquet::basic::Compression;

fn corpus(folder: &Folder) -> Settings {
    let sentences = sentences();
    let lines = |from: usize| {
        (0..700).map(|number| format!("{} {}", sentences[(from + number) % sentences.len()], number % 60)).collect::<Vec<_>>()
    };
    let files = [folder.file("a.txt", lines(0).join("\n")), folder.file("b.txt", lines(11).join("\n"))];
    let mut settings = Settings::new(files, 24);
    settings.filters.sample = 0.6;
    settings.filters.seed = 7;
    settings.filters.max_words = Some(60);
    settings.filters.dedup = true;
    settings.filters.limit = Some(200);
    settings
}

#[test]
fn shards_together_are_the_whole() {
    let folder = Folder::new();
    let mut settings = corpus(&folder);
    let whole = spool(&folder, &settings).unwrap();
    assert_eq!(whole.counters().kept, 200);
    assert!(whole.counters().repeated > 0 && whole.counters().unsampled > 0);
    for count in [2, 3, 7] {
        let mut together = Vec::new();
        let mut counted = 0;
        for index in 0..count {
            settings.shard = Shard { index, count };
            let part = spool(&folder, &settings).unwrap();
            assert_eq!(part.fingerprint(), whole.fingerprint());
            let (mine, all) = (part.counters(), whole.counters());
            assert_eq!((mine.records, mine.unsampled, mine.repeated, mine.kept), (all.records, all.unsampled, all.repeated, all.kept));
            assert!(documents(&part).len().abs_diff(200 / count as usize) <= 1);
            together.extend(contents(&part));
            counted += mine.counted;
        }
        // Stable: the windows of a document stay in order.
        together.sort_by_key(|(document, _)| *document);
        assert_eq!(together, contents(&whole));
        assert_eq!(counted, whole.counters().counted);
    }
}

#[test]
fn a_shard_that_counts_the_whole_holds_its_part_and_the_counts_of_all() {
    let folder = Folder::new();
    let mut settings = corpus(&folder);
    let counts = |groups: &[layerscope_corpus::Group]| {
        let mut counts: Vec<_> = groups.iter().map(|group| (group.raw.clone(), group.count)).collect();
        counts.sort();
        counts
    };
    let whole = counts(spool(&folder, &settings).unwrap().groups());
    for index in 0..3 {
        settings.shard = Shard { index, count: 3 };
        settings.count_whole = false;
        let part = spool(&folder, &settings).unwrap();
        assert_eq!(counts(part.whole_groups()), counts(part.groups()));
        settings.count_whole = true;
        let counting = spool(&folder, &settings).unwrap();
        assert_eq!(contents(&counting), contents(&part));
        assert_eq!(counts(counting.groups()), counts(part.groups()));
        assert_eq!(counts(counting.whole_groups()), whole);
    }
}

#[test]
fn every_shard_has_the_same_pilot() {
    let folder = Folder::new();
    let mut settings = corpus(&folder);
    settings.pilot = 40;
    let whole = spool(&folder, &settings).unwrap();
    let pilot = whole.pilot(200).unwrap();
    let expected: Vec<_> = contents(&whole).into_iter().filter(|(document, _)| documents(&whole)[..40].contains(document)).collect();
    let flat = |batches: &[layerscope_corpus::SpoolBatch]| {
        let of = |batch: &layerscope_corpus::SpoolBatch| {
            batch.sequences.iter().zip(batch.sequence_ids()).map(|(sequence, ids)| (sequence.document, ids.to_vec())).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of).collect::<Vec<_>>()
    };
    assert_eq!(flat(&pilot), expected);
    assert!(pilot.len() > 3 && pilot.iter().all(|batch| batch.tokens() <= 200));
    for index in 0..3 {
        settings.shard = Shard { index, count: 3 };
        let part = spool(&folder, &settings).unwrap();
        let batches = part.pilot(200).unwrap();
        assert_eq!(flat(&batches), expected);
        for (ours, theirs) in batches.iter().zip(&pilot) {
            let counted = |groups: &[u32]| groups.iter().map(|&group| group == UNCOUNTED).collect::<Vec<_>>();
            assert_eq!(counted(&ours.groups), counted(&theirs.groups));
        }
        // And it is no part of the shard itself.
        settings.pilot = 0;
        assert_eq!(contents(&spool(&folder, &settings).unwrap()), contents(&part));
        settings.pilot = 40;
    }
}

/// Rows of Parquet and lines of JSON, by the year, which some lines lack; grouped by it too, or by tokens.
#[test]
fn parts_by_a_column_together_are_the_whole() {
    let folder = Folder::new();
    let sentences = sentences();
    let rows: Vec<(Option<&str>, i64)> =
        (0..90).map(|number| (Some(sentences[number % sentences.len()].as_str()), 1900 + number as i64 % 3)).collect();
    let line = |number: usize| match number % 4 {
        0 => serde_json::json!({ "text": sentences[number % sentences.len()] }),
        1 => serde_json::json!({ "text": sentences[number % sentences.len()], "year": null }),
        2 => serde_json::json!({ "text": sentences[number % sentences.len()], "year": " " }),
        _ => serde_json::json!({ "text": sentences[number % sentences.len()], "year": 1901 }),
    };
    let lines: Vec<String> = (0..40).map(|number| line(number).to_string()).collect();
    let files = [folder.file("a.parquet", parquet(&rows, Compression::SNAPPY)), folder.file("b.jsonl", lines.join("\n"))];
    let mut settings = Settings { split: Some("year".into()), count_whole: true, pilot: 8, ..Settings::new(files, 24) };
    for grouping in [Grouping::Token, Grouping::Column("year".into())] {
        settings.inputs.truncate(if grouping == Grouping::Token { 2 } else { 1 }); // a group must have a name
        settings.grouping = grouping;
        (settings.shard, settings.part) = (Shard::default(), None);
        let whole = spool(&folder, &settings).unwrap();
        let values = split_values(&settings, &folder.path(""), &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let years = ["1900", "1901", "1902"].map(|year| Some(year.to_owned()));
        assert_eq!(values, [&years[..], &[None][..settings.inputs.len() - 1]].concat());
        let mut together = Vec::new();
        for (index, value) in (0..).zip(&values) {
            settings.shard = Shard { index, count: values.len() as u32 };
            settings.part = Some(value.clone());
            let part = spool(&folder, &settings).unwrap();
            assert_eq!((part.fingerprint(), part.pilot(64).unwrap().len()), (whole.fingerprint(), whole.pilot(64).unwrap().len()));
            let is_own = |id: &layerscope_corpus::DocumentId| match id.file {
                0 => *value == Some((1900 + id.record % 3).to_string()),
                _ => *value == (id.record % 4 == 3).then(|| "1901".to_owned()),
            };
            assert!(!documents(&part).is_empty() && documents(&part).iter().all(is_own), "{value:?}");
            let count = |groups: &[layerscope_corpus::Group]| groups.iter().map(|group| group.count).sum::<u64>();
            assert_eq!((count(part.groups()), count(part.whole_groups())), (part.counters().counted, whole.counters().counted));
            together.extend(contents(&part));
        }
        together.sort_by_key(|(document, _)| *document);
        assert_eq!(together, contents(&whole));
    }
    let renamed = Settings { split: Some("decade".into()), ..settings };
    let line = split_values(&renamed, &folder.path(""), &mut |_| {}, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(line.ends_with("no column `decade` (it has `text`, `year`); name one of them with --split column:NAME"), "{line}");
}
