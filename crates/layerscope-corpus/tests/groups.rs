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
fn special_tokens_can_be_words() {
    let read = grouped("the thing\nthe end", Grouping::Word, Specials::Include, &tokenizer("wordpiece", Wrap::Model));
    let names: Vec<(&str, u64)> = read.groups().iter().map(|group| (group.name.as_str(), group.count)).collect();
    assert_eq!(names, [("[CLS]", 2), ("the", 2), ("thing", 1), ("[SEP]", 2), ("end", 1)]);
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
