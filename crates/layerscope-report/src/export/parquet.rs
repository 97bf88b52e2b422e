//! Tables on disk: optional columns of text, 64-bit integers and doubles. Equal tables give equal bytes.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use layerscope_parquet::Checked;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

use crate::error::{Error, Result};
use crate::manifest::FileDigest;
use crate::table::{Column, Table};
use crate::text::visible;

/// Rows in a row group.
const GROUP_ROWS: usize = 1 << 16;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 1 << 12;

/// Writes the table as a Parquet file.
pub fn write(table: &Table, output: &mut (dyn Write + Send)) -> Result<()> {
    write_file(table, output).map_err(|error| match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Error::Write(*source),
            Err(source) => Error::Write(io::Error::other(source)),
        },
        other => Error::Write(io::Error::other(other)),
    })
}

fn write_file(table: &Table, output: &mut (dyn Write + Send)) -> ParquetResult<()> {
    let properties = WriterProperties::builder()
        .set_created_by("layerscope".into()) // not the library's version: the bytes are the table's alone
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut writer = SerializedFileWriter::new(output, schema(table)?, properties.into())?;
    for start in (0..table.rows()).step_by(GROUP_ROWS) {
        let end = table.rows().min(start + GROUP_ROWS);
        let mut group = writer.next_row_group()?;
        for (_, column) in table.columns() {
            match column {
                Column::Text(values) => write_column::<ByteArrayType, _>(&mut group, &values[start..end], shared()),
                Column::Integer(values) => write_column::<Int64Type, _>(&mut group, &values[start..end], |number| *number),
                Column::Real(values) => write_column::<DoubleType, _>(&mut group, &values[start..end], |number| *number),
            }?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

/// Text as the library takes it: the same names follow each other, and share their memory.
fn shared() -> impl FnMut(&Arc<str>) -> ByteArray {
    let mut last = ByteArray::from("");
    move |text| {
        if last.data() != text.as_bytes() {
            last = ByteArray::from(&**text);
        }
        last.clone()
    }
}

fn schema(table: &Table) -> ParquetResult<TypePtr> {
    let field = |(name, column): (&str, &Column)| {
        let (physical, logical) = match column {
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::Integer(_) => (Physical::INT64, None),
            Column::Real(_) => (Physical::DOUBLE, None),
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        builder.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = table.columns().map(field).collect::<ParquetResult<Vec<_>>>()?;
    Type::group_type_builder("table").with_fields(fields).build().map(Arc::new)
}

fn write_column<T: DataType, V>(
    group: &mut SerializedRowGroupWriter<'_, &mut (dyn Write + Send)>,
    values: &[Option<V>],
    convert: impl FnMut(&V) -> T::T,
) -> ParquetResult<()> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    let defined: Vec<T::T> = values.iter().flatten().map(convert).collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    column.typed::<T>().write_batch(&defined, Some(&levels), None)?;
    column.close()
}

/// Reads a file that [`write()`] wrote, or another of flat columns of text, 64-bit integers and doubles.
pub fn read(path: &Path) -> Result<Table> {
    StoredTable::open(path)?.read()
}

/// A table that stays on disk and is read in pieces. It remains the file that was opened, even if another file takes its name.
pub struct StoredTable {
    path: PathBuf,
    /// Locked while it is read: every reader of an open file moves the same cursor.
    file: Mutex<SerializedFileReader<Checked>>,
    row_groups: usize,
}

impl StoredTable {
    /// Opens the file and reads its metadata.
    pub fn open(path: &Path) -> Result<StoredTable> {
        StoredTable::of_file(path, open_file(path)?)
    }

    /// The same of a file that must be what was written.
    pub fn open_as_written(path: &Path, written: &FileDigest) -> Result<StoredTable> {
        StoredTable::of_file(path, file_as_written(path, written)?)
    }

    fn of_file(path: &Path, file: File) -> Result<StoredTable> {
        let opened = guarded(|| {
            let file = layerscope_parquet::open(file)?;
            check(&file)?;
            Ok(file)
        });
        let file = opened.map_err(|error| damaged(path, &error))?;
        Ok(StoredTable { path: path.to_owned(), row_groups: file.num_row_groups(), file: Mutex::new(file) })
    }

    /// All of its rows.
    pub fn read(&self) -> Result<Table> {
        self.groups(0..self.row_groups, None)
    }

    /// Number of pieces, at least one.
    pub fn pieces(&self) -> usize {
        self.row_groups.max(1)
    }

    /// The rows of one piece, with all columns or only these.
    pub fn piece(&self, at: usize, columns: Option<&[&str]>) -> Result<Table> {
        self.groups(at..self.row_groups.min(at + 1), columns)
    }

    fn groups(&self, groups: Range<usize>, columns: Option<&[&str]>) -> Result<Table> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = guarded(|| read_groups(&file, groups, columns)).map_err(|error| damaged(&self.path, &error))?;
        Table::new(columns).map_err(|error| Error::file(&self.path, error.to_string()))
    }
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::file(path, format!("cannot be opened ({error})")))
}

/// The file of a table, read once and found to be what was written.
pub(crate) fn file_as_written(path: &Path, written: &FileDigest) -> Result<File> {
    let mut file = open_file(path)?;
    let found = FileDigest::of_file(&mut file).map_err(|error| Error::file(path, format!("cannot be read ({error})")))?;
    match found == *written {
        true => Ok(file),
        false => {
            let problem = "damaged, or of another run: it does not match its digest in manifest.json";
            Err(Error::file(path, format!("{problem}; give the command of the run again to make it anew")))
        }
    }
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    Error::file(path, format!("not a Parquet table, or damaged ({}); write it again", reason(error)))
}

/// Refuses columns of other types, and places and numbers of rows that cannot be.
fn check(file: &SerializedFileReader<Checked>) -> ParquetResult<()> {
    let metadata = file.metadata();
    metadata.file_metadata().schema_descr().columns().iter().try_for_each(|column| empty(column).map(drop))?;
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (start, size) = (chunk.dictionary_page_offset().unwrap_or(0).min(chunk.data_page_offset()), chunk.compressed_size());
        if start < 0 || size < 0 {
            return Err(general("a column lies outside the file"));
        }
    }
    let rows = metadata.row_groups().iter().try_fold(0i64, |sum, group| sum.checked_add(group.num_rows()));
    if rows == Some(metadata.file_metadata().num_rows()) { Ok(()) } else { Err(general("the number of rows differs from its metadata")) }
}

fn read_groups(file: &SerializedFileReader<Checked>, groups: Range<usize>, only: Option<&[&str]>) -> ParquetResult<Vec<(String, Column)>> {
    let metadata = file.metadata();
    let schema = metadata.file_metadata().schema_descr();
    let wanted = |c: &usize| only.is_none_or(|names| names.contains(&schema.column(*c).name()));
    let places: Vec<usize> = (0..schema.num_columns()).filter(wanted).collect();
    let mut columns = places.iter().map(|&c| empty(&schema.column(c))).collect::<ParquetResult<Vec<_>>>()?;
    let mut rows = 0;
    for g in groups {
        let group = file.get_row_group(g)?;
        for (&c, (_, column)) in places.iter().zip(&mut columns) {
            let levels = schema.column(c).max_def_level();
            match (group.get_column_reader(c)?, column) {
                (ColumnReader::ByteArrayColumnReader(reader), Column::Text(values)) => read_column(reader, levels, values, names())?,
                (ColumnReader::Int64ColumnReader(reader), Column::Integer(values)) => read_column(reader, levels, values, Ok)?,
                (ColumnReader::DoubleColumnReader(reader), Column::Real(values)) => read_column(reader, levels, values, Ok)?,
                _ => return Err(general("a column changed its type")),
            }
        }
        rows += metadata.row_group(g).num_rows();
    }
    match columns.iter().find(|(_, column)| column.len() as i64 != rows) {
        Some((name, _)) => Err(ParquetError::General(format!("column `{name}` has another length than its metadata says"))),
        None => Ok(columns),
    }
}

/// The column for what the file holds, still without values.
fn empty(column: &ColumnDescriptor) -> ParquetResult<(String, Column)> {
    let name = column.name().to_owned();
    if column.path().parts().len() != 1 || column.max_rep_level() != 0 {
        return Err(ParquetError::General(format!("column `{name}` is nested")));
    }
    let plain = column.logical_type_ref().is_none() && column.converted_type() == ConvertedType::NONE;
    match column.physical_type() {
        Physical::BYTE_ARRAY if plain || column.converted_type() == ConvertedType::UTF8 => Ok((name, Column::Text(Vec::new()))),
        Physical::INT64 if plain => Ok((name, Column::Integer(Vec::new()))),
        Physical::DOUBLE => Ok((name, Column::Real(Vec::new()))),
        other => Err(ParquetError::General(format!("column `{name}` is {other}, neither text nor a 64-bit number"))),
    }
}

fn read_column<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    max_level: i16,
    column: &mut Vec<Option<V>>,
    mut convert: impl FnMut(T::T) -> ParquetResult<V>,
) -> ParquetResult<()> {
    let mut values = Vec::new();
    let mut levels = Vec::new();
    loop {
        let (records, _, _) = reader.read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        let mut defined = values.drain(..).map(&mut convert);
        if max_level == 0 {
            column.extend(defined.map(|value| value.map(Some)).collect::<ParquetResult<Vec<_>>>()?);
        } else {
            for level in levels.drain(..) {
                let value = if level == max_level { Some(defined.next().ok_or_else(|| general("values are missing"))??) } else { None };
                column.push(value);
            }
        }
    }
}

/// Text as tables take it: as in [`shared()`].
fn names() -> impl FnMut(ByteArray) -> ParquetResult<Arc<str>> {
    let mut last = Arc::from("");
    move |bytes| {
        let text = bytes.as_utf8().map_err(|_| general("a text is not UTF-8"))?;
        if *text != *last {
            last = Arc::from(text);
        }
        Ok(Arc::clone(&last))
    }
}

fn general(problem: &str) -> ParquetError {
    ParquetError::General(problem.into())
}

/// Runs the reader of Parquet files, which panics on some damaged ones.
fn guarded<T>(read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(general("its pages cannot be decoded")))
}

/// The library's words on one line.
fn reason(error: &ParquetError) -> String {
    let text = match error {
        ParquetError::General(text) | ParquetError::NYI(text) | ParquetError::EOF(text) => text.clone(),
        other => other.to_string(),
    };
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
