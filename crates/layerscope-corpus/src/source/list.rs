//! What the user named -> the sorted list of inputs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use layerscope_error::{line, setting};
use layerscope_remote::{Entry, Remote, is_address};

use crate::error::{Error, Result};

/// How an input holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line is a record.
    Text,
    /// A line is a JSON object.
    Jsonl,
    /// A row is a record.
    Parquet,
}

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, one or several members.
    Gzip,
    /// Zstandard, one or several frames.
    Zstd,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path or address, or `-` for standard input.
    pub name: String,
    /// How it holds its records.
    pub format: Format,
    /// How it is compressed.
    pub compression: Compression,
    /// Its stored size; `None` for standard input and other streams.
    pub bytes: Option<u64>,
    /// When it last changed, if known.
    pub modified: Option<SystemTime>,
}

/// Names of inputs, and what is known of distant ones.
type Names = BTreeMap<String, Option<Entry>>;

/// Expands files and patterns into the sorted list of inputs, without repeats. A document's file number is its position in this list.
///
/// Patterns can contain `*`, `?`, `[...]` and `**`, on disk and in object stores; the name of an existing file is never a pattern. An
/// address in a store that ends in a slash stands for all readable files below it. `-` is standard input: lines of text, or JSON lines
/// if `text_column` is given.
pub fn sources(inputs: &[String], text_column: Option<&str>, remote: &Remote, cancel: &AtomicBool) -> Result<Vec<Source>> {
    let mut names = BTreeMap::new();
    for input in inputs {
        match is_address(input) {
            true => look_up(input, remote, cancel, &mut names)?,
            false => expand(input, &mut names)?,
        }
    }
    if names.is_empty() {
        return Err(Error::usage(line!["no corpus given; ", setting("corpus"), " takes files, patterns, addresses or `-`"]));
    }
    if u32::try_from(names.len()).is_err() {
        return Err(Error::usage(format!("{} inputs are too many; give at most {}", names.len(), u32::MAX)));
    }
    names.into_iter().map(|(name, entry)| source(name, entry, text_column)).collect()
}

/// Asks the store or the web server what there is.
fn look_up(input: &str, remote: &Remote, cancel: &AtomicBool, names: &mut Names) -> Result<()> {
    let mut entries = remote.list(input, cancel).map_err(|error| distant(error, cancel))?;
    if input.ends_with('/') {
        entries.retain(|entry| kind(&entry.address).is_ok() && !is_assumed(&entry.address) && file_name(&entry.address).contains('.'));
        if entries.is_empty() {
            return Err(Error::input(input, "it contains no .txt, .jsonl or .parquet file"));
        }
    }
    names.extend(entries.into_iter().map(|entry| (entry.address.clone(), Some(entry))));
    Ok(())
}

fn expand(input: &str, names: &mut Names) -> Result<()> {
    if input == "-" || Path::new(input).exists() || !input.contains(['*', '?', '[']) {
        names.insert(one_name(input), None);
        return Ok(());
    }
    let paths = glob::glob(input).map_err(|error| Error::input(input, format!("not a valid pattern: {error}")))?;
    let mut found = false;
    for path in paths {
        let path =
            path.map_err(|error| Error::input(input, format!("cannot read the folder {}: {}", error.path().display(), error.error())))?;
        if !path.is_dir() {
            let name = path.to_str().ok_or_else(|| Error::input(&path.to_string_lossy(), "the file name is not UTF-8; rename the file"))?;
            names.insert(one_name(name), None);
            found = true;
        }
    }
    if !found {
        return Err(Error::input(input, "no file matches this pattern"));
    }
    Ok(())
}

/// A file has one name here, and the same place among others on every system: Windows takes two separators for one.
fn one_name(path: &str) -> String {
    let is_verbatim = path.starts_with(r"\\?\");
    if cfg!(windows) && !is_verbatim { path.replace('\\', "/") } else { path.to_owned() }
}

fn source(name: String, entry: Option<Entry>, text_column: Option<&str>) -> Result<Source> {
    if name == "-" {
        let format = if text_column.is_some() { Format::Jsonl } else { Format::Text };
        return Ok(Source { name, format, compression: Compression::Plain, bytes: None, modified: None });
    }
    if let Some(Entry { bytes, modified, .. }) = entry {
        let (format, compression) = kind(&name)?;
        return Ok(Source { name, format, compression, bytes: Some(bytes), modified });
    }
    let metadata = std::fs::metadata(&name).map_err(|error| Error::input(&name, unreadable(&error)))?;
    if metadata.is_dir() {
        return Err(Error::input(&name, format!("this is a folder; name its files, for example {}/*.txt", name.trim_end_matches('/'))));
    }
    let (format, compression) = kind(&name)?;
    if is_assumed(&name) && compression == Compression::Plain && metadata.is_file() && !begins_as_text(&name) {
        return Err(unknown_ending(&name));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(Source { name, format, compression, bytes, modified: metadata.modified().ok() })
}

/// Endings of files that are no lines of text, though their bytes may be letters.
const NO_LINES: [&str; 9] = ["csv", "tsv", "json", "bz2", "xz", "zip", "tar", "tgz", "pdf"];

/// Format and packing, by the ending. What has an ending that we do not know is taken for text.
fn kind(name: &str) -> Result<(Format, Compression)> {
    let (ending, compression) = ending(name);
    let format = match ending.as_deref() {
        Some("jsonl" | "ndjson") => Format::Jsonl,
        Some("parquet") => Format::Parquet,
        Some(ending) if NO_LINES.contains(&ending) => return Err(unknown_ending(name)),
        _ => Format::Text,
    };
    Ok((format, compression))
}

/// The ending of a name in lower case, before that of its packing.
fn ending(name: &str) -> (Option<String>, Compression) {
    let file_name = file_name(name);
    let (stem, compression) = match file_name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Compression::Gzip),
        Some((stem, "zst")) => (stem, Compression::Zstd),
        _ => (file_name.as_str(), Compression::Plain),
    };
    (stem.rsplit_once('.').map(|(_, ending)| ending.to_owned()), compression)
}

/// Whether an input is taken for text only because its ending says nothing else: the user is told.
pub fn is_assumed(name: &str) -> bool {
    !matches!(ending(name).0.as_deref(), None | Some("txt" | "jsonl" | "ndjson" | "parquet"))
}

fn unknown_ending(name: &str) -> Error {
    let (ending, _) = ending(name);
    let ending = ending.unwrap_or_default();
    Error::input(name, format!("unknown ending .{ending}; use .txt, .jsonl or .parquet, each also with .gz or .zst"))
}

/// Whether the first bytes of a file are UTF-8 without zeros. A file that cannot be read says so when it is opened.
fn begins_as_text(name: &str) -> bool {
    let mut bytes = Vec::new();
    if std::fs::File::open(name).and_then(|file| file.take(4096).read_to_end(&mut bytes)).is_err() {
        return true;
    }
    let whole = match std::str::from_utf8(&bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(), // cut in the middle of a letter
    };
    whole && !bytes.contains(&0)
}

/// The last part of a path or of an address, in lower case.
fn file_name(name: &str) -> String {
    let path = if name.starts_with("http") && is_address(name) { name.split(['?', '#']).next().unwrap_or(name) } else { name };
    path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase()
}

/// A store's error as ours.
pub(super) fn distant(error: layerscope_remote::Error, cancel: &AtomicBool) -> Error {
    if cancel.load(Ordering::Relaxed) { Error::Interrupted } else { Error::input(&error.address, error.problem) }
}

/// The system's reason, in words a user knows.
pub(super) fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".into(),
        std::io::ErrorKind::PermissionDenied => "no permission to read it".into(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use layerscope_remote::Options;

    use super::*;

    fn list(inputs: &[String], text_column: Option<&str>) -> Result<Vec<Source>> {
        sources(inputs, text_column, &Remote::new(Options::from_env()), &AtomicBool::new(false))
    }

    fn kind_of(folder: &Path, name: &str) -> Result<(Format, Compression)> {
        let path = folder.join(name);
        std::fs::write(&path, "x").unwrap();
        let list = list(&[path.to_str().unwrap().to_owned()], None)?;
        Ok((list[0].format, list[0].compression))
    }

    #[test]
    fn endings() {
        let folder = std::env::temp_dir().join(format!("layerscope-endings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, expected) in [
            ("a.txt", (Format::Text, Compression::Plain)),
            ("enwik8", (Format::Text, Compression::Plain)),
            ("enwik8.gz", (Format::Text, Compression::Gzip)),
            ("a.b.TXT.GZ", (Format::Text, Compression::Gzip)),
            ("a.jsonl.zst", (Format::Jsonl, Compression::Zstd)),
            ("a.ndjson", (Format::Jsonl, Compression::Plain)),
            ("a.parquet", (Format::Parquet, Compression::Plain)),
            ("a.parquet.gz", (Format::Parquet, Compression::Gzip)),
        ] {
            assert_eq!(kind_of(&folder, name).unwrap(), expected, "{name}");
        }
        for name in ["a.md", "a.tex.gz", "notes.2024"] {
            assert_eq!(kind_of(&folder, name).unwrap().0, Format::Text, "{name}");
            assert!(is_assumed(name) && !is_assumed("a.txt") && !is_assumed("enwik8.gz"), "{name}");
        }
        std::fs::write(folder.join("a.bin"), [0, 159, 146, 150]).unwrap();
        let line = list(&[folder.join("a.bin").to_str().unwrap().to_owned()], None).unwrap_err().to_string();
        assert!(line.contains("unknown ending .bin; use .txt"), "{line}");
        let line = kind_of(&folder, "a.tsv").unwrap_err().to_string();
        assert!(line.ends_with("a.tsv: unknown ending .tsv; use .txt, .jsonl or .parquet, each also with .gz or .zst"), "{line}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn standard_input_is_text_unless_a_column_is_named() {
        let list = |column| list(&["-".to_owned(), "-".to_owned()], column).unwrap();
        assert_eq!(list(None).len(), 1);
        assert_eq!(list(None)[0].format, Format::Text);
        assert_eq!(list(Some("text"))[0].format, Format::Jsonl);
    }
}
