//! Small numbers for the groups of a batch.

use std::collections::HashMap;

use crate::segments::NOT_COUNTED;

/// Groups are few if they have at least this many rows on average: merging a group costs as much as entering a few rows.
const ROWS_PER_GROUP: usize = 16;
/// Ids below this are numbered without hashing.
const DIRECT: u64 = 1 << 14;

/// A few groups of many rows, numbered in the order of their first rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The number of every row's group.
    pub numbers: Vec<u32>,
    /// The first row of every group.
    pub firsts: Vec<usize>,
}

impl Numbered {
    /// All rows in one group. None if there are too many groups for so few rows, here and below.
    pub fn all_equal(rows: usize) -> Option<Numbered> {
        (rows >= ROWS_PER_GROUP).then(|| Numbered { numbers: vec![0; rows], firsts: vec![0] })
    }

    /// From the id of every row's group.
    pub fn by_id(ids: &[u64]) -> Option<Numbered> {
        let largest = ids.iter().max()?;
        let mut direct = vec![NOT_COUNTED; if *largest < DIRECT { *largest as usize + 1 } else { 0 }];
        let mut hashed = HashMap::new();
        Numbered::by(ids, |id, next| {
            let known = match direct.get_mut(*id as usize) {
                Some(known) => known,
                None => hashed.entry(*id).or_insert(NOT_COUNTED),
            };
            *known = (*known).min(next);
            *known
        })
    }

    /// From the name of every row's group.
    pub fn by_name(names: &[String]) -> Option<Numbered> {
        let mut hashed = HashMap::new();
        Numbered::by(names, |name, next| *hashed.entry(name.as_str()).or_insert(next))
    }

    /// `number(group, next)` is the number of a row's group: `next` if it is a new one.
    fn by<'a, G>(groups: &'a [G], mut number: impl FnMut(&'a G, u32) -> u32) -> Option<Numbered> {
        let (mut numbers, mut firsts) = (Vec::with_capacity(groups.len()), Vec::new());
        for (row, group) in groups.iter().enumerate() {
            let next = firsts.len() as u32;
            let own = number(group, next);
            numbers.push(own);
            if own == next {
                firsts.push(row);
                if firsts.len() * ROWS_PER_GROUP > groups.len() {
                    return None;
                }
            }
        }
        Some(Numbered { numbers, firsts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_get_numbers_as_they_come() {
        let ids: Vec<u64> = [7, 3, 7, 9, 3].repeat(20);
        let expected = Numbered { numbers: [0, 1, 0, 2, 1].repeat(20), firsts: vec![0, 1, 3] };
        assert_eq!(Numbered::by_id(&ids), Some(expected.clone()));
        assert_eq!(Numbered::by_id(&ids.iter().map(|id| id << 40).collect::<Vec<_>>()), Some(expected.clone()));
        assert_eq!(Numbered::by_name(&ids.iter().map(u64::to_string).collect::<Vec<_>>()), Some(expected));
        assert_eq!(Numbered::by_id(&ids[..40]), None);
        assert_eq!(Numbered::by_id(&[]), None);
        assert_eq!(Numbered::all_equal(15), None);
        assert_eq!(Numbered::all_equal(16), Some(Numbered { numbers: vec![0; 16], firsts: vec![0] }));
    }
}
