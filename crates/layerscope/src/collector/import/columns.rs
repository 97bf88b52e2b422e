//! Parquet files of states: a column of lists of numbers, and columns of ids beside it.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use layerscope_parquet::Checked;
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescPtr;

use super::sources::FileLayer;
use super::{Reading, collector_for, in_file};
use crate::collector::{GroupsOf, StateRows};
use crate::error::{Error, Result};
use crate::measure::event::{Event, Show};
use crate::store::point_name::PointName;
use layerscope_error::{line, setting};

/// A column as the schema describes it.
#[derive(Clone)]
struct Column {
    at: usize,
    name: String,
    physical: Physical,
    /// Definition level of a value that is there.
    present: i16,
    /// How deep its lists are nested.
    lists: i16,
    /// Whether it is part of a structure.
    is_part: bool,
}

impl Column {
    fn all(file: &SerializedFileReader<Checked>) -> Vec<Column> {
        let schema = file.metadata().file_metadata().schema_descr();
        let roots: Vec<String> = schema.columns().iter().map(|column| column.path().parts()[0].clone()).collect();
        let column = |(at, column): (usize, &ColumnDescPtr)| Column {
            at,
            name: roots[at].clone(),
            physical: column.physical_type(),
            present: column.max_def_level(),
            lists: column.max_rep_level(),
            is_part: roots.iter().filter(|root| **root == roots[at]).count() > 1,
        };
        schema.columns().iter().enumerate().map(column).collect()
    }
}

/// Enters the states of one file, row group by row group. Without a column of layers, all are of the layer that its name tells.
pub(super) fn read(path: &Path, layer: &FileLayer, reading: &mut Reading<'_>, show: &mut Show<'_>) -> Result<()> {
    let Reading { options, settings, room, collector, .. } = reading;
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    let file = guarded(|| layerscope_parquet::open(file)).map_err(|problem| damaged(path, &problem))?;
    let columns = Column::all(&file);
    let find = |asked: Option<&str>, usual: &[&str]| -> Result<Option<Column>> {
        let named = |name: &str| columns.iter().find(|column| column.name == name).cloned();
        match asked {
            None => Ok(usual.iter().find_map(|name| named(name))),
            Some(name) => named(name).map(Some).ok_or_else(|| {
                let there: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                Error::usage(format!("{}: there is no column `{name}`; there are {}", path.display(), there.join(", ")))
            }),
        }
    };
    let Some(states) = find(options.states.as_deref(), &["hidden_states", "states", "embeddings", "activations"])? else {
        return Err(Error::usage(line![format!("{}: which column holds the states? Name it with ", path.display()), setting("states")]));
    };
    if states.is_part || states.lists > 1 {
        let line =
            format!("{}: column `{}` holds more than one list of numbers a row; store each state as one list", path.display(), states.name);
        return Err(Error::usage(line));
    }
    let groups = find(options.groups.as_deref(), &["token_ids", "groups", "group"])?;
    let documents = find(options.documents.as_deref(), &["documents", "sequence_ids", "document"])?;
    let positions = find(options.positions.as_deref(), &["positions", "position"])?;
    let layers = find(None, &["layer"])?.filter(|_| options.layer.is_none());
    let only = if layers.is_some() { 0 } else { layer.number(options)? };
    let mut first = 0;
    let of = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
    for number in 0..file.num_row_groups() {
        show(Event::Importing { states: first as u64, of });
        let numbers = usize::try_from(file.metadata().row_group(number).column(states.at).num_values()).unwrap_or(0);
        room.expect(path, numbers.saturating_mul(2 * size_of::<f32>() + 2 * size_of::<i16>()))?;
        let group = guarded(|| file.get_row_group(number)).map_err(|problem| damaged(path, &problem))?;
        let group = Group { reader: group.as_ref(), path, first };
        let dim = collector.as_ref().map(|collector| collector.settings().dim);
        let (values, rows, dim) = group.states(&states, dim)?;
        if rows == 0 {
            continue;
        }
        let column = |column: &Option<Column>| column.as_ref().map(|column| group.whole_numbers(column, rows)).transpose();
        let (documents, positions, layers) = (column(&documents)?, column(&positions)?, column(&layers)?);
        let narrow = |(row, position): (usize, u64)| {
            u32::try_from(position).map_err(|_| group.fault(row, &format!("position {position}; positions must be below 2^32")))
        };
        let positions =
            positions.map(|positions| positions.into_iter().enumerate().map(narrow).collect::<Result<Vec<u32>>>()).transpose()?;
        let is_text = |column: &&Column| column.physical == Physical::BYTE_ARRAY;
        let texts = groups.as_ref().filter(is_text).map(|column| group.strings(column, rows)).transpose()?;
        let ids = if texts.is_some() { None } else { column(&groups)? };
        // Rows of one layer after another, in the order of the file.
        let mut found: Vec<u64> = layers.clone().unwrap_or_else(|| vec![u64::from(only)]);
        found.sort_unstable();
        found.dedup();
        let narrow = |layer: &u64| {
            let layer = u32::try_from(*layer).map_err(|_| Error::usage(format!("{}: layer {layer} is too large", path.display())));
            layer.map(PointName::of_layer)
        };
        let points = found.iter().map(narrow).collect::<Result<Vec<PointName>>>()?;
        room.expect_points(path, &points, dim, rows, ids.as_deref(), settings)?;
        let collector = collector_for(collector, dim, path, settings)?;
        for (layer, at) in found.into_iter().zip(points) {
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
            collector.update(at, &rows).map_err(|error| in_file(path, 0, error))?;
        }
        first += rows;
    }
    Ok(())
}

/// A row group of a file.
struct Group<'a> {
    reader: &'a dyn RowGroupReader,
    path: &'a Path,
    /// Rows of the file before it.
    first: usize,
}

impl Group<'_> {
    /// All numbers of a column of lists, how many lists there are, and how long each of them is. Lists that are not full and of one length are
    /// refused: their numbers would become parts of other rows.
    fn states(&self, column: &Column, dim: Option<usize>) -> Result<(Vec<f32>, usize, usize)> {
        let (values, rows) = match self.open(column)? {
            ColumnReader::FloatColumnReader(reader) => self.values(reader, column, |value| value)?,
            ColumnReader::DoubleColumnReader(reader) => self.values(reader, column, |value| value as f32)?,
            _ => return Err(Error::usage(format!("{}: states are lists of float or double", self.path.display()))),
        };
        let dim = dim.or(rows.first().copied()).unwrap_or(0);
        match rows.iter().position(|length| *length != dim || *length == 0) {
            Some(row) if rows[row] == 0 => Err(self.fault(row, &format!("column `{}` has no state there", column.name))),
            Some(row) => Err(self.fault(row, &format!("{} components; states before it have {dim}", rows[row]))),
            None => Ok((values, rows.len(), dim)),
        }
    }

    /// Whole numbers, one for every row.
    fn whole_numbers(&self, column: &Column, rows: usize) -> Result<Vec<u64>> {
        let values: Vec<i64> = match self.open(column)? {
            ColumnReader::Int64ColumnReader(reader) => self.single(reader, (column, rows), |value| value)?,
            ColumnReader::Int32ColumnReader(reader) => self.single(reader, (column, rows), i64::from)?,
            _ => return Err(Error::usage(format!("{}: column `{}` does not hold whole numbers", self.path.display(), column.name))),
        };
        match values.iter().position(|value| *value < 0) {
            Some(row) => Err(self.fault(row, &format!("column `{}` is {}; give whole numbers from 0 on", column.name, values[row]))),
            None => Ok(values.into_iter().map(|value| value as u64).collect()),
        }
    }

    fn strings(&self, column: &Column, rows: usize) -> Result<Vec<String>> {
        let ColumnReader::ByteArrayColumnReader(reader) = self.open(column)? else {
            return Err(Error::usage(format!("{}: groups are whole numbers or texts", self.path.display())));
        };
        self.single(reader, (column, rows), |bytes| String::from_utf8_lossy(bytes.data()).into_owned())
    }

    /// One value for each of so many rows.
    fn single<T: DataType, V>(
        &self,
        reader: ColumnReaderImpl<T>,
        (column, rows): (&Column, usize),
        convert: impl Fn(T::T) -> V,
    ) -> Result<Vec<V>> {
        if column.lists > 0 || column.is_part {
            return Err(Error::usage(format!("{}: column `{}` must hold one value a row", self.path.display(), column.name)));
        }
        let (values, _) = self.values(reader, column, convert)?;
        match values.len() == rows {
            true => Ok(values),
            false => Err(damaged(self.path, &format!("column `{}` has {} values for {rows} rows of states", column.name, values.len()))),
        }
    }

    fn open(&self, column: &Column) -> Result<ColumnReader> {
        guarded(|| self.reader.get_column_reader(column.at)).map_err(|problem| damaged(self.path, &problem))
    }

    /// The values of a column, and how many each row has. A value that is missing is refused, an empty list is a row of none.
    fn values<T: DataType, V>(
        &self,
        mut reader: ColumnReaderImpl<T>,
        column: &Column,
        convert: impl Fn(T::T) -> V,
    ) -> Result<(Vec<V>, Vec<usize>)> {
        let (mut found, mut rows) = (Vec::new(), Vec::new());
        let (mut batch, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let read = guarded(|| reader.read_records(4096, Some(&mut defined), Some(&mut repeated), &mut batch));
            let (records, _, _) = read.map_err(|problem| damaged(self.path, &problem))?;
            if records == 0 && rows.iter().sum::<usize>() != found.len() {
                return Err(damaged(self.path, "values and rows differ"));
            }
            if records == 0 {
                return Ok((found, rows));
            }
            let levels = if column.present == 0 { batch.len() } else { defined.len() };
            for place in 0..levels {
                if column.lists == 0 || rows.is_empty() || repeated.get(place).is_none_or(|level| *level == 0) {
                    rows.push(0);
                }
                let row = rows.len() - 1;
                match defined.get(place).copied().unwrap_or(column.present) {
                    level if level == column.present => rows[row] += 1,
                    // Only a list that is there can have a value that is not.
                    level if column.lists > 0 && level + 1 < column.present => {}
                    _ if column.lists > 0 && column.present < 2 => {}
                    _ => return Err(self.fault(row, &format!("column `{}` has a null", column.name))),
                }
            }
            found.extend(batch.drain(..).map(&convert));
            defined.clear();
            repeated.clear();
        }
    }

    /// An error about a row of the file, counted from 1 as the rows of a corpus are.
    fn fault(&self, row: usize, problem: &str) -> Error {
        Error::usage(format!("{}: row {}: {problem}", self.path.display(), self.first + row + 1))
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
