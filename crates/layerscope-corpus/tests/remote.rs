//! Corpora in an object store and on a web server, both on loopback.

mod common;

use std::time::Duration;

use common::{Folder, contents, gzip, parquet, spool, zstd};
use layerscope_corpus::{Settings, StoreOptions};
use layerscope_error::ErrorKind;
use layerscope_testing::store_server::{Fault, StoreServer};
use parquet::basic::Compression;

const TEXTS: [&str; 4] = ["The first of them.", "A second, naïve one", "", "the fourth: \"€\" \\ done"];

fn settings(server: &StoreServer, inputs: &[&str]) -> Settings {
    let mut settings = Settings::new(inputs.iter().map(|input| input.to_string()), 64);
    settings.stores = StoreOptions::new(server.environment()).retries(2, Duration::from_millis(1));
    settings
}

/// Every format and packing, with its content.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let lines = TEXTS.join("\n").into_bytes();
    let objects = TEXTS.map(|text| serde_json::json!({ "text": text }).to_string()).join("\n").into_bytes();
    let rows = parquet(&TEXTS.map(|text| (Some(text), 1)), Compression::SNAPPY);
    vec![
        ("a.txt.gz", gzip(&lines)),
        ("b.txt.zst", zstd(&lines)),
        ("c.jsonl.gz", gzip(&objects)),
        ("d.jsonl.zst", zstd(&objects)),
        ("e.parquet.gz", gzip(&rows)),
        ("f.parquet.zst", zstd(&rows)),
        ("g.txt", lines),
        ("h.jsonl", objects),
        ("i.parquet", rows),
    ]
}

#[test]
fn every_format_from_a_store_and_from_the_web() {
    let (folder, server) = (Folder::new(), StoreServer::start());
    let here = folder.file("here.txt", TEXTS.join("\n"));
    let expected = spool(&folder, &Settings::new([here], 64)).unwrap();
    for (name, content) in files() {
        server.file(&format!("corpora/{name}"), content);
        for address in [format!("s3://corpora/{name}"), format!("{}/corpora/{name}?download=1", server.address)] {
            let read = spool(&folder, &settings(&server, &[&address])).unwrap();
            assert_eq!(contents(&read), contents(&expected), "{address}");
            assert_eq!((read.fingerprint(), read.inputs()), (expected.fingerprint(), &[address][..]));
        }
    }
    // All of them by a pattern, by their folder (without what we cannot read), and each once.
    server.file("corpora/_SUCCESS", "");
    server.file("corpora/notes.md", "notes");
    server.file("corpora/notes.csv", "notes");
    let names: Vec<String> = files().iter().map(|(name, _)| format!("s3://corpora/{name}")).collect();
    let read = spool(&folder, &settings(&server, &["s3://corpora/", "s3://corpora/a.txt.gz"])).unwrap();
    assert_eq!(read.inputs(), names);
    assert_eq!(read.counters().records, 4 * names.len() as u64);
    let read = spool(&folder, &settings(&server, &["s3://corpora/?.txt*"])).unwrap();
    assert_eq!(read.inputs(), [&names[0][..], &names[1], &names[6]]);
}

#[test]
fn a_cut_connection_is_mended_or_told() {
    let (folder, server) = (Folder::new(), StoreServer::start());
    let lines: String = (0..20_000).map(|number| format!("line {number} {}\n", number * 7919 % 10_007)).collect();
    let here = folder.file("here.txt", &lines);
    let expected = spool(&folder, &Settings::new([here], 64)).unwrap();
    server.file("corpora/a.txt.gz", gzip(lines.as_bytes()));
    server.file("corpora/a.parquet", parquet(&lines.lines().map(|line| (Some(line), 1)).collect::<Vec<_>>(), Compression::SNAPPY));
    for name in ["a.txt.gz", "a.parquet"] {
        server.faults(&[Fault::None, Fault::Cut(20_000), Fault::Cut(5_000)]);
        let read = spool(&folder, &settings(&server, &[&format!("s3://corpora/{name}")])).unwrap();
        assert_eq!(read.fingerprint(), expected.fingerprint(), "{name}");
    }
    let address = format!("{}/corpora/a.txt.gz", server.address);
    let faults: Vec<Fault> = [Fault::None].into_iter().chain([Fault::Cut(1000); 30]).collect();
    server.faults(&faults);
    let error = spool(&folder, &settings(&server, &[&address])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corpus);
    let line = error.to_string();
    assert!(line.starts_with(&format!("{address}: cannot be read after line ")) && line.contains(": stopped after "), "{line}");
}

#[test]
fn what_is_not_there_or_not_ours() {
    let (folder, server) = (Folder::new(), StoreServer::start());
    let line = |input: &str| {
        let error = spool(&folder, &settings(&server, &[input])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corpus);
        error.to_string().strip_prefix(&format!("{input}: ")).unwrap().to_owned()
    };
    assert_eq!(line("s3://corpora/a.txt"), "not found (404); check the bucket and the name");
    assert_eq!(line("s3://corpora/*.txt"), "no file matches this pattern");
    server.file("corpora/notes.md", "notes");
    server.file("corpora/notes.csv", "notes");
    assert_eq!(line("s3://corpora/"), "it contains no .txt, .jsonl or .parquet file");
    assert!(line("s3://corpora/notes.csv").starts_with("unknown ending .csv; "));
    assert_eq!(line(&format!("{}/corpora/a.txt", server.address)), "not found (404); check the address");
    server.always(Some(Fault::Status(403)));
    assert!(line("s3://corpora/notes.md").starts_with("access denied (403); check AWS_ACCESS_KEY_ID"));
}
