//! A large table, in memory or on disk, cut by point: the block of each is made when it is asked for.
//!
//! Where some states are massive, a point also has a block of the typical ones.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::block::Block;
use super::groups::Groups;
use super::steps::evenly;
use super::token_components;
use crate::error::Result;
use crate::export::parquet::StoredTable;
use crate::states::States;
use crate::table::Table;

/// Columns that say where a row belongs; a block does not repeat them.
const PLACE: [&str; 3] = ["layer", "point", "selection"];

/// Where a table is.
pub(super) enum Holder<'a> {
    Memory(&'a Table),
    Disk(StoredTable),
}

impl Holder<'_> {
    pub fn pieces(&self) -> usize {
        match self {
            Holder::Memory(_) => 1,
            Holder::Disk(table) => table.pieces(),
        }
    }

    /// The rows of a piece, with at least these columns where the table has them.
    pub fn piece(&self, at: usize, columns: Option<&[&str]>) -> Result<Cow<'_, Table>> {
        match self {
            Holder::Memory(table) => Ok(Cow::Borrowed(table)),
            Holder::Disk(table) => table.piece(at, columns).map(Cow::Owned),
        }
    }
}

/// The states that a row of a table is about; all of them in tables without such a column.
pub(super) fn states_of(table: &Table, row: usize) -> States {
    table.text("selection", row).and_then(States::named).unwrap_or(States::All)
}

/// A table and the rows of its points.
pub(super) struct Cut<'a> {
    /// What it is called in the names of blocks.
    pub kind: &'static str,
    /// How many of its points are not here.
    pub left_out: usize,
    table: Holder<'a>,
    points: Vec<Point>,
    groups: Option<Groups>,
}

/// Rows of a table: its pieces and stretches of them.
type Rows = Vec<(usize, Range<usize>)>;

/// A point and its rows.
struct Point {
    layer: Option<i64>,
    name: String,
    all: Rows,
    typical: Rows,
}

impl Point {
    fn rows(&self) -> usize {
        self.all.iter().chain(&self.typical).map(|(_, stretch)| stretch.len()).sum()
    }
}

impl<'a> Cut<'a> {
    /// Reads the table once, to learn which rows are where and what groups are called.
    pub fn new(kind: &'static str, table: Holder<'a>) -> Result<Cut<'a>> {
        let points = points(&table)?;
        let groups = (kind == "groups").then(|| Groups::new(&table)).transpose()?;
        Ok(Cut { kind, left_out: 0, table, points, groups })
    }

    /// With so many rows at most: some of its points, evenly spaced, the last among them.
    pub fn within(mut self, rows: usize) -> Cut<'a> {
        let (before, largest) = (self.points.len(), self.points.iter().map(Point::rows).max().unwrap_or(0).max(1));
        self.points = evenly(self.points, (rows / largest).max(1)).collect();
        self.left_out = before - self.points.len();
        self
    }

    /// Layer and name of every point, in the order in which they come, and whether it has typical states of its own.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (Option<i64>, &str, bool)> {
        self.points.iter().map(|point| (point.layer, point.name.as_str(), !point.typical.is_empty()))
    }

    /// What groups are called and how often they occur, in a table of groups.
    pub fn names(&self) -> Option<Block> {
        self.groups.as_ref().map(Groups::names)
    }

    /// The block of a point. That of the typical states says only what differs, where most does not.
    pub fn block(&self, place: usize, states: States) -> Result<Option<Block>> {
        let Some(point) = self.points.get(place) else { return Ok(None) };
        if states == States::Typical && point.typical.is_empty() {
            return Ok(None);
        }
        let all = || self.rows(&point.all);
        let typical = || self.rows(&point.typical);
        Ok(Some(match (&self.groups, self.kind, states) {
            (Some(groups), _, States::All) => groups.point(&all()?),
            (Some(groups), _, States::Typical) => groups.difference(&typical()?, &all()?),
            (None, "token_components", States::All) => token_components::block(&all()?),
            (None, "token_components", States::Typical) => token_components::difference(&typical()?, &all()?),
            (None, _, States::All) => Block::table(&all()?, &PLACE, &["x", "y"]),
            (None, _, States::Typical) => Block::table(&typical()?, &PLACE, &["x", "y"]),
        }))
    }

    fn rows(&self, stretches: &Rows) -> Result<Table> {
        let mut pieces: Vec<Cow<Table>> = Vec::new();
        let mut rows = Vec::new();
        let mut last = None;
        for (piece, stretch) in stretches {
            if last != Some(piece) {
                pieces.push(self.table.piece(*piece, None)?);
                last = Some(piece);
            }
            rows.extend(stretch.clone().map(|row| (pieces.len() - 1, row)));
        }
        if pieces.is_empty() {
            pieces.push(self.table.piece(0, None)?); // the columns of no rows
        }
        Table::gather(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &rows)
    }
}

/// The points of a table, in the order in which they come.
fn points(table: &Holder) -> Result<Vec<Point>> {
    let mut places: HashMap<(Option<i64>, String), usize> = HashMap::new();
    let mut points: Vec<Point> = Vec::new();
    for at in 0..table.pieces() {
        let piece = table.piece(at, Some(&PLACE))?;
        let key = |row: usize| (piece.integer("layer", row), piece.text("point", row).unwrap_or(""), states_of(&piece, row));
        let mut start = 0;
        while start < piece.rows() {
            let (layer, name, states) = key(start);
            let end = (start..piece.rows()).find(|&row| key(row) != (layer, name, states)).unwrap_or(piece.rows());
            let place = *places.entry((layer, name.to_owned())).or_insert_with(|| {
                points.push(Point { layer, name: name.to_owned(), all: Vec::new(), typical: Vec::new() });
                points.len() - 1
            });
            let rows = if states == States::All { &mut points[place].all } else { &mut points[place].typical };
            rows.push((at, start..end));
            start = end;
        }
    }
    Ok(points)
}
