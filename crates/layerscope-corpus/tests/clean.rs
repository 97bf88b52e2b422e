//! Wikipedia's mark-up and what is left of it.

mod common;

use common::{Folder, contents, data, documents, gzip, spool};
use layerscope_corpus::{Clean, OnError, Settings};

/// What should be left of tests/data/wiki-dump.txt: the five pages, of which a redirect and a program leave nothing.
const PAGES: [&str; 5] = [
    "Lighthouse keepers (Latin) tended the lamp of a light. They worked at night—mostly alone.
Work
The lamp burnt oil and, later, gases; see the table of fuels or, for more.
Trimming the wicks
every four hours
Winding the clockwork
of the lens
The range in sea miles is for a light at h metres, so h0 < 40 and 2 < h. Write [[this]] literally.
See also
Pilot (harbour)
Category:Towers",
    "",
    "",
    "An old signal
Bells
Bells were rung by hand. It's a 'bell'. Stray and ]] and [brackets] stay harmless.
And a link that never closes
A new paragraph <b> and bold, x<y.
Text of a table that never closes,",
    "The dump ends in the middle of this arti",
];

fn settings(input: &str) -> Settings {
    let mut settings = Settings::new([input], 64);
    settings.filters.clean = Some(Clean::Wiki);
    settings
}

fn lines_of_json(texts: &[&str]) -> String {
    texts.iter().map(|text| serde_json::json!({ "text": text }).to_string() + "\n").collect()
}

#[test]
fn a_dump_is_read_page_by_page() {
    let folder = Folder::new();
    let dump = std::fs::read(data("wiki-dump.txt")).unwrap();
    let clean = folder.file("clean.jsonl", lines_of_json(&PAGES));
    for chunk_chars in [None, Some(40)] {
        let mut expected = Settings::new([&clean], 64);
        expected.filters.chunk_chars = chunk_chars;
        let expected = spool(&folder, &expected).unwrap();
        for input in [folder.file("dump.txt", &dump), folder.file("dump.gz", gzip(&dump))] {
            let mut settings = settings(&input);
            settings.filters.chunk_chars = chunk_chars;
            let read = spool(&folder, &settings).unwrap();
            assert_eq!(contents(&read), contents(&expected));
            assert_eq!((read.fingerprint(), read.counters()), (expected.fingerprint(), expected.counters()));
            assert_eq!(read.counters().records, 5);
        }
    }
}

/// Every document but a page's last has exactly the length asked for.
#[test]
fn pages_become_chunks() {
    let folder = Folder::new();
    let mut settings = settings(data("wiki-dump.txt").to_str().unwrap());
    settings.filters.chunk_chars = Some(100);
    let read = spool(&folder, &settings).unwrap();
    let chunks: usize = PAGES.iter().map(|page| page.chars().count().div_ceil(100)).sum();
    assert_eq!(read.counters().kept, chunks as u64);
    let places: Vec<(u64, u32)> = documents(&read).iter().map(|id| (id.record, id.chunk)).collect();
    assert_eq!(&places[..2], [(0, 0), (0, 1)]);
    assert_eq!(places.last(), Some(&(4, 0)));
}

#[test]
fn columns_and_lines_are_cleaned_one_by_one() {
    let folder = Folder::new();
    let marked = ["'''A''' {{b|\nc}} [[d|e]]", "f\n\n[[Category:G]]", "{{h}}"];
    let clean = spool(&folder, &Settings::new([folder.file("clean.jsonl", lines_of_json(&["A e", "f", ""]))], 64)).unwrap();
    let read = spool(&folder, &settings(&folder.file("a.jsonl", lines_of_json(&marked)))).unwrap();
    assert_eq!((read.fingerprint(), read.counters()), (clean.fingerprint(), clean.counters()));
    let lines = spool(&folder, &settings(&folder.file("a.txt", "'''A''' {{b}} [[d|e]]\nf [[Category:G]]\n{{h}}\n"))).unwrap();
    assert_eq!((lines.fingerprint(), lines.counters()), (clean.fingerprint(), clean.counters()));
}

/// A fuzzer found it: `h` of the target and `ttp` of the label are no scheme.
#[test]
fn a_scheme_does_not_begin_before_its_label() {
    let folder = Folder::new();
    let marked = ["see [[h|ttp://x.org/y]] there", "see [[h|http://x.org/y b]] there"];
    let clean = ["see ttp://x.org/y there", "see b there"];
    let clean = spool(&folder, &Settings::new([folder.file("clean.jsonl", lines_of_json(&clean))], 64)).unwrap();
    let read = spool(&folder, &settings(&folder.file("a.jsonl", lines_of_json(&marked)))).unwrap();
    assert_eq!((read.fingerprint(), read.counters()), (clean.fingerprint(), clean.counters()));
}

#[test]
fn a_bad_line_costs_its_page() {
    let folder = Folder::new();
    let pages =
        ["<mediawiki>", "<page><title>A</title>", "<text>one", "b\u{1}d", "</text>", "</page>", "<page>", "<text>two</text>", "</page>"];
    let bytes = pages.join("\n").into_bytes();
    let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
    let file = folder.file("a.txt", bytes);
    let mut settings = settings(&file);
    let line = spool(&folder, &settings).unwrap_err().to_string();
    assert_eq!(line, format!("{file}: line 4: not UTF-8 (byte 1 of the line is 0xff); convert the file or use --on-error skip"));
    settings.on_error = OnError::Skip;
    let read = spool(&folder, &settings).unwrap();
    assert_eq!((read.counters().records, read.counters().bad, read.counters().kept), (2, 1, 1));
}

/// No text makes it panic, and none of a megabyte makes it slow.
#[test]
fn anything_can_be_cleaned() {
    let parts = [
        "{{",
        "}}",
        "{{{",
        "}}}",
        "{|",
        "|}",
        "|",
        "[[",
        "]]",
        "[http://x ",
        "]",
        "''",
        "'''",
        "==",
        "=",
        "\n",
        "\n\n",
        " ",
        "<ref>",
        "</ref>",
        "<ref",
        "<table>",
        "</table>",
        "<!--",
        "-->",
        "<math>",
        "</math>",
        "<nowiki>",
        "é",
        "日本",
        "&eacute;",
        "&#x;",
        "://",
        "http",
        "__TOC__",
        "__",
        "(",
        ")",
        ",",
        "*",
        "#",
        "File:",
        "word",
        "\u{1}",
        "\u{a0}",
        "</",
        "<br/>",
        "~",
    ];
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let text: String = (0..next() % 60).map(|_| parts[next() % parts.len()]).collect();
        let clean = Clean::Wiki.apply(&text);
        assert!(clean.trim() == clean && !clean.contains("\n\n") && !clean.contains("  "), "{text:?} -> {clean:?}");
    }
    for part in parts {
        for between in ["", "\n", "a", "a\n", ")=|"] {
            Clean::Wiki.apply(&format!("{part}{between}").repeat(40_000));
        }
    }
    Clean::Wiki.apply(&("== ".to_owned() + &"a=".repeat(500_000) + "=="));
}
