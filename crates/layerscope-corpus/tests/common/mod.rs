//! What the tests share.
#![allow(dead_code)] // no test uses all of it

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use layerscope_corpus::{DocumentId, Result, Settings, Spool, Tokenizer, Wrap, write_spool};

/// A folder that vanishes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("layerscope-corpus-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file and gives its path, as a spool calls it.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap().to_owned();
        if cfg!(windows) { path.replace('\\', "/") } else { path }
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn tokenizer(name: &str, wrap: Wrap) -> Tokenizer {
    Tokenizer::load(&data(name), wrap).unwrap()
}

pub fn sentences() -> Vec<String> {
    std::fs::read_to_string(data("sentences.txt")).unwrap().split_terminator('\n').map(str::to_owned).collect()
}

/// Spools with the tiny WordPiece tokenizer.
pub fn spool(folder: &Folder, settings: &Settings) -> Result<Spool> {
    spool_with(folder, settings, &tokenizer("wordpiece", Wrap::Model))
}

pub fn spool_with(folder: &Folder, settings: &Settings, tokenizer: &Tokenizer) -> Result<Spool> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = folder.path(&format!("spool-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    write_spool(settings, tokenizer, &path, &mut |_| {}, &AtomicBool::new(false))
}

/// The documents of a spool, in order.
pub fn documents(spool: &Spool) -> Vec<DocumentId> {
    let mut ids: Vec<DocumentId> = spool.sequences().map(|sequence| sequence.unwrap().document).collect();
    ids.dedup();
    ids
}

/// Every sequence as (document, ids).
pub fn contents(spool: &Spool) -> Vec<(DocumentId, Vec<u32>)> {
    let batch = spool.slice(0..spool.counters().sequences, 0).unwrap();
    batch.sequences.iter().zip(batch.sequence_ids()).map(|(sequence, ids)| (sequence.document, ids.to_vec())).collect()
}

pub fn document(file: u32, record: u64) -> DocumentId {
    DocumentId { file, record, chunk: 0 }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A Parquet file with an optional text column, an integer column, and whatever compression.
pub fn parquet(rows: &[(Option<&str>, i64)], compression: parquet::basic::Compression) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    let schema = "message rows { OPTIONAL BYTE_ARRAY text (UTF8); REQUIRED INT64 year; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let properties = parquet::file::properties::WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer = parquet::file::writer::SerializedFileWriter::new(&mut bytes, schema, properties.into()).unwrap();
    for rows in rows.chunks(300) {
        let mut group = writer.next_row_group().unwrap();
        let texts: Vec<ByteArray> = rows.iter().filter_map(|(text, _)| text.map(ByteArray::from)).collect();
        let levels: Vec<i16> = rows.iter().map(|(text, _)| text.is_some().into()).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).unwrap();
        column.close().unwrap();
        let years: Vec<i64> = rows.iter().map(|(_, year)| *year).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&years, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}
