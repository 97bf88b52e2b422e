//! A large table, in memory or on disk, cut by point: the block of each is made when it is asked for.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::block::{Block, Columns};
use crate::error::Result;
use crate::export::parquet::StoredTable;
use crate::table::{Column, Table};

/// Columns that say where a row belongs; a block of one point does not repeat them.
const POINT: [&str; 2] = ["layer", "point"];

/// Columns that a group has at every point alike.
const GROUP: [&str; 5] = ["group_id", "group", "raw", "subwords", "n"];

/// Where a table is.
pub(super) enum Holder<'a> {
    Memory(&'a Table),
    Disk(StoredTable),
}

impl Holder<'_> {
    fn pieces(&self) -> usize {
        match self {
            Holder::Memory(_) => 1,
            Holder::Disk(table) => table.pieces(),
        }
    }

    /// The rows of a piece, with at least these columns.
    fn piece(&self, at: usize, columns: Option<&[&str]>) -> Result<Cow<'_, Table>> {
        match self {
            Holder::Memory(table) => Ok(Cow::Borrowed(table)),
            Holder::Disk(table) => table.piece(at, columns).map(Cow::Owned),
        }
    }
}

/// A table and the rows of its points.
pub(super) struct Cut<'a> {
    /// What it is called in the names of blocks.
    pub kind: &'static str,
    table: Holder<'a>,
    points: Vec<Point>,
    groups: Option<Groups>,
}

/// A point and its rows: pieces of the table and stretches of them.
struct Point {
    layer: Option<i64>,
    name: String,
    rows: Vec<(usize, Range<usize>)>,
}

impl<'a> Cut<'a> {
    /// Reads the table once, to learn which rows are where and what groups are called.
    pub fn new(kind: &'static str, table: Holder<'a>) -> Result<Cut<'a>> {
        let points = points(&table)?;
        let groups = (kind == "groups").then(|| Groups::new(&table)).transpose()?;
        Ok(Cut { kind, table, points, groups })
    }

    /// Layer and name of every point, in the order in which they come.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (Option<i64>, &str)> {
        self.points.iter().map(|point| (point.layer, point.name.as_str()))
    }

    /// What groups are called and how often they occur, in a table of groups.
    pub fn names(&self) -> Option<Block> {
        self.groups.as_ref().map(|groups| Block::table(&groups.names, &[], &[]))
    }

    /// The block of a point.
    pub fn block(&self, place: usize) -> Result<Option<Block>> {
        let Some(point) = self.points.get(place) else { return Ok(None) };
        let rows = self.rows(point)?;
        Ok(Some(match &self.groups {
            Some(groups) => groups.point(&rows),
            None => Block::table(&rows, &POINT, &["x", "y"]),
        }))
    }

    fn rows(&self, point: &Point) -> Result<Table> {
        let mut pieces: Vec<Cow<Table>> = Vec::new();
        let mut rows = Vec::new();
        let mut last = None;
        for (piece, stretch) in &point.rows {
            if last != Some(piece) {
                pieces.push(self.table.piece(*piece, None)?);
                last = Some(piece);
            }
            rows.extend(stretch.clone().map(|row| (pieces.len() - 1, row)));
        }
        Table::gather(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &rows)
    }
}

/// The points of a table, in the order in which they come.
fn points(table: &Holder) -> Result<Vec<Point>> {
    let mut places: HashMap<(Option<i64>, String), usize> = HashMap::new();
    let mut points: Vec<Point> = Vec::new();
    for at in 0..table.pieces() {
        let piece = table.piece(at, Some(&POINT))?;
        let key = |row: usize| (piece.integer("layer", row), piece.text("point", row).unwrap_or(""));
        let mut start = 0;
        while start < piece.rows() {
            let (layer, name) = key(start);
            let end = (start..piece.rows()).find(|&row| key(row) != (layer, name)).unwrap_or(piece.rows());
            let place = *places.entry((layer, name.to_owned())).or_insert_with(|| {
                points.push(Point { layer, name: name.to_owned(), rows: Vec::new() });
                points.len() - 1
            });
            points[place].rows.push((at, start..end));
            start = end;
        }
    }
    Ok(points)
}

/// The groups of a run, each once, rarest first (frequent ones are drawn last, on top).
struct Groups {
    names: Table,
    /// Rows of `names` by id; more than one where groups share it.
    places: HashMap<Option<i64>, Vec<usize>>,
}

impl Groups {
    fn new(table: &Holder) -> Result<Groups> {
        let mut seen: HashSet<(Option<i64>, Option<String>)> = HashSet::new();
        let mut parts = Vec::new();
        let mut rows: Vec<(usize, usize)> = Vec::new();
        for at in 0..table.pieces() {
            let piece = table.piece(at, Some(&GROUP))?;
            let key = |row: usize| (piece.integer("group_id", row), piece.text("group", row).map(str::to_owned));
            let fresh: Vec<(usize, usize)> = (0..piece.rows()).filter(|&row| seen.insert(key(row))).map(|row| (0, row)).collect();
            let others: Vec<&str> = piece.columns().map(|(name, _)| name).filter(|name| !GROUP.contains(name)).collect();
            rows.extend((0..fresh.len()).map(|row| (at, row)));
            parts.push(Table::gather(&[piece.as_ref()], &fresh)?.without(&others));
        }
        rows.sort_by_key(|&(part, row)| parts[part].integer("n", row));
        let names = Table::gather(&parts.iter().collect::<Vec<_>>(), &rows)?;
        let mut places: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
        (0..names.rows()).for_each(|row| places.entry(names.integer("group_id", row)).or_default().push(row));
        Ok(Groups { names, places })
    }

    /// Their measures at one point, in the same order; and how often they occur there, should that differ.
    fn point(&self, table: &Table) -> Block {
        let mut at = vec![None; self.names.rows()];
        for row in 0..table.rows() {
            let name = table.text("group", row);
            let place = self
                .places
                .get(&table.integer("group_id", row))
                .and_then(|places| places.iter().find(|&&place| self.names.text("group", place) == name));
            if let Some(&place) = place {
                at[place] = Some(row);
            }
        }
        let mut columns = Columns::new(at.len());
        for (name, column) in table.columns() {
            match column {
                Column::Real(values) if !GROUP.contains(&name) => columns.reals(name, at.iter().map(|row| row.and_then(|row| values[row]))),
                _ => {}
            }
        }
        let count = |row: &Option<usize>| row.map_or(Some(0), |row| table.integer("n", row));
        if at.iter().enumerate().any(|(place, row)| count(row) != self.names.integer("n", place)) {
            columns.integers("n", at.iter().map(count));
        }
        columns.finish()
    }
}
