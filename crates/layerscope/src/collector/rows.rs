//! Rows of states as they come, and how they are cut.

use std::ops::Range;

use layerscope_corpus::hash::{Hasher128, hash64};

use super::groups::GroupKey;
use super::settings::CollectorSettings;
use crate::error::{Error, Result};
use layerscope_error::{line, setting};

/// What the rows are counted as.
#[derive(Clone, Copy, Debug, Default)]
pub enum GroupsOf<'a> {
    /// All of them as one.
    #[default]
    None,
    /// By id.
    Ids(&'a [u64]),
    /// By name.
    Names(&'a [String]),
}

impl GroupsOf<'_> {
    /// Who the group of a row is; None where rows have no groups.
    pub(super) fn key(&self, row: usize) -> Option<GroupKey> {
        match self {
            GroupsOf::None => None,
            GroupsOf::Ids(ids) => Some(GroupKey::Id(ids[row])),
            GroupsOf::Names(names) => Some(GroupKey::Name(names[row].clone())),
        }
    }
}

/// A batch of states at one point.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateRows<'a> {
    /// Row after row.
    pub states: &'a [f32],
    /// What each row counts as.
    pub groups: GroupsOf<'a>,
    /// The document of each row: rows of one document that follow each other are a sequence.
    pub documents: Option<&'a [u64]>,
    /// The place of each row in its document.
    pub positions: Option<&'a [u32]>,
    /// Which rows count; all of them if absent.
    pub mask: Option<&'a [bool]>,
}

impl<'a> StateRows<'a> {
    /// Without groups, documents or positions.
    pub fn new(states: &'a [f32]) -> StateRows<'a> {
        StateRows { states, ..StateRows::default() }
    }

    /// With groups.
    pub fn groups(self, groups: GroupsOf<'a>) -> StateRows<'a> {
        StateRows { groups, ..self }
    }

    /// With documents and positions.
    pub fn identified(self, documents: &'a [u64], positions: &'a [u32]) -> StateRows<'a> {
        StateRows { documents: Some(documents), positions: Some(positions), ..self }
    }

    /// Number of rows.
    pub(super) fn count(&self, dim: usize) -> u64 {
        (self.states.len() / dim) as u64
    }

    /// Whether every row has a name of its own, the same in every process.
    pub(super) fn is_identified(&self) -> bool {
        self.documents.is_some() && self.positions.is_some()
    }

    /// Refuses parts that do not fit together; the number of rows.
    pub(super) fn check(&self, settings: &CollectorSettings) -> Result<usize> {
        let dim = settings.dim;
        if !self.states.len().is_multiple_of(dim) {
            return Err(Error::usage(format!("{} numbers do not make rows of {dim} components", self.states.len())));
        }
        let rows = self.states.len() / dim;
        let groups = match self.groups {
            GroupsOf::None => None,
            GroupsOf::Ids(ids) => Some(ids.len()),
            GroupsOf::Names(names) => Some(names.len()),
        };
        let parts = [
            ("groups", groups),
            ("documents", self.documents.map(<[u64]>::len)),
            ("positions", self.positions.map(<[u32]>::len)),
            ("mask", self.mask.map(<[bool]>::len)),
        ];
        for (name, length) in parts {
            if let Some(length) = length.filter(|length| *length != rows) {
                return Err(Error::usage(format!("{name} has {length} values for {rows} rows of states; give one for every row")));
            }
        }
        if self.positions.is_some() && self.documents.is_none() {
            return Err(Error::usage("positions are places in documents: give documents too".to_owned()));
        }
        if settings.confidence && self.documents.is_none() {
            return Err(Error::usage(line![setting("confidence"), " needs the document of every row"]));
        }
        if u32::try_from(rows).is_err() {
            return Err(Error::usage(format!("{rows} rows at once are too many; give them in parts")));
        }
        Ok(rows)
    }

    /// Where the sequences begin, and the end; empty where rows are no sequences.
    pub(super) fn sequence_offsets(&self, rows: usize) -> Vec<u32> {
        let Some(documents) = self.documents else { return Vec::new() };
        let starts = (1..rows).filter(|&row| documents[row] != documents[row - 1] || self.restarts(row));
        [0].into_iter().chain(starts).chain([rows]).map(|row| row as u32).collect()
    }

    /// Whether a row begins a new sequence of the same document: its position does not follow.
    fn restarts(&self, row: usize) -> bool {
        self.positions.is_some_and(|positions| positions[row] <= positions[row - 1])
    }

    /// A hash of who the rows are: equal for the same rows at another point.
    pub(super) fn identity(&self) -> u128 {
        let mut hasher = Hasher128::new([u64::from_le_bytes(*b"who rows"), u64::from_le_bytes(*b"are.....")]);
        self.documents.into_iter().flatten().for_each(|document| hasher.write(&document.to_le_bytes()));
        self.positions.into_iter().flatten().for_each(|position| hasher.write(&position.to_le_bytes()));
        self.mask.into_iter().flatten().for_each(|counted| hasher.write(&[u8::from(*counted)]));
        hasher.finish()
    }
}

/// The number of a document that is known by a text.
pub fn document_of(text: &str) -> u64 {
    hash64([u64::from_le_bytes(*b"document"), u64::from_le_bytes(*b"by name.")], text.as_bytes())
}

/// Some rows that are entered at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub rows: Range<usize>,
    /// Sequences among them, from 0; empty where rows are no sequences.
    pub offsets: Vec<u32>,
}

/// Cuts rows into pieces of about `longest` rows, never within a sequence.
pub(super) fn pieces(rows: usize, offsets: &[u32], longest: usize) -> Vec<Piece> {
    if offsets.is_empty() {
        let starts = (0..rows).step_by(longest);
        return starts.map(|start| Piece { rows: start..rows.min(start + longest), offsets: Vec::new() }).collect();
    }
    let (mut found, mut first) = (Vec::new(), 0);
    for end in 1..offsets.len() {
        let start = offsets[first];
        let is_last = end + 1 == offsets.len();
        if is_last || (offsets[end + 1] - start) as usize > longest {
            let rows = start as usize..offsets[end] as usize;
            found.push(Piece { rows, offsets: offsets[first..=end].iter().map(|offset| offset - start).collect() });
            first = end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_sequences_do() {
        let cut =
            |offsets: &[u32]| pieces(offsets.last().copied().unwrap_or(10) as usize, offsets, 4).into_iter().map(|p| (p.rows, p.offsets));
        let cut = |offsets: &[u32]| cut(offsets).collect::<Vec<_>>();
        assert_eq!(cut(&[]), [(0..4, vec![]), (4..8, vec![]), (8..10, vec![])]);
        assert_eq!(cut(&[0, 2, 4, 9, 10]), [(0..4, vec![0, 2, 4]), (4..9, vec![0, 5]), (9..10, vec![0, 1])]);
        assert_eq!(cut(&[0, 3]), [(0..3, vec![0, 3])]);
    }

    #[test]
    fn a_document_whose_positions_start_again_is_a_new_sequence() {
        let rows = StateRows::new(&[0.0; 5]).identified(&[1, 1, 1, 1, 2], &[0, 1, 0, 1, 2]);
        assert_eq!(rows.sequence_offsets(5), [0, 2, 4, 5]);
        assert_eq!(StateRows::new(&[0.0; 5]).sequence_offsets(5), [0u32; 0]);
    }
}
