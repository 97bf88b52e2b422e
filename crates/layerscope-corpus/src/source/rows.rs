//! Rows of a Parquet file: three columns at most, a few hundred values at a time, whatever the size of its row groups.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use layerscope_error::{Line, line, setting};
use layerscope_parquet::Checked;
use layerscope_remote::is_address;
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::list::unreadable;
use super::{Columns, Compression, Records, Source, Watch, split_value, stream};
use crate::document::Record;
use crate::error::{Error, Result, or_skip};

/// Rows decoded at a time.
const ROWS: usize = 256;

/// The rows of one file.
pub(super) struct RowRecords<'a> {
    source: &'a Source,
    columns: &'a Columns,
    file: SerializedFileReader<Checked>,
    text: Column,
    group: Option<Column>,
    split: Option<Column>,
    row_group: usize,
    current: Option<Readers>,
    decoded: std::vec::IntoIter<Cells>,
    row: u64,
    progress: RowProgress,
    failed: bool,
}

/// What reads a row group: the text, the group and the part.
type Readers = (ColumnReader, Option<ColumnReader>, Option<ColumnReader>);

/// The text, the group and the part of a row.
type Cells = (Option<ByteArray>, Option<String>, Option<String>);

/// Where a column lies and how many definition levels it has.
#[derive(Clone, Copy)]
struct Column {
    index: usize,
    max_definition: i16,
}

/// Bytes reported as rows go by; unpacked files were counted while they were unpacked.
struct RowProgress {
    bytes: Arc<AtomicU64>,
    of: u64,
    rows: u64,
    reported: u64,
}

impl RowProgress {
    fn at(&mut self, row: u64) {
        let reached = (u128::from(self.of) * u128::from(row) / u128::from(self.rows.max(1))) as u64;
        self.bytes.fetch_add(reached.saturating_sub(self.reported), Ordering::Relaxed);
        self.reported = reached;
    }
}

impl<'a> RowRecords<'a> {
    pub fn open(source: &'a Source, columns: &'a Columns, scratch: &Path, watch: Watch<'a>) -> Result<Self> {
        let plain = source.compression == Compression::Plain && !is_address(&source.name) && source.bytes.is_some();
        let raw = if plain {
            File::open(&source.name).map_err(|error| Error::input(&source.name, unreadable(&error)))?
        } else {
            unpack(source, scratch, watch)?
        };
        let unusable = |error| Error::input(&source.name, format!("not a Parquet file, or truncated ({})", reason(&error)));
        let file = guarded(|| layerscope_parquet::open(raw)).map_err(unusable)?;
        let rows = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
        let text = find(&file, &columns.text, source, name_text_column())?;
        let physical = file.metadata().file_metadata().schema_descr().column(text.index).physical_type();
        if physical != Physical::BYTE_ARRAY {
            let problem = line![format!("column `{}` holds {physical}, not text; ", columns.text), name_text_column()];
            return Err(Error::input(&source.name, problem));
        }
        let named = |column: &Option<String>, by: &'static str| {
            let advice = || line!["name one of them with ", setting(by).to("column:NAME")];
            column.as_ref().map(|name| find(&file, name, source, advice())).transpose()
        };
        let (group, split) = (named(&columns.group, "group")?, named(&columns.split, "split")?);
        let of = if plain { source.bytes.unwrap_or(0) } else { 0 };
        let progress = RowProgress { bytes: Arc::clone(watch.bytes), of, rows, reported: 0 };
        let decoded = Vec::new().into_iter();
        Ok(RowRecords { source, columns, file, text, group, split, row_group: 0, current: None, decoded, row: 0, progress, failed: false })
    }

    /// Decodes some more rows; false at the end of the file.
    fn decode(&mut self) -> ParquetResult<bool> {
        loop {
            if let Some((text, group, split)) = &mut self.current {
                let ColumnReader::ByteArrayColumnReader(text) = text else {
                    return Err(ParquetError::General("the text column changed its type".into()));
                };
                let texts = cells(text, self.text.max_definition)?;
                if !texts.is_empty() {
                    let beside = |reader: &mut Option<ColumnReader>, column: Option<Column>| match (reader, column) {
                        (Some(reader), Some(column)) => names(reader, column.max_definition),
                        _ => Ok(vec![None; texts.len()]),
                    };
                    let (groups, parts) = (beside(group, self.group)?, beside(split, self.split)?);
                    if groups.len() != texts.len() || parts.len() != texts.len() {
                        return Err(ParquetError::General("its columns differ in length".into()));
                    }
                    let rows = texts.into_iter().zip(groups).zip(parts).map(|((text, group), part)| (text, group, part));
                    self.decoded = rows.collect::<Vec<_>>().into_iter();
                    return Ok(true);
                }
            }
            if self.row_group >= self.file.num_row_groups() {
                return Ok(false);
            }
            for column in std::iter::once(self.text).chain(self.group).chain(self.split) {
                let chunk = self.file.metadata().row_group(self.row_group).column(column.index);
                if chunk.compressed_size() < 0 || chunk.data_page_offset() < 0 || chunk.dictionary_page_offset().is_some_and(|at| at < 0) {
                    return Err(ParquetError::General("a column lies outside the file".into()));
                }
            }
            let row_group = self.file.get_row_group(self.row_group)?;
            self.row_group += 1;
            let beside = |column: Option<Column>| column.map(|column| row_group.get_column_reader(column.index)).transpose();
            self.current = Some((row_group.get_column_reader(self.text.index)?, beside(self.group)?, beside(self.split)?));
        }
    }

    fn record(&self, (text, group, part): Cells) -> Result<Record> {
        let bad = |problem: String| Error::record(&self.source.name, format!("row {}", self.row), line![problem, " ", or_skip()]);
        let text = text.ok_or_else(|| bad(format!("column `{}` is null; repair the row", self.columns.text)))?;
        let text = std::str::from_utf8(text.data()).map_err(|error| {
            let at = error.valid_up_to();
            bad(format!("not UTF-8 (byte {at} of the text is 0x{:02x}); convert the file", text.data()[at]))
        })?;
        if let (Some(name), None) = (&self.columns.group, &group) {
            return Err(bad(format!("column `{name}` is null, which cannot name a group; repair the row")));
        }
        Ok(Record { text: text.to_owned(), column: group, part: part.and_then(split_value) })
    }
}

impl Records for RowRecords<'_> {
    fn next_record(&mut self) -> Option<Result<Record>> {
        if self.failed {
            return None;
        }
        if self.decoded.len() == 0 {
            self.progress.at(self.row);
            match guarded(|| self.decode()) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    let problem = format!("damaged after row {} ({}); write or fetch the file again", self.row, reason(&error));
                    return Some(Err(Error::input(&self.source.name, problem)));
                }
            }
        }
        let cells = self.decoded.next()?;
        self.row += 1;
        Some(self.record(cells))
    }
}

/// Runs the reader of Parquet files, which panics on some damaged ones.
fn guarded<T>(read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    let damaged = |_| Err(ParquetError::General("its pages cannot be decoded".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(damaged)
}

/// Copies a packed, piped or distant Parquet file, which cannot be read from front to back, into a file that vanishes when closed.
fn unpack(source: &Source, scratch: &Path, watch: Watch) -> Result<File> {
    let path = scratch.join(format!(".layerscope-unpacked-{}", std::process::id()));
    let failed = |error| Error::io(&path, error);
    let _ = std::fs::remove_file(&path); // a link of this name is not followed
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let mut reader = stream::open(source, watch)?;
    loop {
        let piece = match reader.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) if watch.cancel.load(Ordering::Relaxed) => return Err(Error::Interrupted),
            Err(error) => return Err(Error::input(&source.name, stream::failure(source, &error, "in the middle"))),
        };
        let count = piece.len();
        if count == 0 {
            return Ok(file);
        }
        io::Write::write_all(&mut file, piece).map_err(failed)?;
        reader.consume(count);
        if watch.cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
    }
}

fn name_text_column() -> Line {
    line!["name the text column with ", setting("text-column")]
}

fn find(file: &SerializedFileReader<Checked>, name: &str, source: &Source, advice: Line) -> Result<Column> {
    let schema = file.metadata().file_metadata().schema_descr();
    let found = schema.columns().iter().position(|column| column.path().string() == name && column.max_rep_level() == 0);
    if let Some(index) = found {
        return Ok(Column { index, max_definition: schema.column(index).max_def_level() });
    }
    let mut names: Vec<String> = schema.columns().iter().take(8).map(|column| format!("`{}`", column.path().string())).collect();
    if schema.num_columns() > names.len() {
        names.push("...".into());
    }
    Err(Error::input(&source.name, line![format!("no column `{name}` (it has {}); ", names.join(", ")), advice]))
}

/// Up to [`ROWS`] values, nulls included.
fn cells<T: DataType>(reader: &mut ColumnReaderImpl<T>, max_definition: i16) -> ParquetResult<Vec<Option<T::T>>> {
    let mut values = Vec::new();
    let mut definitions = Vec::new();
    let (records, _, _) = reader.read_records(ROWS, Some(&mut definitions), None, &mut values)?;
    if max_definition == 0 {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(definitions.iter().take(records).map(|&level| if level == max_definition { values.next() } else { None }).collect())
}

/// Up to [`ROWS`] values as names of groups.
fn names(reader: &mut ColumnReader, max_definition: i16) -> ParquetResult<Vec<Option<String>>> {
    fn text<T: DataType>(reader: &mut ColumnReaderImpl<T>, max: i16) -> ParquetResult<Vec<Option<String>>>
    where
        T::T: ToString,
    {
        Ok(cells(reader, max)?.into_iter().map(|cell| cell.map(|value| value.to_string())).collect())
    }
    match reader {
        ColumnReader::BoolColumnReader(reader) => text(reader, max_definition),
        ColumnReader::Int32ColumnReader(reader) => text(reader, max_definition),
        ColumnReader::Int64ColumnReader(reader) => text(reader, max_definition),
        ColumnReader::FloatColumnReader(reader) => text(reader, max_definition),
        ColumnReader::DoubleColumnReader(reader) => text(reader, max_definition),
        ColumnReader::ByteArrayColumnReader(reader) => {
            let cells = cells(reader, max_definition)?;
            Ok(cells.into_iter().map(|cell| cell.map(|bytes| String::from_utf8_lossy(bytes.data()).into_owned())).collect())
        }
        _ => Err(ParquetError::General("the group column is neither text nor a number".into())),
    }
}

fn reason(error: &ParquetError) -> String {
    let text = match error {
        ParquetError::General(text) | ParquetError::NYI(text) | ParquetError::EOF(text) => text.clone(),
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
