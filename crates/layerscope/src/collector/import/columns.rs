//! Parquet files of states: a column of lists of numbers, and columns of ids beside it.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::{ImportOptions, collector_for, in_file};
use crate::collector::{Collector, CollectorSettings, GroupsOf, StateRows};
use crate::error::{Error, Result};
use crate::store::point_name::PointName;
use layerscope_error::{line, setting};

/// Enters the states of one file, row group by row group.
pub(super) fn read(path: &Path, options: &ImportOptions, settings: &CollectorSettings, collector: &mut Option<Collector>) -> Result<()> {
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    let file = guarded(|| SerializedFileReader::new(file)).map_err(|problem| damaged(path, &problem))?;
    let names: Vec<(String, Physical)> =
        file.metadata().file_metadata().schema_descr().columns().iter().map(|c| (c.path().parts()[0].clone(), c.physical_type())).collect();
    let find = |asked: Option<&str>, usual: &[&str]| -> Result<Option<usize>> {
        match asked {
            None => Ok(usual.iter().find_map(|name| names.iter().position(|(known, _)| known == name))),
            Some(name) => names.iter().position(|(known, _)| known == name).map(Some).ok_or_else(|| {
                let there: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
                Error::usage(format!("{}: there is no column `{name}`; there are {}", path.display(), there.join(", ")))
            }),
        }
    };
    let Some(states) = find(options.states.as_deref(), &["hidden_states", "states", "embeddings", "activations"])? else {
        return Err(Error::usage(line![format!("{}: which column holds the states? Name it with ", path.display()), setting("states")]));
    };
    let groups = find(options.groups.as_deref(), &["token_ids", "groups", "group"])?;
    let documents = find(options.documents.as_deref(), &["documents", "sequence_ids", "document"])?;
    let positions = find(options.positions.as_deref(), &["positions", "position"])?;
    let layers = find(None, &["layer"])?.filter(|_| options.layer.is_none());
    for number in 0..file.num_row_groups() {
        let group = guarded(|| file.get_row_group(number)).map_err(|problem| damaged(path, &problem))?;
        let group = group.as_ref();
        let (values, rows) = floats(group, states, path)?;
        if rows == 0 {
            continue;
        }
        if !values.len().is_multiple_of(rows) || values.is_empty() {
            return Err(Error::usage(format!("{}: {} numbers do not make {rows} states of equal length", path.display(), values.len())));
        }
        let dim = values.len() / rows;
        let column = |at: Option<usize>| at.map(|at| whole_numbers(group, at, &names[at].0, path)).transpose();
        let (documents, positions, layers) = (column(documents)?, column(positions)?, column(layers)?);
        let positions: Option<Vec<u32>> = positions.map(|positions| positions.into_iter().map(|position| position as u32).collect());
        let texts = groups.filter(|&at| names[at].1 == Physical::BYTE_ARRAY).map(|at| strings(group, at, path)).transpose()?;
        let ids = if texts.is_some() { None } else { column(groups)? };
        let collector = collector_for(collector, dim, path, settings)?;
        // Rows of one layer after another, in the order of the file.
        let mut found: Vec<u64> = layers.clone().unwrap_or_else(|| vec![u64::from(options.layer.unwrap_or(0))]);
        found.sort_unstable();
        found.dedup();
        for layer in found {
            let own: Vec<usize> = (0..rows).filter(|&row| layers.as_ref().is_none_or(|layers| layers[row] == layer)).collect();
            fn taken<T: Clone>(own: &[usize], values: &Option<Vec<T>>) -> Option<Vec<T>> {
                values.as_ref().map(|values| own.iter().map(|&row| values[row].clone()).collect())
            }
            let states: Vec<f32> = own.iter().flat_map(|&row| values[row * dim..(row + 1) * dim].iter().copied()).collect();
            let (ids, texts) = (taken(&own, &ids), taken(&own, &texts));
            let (documents, positions) = (taken(&own, &documents), taken(&own, &positions));
            let rows = StateRows {
                states: &states,
                groups: match (&ids, &texts) {
                    (Some(ids), _) => GroupsOf::Ids(ids),
                    (None, Some(texts)) => GroupsOf::Names(texts),
                    (None, None) => GroupsOf::None,
                },
                documents: documents.as_deref(),
                positions: positions.as_deref(),
                mask: None,
            };
            let layer = u32::try_from(layer).map_err(|_| Error::usage(format!("{}: layer {layer} is too large", path.display())))?;
            collector.update(PointName::of_layer(layer), &rows).map_err(|error| in_file(path, 0, error))?;
        }
    }
    Ok(())
}

/// All numbers of a column of lists, and how many lists there are.
fn floats(group: &dyn RowGroupReader, at: usize, path: &Path) -> Result<(Vec<f32>, usize)> {
    let reader = guarded(|| group.get_column_reader(at)).map_err(|problem| damaged(path, &problem))?;
    match reader {
        ColumnReader::FloatColumnReader(reader) => values(reader, |value| value, path),
        ColumnReader::DoubleColumnReader(reader) => values(reader, |value| value as f32, path),
        _ => Err(Error::usage(format!("{}: states are lists of float or double", path.display()))),
    }
}

/// Whole numbers, one for every row.
fn whole_numbers(group: &dyn RowGroupReader, at: usize, name: &str, path: &Path) -> Result<Vec<u64>> {
    let reader = guarded(|| group.get_column_reader(at)).map_err(|problem| damaged(path, &problem))?;
    let (values, rows): (Vec<i64>, usize) = match reader {
        ColumnReader::Int64ColumnReader(reader) => values(reader, |value| value, path)?,
        ColumnReader::Int32ColumnReader(reader) => values(reader, i64::from, path)?,
        _ => return Err(Error::usage(format!("{}: column `{name}` does not hold whole numbers", path.display()))),
    };
    if values.len() != rows || values.iter().any(|value| *value < 0) {
        return Err(Error::usage(format!("{}: column `{name}` must have a whole number from 0 on in every row", path.display())));
    }
    Ok(values.into_iter().map(|value| value as u64).collect())
}

fn strings(group: &dyn RowGroupReader, at: usize, path: &Path) -> Result<Vec<String>> {
    let reader = guarded(|| group.get_column_reader(at)).map_err(|problem| damaged(path, &problem))?;
    let ColumnReader::ByteArrayColumnReader(reader) = reader else {
        return Err(Error::usage(format!("{}: groups are whole numbers or texts", path.display())));
    };
    let (texts, rows) = values(reader, |bytes| String::from_utf8_lossy(bytes.data()).into_owned(), path)?;
    match texts.len() == rows {
        true => Ok(texts),
        false => Err(Error::usage(format!("{}: a row has no group", path.display()))),
    }
}

fn values<T: DataType, V>(mut reader: ColumnReaderImpl<T>, convert: impl Fn(T::T) -> V, path: &Path) -> Result<(Vec<V>, usize)> {
    let (mut found, mut rows) = (Vec::new(), 0);
    let (mut batch, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let read = guarded(|| reader.read_records(4096, Some(&mut defined), Some(&mut repeated), &mut batch));
        let (records, _, _) = read.map_err(|problem| damaged(path, &problem))?;
        if records == 0 {
            return Ok((found, rows));
        }
        rows += records;
        found.extend(batch.drain(..).map(&convert));
        defined.clear();
        repeated.clear();
    }
}

/// Runs the reader of Parquet files, which panics on some damaged ones.
fn guarded<T>(read: impl FnOnce() -> ParquetResult<T>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(_) => Err("its pages make no sense".to_owned()),
    }
}

fn damaged(path: &Path, problem: &str) -> Error {
    Error::damaged(path, format!("not a Parquet file of states, or damaged ({problem})"))
}
