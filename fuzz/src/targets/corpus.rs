//! Text: tokenizers, and the files that a corpus may be made of.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use layerscope_corpus::source::{Columns, Compression, Format, Source, Watch};
use layerscope_corpus::{Clean, StoreOptions, Tokenizer, Wrap};
use layerscope_remote::Remote;
use serde_json::json;

use super::files::{file, folder};
use super::told;

const TEXTS: [&str; 4] = ["", "the cat sat", "Ünïcödé ▁Ġ##a\u{301}\n\t  [MASK]<s>", "aaaaaaaaaaaaaaaa 12,345.6 中文"];

/// Ids whose strings are looked at.
const IDS: u32 = 300;

/// A `tokenizer.json`.
pub fn tokenizer(data: &[u8]) {
    let wrap = [Wrap::Model, Wrap::BosEos, Wrap::None][data.len() % 3];
    let ends = json!({ "bos_token": "<s>", "eos_token": { "content": "[SEP]" } });
    let Some(tokenizer) = told(Tokenizer::from_json(Path::new("tokenizer.json"), data, ends, wrap)) else { return };
    for text in TEXTS {
        // The guard that reading a corpus has.
        let _ = catch_unwind(AssertUnwindSafe(|| (told(tokenizer.encode(text)), told(tokenizer.encode_word(text, false)))));
    }
    let around = tokenizer.prefix().iter().chain(tokenizer.suffix()).copied();
    for id in (0..=tokenizer.largest_id().min(IDS)).chain(around) {
        std::hint::black_box((tokenizer.readable(id), tokenizer.surface(id), tokenizer.is_around(id)));
    }
}

/// JSON lines, with a column of groups.
pub fn jsonl(data: &[u8]) {
    let columns = Columns { text: "text".to_owned(), group: Some("group".to_owned()), split: Some("split".to_owned()) };
    read(file("text.jsonl", data), data.len(), Format::Jsonl, &columns, None);
}

/// Wikipedia's mark-up, by itself and as the pages of a dump.
pub fn wiki(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let clean = Clean::Wiki.apply(&text);
    assert!(clean.len() <= 2 * text.len() + 16, "cleaning takes away");
    let columns = Columns { text: "text".to_owned(), group: None, split: None };
    read(file("dump.txt", data), data.len(), Format::Text, &columns, Some(Clean::Wiki));
}

/// Columns of text and groups of a Parquet file.
pub fn parquet_text(data: &[u8]) {
    for group in [None, Some("group".to_owned())] {
        let columns = Columns { text: "text".to_owned(), split: group.clone(), group };
        read(file("text.parquet", data), data.len(), Format::Parquet, &columns, None);
    }
}

/// Reads a file to its end.
fn read(path: PathBuf, bytes: usize, format: Format, columns: &Columns, clean: Option<Clean>) {
    let (name, compression) = (path.display().to_string(), Compression::Plain);
    let source = Source { name, format, compression, bytes: Some(bytes as u64), modified: None };
    let (read, cancel) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let remote = Remote::new(StoreOptions::new(Vec::<(String, String)>::new()));
    let watch = Watch { bytes: &read, cancel: &cancel, remote: &remote, longest: 1 << 20 };
    let Some(mut records) = told(source.open(columns, clean, folder(), watch)) else { return };
    while let Some(record) = records.next_record() {
        if let (Some(record), Some(clean)) = (told(record), clean) {
            std::hint::black_box(clean.apply(&record.text));
        }
    }
}
