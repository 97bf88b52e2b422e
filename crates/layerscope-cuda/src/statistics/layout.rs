//! What the kernels must know of the rows of a batch, as one array of words: made once a batch, used at every point.

use std::ops::Range;

use layerscope_stats::BatchInfo;

/// Rows of a tile, as in `moments.cu`.
pub(super) const TILE: usize = 64;

/// Rows of a piece of a sequence.
const PIECE: usize = 128;

/// Stands for the sums of a sequence of one piece, as in `sequences.cu`.
const WHOLE: u32 = u32::MAX;

/// How a piece of a group lies in its tile, as in `moments.cu`.
const WHOLE_SEGMENT: u32 = 0;
const CONTINUES: u32 = 1;
const GOES_ON: u32 = 2;

/// The words, and where each list of them lies. Lists begin at multiples of four words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub words: Vec<u32>,
    /// Counted rows sorted by group.
    pub order: Range<usize>,
    /// Counted rows as they come.
    pub counted: Range<usize>,
    /// (group, first, end) in the order, by group.
    pub segments: Range<usize>,
    /// Where the pieces of each tile begin, and their number.
    pub tile_pieces: Range<usize>,
    /// (first, end, segment, how it lies), by tile.
    pub pieces: Range<usize>,
    /// (segment, first tile, last tile, 0) of the groups that cross tiles.
    pub crossings: Range<usize>,
    /// (first, end) among the counted rows, of the sequences with at least two of them.
    pub sequences: Range<usize>,
    /// (first, end, sequence, slot of its sums).
    pub sequence_pieces: Range<usize>,
    /// (sequence, first slot, end, 0) of the sequences of several pieces.
    pub joins: Range<usize>,
    /// (row, slot) of kept rows.
    pub slots: Range<usize>,
    /// (first, end) of the model's rows of every item, where some have several.
    pub pooled: Range<usize>,
    /// Slots of sums of pieces of sequences.
    pub sums: usize,
    /// Counted rows of the longest of these sequences.
    pub longest: usize,
}

impl Layout {
    /// Of a batch.
    pub fn new(info: &BatchInfo) -> Layout {
        let mut layout = Layout::default();
        let segments = info.segments();
        layout.order = layout.put(segments.order().iter().copied());
        layout.counted = layout.put(segments.counted().iter().copied());
        layout.segments = layout.put(segments.segments().iter().flat_map(|segment| [segment.group, segment.start, segment.end]));
        layout.put_tiles(info);
        layout.put_sequences(info);
        layout.slots = layout.put(info.slots().iter().flat_map(|&(row, slot)| [row, slot]));
        layout.pooled = layout.put(info.pooled().unwrap_or_default().iter().flat_map(|rows| [rows.start, rows.end]));
        layout
    }

    /// Counted rows.
    pub fn rows(&self) -> usize {
        self.order.len()
    }

    /// Groups that have some.
    pub fn groups(&self) -> usize {
        self.segments.len() / 3
    }

    /// Tiles of rows.
    pub fn tiles(&self) -> usize {
        self.rows().div_ceil(TILE)
    }

    /// Sequences with at least two counted rows.
    pub fn counted_sequences(&self) -> usize {
        self.sequences.len() / 2
    }

    fn put(&mut self, words: impl Iterator<Item = u32>) -> Range<usize> {
        let start = self.words.len().next_multiple_of(4);
        self.words.resize(start, 0);
        self.words.extend(words);
        start..self.words.len()
    }

    fn put_tiles(&mut self, info: &BatchInfo) {
        let tile = TILE as u32;
        let (mut pieces, mut starts, mut crossings) = (Vec::new(), vec![0; self.tiles() + 1], Vec::new());
        for (segment, &bounds) in info.segments().segments().iter().enumerate() {
            let (first_tile, last_tile) = (bounds.start / tile, (bounds.end - 1) / tile);
            if first_tile < last_tile {
                crossings.extend([segment as u32, first_tile, last_tile, 0]);
            }
            for at in first_tile..=last_tile {
                let lies = match (first_tile == last_tile, at == first_tile) {
                    (true, _) => WHOLE_SEGMENT,
                    (false, true) => GOES_ON,
                    (false, false) => CONTINUES,
                };
                pieces.extend([bounds.start.max(at * tile), bounds.end.min((at + 1) * tile), segment as u32, lies]);
                starts[at as usize + 1] = (pieces.len() / 4) as u32;
            }
        }
        self.tile_pieces = self.put(starts.into_iter());
        self.pieces = self.put(pieces.into_iter());
        self.crossings = self.put(crossings.into_iter());
    }

    fn put_sequences(&mut self, info: &BatchInfo) {
        let (counted, mut first) = (info.segments().counted(), 0);
        let (mut sequences, mut pieces, mut joins) = (Vec::new(), Vec::new(), Vec::new());
        for &end in info.sequences().iter().skip(1) {
            let end = first + counted[first..].partition_point(|&row| row < end);
            if end - first >= 2 {
                let sequence = (sequences.len() / 2) as u32;
                self.longest = self.longest.max(end - first);
                sequences.extend([first as u32, end as u32]);
                let count = (end - first).div_ceil(PIECE);
                if count > 1 {
                    joins.extend([sequence, self.sums as u32, (self.sums + count) as u32, 0]);
                }
                for piece in 0..count {
                    let slot = if count == 1 { WHOLE } else { (self.sums + piece) as u32 };
                    pieces.extend([(first + piece * PIECE) as u32, end.min(first + (piece + 1) * PIECE) as u32, sequence, slot]);
                }
                self.sums += if count > 1 { count } else { 0 };
            }
            first = end;
        }
        self.sequences = self.put(sequences.into_iter());
        self.sequence_pieces = self.put(pieces.into_iter());
        self.joins = self.put(joins.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use layerscope_stats::NOT_COUNTED;

    use super::*;

    fn list<const N: usize>(layout: &Layout, range: &Range<usize>) -> Vec<[u32; N]> {
        assert_eq!(range.start % 4, 0, "lists are aligned");
        layout.words[range.clone()].as_chunks::<N>().0.to_vec()
    }

    /// Group 7 has 1 row, group 9 fills the rest of the first tile, the second and a part of the third, group 11 has the last rows.
    #[test]
    fn groups_are_cut_at_tiles() {
        let groups: Vec<u32> = (0..150)
            .map(|row| {
                if row == 3 {
                    7
                } else if row < 140 {
                    9
                } else {
                    11
                }
            })
            .collect();
        let layout = Layout::new(&BatchInfo::new(groups, Vec::new()));
        assert_eq!((layout.rows(), layout.groups(), layout.tiles(), layout.counted_sequences()), (150, 3, 3, 0));
        assert_eq!(list(&layout, &layout.segments), [[7, 0, 1], [9, 1, 140], [11, 140, 150]]);
        assert_eq!(layout.words[layout.tile_pieces.clone()], [0, 2, 3, 5]);
        let pieces = [[0, 1, 0, 0], [1, 64, 1, 2], [64, 128, 1, 1], [128, 140, 1, 1], [140, 150, 2, 0]];
        assert_eq!(list(&layout, &layout.pieces), pieces);
        assert_eq!(list(&layout, &layout.crossings), [[1, 0, 2, 0]]);
        assert_eq!(layout.words[layout.order.start], 3);
    }

    #[test]
    fn pieces_of_groups_cover_every_row_once() {
        let groups: Vec<u32> = (0..1000).map(|row| (row * row) % 23).collect();
        let layout = Layout::new(&BatchInfo::new(groups, Vec::new()));
        let pieces = list::<4>(&layout, &layout.pieces);
        assert!(pieces.is_sorted_by(|a, b| a[1] == b[0]) && pieces[0][0] == 0 && pieces.last().unwrap()[1] == 1000);
        let starts = &layout.words[layout.tile_pieces.clone()];
        for (tile, bounds) in starts.windows(2).enumerate() {
            for piece in &pieces[bounds[0] as usize..bounds[1] as usize] {
                assert!(piece[0] as usize / TILE == tile && (piece[1] as usize - 1) / TILE == tile);
            }
        }
        let begun: Vec<u32> = list::<4>(&layout, &layout.crossings).iter().map(|crossing| crossing[1]).collect();
        assert!(begun.is_sorted_by(|a, b| a < b), "no two groups begin in the same tile and cross it");
    }

    #[test]
    fn sequences_are_cut_into_pieces() {
        let groups: Vec<u32> = (0..310).map(|row| if row == 1 { NOT_COUNTED } else { 0 }).collect();
        // The first has one counted row, the second none, the third 130, the fourth 100; the rest belongs to none.
        let layout = Layout::new(&BatchInfo::new(groups, vec![0, 2, 2, 132, 232]));
        assert_eq!(list(&layout, &layout.sequences), [[1, 131], [131, 231]]);
        assert_eq!(list(&layout, &layout.sequence_pieces), [[1, 129, 0, 0], [129, 131, 0, 1], [131, 231, 1, WHOLE]]);
        assert_eq!(list(&layout, &layout.joins), [[0, 0, 2, 0]]);
        assert_eq!((layout.sums, layout.longest), (2, 130));
    }

    #[test]
    fn kept_rows_and_items_are_listed() {
        let info = BatchInfo::new(vec![0, NOT_COUNTED], Vec::new()).with_slots(vec![(0, 5)]).with_pooling(Some(vec![0..2, 2..3]));
        let layout = Layout::new(&info);
        assert_eq!(list(&layout, &layout.slots), [[0, 5]]);
        assert_eq!(list(&layout, &layout.pooled), [[0, 2], [2, 3]]);
        let empty = Layout::new(&BatchInfo::new(vec![NOT_COUNTED], vec![0, 1]));
        assert_eq!((empty.rows(), empty.tiles(), empty.counted_sequences()), (0, 0, 0));
    }
}
