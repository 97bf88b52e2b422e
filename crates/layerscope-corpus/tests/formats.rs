//! Every format, plain and packed, gives the same documents.

mod common;

use common::{Folder, contents, document, documents, gzip, parquet, spool, zstd};
use layerscope_corpus::{Grouping, Settings};
use parquet::basic::{Compression, ZstdLevel};

const TEXTS: [&str; 4] = ["The first of them.", "A second, naïve one", "", "the fourth: \"€\" \\ done"];

fn jsonl(column: &str) -> String {
    let line = |text: &&str| serde_json::json!({ "id": 3, column: text, "tags": ["a", {"b": null}] }).to_string();
    TEXTS.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_formats_and_packings_agree() {
    let folder = Folder::new();
    let lines = TEXTS.join("\n");
    let rows: Vec<(Option<&str>, i64)> = TEXTS.iter().map(|text| (Some(*text), 1)).collect();
    let plain = parquet(&rows, Compression::UNCOMPRESSED);
    // Several gzip members and zstd frames in one file are one stream.
    let (start, end) = lines.split_at(9);
    let members = [gzip(start.as_bytes()), gzip(end.as_bytes())].concat();
    let frames = [zstd(start.as_bytes()), zstd(end.as_bytes())].concat();
    let files = [
        folder.file("a.txt", &lines),
        folder.file("b.txt", format!("{lines}\n")),
        folder.file("c.txt", format!("\u{feff}{}\r\n", TEXTS.join("\r\n"))),
        folder.file("d.txt.gz", gzip(lines.as_bytes())),
        folder.file("e.txt.gz", members),
        folder.file("f.txt.zst", zstd(lines.as_bytes())),
        folder.file("g.txt.zst", frames),
        folder.file("h.jsonl", jsonl("text")),
        folder.file("i.jsonl.gz", gzip(jsonl("text").as_bytes())),
        folder.file("j.jsonl.zst", zstd(jsonl("text").as_bytes())),
        folder.file("k.parquet", &plain),
        folder.file("l.parquet.gz", gzip(&plain)),
        folder.file("m.parquet.zst", zstd(&plain)),
        folder.file("n.parquet", parquet(&rows, Compression::SNAPPY)),
        folder.file("o.parquet", parquet(&rows, Compression::ZSTD(ZstdLevel::default()))),
        folder.file("p.parquet", parquet(&rows, Compression::GZIP(Default::default()))),
        folder.file("q.parquet", parquet(&rows, Compression::LZ4_RAW)),
    ];
    let expected = spool(&folder, &Settings::new([&files[0]], 64)).unwrap();
    assert_eq!(documents(&expected), [document(0, 0), document(0, 1), document(0, 3)]);
    assert_eq!(expected.counters().records, 4);
    assert_eq!(expected.counters().blank, 1);
    for file in &files[1..] {
        let other = spool(&folder, &Settings::new([file], 64)).unwrap();
        assert_eq!(contents(&other), contents(&expected), "{file}");
        assert_eq!(other.fingerprint(), expected.fingerprint(), "{file}");
        assert_eq!(other.counters(), expected.counters(), "{file}");
    }
    // All together: the file's place in the sorted list numbers the documents.
    let all = spool(&folder, &Settings::new(files.iter().rev(), 64)).unwrap();
    assert_eq!(all.inputs(), files);
    let numbers: Vec<u32> = documents(&all).iter().map(|id| id.file).collect();
    assert_eq!(numbers, (0..files.len() as u32).flat_map(|file| [file; 3]).collect::<Vec<_>>());
}

#[test]
fn patterns_are_sorted_and_each_file_is_read_once() {
    let folder = Folder::new();
    for name in ["b.txt", "a.txt", "c.txt", "[x].txt"] {
        folder.file(name, name);
    }
    let of = |name: &str| format!("{}/{name}", folder.0.display());
    let inputs = |patterns: &[&str]| {
        let spool = spool(&folder, &Settings::new(patterns.iter().map(|name| of(name)), 64)).unwrap();
        spool.inputs().iter().map(|name| name.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(&["?.txt", "a.txt"]), ["a.txt", "b.txt", "c.txt"]);
    assert_eq!(inputs(&["[x].txt"]), ["[x].txt"]); // a name that exists is no pattern
    assert_eq!(inputs(&["**/*.txt"]), ["[x].txt", "a.txt", "b.txt", "c.txt"]);
}

#[test]
fn other_columns() {
    let folder = Folder::new();
    let file = folder.file("a.jsonl", jsonl("body"));
    let mut settings = Settings::new([&file], 64);
    settings.text_column = Some("body".into());
    settings.grouping = Grouping::Column("id".into());
    let read = spool(&folder, &settings).unwrap();
    assert_eq!(read.groups().iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["3"]);
    assert_eq!(read.groups()[0].count, read.counters().counted);
}

#[test]
fn many_rows_in_several_row_groups() {
    let folder = Folder::new();
    let texts: Vec<String> = (0..1000).map(|number| format!("row {number}")).collect();
    let rows: Vec<(Option<&str>, i64)> =
        texts.iter().enumerate().map(|(number, text)| (Some(text.as_str()), number as i64 / 400)).collect();
    let columns = folder.file("a.parquet", parquet(&rows, Compression::SNAPPY));
    let mut settings = Settings::new([&columns], 64);
    settings.grouping = Grouping::Column("year".into());
    let columns = spool(&folder, &settings).unwrap();
    let lines = folder.file("a.txt", texts.join("\n"));
    let lines = spool(&folder, &Settings::new([&lines], 64)).unwrap();
    assert_eq!(contents(&columns), contents(&lines));
    let groups: Vec<(&str, u64)> = columns.groups().iter().map(|group| (group.raw.as_str(), group.key)).collect();
    assert_eq!(groups, [("0", 0), ("1", 1), ("2", 2)]);
}
