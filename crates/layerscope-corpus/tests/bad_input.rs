//! Every bad input, its exact line, and what `OnError::Skip` makes of it.

mod common;

use common::{Folder, document, documents, gzip, parquet, spool, spool_with, tokenizer, zstd};
use layerscope_corpus::{Filters, Grouping, OnError, Settings, Shard, Wrap};
use layerscope_error::ErrorKind;
use parquet::basic::Compression;

fn error(folder: &Folder, settings: &Settings) -> (String, ErrorKind) {
    let error = spool(folder, settings).expect_err("this must fail");
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("spool")), "something was left behind: {left:?}");
    (error.to_string(), error.kind())
}

/// The line of an error, less the path it starts with.
fn line(file: &str, settings: &Settings, folder: &Folder) -> String {
    let (line, kind) = error(folder, settings);
    assert_eq!(kind, ErrorKind::Corpus, "{line}");
    line.strip_prefix(&format!("{file}: ")).unwrap_or_else(|| panic!("{line} does not name {file}")).to_owned()
}

fn bad(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let file = folder.file(name, bytes);
    line(&file, &Settings::new([&file], 64), &folder)
}

#[test]
fn files() {
    let folder = Folder::new();
    let of = |name: &str| format!("{}/{name}", folder.0.display()).replace('\\', "/");
    let line = |name: &str| line(&of(name), &Settings::new([of(name)], 64), &folder);
    assert_eq!(line("absent.txt"), "no such file");
    assert_eq!(line("absent*.txt"), "no file matches this pattern");
    std::fs::create_dir(folder.path("novels")).unwrap();
    assert_eq!(line("novels"), format!("this is a folder; name its files, for example {}/*.txt", of("novels")));
    let (line, kind) = error(&folder, &Settings::new(["ftp://server/a.txt"], 64));
    let expected = "ftp://server/a.txt: unknown kind of address; use s3://, gs://, az://, abfss://, http://, https://";
    assert_eq!((line.as_str(), kind), (expected, ErrorKind::Corpus));
    assert_eq!(error(&folder, &Settings::new([""; 0], 64)).1, ErrorKind::Usage);
}

#[test]
fn lines() {
    let expected = "line 2: not UTF-8 (byte 3 of the line is 0xff); convert the file or use --on-error skip";
    assert_eq!(bad("a.txt", b"good\nbad\xff\ngood"), expected);
    assert_eq!(bad("a.txt.gz", gzip(b"good\nbad\xff\ngood")), expected);
    let expected = "line 2: not JSON (EOF while parsing an object at column 12); repair the line or use --on-error skip";
    assert_eq!(bad("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"\n"), expected);
    let expected = "line 1: found a list instead of a JSON object; repair the line or use --on-error skip";
    assert_eq!(bad("a.jsonl", "[1]"), expected);
    let expected = "line 2: no column `text` (it has `id`, `body`); name the text column with --text-column or use --on-error skip";
    assert_eq!(bad("a.jsonl", "{\"text\": \"a\"}\n{\"id\": 1, \"body\": \"x\"}"), expected);
    assert_eq!(bad("a.jsonl", "{\"text\": null}"), "line 1: column `text` is null, not a string; repair the line or use --on-error skip");
    assert!(bad("a.jsonl", "[".repeat(100_000)).starts_with("line 1: not JSON (recursion limit exceeded"));
}

#[test]
fn cut_and_damaged_files() {
    let text: String = (0..20_000).map(|number| format!("line {number} {}\n", number * 7919 % 10_007)).collect();
    let packed = gzip(text.as_bytes());
    let cut = bad("a.txt.gz", &packed[..packed.len() / 2]);
    assert!(cut.starts_with("the gzip data is cut short after line ") && cut.ends_with("; write or fetch the file again"), "{cut}");
    assert_eq!(bad("b.txt.gz", &packed[..5]), "the gzip data is cut short after line 0; write or fetch the file again");
    let mut wrong = packed.clone();
    let end = wrong.len() - 6;
    wrong[end] ^= 1; // the checksum
    assert!(bad("c.txt.gz", wrong).starts_with("the gzip data is damaged after line 20000 ("));
    assert!(bad("d.txt.gz", "plain text").starts_with("the gzip data is damaged after line 0 ("));
    let packed = zstd(text.as_bytes());
    let cut = bad("a.txt.zst", &packed[..packed.len() - 10]);
    assert!(cut.starts_with("the zstd data is cut short after line "), "{cut}");
    assert!(bad("b.txt.zst", "plain text").starts_with("the zstd data is damaged after line 0 ("));
    let rows: Vec<(Option<&str>, i64)> = text.lines().take(5000).map(|line| (Some(line), 0)).collect();
    let whole = parquet(&rows, Compression::SNAPPY);
    assert!(bad("a.parquet", &whole[..whole.len() / 2]).starts_with("not a Parquet file, or truncated ("));
    assert!(bad("b.parquet.gz", &gzip(&whole)[..3000]).starts_with("the gzip data is cut short in the middle"));
    assert!(bad("c.parquet", "").starts_with("not a Parquet file, or truncated ("));
}

/// A damaged file is an error or harmless, never a panic.
#[test]
fn any_flipped_byte_of_a_parquet_file() {
    let folder = Folder::new();
    let texts: Vec<String> = (0..40).map(|number| format!("text {number}")).collect();
    let rows: Vec<(Option<&str>, i64)> = texts.iter().map(|text| (Some(text.as_str()), 0)).collect();
    let whole = parquet(&rows, Compression::SNAPPY);
    let tokenizer = tokenizer("wordpiece", Wrap::Model);
    for at in 0..whole.len() {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x55;
        let file = folder.file("a.parquet", wrong);
        if let Err(error) = spool_with(&folder, &Settings::new([&file], 64), &tokenizer) {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[test]
fn columns() {
    let folder = Folder::new();
    let file = folder.file("a.parquet", parquet(&[(Some("a"), 1), (None, 2)], Compression::UNCOMPRESSED));
    let mut settings = Settings::new([&file], 64);
    let null = "row 2: column `text` is null; repair the row or use --on-error skip";
    assert_eq!(line(&file, &settings, &folder), null);
    settings.text_column = Some("body".into());
    assert_eq!(line(&file, &settings, &folder), "no column `body` (it has `text`, `year`); name the text column with --text-column");
    settings.text_column = Some("year".into());
    assert_eq!(line(&file, &settings, &folder), "column `year` holds INT64, not text; name the text column with --text-column");
    settings.text_column = None;
    settings.grouping = Grouping::Column("author".into());
    let expected = "no column `author` (it has `text`, `year`); name one of them with --group column:NAME";
    assert_eq!(line(&file, &settings, &folder), expected);
    let file = folder.file("a.txt", "text");
    settings.inputs = vec![file.clone()];
    let expected = "lines of text have no columns; --group column:NAME needs .jsonl or .parquet";
    assert_eq!(line(&file, &settings, &folder), expected);
    let file = folder.file("a.jsonl", "{\"text\": \"x\", \"author\": [1]}");
    settings.inputs = vec![file.clone()];
    let expected = "line 1: column `author` is a list, which cannot name a group; repair the line or use --on-error skip";
    assert_eq!(line(&file, &settings, &folder), expected);
}

#[test]
fn skipping_counts_and_goes_on() {
    let folder = Folder::new();
    let lines = folder.file("a.txt", b"one\n\xff\xff\nthree\n\n");
    let objects = folder.file("b.jsonl", "{\"text\": \"one\"}\nnonsense\n{\"no\": 1}\n{\"text\": \"four\"}\n");
    let rows = folder.file("c.parquet", parquet(&[(None, 1), (Some("two"), 2)], Compression::UNCOMPRESSED));
    let mut settings = Settings::new([&lines, &objects, &rows], 64);
    settings.on_error = OnError::Skip;
    let read = spool(&folder, &settings).unwrap();
    // Bad records have their place: the others keep theirs.
    assert_eq!(documents(&read), [document(0, 0), document(0, 2), document(1, 0), document(1, 3), document(2, 1)]);
    let counters = read.counters();
    assert_eq!((counters.records, counters.bad, counters.skipped(), counters.blank, counters.kept), (10, 4, 4, 1, 5));
    assert_eq!(read.skipped().len(), 4);
    assert!(read.skipped()[0].starts_with(&format!("{lines}: line 2: not UTF-8")));
    // Files that lost something always fail.
    settings.inputs.push(folder.file("d.txt.gz", &gzip(b"one\ntwo\n")[..12]));
    assert_eq!(spool(&folder, &settings).unwrap_err().kind(), ErrorKind::Corpus);
}

#[test]
fn the_first_error_of_the_corpus_is_reported_whatever_the_threads() {
    let folder = Folder::new();
    let mut lines: Vec<Vec<u8>> = (0..5000).map(|number| format!("sentence number {number}").into_bytes()).collect();
    lines[3000] = b"\xff".to_vec();
    lines[4000] = b"\xfe".to_vec();
    let file = folder.file("a.txt", lines.join(&b'\n'));
    for threads in [1, 2, 5] {
        let mut settings = Settings::new([&file], 64);
        settings.threads = threads;
        assert!(line(&file, &settings, &folder).starts_with("line 3001: not UTF-8"));
    }
}

#[test]
fn nothing_left() {
    let folder = Folder::new();
    let empty = folder.file("empty.txt", "");
    let expected = ("the corpus is empty: no record in any input".to_owned(), ErrorKind::Corpus);
    assert_eq!(error(&folder, &Settings::new([&empty], 64)), expected);
    let file = folder.file("a.txt", "one two three\n\nfour five six\n  \n");
    let mut settings = Settings::new([&file], 64);
    settings.filters.max_words = Some(2);
    let expected = "nothing is left of the corpus: 4 records read, 2 blank, 2 with more words than --max-words 2";
    assert_eq!(error(&folder, &settings).0, expected);
    settings.filters = Filters { sample: 1e-9, ..Filters::default() };
    assert_eq!(error(&folder, &settings).0, "nothing is left of the corpus: 4 records read, 4 left out by --sample 0.000000001");
    let file = folder.file("b.txt", "1 2 3\n!\n");
    let mut settings = Settings::new([&file], 64);
    settings.grouping = Grouping::Word;
    assert_eq!(error(&folder, &settings).0, "nothing is left of the corpus: 2 records read, 2 without words");
    // A shard may be empty: there may be more of them than documents.
    settings.grouping = Grouping::Token;
    settings.shard = Shard { index: 2, count: 3 };
    let read = spool(&folder, &settings).unwrap();
    assert_eq!((read.counters().kept, read.counters().documents, read.plan(10).unwrap().len()), (2, 0, 0));
}

/// White space is blank; what a tokenizer strips is not.
#[test]
fn a_document_without_tokens() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "one\n \u{ad}\u{200d}\u{7f}\nthree\n");
    let mut settings = Settings::new([&file], 64);
    assert_eq!(line(&file, &settings, &folder), "line 2: the tokenizer finds no token in it; remove it or use --on-error skip");
    settings.on_error = OnError::Skip;
    let read = spool(&folder, &settings).unwrap();
    assert_eq!((read.counters().kept, read.counters().documents, read.counters().untokenized, read.skipped().len()), (3, 2, 1, 1));
    let folder = Folder::new();
    settings.inputs = vec![folder.file("b.txt", "\u{ad}\n")];
    assert_eq!(error(&folder, &settings).0, "nothing is left of the corpus: 1 record read, 1 refused by the tokenizer and skipped");
}

#[test]
#[cfg(unix)]
fn unreadable_files() {
    let folder = Folder::new();
    // A file whose bytes cannot be read, whoever asks.
    let line_of = |file: &str| line(file, &Settings::new([file], 64), &folder);
    assert_eq!(line_of("/proc/self/mem"), "cannot be read after line 0: Input/output error (os error 5)");
    let file = folder.file("secret.txt", "text");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::File::open(&file).is_err() {
        assert_eq!(line_of(&file), "no permission to read it"); // those who may read everything cannot see this
    }
}

/// What has the name of a temporary file makes room for it, and is not written through where it is a link.
#[test]
#[cfg(unix)]
fn links_are_not_followed() {
    let folder = Folder::new();
    let (file, precious) = (folder.file("a.txt", "some text\n"), folder.file("precious", "precious"));
    let (settings, tokenizer, path) = (Settings::new([&file], 64), tokenizer("wordpiece", Wrap::Model), folder.path("spool"));
    for name in ["spool.partial", "spool.index"] {
        std::os::unix::fs::symlink(&precious, folder.path(name)).unwrap();
    }
    layerscope_corpus::write_spool(&settings, &tokenizer, &path, &mut |_| {}, &std::sync::atomic::AtomicBool::new(false)).unwrap();
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    assert!(!path.is_symlink() && !folder.path("spool.partial").exists());
}

/// A text that memory does not hold is refused before the tokenizer sees it; one that is cut, or skipped, is not.
#[test]
fn texts_longer_than_memory() {
    let folder = Folder::new();
    let file = folder.file("a.txt", format!("short\n{}\n", "some text ".repeat(100_000)));
    let mut settings = Settings { memory: 100 << 20, threads: 1, ..Settings::new([&file], 64) };
    let said = line(&file, &settings, &folder);
    let expected = "line 2: 1.0 MiB are too long a text for the memory there is, which holds 0.4 MiB; cut it with --chunk-chars or use --on-error skip";
    assert_eq!(said, expected);
    settings.on_error = OnError::Skip;
    assert_eq!(spool(&folder, &settings).unwrap().counters().documents, 1);
    let cut = Filters { chunk_chars: Some(1000), ..Filters::default() };
    let whole = Settings { filters: cut.clone(), on_error: OnError::Fail, ..settings.clone() };
    assert_eq!(spool(&folder, &whole).unwrap().counters().documents, 1001);
    let less = Settings { memory: 2 << 20, filters: cut, ..settings };
    let said = spool(&folder, &less).unwrap_err().to_string().replace(&format!("{file}: "), "");
    assert!(said.starts_with("line 2 is longer than 0.3 MiB") && said.ends_with("give a larger --max-memory"), "{said}");
}

#[test]
fn a_corpus_that_changed() {
    let folder = Folder::new();
    let (first, second) = (folder.file("a.txt", "one\ntwo\n"), folder.file("b.txt", "three\n"));
    let mut settings = Settings::new([format!("{}/?.txt", folder.0.display())], 64);
    settings.filters.limit = Some(2);
    let read = spool(&folder, &settings).unwrap();
    let check = |settings: &Settings| {
        let checked = read.check_corpus(settings, &std::sync::atomic::AtomicBool::new(false));
        checked.map_err(|error| {
            assert_eq!(error.kind(), ErrorKind::Corpus);
            error.to_string()
        })
    };
    assert_eq!(check(&settings), Ok(()));
    let again = "or start again with --overwrite";
    let write = |file: &str, text: &str| {
        std::fs::write(file, text).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::options().append(true).open(file).unwrap().set_modified(later).unwrap();
    };
    write(&first, "one\nTwo\n");
    assert_eq!(check(&settings), Err(format!("{first}: its text changed since this run began; put it back as it was, {again}")));
    write(&first, "one\r\ntwo\r\n"); // the same text
    assert_eq!(check(&settings), Ok(()));
    write(&second, "four\n"); // beyond the limit
    assert_eq!(check(&settings), Ok(()));
    let third = folder.file("c.txt", "five\n");
    assert_eq!(check(&settings), Err(format!("{third}: it was not part of the corpus when this run began; leave it out, {again}")));
    std::fs::remove_file(&third).unwrap();
    std::fs::remove_file(&second).unwrap();
    assert_eq!(check(&settings), Err(format!("{second}: it was part of the corpus when this run began; put it back, {again}")));
}

#[test]
fn settings() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "text of several tokens in a row");
    let usage = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::new([&file], 8);
        change(&mut settings);
        let (line, kind) = error(&folder, &settings);
        assert_eq!(kind, ErrorKind::Usage);
        line
    };
    let expected = "--window 2 leaves no room for text beside 2 special tokens; give more";
    assert_eq!(usage(&|settings| settings.window = 2), expected);
    let expected = "--stride 7 would lose tokens: a window of 8 holds 6 of text; give 1 to 6";
    assert_eq!(usage(&|settings| settings.stride = Some(7)), expected);
    let expected = "--shard 3/3 does not exist; shards are numbered from 0 to N-1";
    assert_eq!(usage(&|settings| settings.shard = Shard { index: 3, count: 3 }), expected);
    let expected = "--sample 1.5 is not a fraction; give a number above 0 and at most 1";
    assert_eq!(usage(&|settings| settings.filters.sample = 1.5), expected);
    assert_eq!(usage(&|settings| settings.filters.limit = Some(0)), "--limit 0 leaves no document; give at least 1");
}

#[test]
fn python_is_told_of_keywords() {
    let folder = Folder::new();
    let keywords = |settings: &Settings| spool(&folder, settings).err().unwrap().line().keywords();
    let file = folder.file("a.jsonl", "{\"body\": 1}");
    let expected = "line 1: no column `text` (it has `body`); name the text column with text_column or use on_error=\"skip\"";
    assert_eq!(keywords(&Settings::new([&file], 64)), format!("{file}: {expected}"));
    let mut settings = Settings::new([&file], 64);
    settings.filters.sample = 0.0;
    assert_eq!(keywords(&settings), "sample=0 is not a fraction; give a number above 0 and at most 1");
}

#[test]
fn ids_beyond_the_embeddings() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "the end");
    let mut settings = Settings::new([&file], 8);
    settings.vocabulary = Some(6);
    let (line, kind) = error(&folder, &settings);
    assert_eq!(kind, ErrorKind::Model);
    assert!(line.contains("tokenizer.json: token `"), "{line}");
    assert!(line.ends_with("outside the model's vocabulary of 6: is this the model's own tokenizer?"), "{line}");
}

#[test]
fn a_word_longer_than_a_window() {
    let folder = Folder::new();
    let file = folder.file("a.txt", "fine\nthe xylophonistic end\n");
    let mut settings = Settings::new([&file], 6);
    settings.grouping = Grouping::Word;
    let expected = "line 2: one of its words is longer than a window of 6 tokens; use a larger --window";
    assert_eq!(line(&file, &settings, &folder), expected);
    settings.on_error = OnError::Skip;
    let read = spool(&folder, &settings).unwrap();
    assert_eq!((read.counters().documents, read.counters().untokenized, read.skipped().len()), (1, 1, 1));
}
