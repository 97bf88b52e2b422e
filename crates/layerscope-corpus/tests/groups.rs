//! Group words and the dictionary.

mod common;

use std::collections::HashMap;

use common::{Folder, spool_with, tokenizer};
use layerscope_corpus::{CONTINUES, Grouping, Settings, Specials, Spool, Tokenizer, UNCOUNTED, Wrap};

fn grouped(text: &str, grouping: Grouping, specials: Specials, tokenizer: &Tokenizer) -> Spool {
    let folder = Folder::new();
    let file = folder.file("a.txt", text);
    let mut settings = Settings::new([&file], 64);
    settings.grouping = grouping;
    settings.specials = specials;
    let spool = spool_with(&folder, &settings, tokenizer).unwrap();
    check(&spool);
    spool
}

/// Counts of the dictionary are those of the rows; keys and raw names differ.
fn check(spool: &Spool) {
    let mut counts = vec![0; spool.groups().len()];
    for batch in spool.batches(50).unwrap() {
        for word in batch.unwrap().groups {
            if word != UNCOUNTED && word & CONTINUES == 0 {
                counts[word as usize] += 1;
            }
        }
    }
    assert_eq!(counts, spool.groups().iter().map(|group| group.count).collect::<Vec<_>>());
    assert_eq!(counts.iter().sum::<u64>(), spool.counters().counted);
    let raws: HashMap<&str, u64> = spool.groups().iter().map(|group| (group.raw.as_str(), group.key)).collect();
    assert_eq!(raws.len(), counts.len());
}

fn table(spool: &Spool) -> Vec<(&str, &str, u32, u64)> {
    spool.groups().iter().map(|group| (group.name.as_str(), group.raw.as_str(), group.subwords, group.count)).collect()
}

#[test]
fn tokens_by_id() {
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    let ids = tokenizer.encode("the end of the end").unwrap();
    let read = grouped("the end of the end", Grouping::Token, Specials::Exclude, &tokenizer);
    let batch = read.slice(0..1, 0).unwrap();
    assert_eq!((batch.groups[0], *batch.groups.last().unwrap()), (UNCOUNTED, UNCOUNTED));
    for (word, id) in batch.groups[1..].iter().zip(&ids) {
        assert_eq!(read.groups()[*word as usize].key, u64::from(*id));
    }
    let read = grouped("the end of the end", Grouping::Token, Specials::Include, &tokenizer);
    assert_eq!(read.groups()[0].name, "[CLS]");
    assert_eq!(read.counters().counted, read.counters().tokens);
}

#[test]
fn surfaces_join_what_differs_by_its_mark() {
    let tokenizer = tokenizer("byte-level", Wrap::None);
    let (bare, marked) = (tokenizer.encode("a").unwrap(), tokenizer.encode(" a").unwrap());
    assert_eq!((bare.len(), marked.len()), (1, 1));
    let read = grouped("a a", Grouping::Surface, Specials::Exclude, &tokenizer);
    assert_eq!(table(&read), [("a", "a", 1, 2)]);
    assert_eq!(read.groups()[0].key, u64::from(bare[0].min(marked[0])));
    let read = grouped("a a", Grouping::Token, Specials::Exclude, &tokenizer);
    assert_eq!(table(&read), [("a", "a", 1, 1), (" a", "Ġa", 1, 1)]);
}

#[test]
fn words_are_read_one_by_one_and_pooled() {
    for name in ["wordpiece", "byte-level", "metaspace", "prepended"] {
        let tokenizer = tokenizer(name, Wrap::Model);
        let read = grouped("The WONDERFUL thing, 42 things (the thing)!", Grouping::Word, Specials::Exclude, &tokenizer);
        let names: Vec<(&str, u64)> = read.groups().iter().map(|group| (group.name.as_str(), group.count)).collect();
        assert_eq!(names, [("the", 2), ("wonderful", 1), ("thing", 2), ("things", 1)], "{name}");
        assert_eq!(read.counters().counted, 6);
        let batch = read.slice(0..1, 0).unwrap();
        // The words joined by spaces give the same ids.
        let joined = tokenizer.encode("the wonderful thing things the thing").unwrap();
        assert_eq!(batch.ids, [tokenizer.prefix(), &joined, tokenizer.suffix()].concat(), "{name}");
        let wonderful = tokenizer.encode_word("wonderful", false).unwrap();
        assert_eq!(read.groups()[1].subwords as usize, wonderful.len());
        assert!(wonderful.len() > 1);
        let rows: Vec<u32> = batch.groups.iter().copied().filter(|word| word & !CONTINUES == 1).collect();
        let expected: Vec<u32> = (0..wonderful.len()).map(|place| if place == 0 { 1 } else { 1 | CONTINUES }).collect();
        assert_eq!(rows, expected);
    }
}

#[test]
fn special_tokens_are_no_words() {
    for specials in [Specials::Exclude, Specials::Include, Specials::Count] {
        let read = grouped("the thing\nthe end", Grouping::Word, specials, &tokenizer("wordpiece", Wrap::Model));
        let names: Vec<(&str, u64)> = read.groups().iter().map(|group| (group.name.as_str(), group.count)).collect();
        assert_eq!(names, [("the", 2), ("thing", 1), ("end", 1)], "{specials:?}");
    }
}

#[test]
fn counted_special_tokens_are_marked() {
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    for grouping in [Grouping::Token, Grouping::Surface] {
        let marked = |specials| {
            let read = grouped("the end\nthe end", grouping.clone(), specials, &tokenizer);
            let groups: Vec<(String, u64, bool)> =
                read.groups().iter().map(|group| (group.raw.clone(), group.count, group.special)).collect();
            groups
        };
        let group = |raw: &str, special| (raw.to_owned(), 2, special);
        let counted = marked(Specials::Count);
        assert_eq!((&counted[0], counted.last().unwrap()), (&group("[CLS]", true), &group("[SEP]", true)));
        assert_eq!(counted.iter().filter(|(.., special)| *special).count(), 2);
        // They are the same groups, marked.
        let unmarked: Vec<_> = counted.into_iter().map(|(raw, count, _)| (raw, count, false)).collect();
        assert_eq!(unmarked, marked(Specials::Include));
        assert_eq!(unmarked[1..unmarked.len() - 1], marked(Specials::Exclude));
    }
    let read = grouped("the end", Grouping::Position, Specials::Count, &tokenizer);
    assert!(read.groups().iter().all(|group| !group.special));
}

/// Rows (place in the sequence, group name) that count.
fn counted_rows(read: &Spool) -> Vec<Vec<(usize, String)>> {
    let batch = read.slice(0..read.counters().sequences, 0).unwrap();
    let name = |word: u32| read.groups()[(word & !CONTINUES) as usize].name.clone();
    let of = |range: std::ops::Range<usize>| {
        let rows = batch.groups[range].iter().copied().enumerate();
        rows.filter(|(_, word)| word & !CONTINUES != UNCOUNTED).map(|(place, word)| (place, name(word))).collect()
    };
    batch.ranges().map(of).collect()
}

#[test]
fn the_first_rows_of_every_sequence_can_be_left_out() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "the wonderful things happen everywhere whenever somebody remembers something\nthe end\nthe");
    for name in ["wordpiece", "prepended"] {
        let tokenizer = tokenizer(name, Wrap::Model);
        for (grouping, specials) in [
            (Grouping::Token, Specials::Exclude),
            (Grouping::Surface, Specials::Count),
            (Grouping::Position, Specials::Include),
            (Grouping::Word, Specials::Exclude),
            (Grouping::Sequence, Specials::Exclude),
        ] {
            for (window, stride) in [(64, None), (16, None), (16, Some(5)), (16, Some(13))] {
                let read = |skip_first| {
                    let mut settings = Settings::new([&file], window);
                    (settings.grouping, settings.specials) = (grouping.clone(), specials);
                    (settings.stride, settings.skip_first) = (stride, skip_first);
                    let read = spool_with(&folder, &settings, &tokenizer).unwrap();
                    check(&read);
                    read
                };
                let whole = read(0);
                for skip in 1..4 {
                    let some = read(skip);
                    let what = format!("{name} {grouping:?} {window} {stride:?} {skip}");
                    assert_eq!(some.counters().tokens, whole.counters().tokens, "{what}");
                    // The rows of the whole whose item does not begin among the first ones.
                    let batch = whole.slice(0..whole.counters().sequences, 0).unwrap();
                    let starts = |range: std::ops::Range<usize>| {
                        let mut start = 0;
                        let of = move |(place, word): (usize, &u32)| {
                            start = if word & CONTINUES == 0 { place } else { start };
                            start
                        };
                        batch.groups[range].iter().enumerate().map(of).collect::<Vec<_>>()
                    };
                    let expected: Vec<Vec<(usize, String)>> = counted_rows(&whole)
                        .into_iter()
                        .zip(batch.ranges())
                        .map(|(rows, range)| {
                            let starts = starts(range);
                            rows.into_iter().filter(|(place, _)| starts[*place] >= skip).collect()
                        })
                        .collect();
                    assert_eq!(counted_rows(&some), expected, "{what}");
                }
            }
        }
        let refused = |window, skip_first| {
            let settings = Settings { skip_first, ..Settings::new([&file], window) };
            spool_with(&folder, &settings, &tokenizer).err().unwrap().to_string()
        };
        assert_eq!(refused(16, 16), "--skip-first 16 leaves nothing to count in a window of 16 tokens; give less");
        assert_eq!(refused(512, 400), "--skip-first 400 leaves nothing to count: no sequence is longer; give less");
    }
}

#[test]
fn positions_sequences_and_everything() {
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    let read = grouped("the end\nthe", Grouping::Position, Specials::Exclude, &tokenizer);
    assert_eq!(table(&read)[0], ("1", "1", 0, 2));
    assert_eq!(read.groups()[0].key, 1);
    let read = grouped("the\n\nthe", Grouping::Sequence, Specials::Exclude, &tokenizer);
    assert_eq!(table(&read), [("0:0:0:0", "0:0:0:0", 0, 1), ("0:2:0:0", "0:2:0:0", 0, 1)]);
    let read = grouped("the\n\nthe", Grouping::None, Specials::Include, &tokenizer);
    assert_eq!(table(&read), [("all", "all", 0, 6)]);
}

#[test]
fn windows_of_words_never_split_a_word() {
    let folder = Folder::new();
    let text = "wonderful things happen everywhere whenever somebody remembers something wonderful ".repeat(6);
    let file = folder.file("a.txt", text);
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    for stride in [None, Some(5), Some(14)] {
        let mut settings = Settings::new([&file], 20);
        settings.grouping = Grouping::Word;
        settings.stride = stride;
        let read = spool_with(&folder, &settings, &tokenizer).unwrap();
        assert_eq!(read.counters().counted, 54, "{stride:?}");
        assert!(read.counters().sequences > 2);
        check(&read);
        for batch in read.batches(1).unwrap() {
            let groups = batch.unwrap().groups;
            for pair in groups.windows(2) {
                assert!(pair[1] & CONTINUES == 0 || pair[1] == pair[0] | CONTINUES, "{groups:x?}");
            }
        }
    }
}
